"""A driver that records what another one does: clock readings, random draws, commands, and all calls of streams.

The driver wraps the endpoint of each step and the streams of connections. :mod:`.replay_driver` does the same again, in
the order in which it was written. Neither knows what a public call or a group is.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, cast
from weakref import WeakValueDictionary

from ..driver import Address, Command, Dial, Driver, Endpoint, Hangup, Resolve, Stream
from ..errors import KafkaConnectionError
from ..network.connection import Connection
from ..network.framing import SIZE_BYTES, Frame, Frames
from ..support.agenda import Agenda, Alarm
from ..support.timers import Random
from .frames import FrameCutter, Responses, masked_request
from .trace_file import Short, TraceWriter

#: Events are written after so many seconds at the latest, if the clock is read.
FLUSH_S = 1.0
_CLOCK, _STEP, _SEND = int(Short.CLOCK), int(Short.STEP), int(Short.SEND)
_STEPPED, _STEPPED_IDLE = int(Short.STEPPED), int(Short.STEPPED_IDLE)
#: The attributes of a connection error that the client acts on. They are recorded beside its text.
FLAGS = ("is_proxy_login_rejected", "is_certificate_rejected", "is_handshake_cut")


class RecordingDriver:
    """Implements :class:`thinconsumer.driver.Driver` by another driver, and records it."""

    is_recording = True

    def __init__(self, driver: Driver, trace: TraceWriter) -> None:
        self.driver = driver
        self.trace = trace
        self.random: Random = _RecordingRandom(driver.random, trace)
        self.streams: dict[int, _RecordingStream] = {}  #: By the id of the client's stream.
        self.dials = 0
        self.alarms = 0
        #: The alarms that the driver has, by their numbers.
        self.live_alarms: WeakValueDictionary[int, _RecordingAlarm] = WeakValueDictionary()
        self._short, self._time = trace.short, trace.time
        self._now = self.unrecorded_now = driver.now
        self._flush_at = -math.inf
        self._endpoint: _RecordingEndpoint | None = None

    @property
    def woken(self) -> bool:
        """See :class:`thinconsumer.driver.Driver`. Recorded if it is true, which is seldom."""
        woken = self.driver.woken
        if woken:
            self.trace.add(["woken"])
        return woken

    @woken.setter
    def woken(self, woken: bool) -> None:
        self.driver.woken = woken

    def now(self) -> float:
        """Return monotonic seconds."""
        now = self._now()
        self._time(now)
        self._short(_CLOCK)
        if now >= self._flush_at:  # a process that is killed loses so much at most
            self.trace.flush()
            self._flush_at = now + FLUSH_S
        return now

    def wall_time(self) -> float:
        """Return seconds since the epoch."""
        now = self.driver.wall_time()
        self.trace.add(["wall", now])
        return now

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        """Record a step and what happens in it."""
        self._time(deadline)
        self._short(_STEP)
        try:
            called = self.driver.step(self._recording(endpoint), deadline)
        except BaseException as error:
            self.trace.add_failure("cut", error)
            raise
        self._short(_STEPPED if called else _STEPPED_IDLE)
        return called

    def send(self, endpoint: Endpoint) -> None:
        """Record what is sent."""
        self._short(_SEND)
        try:
            self.driver.send(self._recording(endpoint))
        except BaseException as error:
            self.trace.add_failure("cut", error)
            raise
        self.trace.short(_STEPPED)

    def _recording(self, endpoint: Endpoint) -> Endpoint:
        recording = self._endpoint
        if recording is None or recording.endpoint is not endpoint or recording.schedule is not endpoint.agenda:
            self._endpoint = recording = _RecordingEndpoint(self, endpoint)
        return cast("Endpoint", recording)

    @property
    def waiting(self) -> bool:
        """See :class:`thinconsumer.driver.Driver`. Only looked at when a step was interrupted."""
        return self.driver.waiting

    @property
    def may_begin(self) -> bool:
        """Whether a trace may begin now: no stream has a request that was sent in part."""
        return not any(stream.is_sending for stream in self.streams.values())

    def hang_up_all(self) -> None:
        """Close every connection."""
        self.driver.hang_up_all()
        self.streams.clear()

    def wakeup(self) -> None:
        """End the step early."""
        self.driver.wakeup()

    def check_process(self) -> None:
        """Raise in a fork."""
        self.driver.check_process()

    def fileno(self) -> int:
        """Return a descriptor to wait for."""
        return self.driver.fileno()

    def close(self) -> None:
        """Close the driver, and write what the trace has so far."""
        self.driver.close()
        self.trace.flush()

    def recording(self, command: Command) -> Command:
        """Record a command that the driver takes; return the one for it, with a recording stream."""
        if isinstance(command, Resolve):
            self.trace.add(["resolve", command.host, command.port])
            return command
        known = self.streams.get(id(command.stream))
        if isinstance(command, Dial):
            stream = _RecordingStream(cast("Connection", command.stream), self.dials, self.trace)
            self.streams[id(command.stream)] = stream
            self.trace.add(["dial", self.dials, command.host, [*command.address.sockaddr], command.purpose])
            self.dials += 1
            return Dial(stream, command.host, command.address, command.purpose, command.tunnel)
        self.trace.add(["hang up", -1 if known is None else known.number])
        if known is None:
            return command
        known.ended()
        del self.streams[id(command.stream)]
        return Hangup(known)


class _RecordingRandom:
    def __init__(self, random: Random, trace: TraceWriter) -> None:
        self._random = random
        self._trace = trace

    def random(self) -> float:
        drawn = self._random.random()
        self._trace.add(["random", drawn])
        return drawn

    def randrange(self, stop: int, /) -> int:
        drawn = self._random.randrange(stop)
        self._trace.add(["randrange", stop, drawn])
        return drawn


class _RecordingEndpoint:
    """The endpoint that the driver sees: commands and streams are recorded."""

    def __init__(self, driver: RecordingDriver, endpoint: Endpoint) -> None:
        self._driver = driver
        self.endpoint = endpoint
        self.schedule = endpoint.agenda
        self.commands = cast("deque[Command]", _RecordingCommands(driver, endpoint))
        self.agenda = cast("Agenda", _RecordingAgenda(driver, endpoint.agenda))

    @property
    def unsent(self) -> Collection[Stream]:
        streams = self._driver.streams
        return [streams[id(stream)] for stream in self.endpoint.unsent if id(stream) in streams]

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        found = [[address.family, [*address.sockaddr]] for address in addresses]
        self._driver.trace.add(["resolved", host, port, found, error, now])
        self.endpoint.resolved(host, port, addresses, error, now)


class _RecordingCommands:
    def __init__(self, driver: RecordingDriver, endpoint: Endpoint) -> None:
        self._driver = driver
        self._endpoint = endpoint

    def __len__(self) -> int:
        return len(self._endpoint.commands)

    def popleft(self) -> Command:
        return self._driver.recording(self._endpoint.commands.popleft())


class _RecordingAgenda:
    def __init__(self, driver: RecordingDriver, agenda: Agenda) -> None:
        self._driver = driver
        self._agenda = agenda
        self.next = agenda.next

    def alarm(self) -> Alarm:
        number = self._driver.alarms
        self._driver.alarms += 1
        self._driver.trace.add(["alarm made", number])
        alarm = _RecordingAlarm(self._agenda.alarm(), number, self._driver.trace)
        self._driver.live_alarms[number] = alarm
        return cast("Alarm", alarm)


class _RecordingAlarm:
    """An alarm that a driver sets for a timeout of its own, for example of a name lookup."""

    def __init__(self, alarm: Alarm, number: int, trace: TraceWriter) -> None:
        self.alarm = alarm
        self._number = number
        self._trace = trace
        self.is_over = alarm.is_over

    def set(self, at: float) -> None:
        self._trace.add(["alarm", self._number, at])
        self.alarm.set(at)

    def clear(self) -> None:
        self._trace.add(["alarm", self._number, None])
        self.alarm.clear()


class _RecordingStream:
    """Passes each call on to a stream of the client, and records it with the bytes."""

    def __init__(self, stream: Connection, number: int, trace: TraceWriter) -> None:
        self.number = number
        self.stream = stream
        self._trace = trace
        self._unsent = 0
        self._offered: Sequence[bytes | memoryview] = ()
        self._requests = FrameCutter()
        self._responses = Responses()
        self._frames = frames = RecordingFrames(stream._frames, self._responded)
        stream._frames = cast("Frames", frames)

    def connection_made(self, now: float) -> None:
        self._trace.add(["made", self.number, now])
        self.stream.connection_made(now)

    def get_buffer(self) -> memoryview:
        return self.stream.get_buffer()

    def buffer_updated(self, size: int, now: float) -> bool:
        self._trace.time(now)
        self._trace.add(["received", self.number, size])
        return self.stream.buffer_updated(size, now)

    def connection_lost(self, error: KafkaConnectionError | None, now: float) -> None:
        self.ended()
        about: Any = None if error is None else [str(error), *(getattr(error, flag) for flag in FLAGS)]
        self._trace.add(["lost", self.number, about, now])
        self.stream.connection_lost(error, now)

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        self._trace.add(["ask", self.number])
        self._offered = self.stream.data_to_send()
        self._unsent = sum(map(len, self._offered))
        return self._offered

    def data_sent(self, size: int, now: float) -> None:
        offered = b"".join(self._offered)[:size]
        self._unsent -= size
        self._trace.time(now)
        self._trace.add(["sent", self.number, size])
        for request in self._requests.take(offered):
            self._responses.sent(request)
            kept = masked_request(request)
            self._trace.add(["request", self.number, len(kept)], kept)
        self.stream.data_sent(size, now)

    @property
    def is_sending(self) -> bool:
        """Whether the driver has bytes that it has not sent yet."""
        return self._unsent > 0

    @property
    def unfinished(self) -> int:
        """How many bytes were received of a response that is not complete."""
        return self._frames.unfinished

    def ended(self) -> None:
        """Record the beginning of a response that was never complete: the client has looked at its size."""
        frames = self._frames
        if frames.unfinished:
            kept = frames.frames.beginning[: frames.unfinished]
            self._trace.add(["beginning", self.number, frames.unfinished, len(kept)], kept)
            frames.unfinished = 0

    def _responded(self, frame: Frame) -> None:
        kept, holes = self._responses.masked(frame)
        self._trace.add(["response", self.number, len(frame), holes, len(kept)], kept)


class RecordingFrames:
    """The frames of a connection: its responses, in the buffers that they were received into."""

    def __init__(self, frames: Frames, told: Callable[[Frame], None]) -> None:
        self.frames = frames
        self.buffer = frames.buffer
        self.unfinished = 0  #: How many bytes were received that belong to no complete frame.
        self._told = told

    @property
    def partial(self) -> bool:
        return self.frames.partial

    def received(self, size: int) -> Iterator[Frame]:
        self.unfinished += size
        for frame in self.frames.received(size):
            self.unfinished -= SIZE_BYTES + len(frame)
            self._told(frame)
            yield frame
