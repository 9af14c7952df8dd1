"""The route to one node: looks up its name, connects to one of its addresses, backs off, and queues requests.

An *attempt* to connect covers all addresses of the host, see :class:`.AddressRace`. If all addresses known from an
earlier lookup fail, the name is looked up again within the same attempt (KAFKA-12193: all addresses of a cluster can
change). When an attempt fails, all queued requests get its error; requests sent during the backoff wait for the next
attempt. After Java's ``ClusterConnectionStates``; KIP-144, KIP-302, KIP-601.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from functools import partial

from ..driver import Address, Command, Dial, host_and_port
from ..errors import AuthorizationError, KafkaConnectionError, KafkaError, KafkaTimeoutError
from ..failures import OutageLog
from ..support.agenda import Agenda
from ..support.imports import import_uninterrupted
from ..support.lazy_dataclass import dataclass, field
from ..support.state_machine import next_state
from ..support.timers import NEVER, Backoff, Random
from .address_race import AddressRace
from .addresses import AddressBook, Lookup
from .authenticate import Logins, NoLogins
from .connection import Connection, ConnectionSettings, IoPolls
from .negotiate import ApiVersionsCache, api_name
from .request import Answer, QueuedRequest, Request
from .states import ROUTE_TRANSITIONS, RouteEvent, RouteState

log = logging.getLogger(__name__)

#: An attempt to connect is slow after this many seconds. If a request for any broker waits, another node is then
#: dialled in parallel; and metadata is refreshed, in case the node has moved.
SLOW_ATTEMPT = 1.0
#: "Connected again" is logged only for a connection that has lasted this many seconds. A broker that closes every
#: connection after a few answers would otherwise cause two log lines for each.
STABLE_AFTER = 5.0

#: The kind of the outage of all brokers in :class:`.OutageLog`, beside those of single connections.
NO_BROKER = "no broker"


@dataclass(slots=True)
class RouteContext:
    """The settings and queues that all routes and connections of one client share."""

    settings: ConnectionSettings
    backoff: Backoff
    setup: Backoff
    random: Random
    commands: deque[Command]  #: For the driver.
    book: AddressBook
    logins: Logins = field(default_factory=NoLogins)
    outages: OutageLog = field(default_factory=lambda: OutageLog(log))
    answers: list[Answer] = field(default_factory=list)  #: For the engine.
    unsent: set[Connection] = field(default_factory=set)  #: Connections with bytes that the driver has not got yet.
    polls: IoPolls = field(default_factory=IoPolls)
    agenda: Agenda = field(default_factory=Agenda)  #: When which route is due; the keys are the routes.
    opened: int = 0  #: Number of connections that have become ready so far.
    #: The routes with queued requests. A route whose queue has become empty leaves with its next step.
    waiting: dict[BrokerRoute, None] = field(default_factory=dict)
    #: Routes that have lost their connection; the network client takes and empties the list.
    lost: list[BrokerRoute] = field(default_factory=list)
    #: Whether a node's address was found to belong to another broker; the network client takes and clears it.
    is_misrouted: bool = False


class BrokerRoute:
    """The route to one node, for one of its channels."""

    def __init__(self, shared: RouteContext, host: str, port: int, node_id: int = -1, channel: str = "") -> None:
        self.host = host
        self.port = port
        self.node_id = node_id
        self.channel = channel
        self.state = RouteState.DISCONNECTED
        self.connection: Connection | None = None
        self.failures = 0  #: Number of failed attempts and lost connections since a request was last answered.
        #: Whether, since a request was last answered, an attempt failed or a connection was lost without an answer.
        self.unreachable = False
        self.cause = ""  #: The text of the last failure, for errors; empty once a request was answered.
        self.started_at = -NEVER  #: When the last attempt to connect began.
        #: The error of the last login or TLS handshake, if it was rejected; the network client takes and clears it.
        self.login_error: AuthorizationError | None = None
        self.broken_at = -NEVER  #: When an attempt last failed, or a connection was last lost.
        self.queue: deque[QueuedRequest] = deque()
        self._shared = shared
        self._alarm = shared.agenda.alarm(self)  #: See :meth:`_set_alarm`.
        self._backoff = shared.agenda.alarm(self)  #: When the next attempt to connect may begin.
        self._lookup: Lookup | None = None
        self._race: AddressRace | None = None
        self._tried: set[Address] = set()
        self._looked_up = False
        self._connected_at = -NEVER
        #: Whether :attr:`failures` was reset after the first answer of the present connection.
        self._success_noted = False

    @property
    def name(self) -> str:
        return host_and_port(self.host, self.port)

    @property
    def is_ready(self) -> bool:
        return self.connection is not None and self.connection.is_ready

    @property
    def is_working(self) -> bool:
        """Whether the connection is ready and has answered a request other than ApiVersions and the login's.

        A listener that requires a login answers ApiVersions even without one, and closes the connection at the next
        request.
        """
        return self.connection is not None and self.connection.has_answered and self.connection.is_ready

    def lacks_credentials(self, now: float) -> bool:
        """Return whether requests have to wait for valid credentials: to dial, or to log in again on the connection.

        A connection whose session has ended is still ready, but may send nothing before it has logged in again.
        """
        if self.connection is not None and not self.connection.is_login_due(now):
            return False
        return not self._shared.logins.may_dial()

    def can_send(self, now: float) -> bool:
        return self.connection is not None and self.connection.can_send(now) and not self.lacks_credentials(now)

    @property
    def is_connecting(self) -> bool:
        return self.state is RouteState.RESOLVING or self.state is RouteState.CONNECTING

    def is_slow(self, now: float) -> bool:
        return self.is_connecting and now >= self.started_at + SLOW_ATTEMPT

    @property
    def load(self) -> int:
        """Number of requests without an answer, queued or in flight."""
        return len(self.queue) + (self.connection.in_flight if self.connection else 0)

    def describe(self, now: float) -> str:
        """Return the state of the route in words, for ``repr`` and errors."""
        connection = self.connection
        queued = f"{len(self.queue)} queued"
        if connection is not None:
            throttled = 0.0 if connection.throttle is None else connection.throttle.at - now
            end = f", throttled for {throttled:.1f} s" if throttled > 0 else ""
            if self.lacks_credentials(now):
                end += f", waits to log in again: {self._shared.logins.waits_for()}"
            return f"{connection.state.value}, {connection.in_flight} in flight, {queued}{end}"
        words = self._shared.logins.waits_for() or self.state.value
        if self.state is RouteState.BACKING_OFF:
            words = f"{words} for {max(0.0, self._backoff.at - now):.2f} s"
        elif self.is_connecting:
            words = f"{words} for {now - self.started_at:.1f} s"
        failed = f", failed {self.failures} times: {self.cause}" if self.failures else ""
        return f"{words}, {queued}{failed}"

    def connections(self) -> list[Connection]:
        """Return the route's connection or, while there is none, those in setup."""
        if self.connection is not None:
            return [self.connection]
        return self._race.open if self._race is not None else []

    def error(self, why: str) -> KafkaConnectionError:
        return KafkaConnectionError(f"{self.name}: {why}", host=self.host, port=self.port, node_id=self.node_id)

    def abort(self, error: KafkaConnectionError) -> None:
        """Answer all requests, queued and in flight, with ``error``, and close the connection."""
        self.refuse(error)
        self.close(error)

    def write(self, request: Request, now: float) -> bool:
        """Write a request at once, unless something else is to be done first; return whether it was written.

        A queue and another step for each request would cost a tenth of a poll that returns one record.
        """
        connection = self.connection
        if connection is None or self.queue or not connection.can_send(now):
            return False
        if now >= connection.deadline.at or request.deadline <= now:
            return False  # a step comes first: it may close an idle connection, or answer a late request
        if connection.relogin is not None and connection.is_login_due(now):
            return False
        connection.send(request, now, request.deadline, now)
        return True

    def send(self, request: Request, now: float) -> None:
        """Queue a request, which :meth:`step` writes once there is a connection."""
        deadline = request.deadline
        throttle = None if self.connection is None else self.connection.throttle
        if throttle is not None and throttle.is_ahead(now):
            deadline += throttle.at - now
        self.queue.append(QueuedRequest(request, now, deadline))
        self._shared.waiting[self] = None
        self._alarm.touch()

    def step(self, now: float, wanted: bool = False) -> None:
        """Connect, write queued requests, and apply timeouts; see :class:`.IoPolls` for when a deadline counts.

        With ``wanted``, the route connects even without a queued request.
        """
        if self._race is not None:
            self._step_race(self._race, now)
        connection = self.connection
        if connection is not None:
            connection.step(now)
            self._check_connection(connection, now)
        for waiting in [item for item in self.queue if item.deadline <= self._shared.polls.horizon]:
            self._too_late(waiting, now)
            self.queue.remove(waiting)
        if self.state is RouteState.BACKING_OFF and self._backoff.is_over(now):
            self._move(RouteEvent.WAITED)
        if self.state is RouteState.DISCONNECTED and (wanted or self.queue) and self._shared.logins.may_dial():
            self._begin_attempt(now)
        if self.state is RouteState.RESOLVING:
            self._check_lookup(now)
        if self.queue and self.connection is not None:
            self._flush(self.connection, now)
        self._set_alarm(now)

    def _set_alarm(self, now: float) -> None:
        """Set the alarm to the time at which :meth:`step` has something to do even if nothing is received.

        That time may be past: a queued request times out only if I/O was polled after its deadline.
        """
        alarm = self._alarm
        alarm.clear()
        is_new = self.connection is not None and now < self._connected_at + STABLE_AFTER
        if is_new and self._shared.outages.has(self._outage):
            alarm.set(self._connected_at + STABLE_AFTER)
        for waiting in self.queue:
            alarm.set_earlier(waiting.deadline)
        if not self.queue:
            self._shared.waiting.pop(self, None)
        elif self.is_connecting and not self.is_slow(now):
            alarm.set_earlier(self.started_at + SLOW_ATTEMPT)

    def leave(self, why: str) -> None:
        """Fail the queued requests, and wait for the answers to those in flight, until :meth:`has_left` is True."""
        self.refuse(self.error(why))
        if self.connection is None or not self.connection.in_flight:
            self.close(None)

    def has_left(self) -> bool:
        """Close the route if no request is in flight; return whether it is closed."""
        if self.connection is not None and not self.connection.has_ended and self.connection.in_flight:
            return False
        self.close(None)
        return True

    def move_to(self, host: str, port: int, why: str) -> None:
        """Follow a node to a new address: close the connection, and keep the queued requests for the next one."""
        self.close(self.error(why))
        self.host, self.port = host, port
        self.unreachable = False
        self.failures = 0
        self.cause = ""

    def close(self, error: KafkaConnectionError | None) -> None:
        """Close the connection, or end the attempt to connect; keep the queued requests."""
        self._hang_up(error)
        self._shared.outages.forget(self._outage)
        self._move(RouteEvent.CLOSED)

    def refuse(self, error: KafkaError) -> None:
        """Answer all queued requests with ``error``."""
        for waiting in self.queue:
            self._shared.answers.append(Answer(waiting.request, self.node_id, error=error))
        self.queue.clear()

    def _hang_up(self, error: KafkaConnectionError | None) -> None:
        self._alarm.touch()
        if self.connection is not None:
            self.connection.close(error)
            self.connection = None
        if self._race is not None:
            self._race.close()
            self._race = None
        self._lookup = None
        self._backoff.clear()

    def _move(self, event: RouteEvent) -> None:
        self.state = next_state(ROUTE_TRANSITIONS, self.state, event, f"route to {self.name}")

    def _begin_attempt(self, now: float) -> None:
        self.started_at = now
        self._tried.clear()
        self._looked_up = False
        known = self._shared.book.known(self.host, self.port)
        if known:
            self._connect(known, now)
        else:
            self._look_up()

    def _look_up(self) -> None:
        self._looked_up = True
        self._lookup = self._shared.book.look_up(self.host, self.port)
        self._move(RouteEvent.LOOK_UP)

    def _check_lookup(self, now: float) -> None:
        lookup = self._lookup
        if lookup is None or not (lookup.addresses or lookup.error):
            return
        self._lookup = None
        if lookup.error:
            self._fail(f"DNS: {lookup.error}", now)
            return
        addresses = [address for address in lookup.addresses if address not in self._tried]
        if addresses:
            self._connect(addresses, now)
        else:
            self._fail(self.cause, now)  # the new lookup has found only addresses that this attempt has tried

    def _connect(self, addresses: Sequence[Address], now: float) -> None:
        self._tried.update(addresses)
        shared = self._shared
        timeout = shared.setup.delay(self.failures + 1, shared.random)
        deadline = now + timeout
        new_alarm = partial(shared.agenda.alarm, self)

        def dial(
            address: Address, now: float, settings: ConnectionSettings = shared.settings, purpose: str = "broker"
        ) -> Connection:
            connection = Connection(
                shared, settings, self.host, address, self.node_id, timeout, now, deadline, new_alarm, self.queue
            )
            shared.commands.append(
                Dial(connection, self.host, address, purpose, shared.book.tunnel(self.host, address))
            )
            return connection

        def probe(address: Address, now: float) -> Connection:
            # Sends only ApiVersions, without a client id: nothing that TLS would have to protect.
            replace = import_uninterrupted("dataclasses").replace  # on demand: it imports inspect, which takes long
            settings = replace(
                shared.settings,
                client_id="",
                security_protocol="PLAINTEXT",
                new_login=None,
                api_versions_cache=ApiVersionsCache(),
            )
            return dial(address, now, settings, "http")

        self._race = AddressRace(addresses, dial, probe, deadline, new_alarm(), shared.polls)
        self._move(RouteEvent.DIAL)
        self._race.step(now)

    def _step_race(self, race: AddressRace, now: float) -> None:
        race.step(now)
        if race.winner is not None:
            self._keep(race.winner, now)
        elif race.has_failed:
            self._race = None
            self.cause = "; ".join(dict.fromkeys(self._without_name(error) for error in race.errors.values()))
            self._shared.is_misrouted |= any(getattr(error, "is_misrouted", False) for error in race.errors.values())
            if race.login_error is not None:
                self.login_error = race.login_error
                self._fail(self.cause, now, race.login_error)
            elif self._looked_up:
                self._fail(self.cause, now)
            else:
                self._shared.book.failed(self.host, self.port)
                self._look_up()

    def _keep(self, connection: Connection, now: float) -> None:
        self.connection = connection
        self._race = None
        self._connected_at = now
        self._success_noted = False
        self._shared.opened += 1
        self._shared.book.worked(self.host, self.port, connection.address)
        self._move(RouteEvent.READY)

    def _check_connection(self, connection: Connection, now: float) -> None:
        if connection.has_answered and not self._success_noted:
            self._success_noted = True
            self.unreachable = False
            self.failures = 0
            self.cause = ""
        if connection.has_ended:
            self.connection = None
            self._note_lost(connection, now)
        elif self._success_noted and now >= self._connected_at + STABLE_AFTER and self._shared.outages:
            outage = self._outage
            self._shared.outages.recovered(outage, self._connected_at, f"{outage[0]}: connected again")

    def _note_lost(self, connection: Connection, now: float) -> None:
        if connection.error is None:
            self._move(RouteEvent.CLOSED)
            return
        self.unreachable = self.unreachable or not connection.has_answered
        log.debug("%s: connection lost: %s", self.name, self._without_name(connection.error))
        self._back_off(self._without_name(connection.error), now)
        self._move(RouteEvent.LOST)
        self._shared.lost.append(self)
        if isinstance(connection.error, AuthorizationError):
            # The broker has rejected the re-authentication, and would reject a login on a new connection, too.
            self.login_error = connection.error
            self.refuse(connection.error)

    def _fail(self, cause: str, now: float, error: KafkaError | None = None) -> None:
        self.unreachable = True
        self._shared.book.failed(self.host, self.port)
        self._back_off(cause, now)
        self._move(RouteEvent.FAILED)
        self.refuse(error or self.error(cause))

    @property
    def _outage(self) -> tuple[str]:
        """This route's key in :class:`.OutageLog`."""
        return (f"{self.name} ({self.channel})" if self.channel else self.name,)

    def _back_off(self, cause: str, now: float) -> None:
        outage = self._outage
        # While no broker can be reached, one log line names all brokers: this line is then left out.
        outages, covered = self._shared.outages, self._shared.outages.is_logged(NO_BROKER)
        outages.failed(outage, now, f"{outage[0]}: {cause}", subject=outage, logs=not covered)
        self.cause = cause
        self.broken_at = now
        self.failures += 1
        self._backoff.set(now + self._shared.backoff.delay(self.failures, self._shared.random))

    def _without_name(self, error: KafkaError) -> str:
        """Return the text of the error without the host name, which the caller puts in front of several texts."""
        text = str(error)
        if text.startswith(f"{self.name}: "):
            return text[len(self.name) + 2 :]
        if text.startswith(f"{self.name} ("):
            address, _, cause = text[len(self.name) + 2 :].partition("): ")
            return f"{cause} ({address})"
        return text

    def _too_late(self, waiting: QueuedRequest, now: float) -> None:
        state = self.connection.state.value if self.connection else self.state.value
        state = self._shared.logins.waits_for() if self.lacks_credentials(now) else state
        cause = f", {self.cause}" if self.cause else ""
        text = (
            f"{self.name}: {api_name(waiting.request.api)} could not be sent within "
            f"{waiting.deadline - waiting.queued_at:.1f} s ({state}{cause})"
        )
        self._shared.answers.append(Answer(waiting.request, self.node_id, error=KafkaTimeoutError(text)))

    def _flush(self, connection: Connection, now: float) -> None:
        if connection.is_login_due(now) and connection.can_send(now):
            # The requests wait: the broker would reject a login without valid credentials, or one too soon after the
            # last (LOGIN_INTERVAL), and the connection would be closed.
            is_paused = connection.login_pause is not None and connection.login_pause.is_ahead(now)
            if is_paused or not self._shared.logins.may_dial():
                return
            connection.reauthenticate(now)
        while self.queue and connection.can_send(now):
            waiting = self.queue[0]
            try:
                if waiting.deadline <= now:
                    # Not written: after its deadline, the request would time out at once, and a timeout closes the
                    # connection for all requests.
                    self._too_late(waiting, now)
                else:
                    connection.send(waiting.request, waiting.queued_at, waiting.deadline, now)
            finally:
                self.queue.popleft()
