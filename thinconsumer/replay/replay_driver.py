"""A driver that does what a trace says, and checks that the client asks for the same."""

from __future__ import annotations

import io
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..driver import Address, Command, Dial, Driver, Endpoint, Resolve, Stream
from ..errors import KafkaConnectionError
from ..network.framing import SIZE_BYTES
from ..support.agenda import Alarm
from ..support.timers import Random
from .checkpoint import refill
from .frames import FrameCutter, filled, masked_request
from .recorder import FLAGS
from .trace_file import TraceError


class Divergence(BaseException):
    """The client does not do what the trace has. ``place`` is the number of the event."""

    def __init__(self, place: int, recorded: object, found: object) -> None:
        super().__init__(f"event {place}: the trace has {recorded!r}, the client does {found!r}")
        self.place = place
        self.recorded = recorded
        self.found = found


class TraceEnd(BaseException):
    """The trace has no more events, or what was received then is not in it any more."""


class Cut(TraceEnd):
    """An exception such as Ctrl-C has struck inside a step; the trace goes on with a checkpoint."""


class Received:
    """The bytes that a stream receives, with zeros in place of what the trace has not.

    They are made when they are received: a trace of some MB may stand for GBs of records.
    """

    def __init__(self) -> None:
        #: What the trace has, the places and lengths of the zeros, and the size with them.
        self.parts: deque[tuple[bytes, Sequence[int], int]] = deque()
        self._data = bytearray()

    def take(self, size: int) -> bytes:
        """Return the next bytes; fewer if the trace has not so many."""
        while len(self._data) < size and self.parts:
            self._data += filled(*self.parts.popleft())
        data = bytes(self._data[:size])
        del self._data[:size]
        return data


class Events:
    """The events of a trace, taken one after the other."""

    def __init__(self, events: Sequence[tuple[Any, bytes]]) -> None:
        self.place = 0  #: The number of the next event.
        self.requests = 0  #: The number of requests that were the same.
        self.first: Divergence | None = None  #: The first divergence: others follow, in clauses that end a call.
        self._events = events
        self._is_cut = False
        self._cuts = _cuts(events)

    @property
    def begins_with_checkpoint(self) -> bool:
        """Whether the next event is a checkpoint: what was before is not in the trace any more."""
        event = self._events[self.place][0] if self.place < len(self._events) else None
        return isinstance(event, list) and event[0] == "checkpoint"

    def go_on_at_checkpoint(self) -> Any:
        """Return the next checkpoint; the events go on behind it. Raise :class:`TraceEnd` if there is none."""
        while self.place < len(self._events):
            event = self._events[self.place][0]
            self.place += 1
            if isinstance(event, list) and event[0] == "checkpoint":
                self._is_cut = False
                return event
        raise TraceEnd

    def divergence(self, recorded: object, found: object, *, back: int = 0) -> BaseException:
        """Return the divergence at the next event, or ``back`` events before it.

        In a call that was cut off it is :class:`Cut`: the client does what it would have done without the exception.
        """
        if self._is_cut:
            return Cut()
        divergence = Divergence(self.place - back, recorded, found)
        cut = next((end for start, end in self._cuts if start <= self.place <= end), None)
        if cut is not None:
            return self._cut_off(cut)
        self.first = self.first or divergence
        return divergence

    def _cut_off(self, place: int) -> Cut:
        """End the replay of a call that an exception has cut off in the trace, at any place in it."""
        self.place, self._is_cut = place + 1, True
        return Cut()

    def peek(self) -> Any:
        """Return the next event, without bytes.

        Responses are skipped, since streams have them from the start, and checkpoints, since the client is there.
        """
        if self._is_cut:  # a clause of the client that ends the call
            raise Cut
        while self.place < len(self._events):
            event = self._events[self.place][0]
            kind = event[0] if isinstance(event, list) else ""
            if kind == "cut":
                raise self._cut_off(self.place)
            if kind not in ("response", "beginning", "checkpoint"):
                return event
            self.place += 1
        raise TraceEnd

    def take(self, kind: str = "") -> Any:
        """Return the next event and go on; raise :class:`Divergence` if it is of another kind."""
        event = self.peek()
        if kind and not (isinstance(event, list) and event[0] == kind):
            raise self.divergence(event, kind)
        self.place += 1
        return event

    def same(self, *found: Any) -> None:
        """Take the next event, which has to be this one."""
        event = self.peek()
        if event != [*found]:
            raise self.divergence(event, [*found])
        self.place += 1

    def same_request(self, number: int, request: bytes) -> None:
        """Take the next event, which has to be this request."""
        event = self.peek()
        recorded = self._events[self.place][1]
        if event[:2] != ["request", number] or recorded != request:
            raise self.divergence((event, recorded), (number, request))
        self.place += 1
        self.requests += 1

    def received(self) -> defaultdict[int, Received]:
        """Return what each stream receives."""
        streams = defaultdict[int, Received](Received)
        for event, data in self._events[self.place :]:
            kind = event[0] if isinstance(event, list) else ""
            if kind == "response":
                _, number, size, holes, _ = event
                streams[number].parts.append((size.to_bytes(SIZE_BYTES, "big"), (), SIZE_BYTES))
                streams[number].parts.append((data, holes, size))
            elif kind == "beginning":
                streams[event[1]].parts.append((data, (len(data), event[2] - len(data)), event[2]))
        return streams


def _cuts(events: Sequence[tuple[Any, bytes]]) -> list[tuple[int, int]]:
    """Return the calls of the application that were cut off: where each begins, and where it was cut off."""
    found = []
    begun = depth = 0
    for place, (event, _) in enumerate(events):
        kind = event[0] if isinstance(event, list) else ""
        if kind == "call" and not depth:
            begun = place
        elif kind == "cut":
            found.append((begun, place))
            depth = 0
        elif kind == "user":
            depth += 1
        elif kind == "done":
            depth = max(0, depth - 1)
    return found


class ReplayDriver(Driver):
    """Implements :class:`thinconsumer.driver.Driver` by the events of a trace."""

    def __init__(self, events: Events, *, is_built: bool = True) -> None:
        self.events = events
        #: False while a client is made that gets the state of a checkpoint: its own readings are in no trace.
        self.is_built = is_built
        self._random = _ReplayedRandom(events, self)
        self._streams: dict[int, _ReplayedStream] = {}
        self._alarms: dict[int, Alarm] = {}
        self._received = events.received()

    def restore(self, streams: Mapping[int, Any], unfinished: Mapping[int, int], alarms: Mapping[int, Alarm]) -> None:
        """Take the connections and alarms of a checkpoint."""
        self.is_built = True
        self._alarms = dict(alarms)
        for number, stream in streams.items():
            received = self._received[number]
            refill(stream._frames, received.take(unfinished[number]))
            self._streams[number] = _ReplayedStream(stream, number, received, self.events)

    @property
    def random(self) -> Random:
        return self._random

    @property
    def woken(self) -> bool:
        if self.events.peek() == ["woken"]:
            self.events.take()
            return True
        return False

    @woken.setter
    def woken(self, woken: bool) -> None:
        """The trace has it already."""

    def now(self) -> float:
        if not self.is_built:
            return 0.0
        event = self.events.take()
        if isinstance(event, (int, float)):
            return event
        raise self.events.divergence(event, "now", back=1)

    def wall_time(self) -> float:
        if not self.is_built:
            return 0.0
        now: float = self.events.take("wall")[1]
        return now

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        self.events.same("step", deadline)
        return self._run(endpoint)

    def send(self, endpoint: Endpoint) -> None:
        self.events.same("send")
        self._run(endpoint)

    @property
    def waiting(self) -> bool:
        return False

    def hang_up_all(self) -> None:
        pass

    def wakeup(self) -> None:
        pass

    def check_process(self) -> None:
        pass

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a replay has no file descriptor")

    def close(self) -> None:
        pass

    def _run(self, endpoint: Endpoint) -> bool:
        """Do what the trace has up to the end of the step."""
        while True:
            event = self.events.peek()
            kind = event[0] if isinstance(event, list) else ""
            if kind == "end":
                self.events.take()
                return bool(event[1])
            if kind in ("resolve", "dial", "hang up"):
                self._obey(endpoint)
                continue
            self.events.take()
            if kind == "resolved":
                _, host, port, found, error, now = event
                addresses = [Address(family, tuple(sockaddr)) for family, sockaddr in found]
                endpoint.resolved(host, port, addresses, error, now)
            elif kind == "alarm made":
                self._alarms[event[1]] = endpoint.agenda.alarm()
            elif kind == "alarm":
                alarm = self._alarms[event[1]]
                alarm.clear() if event[2] is None else alarm.set(event[2])
            elif kind in _ReplayedStream.CALLS:
                self._streams[event[1]].call(kind, event[2:])
            else:
                raise self.events.divergence(event, "nothing of the kind in a step", back=1)

    def _obey(self, endpoint: Endpoint) -> None:
        if not endpoint.commands:
            raise self.events.divergence(self.events.peek(), "no command")
        command: Command = endpoint.commands.popleft()
        if isinstance(command, Resolve):
            self.events.same("resolve", command.host, command.port)
            return
        if isinstance(command, Dial):
            number = self.events.peek()[1]
            self._streams[number] = _ReplayedStream(command.stream, number, self._received[number], self.events)
            self.events.same("dial", number, command.host, [*command.address.sockaddr], command.purpose)
            return
        known = [each.number for each in self._streams.values() if each.stream is command.stream]
        self.events.same("hang up", known[-1] if known and self.events.peek()[1] >= 0 else -1)


class _ReplayedRandom:
    def __init__(self, events: Events, driver: ReplayDriver) -> None:
        self._events = events
        self._driver = driver

    def random(self) -> float:
        if not self._driver.is_built:
            return 0.5
        drawn: float = self._events.take("random")[1]
        return drawn

    def randrange(self, stop: int, /) -> int:
        if not self._driver.is_built:
            return 0
        _, recorded, drawn = self._events.take("randrange")
        if stop != recorded:
            raise self._events.divergence(recorded, stop, back=1)
        return int(drawn)


class _ReplayedStream:
    """Calls a stream of the client as the trace says."""

    CALLS = ("made", "received", "lost", "ask", "sent")

    def __init__(self, stream: Stream, number: int, received: Received, events: Events) -> None:
        self.stream = stream
        self.number = number
        self._received = received
        self._events = events
        self._offered = b""
        self._requests = FrameCutter()

    def call(self, kind: str, arguments: Sequence[Any]) -> None:
        """Make the call of an event."""
        call: Callable[..., None] = getattr(self, "_take" if kind == "received" else f"_{kind}")
        call(*arguments)

    def _made(self, now: float) -> None:
        self.stream.connection_made(now)

    def _lost(self, about: Any, now: float) -> None:
        error = None
        if about is not None:
            error = KafkaConnectionError(about[0], **dict(zip(FLAGS, about[1:])))
        self.stream.connection_lost(error, now)

    def _ask(self) -> None:
        self._offered = b"".join(self.stream.data_to_send())

    def _sent(self, size: int, now: float) -> None:
        if len(self._offered) < size:
            raise self._events.divergence(f"{size} bytes sent", f"{len(self._offered)} to send", back=1)
        for frame in self._requests.take(self._offered[:size]):
            self._events.same_request(self.number, masked_request(frame))
        self.stream.data_sent(size, now)

    def _received_bytes(self, size: int) -> bytes:
        data = self._received.take(size)
        if len(data) < size:
            raise TraceEnd
        return data

    def _take(self, size: int, now: float) -> None:
        data = self._received_bytes(size)
        room = self.stream.get_buffer()
        if len(room) < size:
            raise TraceError(f"a trace has {size} bytes where the client takes {len(room)}")
        room[:size] = data
        self.stream.buffer_updated(size, now)
