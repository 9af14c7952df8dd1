"""The way to one node: looks its name up, dials its addresses in turn, waits after failures, and queues meanwhile.

Owns the requests that are not written yet and the one link there is at a time. An *attempt* is all addresses of the
host; addresses known from an earlier connection that fail are looked up again within the same attempt (KAFKA-12193:
every address of a cluster can change). When an attempt fails, everything queued is answered at once; what is asked
during the backoff waits for the next attempt. After Java's ``ClusterConnectionStates``; KIP-144, KIP-302, KIP-601.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field

from ..driver import Address, Command, Dial, Hangup
from ..errors import AuthorizationError, KafkaConnectionError, KafkaError, KafkaTimeoutError
from ..timers import NEVER, Backoff, Random
from .addresses import AddressBook, NameLookup
from .connection import Connection, ConnectionSettings
from .negotiate import api_name
from .request import Answer, Request
from .states import ROUTE_IGNORED, ROUTE_TRANSITIONS, RouteEvent, RouteState, next_state

log = logging.getLogger(__name__)

#: How long an attempt is trusted, in seconds; then another node is dialled beside it, and metadata is asked whether the
#: cluster still wants us to go there.
HEDGE = 1.0
#: A connection that breaks again and again is one incident: within so many seconds of the last warning about it the
#: next needs no other, unless the node then stays away for as long as the second figure says.
QUIET, LASTING = 30.0, 5.0


@dataclass(slots=True)
class QueuedRequest:
    """A request that is not written yet."""

    request: Request
    queued_at: float
    deadline: float


@dataclass(slots=True)
class RouteContext:
    """What all routes of one consumer have in common."""

    settings: ConnectionSettings
    backoff: Backoff
    setup: Backoff
    random: Random
    book: AddressBook = field(default_factory=AddressBook)
    commands: list[Command] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    opened: int = 0  #: Connections that became ready, ever.
    lost: list[BrokerRoute] = field(default_factory=list)  #: Whose standing connection broke since anybody last looked.
    #: What was asked and is not answered, in order. Who is not in here gets no answer: not a second one, that is.
    unanswered: dict[Request, None] = field(default_factory=dict)

    def answer(self, answer: Answer) -> None:
        """Keep an answer until it is taken."""
        request = answer.request
        if request in self.unanswered and not any(known.request is request for known in self.answers):
            self.answers.append(answer)
        self.unanswered.pop(request, None)

    def hang_up(self, connection: Connection) -> None:
        """Tell the driver to close a link's transport."""
        self.commands.append(Hangup(connection))


class BrokerRoute:
    """The way to one node, over one of its channels."""

    def __init__(self, shared: RouteContext, host: str, port: int, node_id: int = -1, channel: str = "") -> None:
        self.host = host
        self.port = port
        self.node_id = node_id
        self.channel = channel
        self.state = RouteState.DISCONNECTED
        self.connection: Connection | None = None
        self.failures = 0  #: Attempts that failed, or connections that broke, since it was last ready.
        self.unreachable = False  #: Whether the last attempt failed, at all addresses.
        self.cause = ""  #: Why the last one did, in words; empty while it works.
        self.started_at = -NEVER  #: When the last attempt began.
        self.login_error: AuthorizationError | None = None  #: Of the last attempt; the owner takes it.
        self.not_before = -NEVER
        self.broken_at = -NEVER  #: When an attempt failed or a connection broke last.
        self.queue: deque[QueuedRequest] = deque()
        self._shared = shared
        self._lookup: NameLookup | None = None
        self._addresses: deque[Address] = deque()
        self._tried: set[Address] = set()
        self._looked_up = False
        self._muted_until = -NEVER  #: How far deadlines have been moved.
        self._stepped_at = -NEVER
        self._ready_noted = False
        self._said_at = -NEVER  #: When people were last told that something is wrong here.
        self._away_since = -NEVER
        self._is_said = False  #: Whether they were told of this outage.

    @property
    def name(self) -> str:
        """Host and port, for people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def ready(self) -> bool:
        """Whether a connection stands and takes requests."""
        return self.connection is not None and self.connection.ready

    @property
    def under_way(self) -> bool:
        """Whether an attempt is going on."""
        return self.state is RouteState.RESOLVING or (self.state is RouteState.LINKED and not self.ready)

    def is_slow(self, now: float) -> bool:
        """Return whether an attempt has been going on for suspiciously long."""
        return self.under_way and now >= self.started_at + HEDGE

    @property
    def load(self) -> int:
        """How many requests are not answered yet."""
        return len(self.queue) + (self.connection.in_flight if self.connection else 0)

    @property
    def holds(self) -> int:
        """How many requests of the owner's are queued or in flight."""
        return len(self.queue) + (self.connection.in_flight if self.connection is not None and self.ready else 0)

    def requests(self) -> list[Request]:
        """Return them."""
        flying = self.connection.requests() if self.connection is not None else []
        return [waiting.request for waiting in self.queue] + flying

    def describe(self, now: float) -> str:
        """Return where things stand, in words."""
        connection = self.connection
        words = connection.state.value if connection else self.state.value
        if self.ready and connection is not None:
            muted = f", throttled for {connection.muted_until - now:.1f} s" if connection.muted_until > now else ""
            return f"{words}, {connection.in_flight} in flight, {len(self.queue)} queued{muted}"
        if self.state is RouteState.BACKING_OFF:
            words = f"{words} for {max(0.0, self.not_before - now):.2f} s"
        elif self.under_way:
            words = f"{words} for {now - self.started_at:.1f} s"
        failed = f", failed {self.failures} times: {self.cause}" if self.failures else ""
        return f"{words}, {len(self.queue)} queued{failed}"

    @property
    def has_news(self) -> bool:
        """Whether the driver has called the link so that :meth:`step` has something to do, or has to send for it."""
        connection = self.connection
        return connection is not None and (
            connection.unsent or connection.over or (not self._ready_noted and connection.ready)
        )

    # -- from the owner

    def send(self, request: Request, now: float) -> None:
        """Queue a request; the next :meth:`step` does what is needed to get it out."""
        if self.connection is not None:
            self._note_mute(self.connection, now)
        muted = max(0.0, self._muted_until - now)
        self.queue.append(QueuedRequest(request, now, request.deadline + muted))

    def step(self, now: float, horizon: float, wanted: bool = False) -> None:
        """Go on. ``wanted`` dials even if nothing is queued; deadlines pass up to ``horizon``."""
        self._stepped_at = now
        connection = self.connection
        if connection is not None:
            self._note_mute(connection, now)
            connection.step(now, horizon)
            self._look_at(connection, now)
        if self.queue:
            self._expire(horizon)
        if self.state is RouteState.BACKING_OFF and now >= self.not_before:
            self._move(RouteEvent.WAITED)
        if self.state is RouteState.DISCONNECTED and (wanted or self.queue):
            self._begin(now)
        if self.state is RouteState.RESOLVING:
            self._look_at_lookup(now)
        if self.queue and self.connection is not None:
            self._flush(self.connection, now)

    def wake_at(self) -> float:
        """Return when :meth:`step` has something to do even if nothing comes and nothing has; never before it was last
        stepped, unless a deadline waits for I/O to be looked at once more."""
        due = NEVER
        connection = self.connection
        if connection is not None:
            due = connection.wake_at()
            if self.queue and connection.muted_until > self._stepped_at:
                due = min(due, connection.muted_until)
        if self.queue:
            due = min(due, min(waiting.deadline for waiting in self.queue))
            if self.state is RouteState.BACKING_OFF:
                due = min(due, self.not_before)
            elif self.under_way and not self.is_slow(self._stepped_at):
                due = min(due, self.started_at + HEDGE)
        return due

    def leave(self, why: str) -> None:
        """Take no more requests: what is queued is answered now, what is in flight may be. See :meth:`has_left`."""
        self.refuse(KafkaConnectionError(f"{self.name}: {why}", host=self.host, port=self.port, node_id=self.node_id))
        if self.connection is None or not self.ready or not self.connection.in_flight:
            self.close(None)

    def has_left(self) -> bool:
        """Return whether a route told to leave has nothing more to wait for; close it when that is so."""
        if self.connection is not None and not self.connection.over and self.connection.in_flight:
            return False
        self.close(None)
        return True

    def move_to(self, host: str, port: int, why: str) -> None:
        """The node has another address now: the connection ends, the queue goes there."""
        self.close(KafkaConnectionError(f"{self.name}: {why}", host=self.host, port=self.port, node_id=self.node_id))
        self.host, self.port = host, port
        self.unreachable = False
        self.failures = 0
        self.cause = ""

    def adopt(self, node_id: int) -> None:
        """Learn whose address this is: what began as a bootstrap server serves as that node."""
        self.node_id = node_id
        if self.connection is not None:
            self.connection.node_id = node_id

    def close(self, error: KafkaConnectionError | None) -> None:
        """End the connection or the attempt at one. The queue stays."""
        if self.connection is not None:
            self.connection.close(error)
            self.connection = None
        self._lookup = None
        self._addresses.clear()
        self._move(RouteEvent.CLOSED)

    def refuse(self, error: KafkaError) -> None:
        """Answer everything queued with ``error``."""
        for waiting in self.queue:
            self._shared.answer(Answer(waiting.request, self.node_id, error=error))
        self.queue.clear()

    def start_over(self, error: KafkaConnectionError) -> None:
        """Let go of everything but the queue, whatever state an interrupted call has left."""
        if self.connection is not None:
            self.connection.close(error)
            self.connection = None
        self._lookup = None
        self._addresses.clear()
        self.queue = deque(waiting for waiting in self.queue if waiting.request in self._shared.unanswered)
        # Past the table: an interrupted call may have left a state that fits nothing else.
        self.state = RouteState.DISCONNECTED

    # -- inside: one attempt

    def _move(self, event: RouteEvent) -> None:
        after = next_state(ROUTE_TRANSITIONS, ROUTE_IGNORED, self.state, event, f"route to {self.name}")
        self.state = after or self.state

    def _begin(self, now: float) -> None:
        self.started_at = now
        self._tried.clear()
        self._looked_up = False
        known = self._shared.book.known(self.host, self.port)
        if known:
            self._addresses.extend(known)
            self._dial(now)
        else:
            self._look_up(now)

    def _look_up(self, now: float) -> None:
        self._looked_up = True
        self._lookup = self._shared.book.look_up(self.host, self.port)
        self._move(RouteEvent.LOOK_UP)

    def _look_at_lookup(self, now: float) -> None:
        lookup = self._lookup
        if lookup is None or not lookup.done:
            return
        self._lookup = None
        if not lookup.addresses:
            self._fail(f"DNS: {lookup.error}", now)
            return
        self._addresses.extend(address for address in lookup.addresses if address not in self._tried)
        if self._addresses:
            self._dial(now)
        else:
            self._fail(self.cause, now)  # the name still leads to where nobody answered just now

    def _dial(self, now: float) -> None:
        shared = self._shared
        address = self._addresses.popleft()
        self._tried.add(address)
        setup_timeout = shared.setup.delay(self.failures + 1, shared.random)
        connection = Connection(
            shared.settings, self.host, address, self.node_id, setup_timeout, now, shared.answer, shared.hang_up
        )
        self.connection = connection
        self._muted_until = -NEVER
        self._ready_noted = False
        self._move(RouteEvent.DIAL)
        shared.commands.append(Dial(connection, self.host, address))

    def _look_at(self, connection: Connection, now: float) -> None:
        """Note what became of the link since it was last looked at."""
        if connection.over:
            self.connection = None
            if connection.was_ready:
                self._lost(connection, now)
            else:
                self._failed_address(connection, now)
        elif connection.ready and not self._ready_noted:
            self._note_ready(connection)

    def _note_ready(self, connection: Connection) -> None:
        if self.failures:
            # A connection that comes back at once is no news.
            level = logging.INFO if self._is_said and self.failures > 1 else logging.DEBUG
            log.log(level, "%s: reached again after %d failures", self.name, self.failures)
        self._shared.book.worked(self.host, self.port, connection.address)
        self._shared.opened += 1
        self._ready_noted = True
        self.unreachable = False
        self.failures = 0
        self.cause = ""
        self._addresses.clear()

    def _lost(self, connection: Connection, now: float) -> None:
        if connection.error is None:
            self._move(RouteEvent.CLOSED)
            return
        self._back_off(self._words(connection.error), now)
        self._move(RouteEvent.LOST)
        self._shared.lost.append(self)

    def _failed_address(self, connection: Connection, now: float) -> None:
        error = connection.error or KafkaConnectionError("closed by us")
        self.cause = self._words(error)
        if isinstance(error, AuthorizationError):
            # Every address of it would refuse the same credentials, and each refusal may count towards a lock-out.
            self.login_error = error
            self._fail(self.cause, now, error)
        elif self._addresses:
            log.debug("%s: %s; trying the next address", self.name, self.cause)
            self._dial(now)
        elif not self._looked_up:
            self._shared.book.failed(self.host, self.port)
            self._look_up(now)
        else:
            self._fail(self.cause, now)

    def _fail(self, cause: str, now: float, error: KafkaError | None = None) -> None:
        self._addresses.clear()
        self.unreachable = True
        self._shared.book.failed(self.host, self.port)
        self._back_off(cause, now)
        self._move(RouteEvent.FAILED)
        self.refuse(
            error or KafkaConnectionError(f"{self.name}: {cause}", host=self.host, port=self.port, node_id=self.node_id)
        )

    def _back_off(self, cause: str, now: float) -> None:
        # One line when it begins and one when it is over: an outage must not fill the disk with the same words.
        if not self.failures:
            self._away_since = now
            self._is_said = False
        due = now - self._said_at >= QUIET or now - self._away_since >= LASTING
        if due and not self._is_said:
            self._is_said = True
            self._said_at = now
            log.warning("%s: %s", self.name, cause)
        else:
            log.debug("%s: %s", self.name, cause)
        self.cause = cause
        self.broken_at = now
        self.failures += 1
        self.not_before = now + self._shared.backoff.delay(self.failures, self._shared.random)

    def _words(self, error: KafkaError) -> str:
        """Return the cause without the name it may begin with, which is said already."""
        text = str(error)
        if text.startswith(f"{self.name}: "):
            return text[len(self.name) + 2 :]
        if text.startswith(f"{self.name} ("):
            address, _, words = text[len(self.name) + 2 :].partition("): ")
            return f"{words} ({address})"
        return text

    # -- inside: the queue

    def _expire(self, horizon: float) -> None:
        if all(waiting.deadline > horizon for waiting in self.queue):
            return
        late = [waiting for waiting in self.queue if waiting.deadline <= horizon]
        self.queue = deque(waiting for waiting in self.queue if waiting.deadline > horizon)
        for waiting in late:
            self._too_late(waiting)

    def _too_late(self, waiting: QueuedRequest) -> None:
        state = self.connection.state.value if self.connection else self.state.value
        cause = f", {self.cause}" if self.cause else ""
        words = (
            f"{self.name}: {api_name(waiting.request.api)} could not be sent within "
            f"{waiting.deadline - waiting.queued_at:.1f} s ({state}{cause})"
        )
        self._shared.answer(Answer(waiting.request, self.node_id, error=KafkaTimeoutError(words)))

    def _note_mute(self, connection: Connection, now: float) -> None:
        """Move the deadlines of what waits behind a mute along with it (KIP-219)."""
        longer = connection.muted_until - max(now, self._muted_until)
        if longer > 0:
            for waiting in self.queue:
                waiting.deadline += longer
            self._muted_until = connection.muted_until

    def _flush(self, connection: Connection, now: float) -> None:
        while self.queue and connection.can_send(now):
            waiting = self.queue[0]
            try:
                if waiting.deadline <= now:
                    # Sent now it would be overdue at once, and take the connection with it.
                    self._too_late(waiting)
                else:
                    connection.send(waiting.request, waiting.queued_at, waiting.deadline, now)
            finally:
                self.queue.popleft()
