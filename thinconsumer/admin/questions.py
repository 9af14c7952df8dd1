"""Asks brokers about many things at once, each until it has an answer: whom, when again, and what is final.

Owns routing (controller, leader, coordinator, one broker, any), retries and time limits. What is asked and how the
answer reads is an :class:`Operation`, one row each in :mod:`.operations`. After Java's ``AdminApiDriver`` and its
lookup strategies.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ..calls import Call
from ..connection.request import ANY_NODE, Answer, Request, Target
from ..errors import (
    BrokerResponseError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from ..failures import Action, Scope, Told, rule
from ..metadata import Metadata
from ..timers import NEVER, Backoff, Random, Retry
from ..types import TopicPartition
from ..wire import Message
from ..wire.error_codes import BY_CODE, Code, to_error
from ..wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Actions that ask another broker than before.
REROUTED = frozenset({Action.REFRESH_METADATA, Action.FIND_CONTROLLER, Action.FIND_COORDINATOR})


class Routing(enum.Enum):
    """Who can answer."""

    ANY = "any broker"
    CONTROLLER = "the controller"
    LEADER = "the leader of the partition that is the key"
    COORDINATOR = "the coordinator of the group that is the key"
    NODE = "the broker whose id is the key"


class Found(NamedTuple):
    """What an answer says about one key: a value, or an error code and the broker's words."""

    key: Any
    value: Any = None
    code: int = Code.NONE
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Operation(Generic[K, V]):
    """One thing that can be asked."""

    api: type[Message]
    errors: tuple[str, Scope]  #: The rules that its error codes are judged by: API and scope.
    routing: Routing
    #: Makes the message for these keys and what is asked of each; the last argument is what is left of the time, in ms.
    build: Callable[[Mapping[K, Any], int, int], Message]
    read: Callable[[Any, int], Iterable[Found]]  #: What a response of a version says.
    one_by_one: bool = False  #: A request has room for one key, in some version.
    min_version: int = 0
    max_version: int = 32767


@dataclass(slots=True, eq=False)
class Question(Generic[K, V]):
    """An operation, what it is asked about, and the answers so far."""

    operation: Operation[K, V]
    items: dict[K, Any]
    call: Call[dict[K, V | KafkaError]]
    deadline: float
    retry: Retry
    every_node: bool = False  #: The keys are the ids of all brokers, as soon as those are known.
    pending: dict[K, None] = field(default_factory=dict)
    in_flight: dict[K, None] = field(default_factory=dict)
    results: dict[K, V | KafkaError] = field(default_factory=dict)
    last_errors: dict[K, KafkaError] = field(default_factory=dict)
    unrouted_in: int = -1  #: Version of the metadata that did not say whom to ask; a newer one is looked at at once.
    #: An attempt was lost: it may have been carried out.
    in_doubt: set[K] = field(default_factory=set)

    def settle(self, key: K, result: V | KafkaError) -> None:
        """Note the one answer about ``key``."""
        self.pending.pop(key, None)
        self.in_flight.pop(key, None)
        self.results.setdefault(key, result)  # an answer that comes after the time is over changes nothing
        self.finish_if_done()

    def finish_if_done(self) -> None:
        """Settle the call when nothing is open any more. Results are in the order of the keys."""
        if not self.every_node and len(self.results) == len(self.items):
            self.call.succeed({key: self.results[key] for key in self.items})


@dataclass(slots=True, eq=False)
class Shipment:
    """One request: some keys of a question."""

    question: Question[Any, Any]
    keys: dict[Any, None]
    node_id: int


class AdminSettings(Protocol):
    """The options this room reads."""

    @property
    def request_timeout_ms(self) -> int: ...
    @property
    def retry_backoff(self) -> Backoff: ...


class Questions:
    """The manager that asks."""

    asker = "admin"

    def __init__(self, settings: AdminSettings, metadata: Metadata, random: Random) -> None:
        self._settings = settings
        self._metadata = metadata
        self._random = random
        self._backoff = settings.retry_backoff
        self._questions: list[Question[Any, Any]] = []
        self._coordinators: dict[str, int] = {}
        self._finding: dict[str, Question[str, int]] = {}
        self._picture: Call[Any] | None = None  #: The latest question for brokers and controller.
        self._picture_not_before = -NEVER
        self._now = 0.0
        #: Returns why no request can be answered, in words; for the message of a timeout.
        self.obstacle: Callable[[], str] = str

    def ask(
        self, operation: Operation[K, V], items: Mapping[K, Any] | None, deadline: float
    ) -> Call[dict[K, V | KafkaError]]:
        """Ask until ``deadline``. Errors are values, each by its key. ``None`` asks every broker, by its id."""
        question = Question(
            operation,
            dict(items or {}),
            Call(operation.api.__name__.removesuffix("Request")),
            deadline,
            Retry(self._backoff, self._random),
            every_node=items is None,
        )
        question.pending = dict.fromkeys(question.items)
        question.finish_if_done()
        self._questions.append(question)
        return question.call

    # -- the manager

    def step(self, now: float) -> list[Request]:
        """Return the requests due now; settle what has run out of time."""
        self._now = now
        requests: list[Request] = []
        for group, finding in list(self._finding.items()):
            self._take_coordinator(group, finding)
        self._questions = [question for question in self._questions if not question.call.over]
        leaders: set[str] = set()
        for question in list(self._questions):
            if now >= question.deadline:
                self._time_out(question)
                continue
            if question.operation.routing is Routing.LEADER:
                leaders.update(tp.topic for tp in (*question.pending, *question.in_flight))
            if question.unrouted_in not in (-1, self._metadata.version) or question.retry.may_send(now):
                question.unrouted_in = -1
                requests += self._requests(question, now)
        self._metadata.want(leaders)
        return requests

    def wake_at(self, now: float) -> float:
        """Return when a backoff or a question's time ends."""
        due = NEVER
        for question in self._questions:
            if not question.call.over:
                due = min(due, question.deadline)
                if question.pending or question.every_node:
                    due = min(due, question.retry.not_before)
        if any(question.call.over for question in self._finding.values()):
            return now
        return max(now, due)

    def handle(self, answer: Answer, now: float) -> None:
        """Take the answer of a request made by :meth:`step`."""
        self._now = now
        shipment: Shipment = answer.request.context
        question, keys = shipment.question, shipment.keys
        if answer.response is None:
            error = answer.error or KafkaError("no answer")
            final = isinstance(error, BrokerResponseError) and not error.retriable
            for key in list(keys):
                if answer.version >= 0:
                    question.in_doubt.add(key)
                self._fail(shipment, key, error, final)
            self._doubt_route(shipment, error)
        else:
            for found in question.operation.read(answer.response, answer.version):
                # ListGroups and the like name no key: their one answer is about the one key asked about.
                key = next(iter(keys), None) if found.key is None else found.key
                if key in keys:
                    self._take(shipment, key, found, answer.node_id)
            for key in list(keys):
                self._fail(shipment, key, KafkaError("the broker left this out of its answer"), False)
        if question.pending:
            question.retry.failed(now)

    def restart(self, now: float) -> None:
        """Drop everything: an exception has ended the call that asked."""
        for question in self._questions:
            question.call.abandoned = True
        self._questions.clear()
        self._finding.clear()
        self._picture = None

    # -- inside: asking

    def _requests(self, question: Question[Any, Any], now: float) -> list[Request]:
        if question.every_node and not self._expand(question, now):
            return []
        shipments: dict[Any, Shipment] = {}
        for key in list(question.pending):
            node_id = self._node_for(question, key)
            if node_id is None:
                continue
            group = (node_id, key if question.operation.one_by_one else None)
            shipment = shipments.setdefault(group, Shipment(question, {}, node_id))
            shipment.keys[key] = None
            del question.pending[key]
            question.in_flight[key] = None
        if question.pending:
            question.unrouted_in = self._metadata.version
            question.retry.failed(now)
        return [self._request(shipment, now) for shipment in shipments.values()]

    def _request(self, shipment: Shipment, now: float) -> Request:
        operation, question = shipment.question.operation, shipment.question
        deadline = min(now + self._settings.request_timeout_ms / 1000, question.deadline)
        left = int((deadline - now) * 1000)
        items = {key: question.items[key] for key in shipment.keys}
        return Request(
            self.asker,
            operation.api,
            ANY_NODE if shipment.node_id < 0 else Target(shipment.node_id),
            lambda version: operation.build(items, version, left),
            deadline,
            shipment,
            operation.min_version,
            lambda: operation.max_version,
        )

    def _expand(self, question: Question[Any, Any], now: float) -> bool:
        """Give the question its keys once the brokers are known."""
        if not self._metadata.nodes:
            self._look_once("no broker is known yet")
            question.unrouted_in = self._metadata.version
            question.retry.failed(now)
            return False
        question.every_node = False
        question.items = dict.fromkeys(self._metadata.nodes)
        question.pending = dict.fromkeys(question.items)
        return True

    def _node_for(self, question: Question[Any, Any], key: Any) -> int | None:
        """Return whom to ask about ``key`` (-1: any broker); None while that is not known, or when it is settled."""
        routing = question.operation.routing
        if routing is Routing.ANY:
            return -1
        if routing is Routing.LEADER:
            return self._leader_of(question, key)
        if routing is Routing.COORDINATOR:
            return self._coordinator_of(question, key)
        node_id = self._metadata.controller_id if routing is Routing.CONTROLLER else int(key)
        if node_id in self._metadata.nodes:
            return node_id
        if routing is Routing.NODE:
            question.settle(key, KafkaConnectionError(f"node {key} is gone from the cluster", node_id=key))
            return None
        question.last_errors.setdefault(key, KafkaError("no controller is known"))
        self._look_once("no controller is known")
        return None

    def _leader_of(self, question: Question[Any, Any], tp: TopicPartition) -> int | None:
        info = self._metadata.leader(tp)
        if info is not None:
            return info.leader
        topic = self._metadata.topics.get(tp.topic)
        error = topic.error if topic is not None else None
        if error is not None and not error.retriable:
            question.settle(tp, error)
            return None
        why = f"no leader known for {tp.topic}-{tp.partition}"
        question.last_errors[tp] = error or KafkaError(why)
        self._metadata.request_update(why)
        return None

    def _coordinator_of(self, question: Question[Any, Any], group: str) -> int | None:
        node_id = self._coordinators.get(group)
        if node_id is not None and node_id in self._metadata.nodes:
            return node_id
        if node_id is not None:
            self._look_once(f"node {node_id}, the coordinator of group {group!r}, is not in the metadata")
        elif group not in self._finding:
            self.ask(FIND_COORDINATOR, {group: None}, question.deadline)
            self._finding[group] = self._questions[-1]
        return None

    def _take_coordinator(self, group: str, question: Question[str, int]) -> None:
        """Take a coordinator that was looked for; if there is none for good, tell whoever wanted to know."""
        if not question.call.over:
            return
        del self._finding[group]
        found = question.results.get(group)
        if isinstance(found, int):
            self._coordinators[group] = found
        for other in self._questions:
            if other.operation.routing is Routing.COORDINATOR and group in other.pending:
                other.retry.not_before = -NEVER
                if isinstance(found, KafkaTimeoutError):
                    other.last_errors[group] = found
                elif isinstance(found, KafkaError):
                    other.settle(group, found)

    def _look_once(self, why: str) -> None:
        """Ask for brokers and controller, unless that is under way.

        Not as fast as brokers answer: a cluster may go on without a controller for long.
        """
        if (self._picture is None or self._picture.over) and self._now >= self._picture_not_before:
            log.debug("asking for brokers and controller: %s", why)
            self._picture = self._metadata.inquire((), why)
            self._picture_not_before = self._now + self._backoff.delay(1, self._random)

    # -- inside: answers

    def _take(self, shipment: Shipment, key: Any, found: Found, node_id: int) -> None:
        question = shipment.question
        if found.code == Code.NONE:
            del shipment.keys[key]
            question.settle(key, found.value)
            return
        api, scope = question.operation.errors
        verdict = rule(api, found.code, scope)
        final = verdict.told is Told.ERROR
        error = self._error(question, key, found, node_id, final)
        if verdict.action in REROUTED or BY_CODE[found.code].refresh_metadata:
            self._doubt_route(shipment, error, key)
        self._fail(shipment, key, error, final)

    def _error(
        self, question: Question[Any, Any], key: Any, found: Found, node_id: int, final: bool
    ) -> BrokerResponseError:
        said = [found.detail] if found.detail else []
        if final and key in question.in_doubt:
            said.append("an earlier attempt, whose answer was lost, may have been carried out")
        tp = key if isinstance(key, TopicPartition) else None
        error = to_error(found.code, api=question.call.what, node_id=node_id, partition=tp, detail="; ".join(said))
        if isinstance(error, TopicAuthorizationFailedError):
            error.topics = (tp.topic if tp else str(key),)
        elif isinstance(error, GroupAuthorizationFailedError):
            error.group_id = str(key)
        return error

    def _fail(self, shipment: Shipment, key: Any, error: KafkaError, final: bool) -> None:
        """Note an error: the answer if it is final, else what the next attempt is for."""
        question = shipment.question
        del shipment.keys[key]
        if final:
            question.settle(key, error)
        elif key not in question.results:
            question.in_flight.pop(key, None)
            question.pending[key] = None
            question.last_errors[key] = question.call.last_error = error

    def _doubt_route(self, shipment: Shipment, error: KafkaError, key: Any = None) -> None:
        """Look again who is to be asked."""
        routing = shipment.question.operation.routing
        if routing is Routing.COORDINATOR:
            for group, node_id in list(self._coordinators.items()):
                if group == key or (key is None and node_id == shipment.node_id):
                    del self._coordinators[group]
        if routing is Routing.CONTROLLER:
            self._metadata.controller_id = -1  # asked again before there is news, it would only refuse again
        if routing is Routing.LEADER:
            self._metadata.request_update(str(error))
        elif routing is not Routing.ANY:
            self._look_once(str(error))

    def _time_out(self, question: Question[Any, Any]) -> None:
        if question.every_node:
            question.call.fail(self._timeout_error(question, None))
        for key in list(question.items):
            if key not in question.results:
                question.settle(key, self._timeout_error(question, key))

    def _timeout_error(self, question: Question[Any, Any], key: Any) -> KafkaTimeoutError:
        finding = self._finding.get(key) if question.operation.routing is Routing.COORDINATOR else None
        asked = question if finding is None else finding
        cause = self.obstacle() or asked.last_errors.get(key) or "no answer yet"
        about = "" if key is None else f" of {key!r}"
        return KafkaTimeoutError(f"{question.call.what}{about}: no result in time; last: {cause}")


def _find_coordinator(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
    (group,) = items
    if version < 4:
        return FindCoordinatorRequest(key=group, key_type=0)
    return FindCoordinatorRequest(coordinator_keys=[group], key_type=0)


def _read_coordinator(response: FindCoordinatorResponse, version: int) -> Iterable[Found]:
    if version < 4:
        yield Found(None, response.node_id, response.error_code, response.error_message)
    for one in response.coordinators:
        yield Found(one.key, one.node_id, one.error_code, one.error_message)


FIND_COORDINATOR: Operation[str, int] = Operation(
    FindCoordinatorRequest,
    ("FindCoordinator", Scope.GROUP),
    Routing.ANY,
    _find_coordinator,
    _read_coordinator,
    one_by_one=True,
)
