"""One broker connection without its socket: bytes in, answers out, in the order the broker keeps.

Owns one connection from dial to end: ApiVersions, login, framing, correlation ids, deadlines of what is in flight, and
the mute that quotas impose (KIP-219). It queues nothing: :class:`~.route.Route` hands it requests when it can write
them, and dials a new link when this one has ended. Implements :class:`thinconsumer.driver.Stream`; no method raises
because of what the peer sends. After Java's ``NetworkClient`` and ``InFlightRequests``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..driver import Address
from ..errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
)
from ..timers import NEVER
from ..wire import Message
from ..wire.header import decode_response_header, encode_request
from .authenticate import Login, NewLogin
from .framing import SIZE_BYTES, Frame, Frames
from .negotiate import Negotiation, Opening, Ranges, api_name, choose_version
from .request import Answer, Request
from .states import CONNECTION_IGNORED, CONNECTION_TRANSITIONS, ConnectionEvent, ConnectionState, next_state

log = logging.getLogger(__name__)

#: What a broker may ask us to keep quiet for, at most, in seconds. Its quota windows are about ten seconds long; a
#: broken answer must not silence a connection for the 24 days that the field can hold.
THROTTLE_MAX = 300.0
#: A request that waited for its connection until shortly before its deadline still gets this long, in seconds, for its
#: answer: giving up at once would close a connection that has just come back.
LEAST_ON_WIRE = 1.0
#: While the bytes of an answer keep coming, at most this many seconds apart, its deadline waits: otherwise a slow line
#: would never get a large answer through, only its beginning, again and again.
ARRIVING_GAP = 5.0
#: ... until it has taken this many times what it was given.
ARRIVING_FACTOR = 10.0


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What is the same for all connections; seconds and bytes."""

    client_id: str
    max_frame_bytes: int
    max_in_flight: int
    max_idle: float
    new_login: NewLogin | None = None
    opening: Opening = field(default_factory=Opening)


@dataclass(slots=True)
class _InFlight:
    """One request written and not answered yet. ``request`` is None for the link's own."""

    api: type[Message]
    version: int
    correlation_id: int
    sent_at: float
    deadline: float
    request: Request | None = None
    size: int = 0


class Connection:
    """One connection to one address."""

    def __init__(
        self,
        settings: ConnectionSettings,
        host: str,
        address: Address,
        node_id: int,
        setup_timeout: float,
        now: float,
        answer: Callable[[Answer], None],
        hang_up: Callable[[Connection], None],
    ) -> None:
        """``setup_timeout`` is in seconds, for the transport and once more for what follows until READY (KIP-601).

        ``answer`` is called once for each request sent, ``hang_up`` when the driver shall close the transport.
        """
        self.state = ConnectionState.CONNECTING
        self.node_id = node_id
        self.error: KafkaError | None = None  #: Why it ended; None when we closed it without anything being wrong.
        self.was_ready = False
        self.ranges: Ranges = {}  #: What the broker speaks, by API key.
        self.muted_until = -NEVER
        self.host = host
        self.address = address
        self._settings = settings
        self._setup_timeout = setup_timeout
        self._setup_deadline = now + setup_timeout
        self._answer = answer
        self._hang_up = hang_up
        self._frames = Frames(settings.max_frame_bytes)
        self._out: deque[bytes | memoryview] = deque()
        self._offered = True  #: Whether a driver has seen what is in there.
        self._in_flight: deque[_InFlight] = deque()
        self._correlation_id = -1
        self._used_at = now
        self.heard_at = now  #: When the last bytes came, or else when it was dialled.
        self._negotiation = Negotiation(settings.opening)
        self._login: Login | None = None

    def __repr__(self) -> str:
        flying = f", {self.in_flight} in flight" if self.in_flight else ""
        return f"<Link {self.where} {self.state.value}{flying}>"

    @property
    def where(self) -> str:
        """Host, port and numeric address, for people."""
        numeric, port = str(self.address), self.address.sockaddr[1]
        return numeric if self.host == self.address.sockaddr[0] else f"{self.host}:{port} ({numeric})"

    @property
    def ready(self) -> bool:
        """Whether it takes requests, though perhaps not now."""
        return self.state is ConnectionState.READY

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state is ConnectionState.CLOSING or self.state is ConnectionState.DISCONNECTED

    @property
    def unsent(self) -> bool:
        """Whether something waits to be written that no driver has seen: it holds no write interest for it yet."""
        return not self._offered and bool(self._out)

    @property
    def in_flight(self) -> int:
        """How many requests are written and not answered."""
        return len(self._in_flight)

    def requests(self) -> list[Request]:
        """Return those of the owner among them."""
        return [item.request for item in self._in_flight if item.request is not None]

    # -- for the owner

    def can_send(self, now: float) -> bool:
        """Return whether a request would be written now."""
        room = len(self._in_flight) < self._settings.max_in_flight
        return room and self.state is ConnectionState.READY and now >= self.muted_until

    def silent_for(self, now: float) -> float:
        """Return for how many seconds the oldest request has been waiting for its answer."""
        return now - max(self._in_flight[0].sent_at, self.heard_at) if self._in_flight else 0.0

    def send(self, request: Request, queued_at: float, deadline: float, now: float) -> None:
        """Write a request; only while :meth:`can_send`. Answers it at once when it cannot be written at all.

        ``deadline`` replaces the request's, which throttling may have moved since ``queued_at``.
        """
        if self.state is not ConnectionState.READY:
            raise IllegalStateError(f"{self}: send makes no sense while {self.state.value!r}")
        try:
            highest = None if request.max_version is None else request.max_version()
            version = choose_version(request.api, self.ranges, self.node_id, request.min_version, highest)
            message = request.build(version)
            deadline = max(deadline, now + min(LEAST_ON_WIRE + request.held_back, deadline - queued_at))
            self._write(message, version, now, deadline, request)
        except KafkaError as error:
            self._answer(Answer(request, self.node_id, error=error))
        except BaseException as error:
            # A bug in what builds the message comes out, but not at the price of an asker that waits for ever.
            if not self._in_flight or self._in_flight[-1].request is not request:
                failure = KafkaError(f"building {api_name(request.api)} failed: {error!r}")
                self._answer(Answer(request, self.node_id, error=failure))
            raise

    def step(self, now: float, horizon: float) -> None:
        """Let deadlines pass up to ``horizon``, when I/O was looked at last, and the idle limit up to ``now``."""
        if self.over:
            return
        if self.state is not ConnectionState.READY:
            if horizon >= self._setup_deadline:
                self._time_out_setup()
            return
        if self._in_flight:
            if horizon >= self._answer_due():
                self._time_out(horizon)
        elif now >= self._used_at + self._settings.max_idle:
            log.debug("%s: closed, not used for %.0f s", self.where, now - self._used_at)
            self.close(None)

    def wake_at(self) -> float:
        """Return when :meth:`step` has something to do even if nothing comes."""
        if self.over:
            return NEVER
        if self.state is not ConnectionState.READY:
            return self._setup_deadline
        return self._answer_due() if self._in_flight else self._used_at + self._settings.max_idle

    def close(self, error: KafkaError | None) -> None:
        """End the connection; whatever is in flight is answered with ``error``, or with "closed" for None."""
        if not self.over:
            # First of all: interrupted after it, this leaves no connection open that nobody knows.
            self._hang_up(self)
        if self._move(ConnectionEvent.CLOSE):
            self._end(error)

    def hung_up(self) -> None:
        """Note that the driver has been told to close the transport."""
        self._move(ConnectionEvent.HUNG_UP)

    # -- for the driver

    def connection_made(self, now: float) -> None:
        """The transport is ready: ask what the broker speaks."""
        if self._move(ConnectionEvent.CONNECTION_MADE):
            self._used_at = now
            self._setup_deadline = now + self._setup_timeout
            self._ask_versions(now)

    def get_buffer(self) -> memoryview:
        """Return where to receive into."""
        return self._frames.buffer()

    def buffer_updated(self, size: int, now: float) -> bool:
        """Take what was received; frames that it completes are acted on. Returns whether there were none."""
        if not self._move(ConnectionEvent.RECEIVED):
            return False
        self._used_at = self.heard_at = now
        only_a_part = True
        try:
            for frame in self._frames.received(size):
                only_a_part = False
                self._take(frame, now)
                if self.over:
                    break
        except KafkaError as error:
            self._blame(error)
            return False
        return only_a_part

    def connection_lost(self, error: KafkaConnectionError | None, now: float) -> None:
        """The transport is gone, or never was."""
        before = self.state
        if self._move(ConnectionEvent.CONNECTION_LOST) and before is not ConnectionState.CLOSING:
            self._end(error or KafkaConnectionError(f"{self.where}: {_FAREWELLS[before]}"))

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        """Return what waits to be written."""
        self._offered = True
        return tuple(self._out)

    def data_sent(self, size: int, now: float) -> None:
        """Drop what has been written."""
        if not self._move(ConnectionEvent.SENT):
            return
        while size and self._out:
            chunk = self._out.popleft()
            if len(chunk) > size:
                self._out.appendleft(memoryview(chunk)[size:])
                return
            size -= len(chunk)

    # -- inside: states

    def _move(self, event: ConnectionEvent) -> bool:
        after = next_state(CONNECTION_TRANSITIONS, CONNECTION_IGNORED, self.state, event, self)
        if after is None:
            if self.state is ConnectionState.DISCONNECTED and event is ConnectionEvent.RECEIVED:
                self._hang_up(self)  # the driver has missed the first one, interrupted by a Ctrl-C
            return False
        self.state = after
        return True

    def _end(self, error: KafkaError | None) -> None:
        """Answer everything and let go of the buffers."""
        self.error = error
        lost = error if isinstance(error, KafkaConnectionError) else self._connection_error(error)
        for item in self._in_flight:
            if item.request is not None:
                self._answer(Answer(item.request, self.node_id, item.version, error=lost))
        self._in_flight.clear()
        self._out.clear()
        self._frames = Frames(self._settings.max_frame_bytes)

    def _connection_error(self, cause: KafkaError | None) -> KafkaConnectionError:
        said = "closed by us" if cause is None else str(cause)
        words = said if said.startswith(self.where) else f"{self.where}: {said}"
        error = KafkaConnectionError(words, host=self.host, port=self.address.sockaddr[1], node_id=self.node_id)
        error.__cause__ = cause
        return error

    def _blame(self, error: KafkaError) -> None:
        """Close because of what the peer sent. Whose answer it should have been, learns it first-hand."""
        log.warning("%s: closing the connection: %s", self.where, error)
        if self._in_flight:
            head = self._in_flight[0]
            if head.request is not None:
                self._answer(Answer(head.request, self.node_id, head.version, error=error))
            self._in_flight.popleft()
        self.close(error)

    # -- inside: time

    def _answer_due(self) -> float:
        """Return when the first deadline of what is in flight passes."""
        due = min(item.deadline for item in self._in_flight)
        if not self._frames.partial:
            return due
        head = self._in_flight[0]
        latest = head.sent_at + ARRIVING_FACTOR * (head.deadline - head.sent_at)
        return max(due, min(latest, self.heard_at + ARRIVING_GAP))

    def _time_out(self, now: float) -> None:
        """Close: an answer that came after all would stand before those of later requests."""
        late = [item for item in self._in_flight if item.deadline <= now]
        first = min(late, key=lambda item: item.deadline)
        words = f"{self.where}: no answer to {api_name(first.api)} within {first.deadline - first.sent_at:.1f} s"
        log.debug("%s; closing the connection", words)  # the route warns, once per outage
        for item in late:
            if item.request is not None:
                waited = f"{self.where}: no answer to {api_name(item.api)} within {item.deadline - item.sent_at:.1f} s"
                self._answer(Answer(item.request, self.node_id, item.version, error=KafkaTimeoutError(waited)))
            self._in_flight.remove(item)
        self.close(KafkaConnectionError(f"{words}, connection closed", node_id=self.node_id))

    def _time_out_setup(self) -> None:
        words = f"timed out: {_WAITING_FOR[self.state]} within {self._setup_timeout:.1f} s"
        self.close(KafkaConnectionError(f"{self.where}: {words}", node_id=self.node_id))

    def _throttle(self, response: Any, now: float) -> None:
        """Keep quiet as long as the broker asks: it would not read from us meanwhile anyway (KIP-219).

        Whatever the version: to clients too old to obey, brokers before 2.0 answered late instead, newer ones do not.
        """
        asked = getattr(response, "throttle_time_ms", 0)
        if asked <= 0:
            return
        until = now + min(asked / 1000, THROTTLE_MAX)
        longer = until - max(now, self.muted_until)
        if longer <= 0:
            return
        log.debug("%s: throttled for %s ms", self.where, asked)
        self.muted_until = until
        for item in self._in_flight:
            item.deadline += longer

    # -- inside: writing and reading

    def _write(
        self, message: Message, version: int, now: float, deadline: float, request: Request | None = None
    ) -> None:
        correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        body = encode_request(message, version, correlation_id, self._settings.client_id)
        self._correlation_id = correlation_id
        self._used_at = now
        self._in_flight.append(_InFlight(type(message), version, correlation_id, now, deadline, request, len(body)))
        self._out.append(len(body).to_bytes(SIZE_BYTES, "big") + body)
        self._offered = False

    def _take(self, frame: Frame, now: float) -> None:
        if not self._in_flight:
            raise KafkaProtocolError("an answer that nobody asked for")
        item = self._in_flight[0]
        correlation_id, body = decode_response_header(frame, item.api, item.version)
        if correlation_id != item.correlation_id:
            raise KafkaProtocolError(
                f"answer {correlation_id} came where {item.correlation_id} ({api_name(item.api)}) was due"
            )
        if item.request is None:
            self._take_own(item, frame, body, now)
            return
        response = item.api.RESPONSE.decode(frame, item.version, body)
        self._throttle(response, now)
        # Forgotten only when it is answered: a Ctrl-C between the two would else lose it (answering twice is noticed).
        self._answer(
            Answer(
                item.request,
                self.node_id,
                item.version,
                response,
                size=len(frame),
                sent_at=item.sent_at,
                sent_size=item.size,
            )
        )
        self._in_flight.popleft()

    def _take_own(self, item: _InFlight, frame: Frame, body: int, now: float) -> None:
        # Each step of it gets the whole time: a caller who looks in once a minute would else never get through.
        self._setup_deadline = now + self._setup_timeout
        if self.state is ConnectionState.NEGOTIATING:
            self._in_flight.popleft()
            response, ranges = self._negotiation.take(frame, body)
            self._throttle(response, now)
            if ranges is None:
                self._ask_versions(now)
                return
            self.ranges = ranges
            self._move(ConnectionEvent.NEGOTIATED)
            if self._settings.new_login is not None:
                self._login = self._settings.new_login(self.host)
            self._log_in(None, now)
        else:
            answer = item.api.RESPONSE.decode(frame, item.version, body)
            self._in_flight.popleft()
            self._log_in(answer, now)

    def _ask_versions(self, now: float) -> None:
        self._write(self._negotiation.request(), self._negotiation.version, now, NEVER)

    def _log_in(self, answer: Message | None, now: float) -> None:
        message = None if self._login is None else self._login.next_request(answer, now)
        if message is None:
            self._login = None
            self.was_ready = self._move(ConnectionEvent.AUTHENTICATED)
            log.debug("%s: ready", self.where)
            return
        version = choose_version(type(message), self.ranges, self.node_id)
        self._write(message, version, now, NEVER)


_FAREWELLS = {
    ConnectionState.CONNECTING: "the peer closed the connection before it was made",
    ConnectionState.NEGOTIATING: (
        "the peer closed the connection without answering ApiVersions: TLS expected, or not Kafka"
    ),
    ConnectionState.AUTHENTICATING: "the peer closed the connection during the login: wrong security_protocol?",
    ConnectionState.READY: "the peer closed the connection",
}
_WAITING_FOR = {
    ConnectionState.CONNECTING: "no connection",
    ConnectionState.NEGOTIATING: (
        "connected, but no answer to ApiVersions: overloaded, stopped, TLS expected or not Kafka"
    ),
    ConnectionState.AUTHENTICATING: "no end of the login",
}
