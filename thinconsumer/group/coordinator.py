"""Which broker coordinates our group: asking, believing, doubting, and asking again.

Owns the answer to FindCoordinator and nothing that is then said to the coordinator: whoever talks to it reports what
shows that it is not the one (:meth:`Coordinator.lost`), that it has to load first (:meth:`Coordinator.loading`), or
that it keeps us waiting (:meth:`Coordinator.waiting`). The last is how a stopped coordinator is noticed behind a
JoinGroup, which a healthy one may hold back for minutes just the same: the other brokers know whether the group has
moved. Follows Java's ``AbstractCoordinator`` and ``CoordinatorRequestManager``; KIP-699.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from typing import Protocol

from ..connection.request import ANY_NODE, Answer, Request, Target
from ..connection.states import next_state
from ..errors import BrokerResponseError, GroupAuthorizationFailedError, KafkaError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..timers import NEVER, Backoff, Random, Retry
from ..types import Node
from ..wire import Message
from ..wire.error_codes import to_error
from ..wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from .settings import GroupSettings

log = logging.getLogger(__name__)

#: Of a coordinator's key: a group's id.
GROUP = 0
#: JoinGroup, SyncGroup and Heartbeat go over a connection of their own, on which nothing else waits or makes wait.
MEMBERSHIP = "group"
#: LeaveGroup, where something on the former is still unanswered.
FAREWELL = "leave"
PORT_MAX = 65_535
#: How long a coordinator has to last, in seconds, for its loss to be a new incident although nobody said it answered.
LASTING = 60.0
#: How long no coordinator has to be lost, in seconds, for the next loss to be worth a line in the log.
QUIET = 30.0


class CoordinatorState(enum.Enum):
    """What we know of where the coordinator is."""

    UNKNOWN = "unknown"  #: Not known, and no request is sent: no manager needs it, or a backoff runs.
    FINDING = "finding"  #: FindCoordinator is in flight.
    KNOWN = "known"  #: Named by a broker, and not found wrong since.


class CoordinatorEvent(enum.Enum):
    """What happens to that knowledge."""

    ASK = "ask"
    FAILED = "failed"  #: The answer was an error, or there was none.
    FOUND = "found"  #: A broker has named one, or named another one after doubts.
    LOST = "lost"  #: The coordinator said that it is none, or cannot be reached.


_S = CoordinatorState
_E = CoordinatorEvent

#: Legal moves. Anything else is a bug of ours and raises.
TRANSITIONS: Mapping[CoordinatorState, Mapping[CoordinatorEvent, CoordinatorState]] = {
    # A broker that was slow to answer may name it after another one has failed to.
    _S.UNKNOWN: {_E.ASK: _S.FINDING, _E.FOUND: _S.KNOWN},
    _S.FINDING: {_E.FAILED: _S.UNKNOWN, _E.FOUND: _S.KNOWN},
    _S.KNOWN: {_E.FOUND: _S.KNOWN, _E.LOST: _S.UNKNOWN},
}


class Nodes(Protocol):
    """What this room needs of the metadata."""

    @property
    def nodes(self) -> Mapping[int, Node]: ...

    def learn_node(self, node: Node) -> None: ...


class Coordinator:
    """Where one group's coordinator is. A manager; looks for it only while somebody wants it."""

    asker = "coordinator"

    def __init__(self, settings: GroupSettings, group_id: str, metadata: Nodes, random: Random) -> None:
        self.group_id = group_id
        self.state = CoordinatorState.UNKNOWN
        self.node_id: int | None = None
        self.version = 0  #: Counts how often another node, or none, became the coordinator.
        #: What the latest answer says, if the application has to act. The broker is asked again all the same, so that
        #: a permission granted meanwhile ends it; each answer that repeats it is raised once.
        self.error: KafkaError | None = None
        self.last_error: KafkaError | None = None  #: The last failure of any kind, while there is no coordinator.
        self._metadata = metadata
        self._random = random
        self._request_timeout = settings.request_timeout_ms / 1000
        self._patience = settings.heartbeat_interval_ms / 1000  #: Before another broker is asked besides.
        self._backoff = Backoff(settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000)
        self._retry = Retry(self._backoff, random)
        self._loading = Retry(self._backoff, random)
        self._is_loading = False
        self._wanted: set[str] = set()
        self._asks: list[Request] = []  #: Unanswered, those that still matter.
        self._asked_at = -NEVER
        self._known_at = -NEVER
        self._lost_at = -NEVER
        self._doubts: dict[str, float] = {}  #: By who waits, since when the coordinator owes an answer.
        self._outages = OutageLog(log)
        self._announced: int | None = None  #: The node that was last logged as the coordinator.

    def __repr__(self) -> str:
        where = "" if self.node_id is None else f" node {self.node_id}"
        return f"<Coordinator of {self.group_id} {self.state.value}{where}>"

    # -- what others need

    def want(self, who: str = "") -> None:
        """Look for it from now on, and again whenever it is lost, for as long as anybody wants it."""
        self._wanted.add(who)

    def unwant(self, who: str = "") -> None:
        """Stop looking for it on behalf of ``who``. What is known stays known."""
        self._wanted.discard(who)

    def target(self, channel: str = MEMBERSHIP) -> Target | None:
        """Return where to send, or None while there is nobody to send to, or it asked for time to load."""
        return None if self.node_id is None or self._is_loading else Target(self.node_id, channel)

    # -- what others have noticed

    def lost(self, node_id: int | None, why: str, now: float) -> None:
        """Note that ``node_id`` is not the coordinator any more, or out of reach. Looked for again, with backoff."""
        if self.state is not CoordinatorState.KNOWN or node_id != self.node_id:
            return
        if now - self._known_at > LASTING:
            self._retry.succeeded()
        fresh = self._retry.attempts == 0
        # It may answer some things well and others never: no more than a line or two about it now and then.
        level = logging.INFO if now - self._lost_at > QUIET else logging.DEBUG
        log.log(level, "group %s: lost its coordinator, node %s: %s", self.group_id, node_id, why)
        if level == logging.INFO:
            self._announced = None
        self._lost_at = now
        self._retry.failed(now)
        if fresh:
            self._retry.not_before = now
        self._asks.clear()
        self.version += 1
        self.node_id = None
        self._move(CoordinatorEvent.LOST)

    def answered(self, node_id: int) -> None:
        """Note that ``node_id`` behaves as the coordinator: that ends the backoff.

        Being found does not: a broker that names the wrong node is found out, and asked again, within milliseconds.
        """
        if node_id == self.node_id:
            self._retry.succeeded()
            self._announce(node_id)

    def loading(self, now: float) -> None:
        """Note that the coordinator is reading its log first: it is the right one, and nobody asks it for a while."""
        if now - self._loading.not_before > self._backoff.maximum:
            self._loading.succeeded()
        if now >= self._loading.not_before:
            self._loading.failed(now)
            self._is_loading = True

    def waiting(self, since: float | None, now: float, who: str = "") -> None:
        """Note since when the coordinator owes ``who`` an answer, None for no more. Doubts set in after a while."""
        if since is None:
            self._doubts.pop(who, None)
        else:
            self._doubts[who] = since
        if not self._doubts and self.state is CoordinatorState.KNOWN:
            self._asks.clear()  # it has answered meanwhile: what others say of it does not matter any more

    # -- the manager

    def step(self, now: float) -> list[Request]:
        """Return the question due now, if any."""
        self._is_loading = now < self._loading.not_before
        if now < self._due(now):
            return []
        if self.state is CoordinatorState.UNKNOWN:
            self._move(CoordinatorEvent.ASK)
            return [self._ask(ANY_NODE, now)]
        target = self._somebody_else()
        self._asked_at = now
        return [] if target is None else [self._ask(target, now)]

    def wake_at(self, now: float) -> float:
        """Return when :meth:`step` has something to do by itself."""
        loaded = self._loading.not_before if self._is_loading else NEVER
        return max(now, min(self._due(now), loaded))

    def handle(self, answer: Answer, now: float) -> None:
        """Take a broker's word on who the coordinator is."""
        if answer.request not in self._asks:
            log.debug("group %s: an answer about the coordinator came too late to matter", self.group_id)
            return
        self._asks.remove(answer.request)
        node, error = self._read(answer)
        if node is not None:
            self._found(node, now)
            return
        if self.state is CoordinatorState.FINDING:
            self._retry.failed(now)
            self._note(error, now)
            self._move(CoordinatorEvent.FAILED)

    def restart(self, now: float) -> None:
        """Forget what is under way, since who would have answered is gone; keep what is known."""
        self._asks.clear()
        self._doubts.clear()
        if self.state is CoordinatorState.FINDING:
            self._move(CoordinatorEvent.FAILED)

    # -- inside

    def _move(self, event: CoordinatorEvent) -> None:
        after = next_state(TRANSITIONS, {}, self.state, event, self)
        if after is not None:
            self.state = after

    def _due(self, now: float) -> float:
        """Return when the next question is due."""
        if self.state is CoordinatorState.UNKNOWN:
            return self._retry.not_before if self._wanted else NEVER
        if self.state is CoordinatorState.FINDING:
            return self._asked_at + self._patience
        doubt = min(self._doubts.values(), default=NEVER)
        return max(doubt, self._asked_at) + self._patience

    def _ask(self, target: Target, now: float) -> Request:
        request = Request(self.asker, FindCoordinatorRequest, target, self._build, now + self._request_timeout)
        self._asks.append(request)
        self._asked_at = now
        return request

    def _build(self, version: int) -> Message:
        if version >= 4:
            return FindCoordinatorRequest(coordinator_keys=[self.group_id], key_type=GROUP)
        return FindCoordinatorRequest(key=self.group_id, key_type=GROUP)

    def _somebody_else(self) -> Target | None:
        """Return a node to ask besides: not whom we doubt, nor who has not answered us yet."""
        asked = {request.target.node_id for request in self._asks}
        others = [node_id for node_id in self._metadata.nodes if node_id not in asked and node_id != self.node_id]
        if others:
            return Target(others[self._random.randrange(len(others))])
        return None if self._asks else ANY_NODE

    def _read(self, answer: Answer) -> tuple[Node | None, KafkaError | None]:
        if answer.error is not None:
            return None, answer.error
        response: FindCoordinatorResponse = answer.response
        row = response
        if answer.version >= 4:
            rows = [row for row in response.coordinators if row.key == self.group_id]
            if not rows:
                return None, KafkaError(f"broker {answer.node_id} answered FindCoordinator without our group's id")
            row = rows[0]  # type: ignore[assignment]
        if row.error_code:
            error = to_error(
                row.error_code, api="FindCoordinator", node_id=answer.node_id, detail=row.error_message or ""
            )
            if isinstance(error, GroupAuthorizationFailedError):
                error.group_id = self.group_id
            return None, error
        if row.node_id < 0 or not row.host or not 0 < row.port <= PORT_MAX:
            return None, KafkaError(
                f"broker {answer.node_id} named node {row.node_id} at {row.host!r}:{row.port} as the coordinator"
            )
        known = self._metadata.nodes.get(row.node_id)
        return Node(row.node_id, row.host, row.port, known.rack if known is not None else None), None

    def _found(self, node: Node, now: float) -> None:
        self._metadata.learn_node(node)
        self.error = self.last_error = None
        self._outages.recovered(None, now, f"group {self.group_id}: found the coordinator, node {node.node_id},")
        if node.node_id != self.node_id:
            if self.node_id is not None:
                log.info(
                    "group %s: coordinator node %d does not answer; node %d has taken over",
                    self.group_id,
                    self.node_id,
                    node.node_id,
                )
            self.node_id = node.node_id
            self.version += 1
            self._known_at = now
            self._loading.succeeded()
            self._is_loading = False
            self._doubts.clear()
            self._asks.clear()
        self._move(CoordinatorEvent.FOUND)

    def _announce(self, node_id: int) -> None:
        """Log who it is, once, however often it is lost and found."""
        if node_id != self._announced:
            self._announced = node_id
            node = self._metadata.nodes.get(node_id)
            where = "" if node is None else f" ({node.host}:{node.port})"
            log.info("group %s: the coordinator is node %d%s", self.group_id, node_id, where)

    def _note(self, error: KafkaError | None, now: float) -> None:
        """Keep an error that does not pass by itself, and log any that lasts; connections log their own."""
        self.last_error = error
        if isinstance(error, BrokerResponseError):
            is_raised = rule("FindCoordinator", error.code, Scope.GROUP).action is Action.RAISE
            self.error = error if is_raised else None
            text = f"group {self.group_id}: cannot find the coordinator: {error}"
            self._outages.failed(error.code, now, text, grace=0.0 if is_raised else GRACE)
            if is_raised:
                return
        level = logging.INFO if self._retry.attempts == 1 else logging.DEBUG
        log.log(level, "group %s: no coordinator yet: %s", self.group_id, error)
