"""Find the coordinator of a group with FindCoordinator, and find it again when another broker has taken over.

Other managers send requests to the coordinator (:mod:`.coordinator_requests`), and report what a response shows about
it (:meth:`Coordinator.report`). A JoinGroup may be pending for minutes on a healthy coordinator as on a stopped one; so
while a response is pending, other brokers are asked whether the group has moved. Follows Java's ``AbstractCoordinator``
and ``CoordinatorRequestManager``; KIP-699.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import BrokerResponseError, KafkaError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..network.metadata import Metadata
from ..network.negotiate import api_name
from ..network.request import ANY_NODE, Answer, Request, Target
from ..support.agenda import Agenda
from ..support.state_machine import next_state
from ..support.timers import NEVER, Backoff, Random, Retry, RetrySettings
from ..types import Node
from ..wire import Message
from ..wire.error_codes import Code, to_error
from ..wire.find_coordinator import FindCoordinatorRequest

if TYPE_CHECKING:
    from .coordinator_requests import CoordinatorRequests

log = logging.getLogger(__name__)

#: The key type of FindCoordinator for a group id.
GROUP = 0
#: The node's general connection, for requests that must not wait behind a JoinGroup without a response.
GENERAL = ""
#: The connection for requests about the membership: a JoinGroup without a response blocks later requests on it.
MEMBERSHIP = "group"
#: The connection for LeaveGroup while a JoinGroup or SyncGroup blocks :data:`MEMBERSHIP`.
LEAVING_CONNECTION = "leave"
PORT_MAX = 65_535
#: If a coordinator was known for longer than this many seconds when it is lost, the search for the next one starts at
#: once, even if the lost coordinator never responded.
LASTING = 60.0
#: A coordinator lost within this many seconds of the previous loss is logged at DEBUG only.
QUIET = 30.0
#: How many characters of a broker's error message are shown.
MESSAGE_MAX = 500


class RequestSettings(RetrySettings, Protocol):
    """The options of requests that are retried."""

    @property
    def request_timeout_ms(self) -> int: ...


class GroupSettings(RequestSettings, Protocol):
    """The options of a group member."""

    @property
    def session_timeout_ms(self) -> int: ...
    @property
    def heartbeat_interval_ms(self) -> int: ...
    @property
    def max_poll_interval_ms(self) -> int: ...


class CoordinatorState(enum.Enum):
    """Name what is known about the coordinator."""

    UNKNOWN = "unknown"  #: Not known, and no request is sent: no manager needs it, or a backoff runs.
    FINDING = "finding"  #: FindCoordinator is in flight.
    KNOWN = "known"  #: Named by a broker, and not reported lost since.


class CoordinatorEvent(enum.Enum):
    """Name what changes the :class:`CoordinatorState`."""

    ASK = "ask"
    FAILED = "failed"  #: FindCoordinator returned an error, or got no response.
    FOUND = "found"  #: A broker has named the coordinator: the first one, or a new one while the old does not respond.
    LOST = "lost"  #: The coordinator returned an error such as NOT_COORDINATOR, or is unreachable.


_S = CoordinatorState
_E = CoordinatorEvent

#: Legal transitions. An event that is not listed for a state is a bug in this package, and raises.
TRANSITIONS: Mapping[CoordinatorState, Mapping[CoordinatorEvent, CoordinatorState]] = {
    # FOUND: FindCoordinator may be in flight to two brokers. One may name the coordinator after the other has failed.
    _S.UNKNOWN: {_E.ASK: _S.FINDING, _E.FOUND: _S.KNOWN},
    _S.FINDING: {_E.FAILED: _S.UNKNOWN, _E.FOUND: _S.KNOWN},
    _S.KNOWN: {_E.FOUND: _S.KNOWN, _E.LOST: _S.UNKNOWN},
}


class Coordinator:
    """Find one group's coordinator, while another manager needs it.

    Each request carries ``asker``, the name of the manager to which its response is given. If FindCoordinator gets no
    response within ``ask_another_after`` seconds, another broker is asked, too.
    """

    def __init__(
        self,
        settings: RequestSettings,
        group_id: str,
        metadata: Metadata,
        random: Random,
        agenda: Agenda,
        *,
        asker: str = "coordinator",
        ask_another_after: float = 3.0,
    ) -> None:
        self.asker = asker
        self.group_id = group_id
        self.state = CoordinatorState.UNKNOWN
        self.node_id: int | None = None
        #: The error of the latest FindCoordinator response, if it lasts until the application acts (a missing ACL, for
        #: example): polls raise it. Requests are repeated, so that a permission granted later ends the error.
        self.error: KafkaError | None = None
        #: The error of the last search, of any kind, while no coordinator is known; else None.
        self.last_error: KafkaError | None = None
        self.agenda = agenda
        self.ask_another_after = ask_another_after
        self._metadata = metadata
        self._random = random
        self._request_timeout = settings.request_timeout_ms / 1000
        self._backoff = Backoff.from_settings(settings)
        self._retry = Retry(self._backoff, random, agenda)
        self._loading = Retry(self._backoff, random, agenda)
        self._silence = agenda.alarm()  #: When another broker may be asked, if a response is missing.
        self._is_loading = False
        self._wanted: set[str] = set()
        self._in_flight: list[Request] = []  #: FindCoordinator requests in flight, except abandoned ones.
        self._sent_at = -NEVER  #: When the last FindCoordinator was sent.
        self._known_at = -NEVER
        self._lost_at = -NEVER
        #: If a request of one of these gets no response for ``ask_another_after`` seconds, other brokers are asked
        #: whether the group has moved.
        self.watched: list[CoordinatorRequests] = []
        self.outages = OutageLog(log)
        self._announced: int | None = None  #: The node that was last logged as the coordinator.

    def __repr__(self) -> str:
        where = "" if self.node_id is None else f" node {self.node_id}"
        return f"<Coordinator of {self.group_id} {self.state.value}{where}>"

    def want(self, manager: str = "") -> None:
        """Search for the coordinator, again after each loss, until the manager calls :meth:`unwant`."""
        if manager not in self._wanted:
            self._wanted.add(manager)
            self.agenda.touch()

    def unwant(self, manager: str = "") -> None:
        """Stop searching on behalf of the manager. A known coordinator stays known."""
        self._wanted.discard(manager)

    def target(self, channel: str = MEMBERSHIP) -> Target | None:
        """Return the coordinator and connection to send to; None while it is unknown or loading."""
        return None if self.node_id is None or self._is_loading else Target(self.node_id, channel)

    def lost(self, node_id: int | None, why: str, now: float) -> None:
        """Note that ``node_id`` is no longer the coordinator, or unreachable, and search again.

        The search starts at once if nothing has failed since a coordinator last responded (or since the start), or if
        this one was known for longer than :data:`LASTING`; else after a backoff.
        """
        if self.state is not CoordinatorState.KNOWN or node_id != self.node_id:
            return
        if now - self._known_at > LASTING:
            self._retry.succeeded()
        # A coordinator that answers some APIs and fails others is lost and found repeatedly: keep the log short.
        level = logging.INFO if now - self._lost_at > QUIET else logging.DEBUG
        log.log(level, "group %s: lost its coordinator, node %s: %s", self.group_id, node_id, why)
        if level == logging.INFO:
            self._announced = None
        self._lost_at = now
        self._retry.failed(now)
        if self._retry.attempts == 1:
            self._retry.pause.set(now)
        self._in_flight.clear()
        self.node_id = None
        self._move(CoordinatorEvent.LOST)

    def answered(self, node_id: int) -> None:
        """Note that ``node_id`` acts as the coordinator, and end the backoff.

        A FindCoordinator response does not end the backoff: if brokers keep naming a node that is not the coordinator,
        a search without backoff would be a tight loop.
        """
        if node_id == self.node_id:
            self._retry.succeeded()
            if node_id != self._announced:
                self._announced = node_id
                node = self._metadata.nodes.get(node_id)
                where = "" if node is None else f" ({node.host}:{node.port})"
                log.info("group %s: the coordinator is node %d%s", self.group_id, node_id, where)

    def loading(self, now: float) -> None:
        """Note COORDINATOR_LOAD_IN_PROGRESS: the node stays the coordinator, and gets no requests during a backoff."""
        if now - self._loading.pause.at > self._backoff.maximum:
            self._loading.succeeded()
        if not self._loading.pause.is_ahead(now):
            self._loading.failed(now)
            self._is_loading = True

    def report(self, action: Action, error: KafkaError | None, answer: Answer, now: float) -> None:
        """Note by a judged answer whether the node serves the group, is loading it, or is no longer its coordinator."""
        node_id = answer.request.target.node_id
        if action is Action.FIND_COORDINATOR:
            self.lost(node_id, str(error), now)
        elif action is Action.WAIT_FOR_COORDINATOR:
            self.loading(now)
        elif answer.response is not None:
            self.answered(node_id)

    def step(self, now: float) -> list[Request]:
        if self._is_loading and not self._loading.pause.is_ahead(now):
            self._is_loading = False
            self.agenda.touch()  # the managers that wait for this backoff were stepped before this one
        if self._in_flight:
            self._drop_needless_search()
        if self.state is CoordinatorState.UNKNOWN:
            if not self._wanted or self._retry.pause.is_ahead(now):
                return []
            self._move(CoordinatorEvent.ASK)
            return [self._ask(ANY_NODE, now)]
        # Ask another broker if FindCoordinator, or a request to the known coordinator, has had no response for
        # ``ask_another_after`` seconds.
        is_searching = self.state is CoordinatorState.FINDING
        if self._silence.is_ahead(now) or not (is_searching or self._pending(silent_at=now)):
            return []
        target = self._other_node()
        self._silence.set(now + self.ask_another_after)
        return [] if target is None else [self._ask(target, now)]

    def handle(self, answer: Answer, now: float) -> None:
        self._drop_needless_search()
        if answer.request not in self._in_flight:
            log.debug("group %s: dropped a late FindCoordinator response", self.group_id)
            return
        self._in_flight.remove(answer.request)
        row: Any = answer.response  # from version 4 on: only its part about this group
        if row is not None and answer.version >= 4:
            row = next((row for row in row.coordinators if row.key == self.group_id), None)
        action, error = self._judge(answer, row)
        if error is None:
            known = self._metadata.nodes.get(row.node_id)
            self._found(Node(row.node_id, row.host, row.port, known.rack if known is not None else None), now)
        elif self.state is CoordinatorState.FINDING:
            self._retry.failed(now)
            self._note(action, error, now)
            self._move(CoordinatorEvent.FAILED)

    def restart(self, now: float) -> None:
        """Forget requests in flight, whose connections are closed; keep a known coordinator."""
        self._in_flight.clear()
        if self.state is CoordinatorState.FINDING:
            self._move(CoordinatorEvent.FAILED)

    def _move(self, event: CoordinatorEvent) -> None:
        self.state = next_state(TRANSITIONS, self.state, event, self)

    def _pending(self, silent_at: float = NEVER) -> list[CoordinatorRequests]:
        """Return the items of :attr:`watched` that have a request to the coordinator in flight.

        With ``silent_at``, only those whose request has had no response for ``ask_another_after`` seconds at that time.
        """
        sent = [(one, one.in_flight) for one in self.watched if one.silence.at <= silent_at]
        return [one for one, request in sent if request is not None and request.target.node_id == self.node_id]

    def _drop_needless_search(self) -> None:
        """End a search once the known coordinator has responded to all requests that were sent before the search."""
        if self.state is CoordinatorState.KNOWN and all(self._sent_at < one.sent_at for one in self._pending()):
            self._in_flight.clear()

    def _ask(self, target: Target, now: float) -> Request:
        request = Request(self.asker, FindCoordinatorRequest, target, self._build, now + self._request_timeout, self)
        self._in_flight.append(request)
        self._sent_at = now
        self._silence.set(now + self.ask_another_after)
        return request

    def _build(self, version: int) -> Message:
        if version >= 4:
            return FindCoordinatorRequest(coordinator_keys=[self.group_id], key_type=GROUP)
        return FindCoordinatorRequest(key=self.group_id, key_type=GROUP)

    def _other_node(self) -> Target | None:
        """Return another node to ask: not the coordinator, nor a node that already has a FindCoordinator in flight.

        If there is none, return any node, or None if a FindCoordinator is in flight.
        """
        asked = {request.target.node_id for request in self._in_flight}
        others = [node_id for node_id in self._metadata.nodes if node_id not in asked and node_id != self.node_id]
        if others:
            return Target(others[self._random.randrange(len(others))])
        return None if self._in_flight else ANY_NODE

    def _judge(self, answer: Answer, row: Any) -> tuple[Action, KafkaError | None]:
        by = f"broker {answer.node_id}"
        if answer.error is None and row is None:
            return Action.RETRY, KafkaError(f"{by} answered FindCoordinator without group {self.group_id!r}")
        action, error = judge(answer, self.group_id, row)
        if error is None and (row.node_id < 0 or not row.host or not 0 < row.port <= PORT_MAX):
            error = KafkaError(f"{by} named an invalid coordinator: node {row.node_id} at {row.host!r}:{row.port}")
        return action, error

    def _found(self, node: Node, now: float) -> None:
        self._metadata.learn_node(node)
        self.error = self.last_error = None
        self.outages.recovered(None, now, f"group {self.group_id}: found the coordinator, node {node.node_id},")
        if node.node_id != self.node_id:
            if self.node_id is not None:
                ids = self.group_id, self.node_id, node.node_id
                log.info("group %s: coordinator node %d does not respond; node %d has taken over", *ids)
            self.node_id = node.node_id
            self._known_at = now
            self._loading.succeeded()
            self._is_loading = False
            self._in_flight.clear()
        self._move(CoordinatorEvent.FOUND)

    def _note(self, action: Action, error: KafkaError, now: float) -> None:
        """Log the error of a failed search, and store it in :attr:`error` if it lasts until the application acts."""
        self.last_error = error
        is_raised = action is Action.RAISE
        if isinstance(error, BrokerResponseError):
            self.error = error if is_raised else None
            text = f"group {self.group_id}: cannot find the coordinator: {error}"
            self.outages.failed(error.code, now, text, grace=0.0 if is_raised else GRACE)
        if not is_raised:
            level = logging.INFO if self._retry.attempts == 1 else logging.DEBUG
            log.log(level, "group %s: no coordinator yet: %s", self.group_id, error)


def judge(
    answer: Answer, group_id: str, row: Any = None, scope: Scope = Scope.GROUP
) -> tuple[Action, KafkaError | None]:
    """Return the action for an answer, and its error. The action for an error without a code is FIND_COORDINATOR.

    ``row`` is the part of the response that has the error code, if the response itself has none.
    """
    row = answer.response if row is None else row
    api, error = api_name(answer.request.api), answer.error
    if error is None and row.error_code != Code.NONE:
        message = (getattr(row, "error_message", None) or "")[:MESSAGE_MAX]
        detail = ": ".join(filter(None, (f"group {group_id}", message)))
        error = to_error(row.error_code, api=api, node_id=answer.node_id, group_id=group_id, detail=detail)
    if isinstance(error, BrokerResponseError):
        return rule(api, error.code, scope).action, error
    return Action.ACCEPT if error is None else Action.FIND_COORDINATOR, error
