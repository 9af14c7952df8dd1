"""One broker connection without its socket: turns received bytes into answers, in the order of the requests.

A connection queues no request: :class:`~.route.BrokerRoute` passes a request when it can be written, and dials a new
connection when this one has ended. Implements :class:`thinconsumer.driver.Stream`: malformed bytes close the connection
and raise nothing. After Java's ``NetworkClient`` and ``InFlightRequests``; KIP-219, KIP-368, KIP-601.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..driver import Address, Hangup
from ..errors import (
    AuthorizationError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    ProxyAuthenticationFailedError,
    SaslAuthenticationFailedError,
    SslAuthenticationFailedError,
)
from ..support.agenda import NEVER, Alarm
from ..support.garbage_collection import garbage_collection_paused
from ..support.lazy_dataclass import dataclass, field
from ..support.state_machine import next_state
from ..wire import Message
from ..wire.api_versions import ApiVersionsRequest
from ..wire.error_codes import Code
from ..wire.header import decode_response_header, encode_request
from ..wire.sasl import SaslHandshakeRequest
from . import negotiate
from .authenticate import Login, NewLogin, is_logged_out
from .framing import SIZE_BYTES, Frame, Frames, TlsAnswerError
from .negotiate import ApiVersionsCache, Ranges, api_name, choose_version, take_api_versions
from .request import Answer, QueuedRequest, Request
from .states import CONNECTION_TRANSITIONS, ConnectionEvent, ConnectionState

if TYPE_CHECKING:
    from .route import RouteContext

log = logging.getLogger(__name__)

Denied = TypeVar("Denied", bound=AuthorizationError)

_SET_UP = (ConnectionState.READY, ConnectionState.REAUTHENTICATING)
#: Longest throttle time in seconds that the client obeys. Brokers throttle for at most about ten seconds, the length of
#: their quota windows; without a limit, a malformed response could stop a connection for 24 days, the field's maximum.
THROTTLE_MAX = 300.0
#: Minimum seconds for the answer to a request that is written shortly before its deadline. With less, the request would
#: time out and close the connection, which may be the new one for which it had waited.
LEAST_ANSWER_TIME = 1.0
#: Minimum seconds between two logins of a connection. Brokers reject a login within a second of the last one with
#: ILLEGAL_SASL_STATE; and with a session lifetime of a few milliseconds, logins would leave no time for requests.
LOGIN_INTERVAL = 1.1
#: While bytes of a response keep arriving with gaps of at most this many seconds, the request's deadline is extended.
#: On a slow network, the timeout would otherwise cut off every attempt to receive a large response.
ARRIVING_GAP = 5.0
#: While a response is arriving, its request's deadline is extended up to this many times the original timeout.
ARRIVING_FACTOR = 10.0
#: Responses from this size on are decoded without garbage collections, which would be useless: the response may become
#: thousands of objects, such as Metadata of thousands of partitions.
MANY_OBJECTS_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The settings that all connections of one client share. Times are in seconds, sizes in bytes."""

    client_id: str
    max_frame_bytes: int
    max_in_flight: int
    max_idle: float
    security_protocol: str = "PLAINTEXT"
    new_login: NewLogin | None = None
    api_versions_cache: ApiVersionsCache = field(default_factory=ApiVersionsCache)


@dataclass(slots=True)
class IoPolls:
    """When a client was last stepped and its driver last polled I/O; shared by the client's connections."""

    after: float = -NEVER  #: When the client was last stepped, or had nothing to do.
    #: When I/O was last polled. Bytes that are received now may have arrived right after that poll, and load balancers
    #: count idle time from the arrival. If the time of reading counted, a program that pauses could send its next
    #: request over a connection that was dropped meanwhile.
    read_at: float = -NEVER
    #: Deadlines up to this time count as passed, since all bytes that arrived before this time were read. The response
    #: to a request with a later deadline may have arrived, but was not read yet.
    horizon: float = -NEVER


@dataclass(slots=True)
class _InFlight:
    """A request that was written and not answered yet. ``request`` is None for ApiVersions and the login's requests."""

    api: type[Message]
    version: int
    correlation_id: int
    sent_at: float
    deadline: float
    request: Request | None = None
    size: int = 0


class Connection:
    """One connection to one address: its setup, the requests in flight, and the bytes to send."""

    __slots__ = (
        "_answer", "_commands", "_correlation_id", "_frames", "_in_flight", "_login", "_new_alarm",
        "_out", "_polls", "_queued", "_settings", "_setup_timeout", "_unsent", "_used_at", "_versions", "address",
        "deadline", "error", "get_buffer", "has_answered", "host", "login_pause", "node_id", "ranges", "received_at",
        "relogin", "setup_began_at", "state", "throttle", "was_ready",
    )  # fmt: skip

    def __init__(
        self,
        shared: RouteContext,
        settings: ConnectionSettings,
        host: str,
        address: Address,
        node_id: int,
        setup_timeout: float,
        now: float,
        connect_by: float,
        new_alarm: Callable[[], Alarm],
        queued: Collection[QueuedRequest],
    ) -> None:
        """``setup_timeout`` (seconds) limits each step of the setup: TCP with TLS, ApiVersions, each response of the
        login (KIP-601). TCP and TLS must also be complete before ``connect_by``.

        ``new_alarm`` returns an alarm of the route. ``queued`` are the requests that wait for the connection, and get
        more time while the broker throttles it.
        """
        self.state = ConnectionState.CONNECTING
        self.node_id = node_id
        #: The error that ended the connection; None if it is open, or was closed on purpose.
        self.error: KafkaError | None = None
        self.was_ready = False
        self.has_answered = False  #: Whether a manager's request was answered, and not with ILLEGAL_SASL_STATE.
        self.ranges: Ranges = {}  #: By API key: the lowest and highest version that the broker supports.
        self.host = host
        self.address = address
        self._settings = settings
        self._setup_timeout = setup_timeout
        #: When the current step of the setup began: TCP with TLS, ApiVersions, or one request of the login.
        self.setup_began_at = now
        self._new_alarm = new_alarm
        #: The time limit of the current step of the setup. After the setup, the latest time of the next :meth:`step`:
        #: when a request in flight times out, or the connection has been idle for too long.
        self.deadline = new_alarm()
        self.deadline.set(min(now + setup_timeout, connect_by))
        self.throttle: Alarm | None = None  #: The end of the throttling; managers' requests wait until then (KIP-219).
        self._answer = shared.answers.append  #: To be called once per request.
        self._commands = shared.commands
        self._frames = Frames(settings.max_frame_bytes)
        #: Returns the buffer to receive into. A method of this class would only add a call to each receive.
        self.get_buffer = self._frames.buffer
        self._out: deque[bytes | memoryview] = deque()
        self._unsent = shared.unsent
        self._queued = queued
        #: By API, lowest and highest version permitted: the version to send.
        self._versions: dict[tuple[type[Message], int, int | None], int] = {}
        self._in_flight: deque[_InFlight] = deque()
        self._correlation_id = -1
        self._polls = shared.polls
        self._used_at = now  #: When the connection was last used. Receiving counts as of :attr:`IoPolls.read_at`.
        #: When bytes were last received; before the first ones, the time at which the address was dialled.
        self.received_at = now
        self._login: Login | None = None
        self.relogin: Alarm | None = None  #: From this time on, the login runs again before the next request.
        #: The earliest time of the next login. If ``relogin`` is before it, requests wait from ``relogin`` until this
        #: time, since the session may have ended.
        self.login_pause: Alarm | None = None

    def __repr__(self) -> str:
        in_flight = f", {self.in_flight} in flight" if self.in_flight else ""
        return f"<Connection {self.where} {self.state.value}{in_flight}>"

    @property
    def where(self) -> str:
        """Host, port, numeric address and proxy, for log lines and errors."""
        return self.address.where(self.host)

    @property
    def is_ready(self) -> bool:
        """Whether the setup, with the login, is complete. Requests may still have to wait, see :meth:`can_send`."""
        return self.state in _SET_UP

    @property
    def has_ended(self) -> bool:
        return self.state is ConnectionState.DISCONNECTED

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def can_send(self, now: float) -> bool:
        """Return whether a request may be written now."""
        return (
            self.state is ConnectionState.READY
            and (self.throttle is None or now >= self.throttle.at)
            and len(self._in_flight) < self._settings.max_in_flight
        )

    def silent_for(self, now: float) -> float:
        """Return for how many seconds the broker has sent nothing while a request is in flight; 0 without one."""
        return now - max(self._in_flight[0].sent_at, self.received_at) if self._in_flight else 0.0

    def send(self, request: Request, queued_at: float, deadline: float, now: float) -> None:
        """Write a request; call only if :meth:`can_send`. ``deadline`` includes the throttling since ``queued_at``."""
        if self.state is not ConnectionState.READY:
            raise IllegalStateError(f"{self}: cannot send a request in state {self.state.value!r}")
        try:
            highest = None if request.max_version is None else request.max_version()
            key = request.api, request.min_version, highest
            version = self._versions.get(key)
            if version is None:
                version = choose_version(request.api, self.ranges, self.node_id, request.min_version, highest)
                self._versions[key] = version
            deadline = max(deadline, now + min(LEAST_ANSWER_TIME + request.max_wait, deadline - queued_at))
            self._write(request.build(version), version, now, deadline, request)
            due = min(deadline, now + self._settings.max_idle)
            if due < self.deadline.at:
                self.deadline.set(due)
        except KafkaError as error:
            self._answer(Answer(request, self.node_id, error=error))
        except BaseException as error:
            # ``request.build`` may have raised. Without an answer, the request's manager would wait for ever.
            if not self._in_flight or self._in_flight[-1].request is not request:
                failure = KafkaError(f"building {api_name(request.api)} failed: {error!r}")
                self._answer(Answer(request, self.node_id, error=failure))
            raise

    def is_login_due(self, now: float) -> bool:
        """Return whether the session ends soon, so that :meth:`reauthenticate` comes before the next request."""
        return self.relogin is not None and self.relogin.is_over(now)

    @property
    def _is_login_next(self) -> bool:
        if self.state is ConnectionState.REAUTHENTICATING:
            return not self._in_flight or self._in_flight[0].request is None
        return self.state is ConnectionState.AUTHENTICATING and self._login is not None

    def reauthenticate(self, now: float) -> None:
        """Begin the next login (KIP-368); call only if :meth:`is_login_due`, :meth:`can_send`, and a request waits.

        As in Java, a connection without requests does not log in again: brokers close a connection because of its
        session's end only when they receive a request, and they accept a login even then.
        """
        log.debug("%s: logging in again before the session ends", self.where)
        assert self._settings.new_login is not None
        self._login = self._settings.new_login(self.host)
        self._move(ConnectionEvent.REAUTHENTICATE)
        try:
            self._log_in(None, now, now)
        except KafkaError as error:
            self.close(self._login_error(error))

    def step(self, now: float) -> None:
        """Close the connection if a request or the setup has timed out, or if the connection is idle for too long.

        Timeouts count up to the last poll of I/O, see :class:`IoPolls`; the idle limit counts up to ``now``.
        """
        horizon = self._polls.horizon
        if self.has_ended:
            return
        if self.state not in _SET_UP:
            self.deadline.set(self.deadline.at)  # due again: the deadline counts only after I/O was polled
            if self.deadline.is_over(horizon):
                seconds = self.deadline.at - self.setup_began_at
                text = negotiate.setup_timeout(self.state, seconds, self._settings.security_protocol)
                self.close(KafkaConnectionError(f"{self.where}: {text}", node_id=self.node_id))
        elif self._in_flight:
            due = min(item.deadline for item in self._in_flight)
            if self._frames.partial:  # later, while a response is arriving
                head = self._in_flight[0]
                latest = head.sent_at + ARRIVING_FACTOR * (head.deadline - head.sent_at)
                due = max(due, min(latest, self.received_at + ARRIVING_GAP))
            # An answer causes no step, but may begin the idle time, whose end must not be missed.
            self.deadline.set(min(due, now + self._settings.max_idle))
            if due <= horizon:
                self._time_out(horizon)
        elif now < self._used_at + self._settings.max_idle:
            self.deadline.set(self._used_at + self._settings.max_idle)
        else:
            log.debug("%s: closed, not used for %.0f s", self.where, now - self._used_at)
            self.close(None)

    def close(self, error: KafkaError | None) -> None:
        """Close the connection, and answer the requests in flight with ``error``, or a connection error made of it.

        ``error`` is None if the connection is closed on purpose.
        """
        if not self.has_ended:
            # The driver's command first: if Ctrl-C came between a change of state and the command, nothing would close
            # the socket.
            self._commands.append(Hangup(self))
        if self._move(ConnectionEvent.CLOSE):
            self._end(error)

    def connection_made(self, now: float) -> None:
        """Continue the setup: send ApiVersions, now that TCP (and TLS) is connected."""
        if self._move(ConnectionEvent.CONNECTION_MADE):
            self._used_at = now
            self._begin_setup_step(now)
            self._send_api_versions(self._settings.api_versions_cache.version, now)
            self.deadline.touch()

    def buffer_updated(self, size: int, now: float) -> bool:
        """Handle the frames that ``size`` more bytes complete; return True if the bytes complete none."""
        # A ready connection stays ready: asking the table of transitions would cost six calls for each response.
        if self.state is not ConnectionState.READY and not self._move(ConnectionEvent.RECEIVED):
            return False
        self.received_at = now
        if self._polls.read_at > self._used_at:
            self._used_at = self._polls.read_at
        only_a_part = True
        try:
            for frame in self._frames.received(size):
                only_a_part = False
                self._take_frame(frame, now)
                if self.state is not ConnectionState.READY and self.has_ended:
                    break
        except TlsAnswerError as error:
            hint = negotiate.needs_tls(self._settings.security_protocol)
            self.close(self._denied(SslAuthenticationFailedError, f"{self.where}: {error}: {hint}", error))
            return False
        except KafkaError as error:
            self._reject(self._login_error(error) if self._is_login_next else error)
            return False
        return only_a_part

    def connection_lost(self, error: KafkaConnectionError | None, now: float) -> None:
        """End the connection after its transport has failed, or was closed by the peer (``error`` is None)."""
        before = self.state
        if not self._move(ConnectionEvent.CONNECTION_LOST):
            return
        if error is not None and error.is_proxy_login_rejected:
            self._end(self._denied(ProxyAuthenticationFailedError, str(error), error))
        elif error is not None and error.is_certificate_rejected and not self.was_ready:
            self._end(self._denied(SslAuthenticationFailedError, str(error), error))
        else:
            text = f"{self.where}: the peer closed the connection" if error is None else f"{error},"
            unanswered = api_name(self._in_flight[0].api) if self._in_flight and not self.has_answered else None
            cause = negotiate.likely_cause(before, self._settings.security_protocol, unanswered)
            explained = KafkaConnectionError(
                f"{text}{cause}".rstrip(","),
                host=self.host,
                port=self.address.sockaddr[1],
                node_id=self.node_id,
                is_handshake_cut=error is not None and error.is_handshake_cut,
            )
            explained.__cause__ = error
            self._end(explained)

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        if not self._out:
            return ()
        self._unsent.discard(self)
        return tuple(self._out)

    def data_sent(self, size: int, now: float) -> None:
        """Drop the first ``size`` of the waiting bytes, which the driver has sent."""
        if self.state is not ConnectionState.READY and not self._move(ConnectionEvent.SENT):
            return
        while size and self._out:
            chunk = self._out.popleft()
            if len(chunk) > size:
                self._out.appendleft(memoryview(chunk)[size:])
                return
            size -= len(chunk)

    def _move(self, event: ConnectionEvent) -> bool:
        """Make the transition of ``event``; return False if the connection had ended before."""
        had_ended = self.has_ended
        if had_ended and event is ConnectionEvent.RECEIVED:
            self._commands.append(Hangup(self))  # Ctrl-C has kept the driver from closing the socket: try again
        self.state = next_state(CONNECTION_TRANSITIONS, self.state, event, self)
        return not had_ended

    def _end(self, error: KafkaError | None) -> None:
        """Answer all requests in flight with an error, and free the buffers."""
        self.error = error
        for alarm in self.deadline, self.throttle, self.relogin, self.login_pause:
            if alarm is not None:
                alarm.clear()
        self.deadline.touch()
        lost = error if isinstance(error, KafkaConnectionError) else self._connection_error(error)
        for item in self._in_flight:
            if item.request is not None:
                self._answer(Answer(item.request, self.node_id, item.version, error=lost))
        self._in_flight.clear()
        self._out.clear()
        self._unsent.discard(self)
        self._frames = Frames(self._settings.max_frame_bytes)
        self.get_buffer = self._frames.buffer

    def _connection_error(self, cause: KafkaError | None) -> KafkaConnectionError:
        text = "closed by this client" if cause is None else str(cause)
        text = text if text.startswith(self.where) else f"{self.where}: {text}"
        error = KafkaConnectionError(text, host=self.host, port=self.address.sockaddr[1], node_id=self.node_id)
        error.__cause__ = cause
        return error

    def _login_error(self, error: KafkaError) -> KafkaError:
        """Return the error of a failed login, with the broker's name.

        A final error that is no AuthorizationError, such as one about a malformed message of the broker, becomes a
        SaslAuthenticationFailedError: otherwise the client would try again until it reports that no broker answers.
        """
        if isinstance(error, KafkaConnectionError) or error.retriable:
            return error
        text = str(error) if str(error).startswith(self.where) else f"{self.where}: {error}"
        if isinstance(error, AuthorizationError):
            error.args = (text,)
            error.node_id = self.node_id
            return error
        text += ", during the login (check sasl_mechanism and security_protocol)"
        return self._denied(SaslAuthenticationFailedError, text, error)

    def plaintext_port_error(self) -> SslAuthenticationFailedError:
        """Return the error of a client with TLS at the port that has answered this connection without TLS."""
        return self._denied(
            SslAuthenticationFailedError,
            f"{self.where}: the port does not use TLS: set security_protocol='PLAINTEXT' or 'SASL_PLAINTEXT', or use "
            "the port of a listener with TLS",
        )

    def _denied(self, kind: type[Denied], text: str, cause: KafkaError | None = None) -> Denied:
        code = Code.SASL_AUTHENTICATION_FAILED
        error = kind(text, code=int(code), name=code.name, node_id=self.node_id)
        error.__cause__ = cause
        return error

    def _reject(self, error: KafkaError) -> None:
        """Close after a malformed response: the oldest request gets ``error``, the others a connection error."""
        if self._in_flight:
            head = self._in_flight[0]
            if head.request is not None:
                self._answer(Answer(head.request, self.node_id, head.version, error=error))
            self._in_flight.popleft()
        self.close(error)

    def _time_out(self, now: float) -> None:
        """Close the connection after a timeout: brokers answer in order, so later requests would wait, too."""
        late = [item for item in self._in_flight if item.deadline <= now]
        first = min(late, key=lambda item: item.deadline)
        for item in late:
            if item.request is not None:
                error = KafkaTimeoutError(self._no_answer(item))
                self._answer(Answer(item.request, self.node_id, item.version, error=error))
            self._in_flight.remove(item)
        self.close(KafkaConnectionError(f"{self._no_answer(first)}, connection closed", node_id=self.node_id))

    def _no_answer(self, item: _InFlight) -> str:
        return f"{self.where}: no answer to {api_name(item.api)} within {item.deadline - item.sent_at:.1f} s"

    def _begin_setup_step(self, now: float) -> None:
        # Each step of the setup has a timeout of its own. With one timeout for all, every setup would fail in a program
        # that polls once a minute, as each step needs a poll.
        self.setup_began_at = now
        self.deadline.set(now + self._setup_timeout)

    def _throttle(self, response: Any, now: float) -> None:
        """Let managers' requests wait for a response's throttle time, in which the broker reads none (KIP-219).

        Brokers before 2.0 have already waited before they sent the response. The client then waits a second time.
        """
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms <= 0:
            return
        until = now + min(throttle_ms / 1000, THROTTLE_MAX)
        if self.throttle is None:
            self.throttle = self._new_alarm()
            self.throttle.set(now)
        longer = until - max(now, self.throttle.at)
        if longer <= 0:
            return
        log.debug("%s: throttled for %s ms", self.where, throttle_ms)
        self.throttle.set(until)
        for item in self._in_flight:
            item.deadline += longer
        for waiting in self._queued:
            waiting.deadline += longer

    def _write(
        self, message: Message, version: int, now: float, deadline: float, request: Request | None = None
    ) -> None:
        correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        body = encode_request(message, version, correlation_id, self._settings.client_id)
        self._correlation_id = correlation_id
        self._used_at = now
        self._in_flight.append(_InFlight(type(message), version, correlation_id, now, deadline, request, len(body)))
        self._out.append(len(body).to_bytes(SIZE_BYTES, "big") + body)
        self._unsent.add(self)

    def _take_frame(self, frame: Frame, now: float) -> None:
        if not self._in_flight:
            raise KafkaProtocolError("the broker sent a response although no request is in flight")
        item = self._in_flight[0]
        correlation_id, body = decode_response_header(frame, item.api, item.version)
        if correlation_id != item.correlation_id:
            expected = f"{item.correlation_id} ({api_name(item.api)})"
            raise KafkaProtocolError(f"the broker sent correlation id {correlation_id}, expected {expected}")
        if item.request is None:
            self._take_setup_response(item, frame, body, now)
            return
        decode: Callable[..., Message] = item.api.RESPONSE.decode
        if len(frame) >= MANY_OBJECTS_BYTES:
            decode = garbage_collection_paused(decode)
        response = decode(frame, item.version, body)
        if getattr(response, "throttle_time_ms", 0) > 0:
            self._throttle(response, now)
        if len(self._in_flight) >= self._settings.max_in_flight:
            self.deadline.touch()  # there is room for a request that waits
        is_refused = self._settings.new_login is not None and is_logged_out(response, item.version)
        if not self.has_answered and not is_refused:
            self.has_answered = True
            self.deadline.touch()
        # Remove the request from those in flight only after its answer is stored, or a Ctrl-C could lose the answer.
        size, sent_at = len(frame), item.sent_at
        self._answer(Answer(item.request, self.node_id, item.version, response, None, size, sent_at, item.size))
        self._in_flight.popleft()
        if is_refused:
            text = f"{self.where}: closed, because the broker answered ILLEGAL_SASL_STATE to {api_name(item.api)}"
            self.close(KafkaConnectionError(text, node_id=self.node_id))

    def _take_setup_response(self, item: _InFlight, frame: Frame, body: int, now: float) -> None:
        if self.state is not ConnectionState.REAUTHENTICATING:
            self._begin_setup_step(now)
        self.deadline.touch()
        if item.api is ApiVersionsRequest:
            self._in_flight.popleft()
            response, ranges, version = take_api_versions(frame, body, item.version)
            self._throttle(response, now)
            if self.state is ConnectionState.AUTHENTICATING:
                self._become_ready()
                return
            self.ranges = ranges
            if version != item.version:
                self._settings.api_versions_cache.version = version
                self._send_api_versions(version, now)
                return
            self._move(ConnectionEvent.NEGOTIATED)
            if self._settings.new_login is not None:
                self._login = self._settings.new_login(self.host)
            self._log_in(None, now, now)
        else:
            answer = item.api.RESPONSE.decode(frame, item.version, body)
            self._in_flight.popleft()
            self._log_in(answer, now, item.sent_at)

    def _send_api_versions(self, version: int, now: float) -> None:
        # Where clients log in, brokers compare the cluster only in another ApiVersions after that.
        is_before_login = self.state is ConnectionState.NEGOTIATING and self._settings.new_login is not None
        request = self._settings.api_versions_cache.request(-1 if is_before_login else self.node_id)
        self._write(request, version, now, now + self._setup_timeout)

    def _become_ready(self) -> None:
        self.was_ready = self._move(ConnectionEvent.AUTHENTICATED)
        log.debug("%s: connection ready", self.where)

    def _log_in(self, answer: Message | None, now: float, began: float) -> None:
        """Continue the login after ``answer``, the response to a request that was written at ``began``."""
        message = None if self._login is None else self._login.next_request(answer, now)
        if message is None:
            after = None if self._login is None else self._login.reauthenticate_after
            # The broker counts the session's lifetime from a moment between the login's last request and its response.
            # Counted from the response, the lifetime would end too late in an application that polls rarely.
            if after is not None:
                self.relogin = self.relogin or self._new_alarm()
                self.login_pause = self.login_pause or self._new_alarm()
                self.relogin.set(began + after)
                self.login_pause.set(now + LOGIN_INTERVAL)
            elif self.relogin is not None:
                self.relogin.clear()
            is_first = self._login is not None and self.state is ConnectionState.AUTHENTICATING
            self._login = None
            if is_first and self._settings.api_versions_cache.can_check(self.node_id, self.ranges):
                self._send_api_versions(negotiate.FIRST_WITH_CLUSTER, now)
            else:
                self._become_ready()
            return
        # After SaslHandshake 0, brokers expect raw SASL tokens, without a header and without an error in the response.
        least = 1 if isinstance(message, SaslHandshakeRequest) else 0
        version = choose_version(type(message), self.ranges, self.node_id, least)
        # Brokers answer in order, so the response to a later login comes after those to the requests in flight.
        deadline = max([now, *(item.deadline for item in self._in_flight)]) + self._setup_timeout
        self._write(message, version, now, deadline)
        self.deadline.set_earlier(deadline)
