"""Runs the admin's operations: routes each key to a broker, retries it, and settles it with a result or an error.

:mod:`.operations` says how a request is built and its response is read. After Java's ``AdminApiDriver`` and its lookup
strategies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..config import ClientOptions
from ..errors import (
    BrokerResponseError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from ..failures import Action, Told, rule
from ..group.coordinator import Coordinator
from ..network.metadata import Metadata
from ..network.request import ANY_NODE, Answer, Request, Target
from ..support.agenda import Agenda
from ..support.calls import Call
from ..support.timers import Backoff, Random, Retry
from ..wire.error_codes import BY_CODE, Code, to_error
from .operations import KeyResult, Operation, Routing

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Actions after an error code by which the client looks up the controller or coordinator again, so that the next
#: attempt may be sent to another broker.
REROUTED = frozenset({Action.REFRESH_METADATA, Action.FIND_CONTROLLER, Action.FIND_COORDINATOR})


@dataclass(slots=True, eq=False)
class PendingOperation(Generic[K, V]):
    """An operation under way: its keys (topics, groups or brokers) with their arguments, and the results so far."""

    operation: Operation[K, V]
    items: dict[K, Any]
    call: Call[dict[K, V | KafkaError]]
    deadline: float
    retry: Retry
    #: Whether the operation is for all brokers but no broker is known yet; the keys will be the brokers' node ids.
    needs_nodes: bool = False
    unsent: dict[K, None] = field(default_factory=dict)
    results: dict[K, V | KafkaError] = field(default_factory=dict)
    last_errors: dict[K, KafkaError] = field(default_factory=dict)
    #: The version of the metadata that had no broker for some key's request; -1 if every key had one. When newer
    #: metadata arrives, the request is tried at once, without waiting for the backoff.
    unrouted_in: int = -1
    #: Keys of requests that were written but got no response, so that the broker may have executed them.
    maybe_executed: set[K] = field(default_factory=set)
    #: The coordinator of each group, if the keys are group ids.
    coordinators: dict[K, Coordinator] = field(default_factory=dict)
    #: Keys for which the request of ``operation.fallback`` is sent.
    fallen_back: set[K] = field(default_factory=set)

    def operation_for(self, key: K) -> Operation[K, V]:
        """Return the operation that determines the request for a key."""
        fallback = self.operation.fallback
        return fallback if fallback is not None and key in self.fallen_back else self.operation

    def searches(self) -> list[Coordinator]:
        """Return the coordinators to find: those of groups with a request that waits to be sent."""
        return [found for key, found in self.coordinators.items() if key in self.unsent and found.node_id is None]

    def settle(self, key: K, result: V | KafkaError) -> None:
        """Store a key's result; a later result of the same key is dropped."""
        self.unsent.pop(key, None)
        self.results.setdefault(key, result)
        self.finish_if_done()

    def finish_if_done(self) -> None:
        """Settle the call once every key has a result. Results are in the order of the keys."""
        if not self.needs_nodes and len(self.results) == len(self.items):
            self.call.succeed({key: self.results[key] for key in self.items})


@dataclass(slots=True, eq=False)
class OperationRequest:
    """The context of one request: the operation, those of its keys that have no result yet, and the node."""

    pending: PendingOperation[Any, Any]
    operation: Operation[Any, Any]  #: ``pending.operation`` or its fallback.
    keys: dict[Any, None]
    node_id: int  #: The broker; -1 for any.
    has_failed: bool = False  #: Whether the request has to be repeated for some key.


class OperationManager:
    """Send the requests of the admin's operations, and apply the responses to their keys."""

    asker = "admin"

    def __init__(self, settings: ClientOptions, metadata: Metadata, random: Random, agenda: Agenda) -> None:
        self._settings = settings
        self._agenda = agenda
        self._backoff = Backoff.from_settings(settings)
        self._metadata = metadata
        self._random = random
        self._operations: list[PendingOperation[Any, Any]] = []
        #: The latest metadata request for the brokers and the controller; no other is sent while it is pending.
        self._cluster_call: Call[Any] | None = None
        self._cluster_pause = agenda.alarm()  #: Its end: no other is sent before.
        self._expiry = agenda.alarm(self.asker)  #: The first deadline of an operation.
        self._now = 0.0
        #: Returns the reason why brokers do not respond, for the message of a timeout; empty if there is none.
        self.obstacle: Callable[[], str] = str

    def start(
        self, operation: Operation[K, V], items: Mapping[K, Any] | None, deadline: float
    ) -> Call[dict[K, V | KafkaError]]:
        """Run an operation until ``deadline``; a failed key has its error as result.

        ``items`` has the argument of each key. None sends a request to every broker; the keys are the node ids.
        """
        pending = PendingOperation(
            operation,
            dict(items or {}),
            Call(operation.name),
            deadline,
            Retry(self._backoff, self._random, self._agenda),
            needs_nodes=items is None,
        )
        pending.unsent = dict.fromkeys(pending.items)
        pending.finish_if_done()
        self._operations.append(pending)
        self._agenda.touch(self.asker)
        return pending.call

    def step(self, now: float) -> list[Request]:
        """Return the requests due now; fail the expired keys."""
        self._now = now
        requests: list[Request] = []
        self._operations = [pending for pending in self._operations if not pending.call.over]
        if self._operations:
            self._expiry.set(min(pending.deadline for pending in self._operations))
        for pending in self._operations:
            if now >= pending.deadline:
                self._time_out(pending)
                continue
            if pending.unrouted_in not in (-1, self._metadata.version) or pending.retry.may_send(now):
                pending.unrouted_in = -1
                requests += self._requests(pending, now)
            for coordinator in pending.searches():
                requests += coordinator.step(now)
        return requests

    def handle(self, answer: Answer, now: float) -> None:
        """Apply the response or failure of a request."""
        self._now = now
        if isinstance(answer.request.context, Coordinator):
            answer.request.context.handle(answer, now)
            self._apply_lookup(answer.request.context)
            return
        sent: OperationRequest = answer.request.context
        pending, keys = sent.pending, sent.keys
        if answer.response is None:
            self._apply_error(sent, answer.error or KafkaError("no response"), answer.version >= 0)
        else:
            for found in sent.operation.read(answer.response, answer.version):
                key = next(iter(keys), None) if found.key is None else found.key
                if key in keys:
                    self._apply(sent, key, found, answer.node_id)
            for key in list(keys):
                self._fail(sent, key, KafkaError("the response lacks this key"), False)
        if sent.has_failed:
            pending.retry.failed(now)

    def restart(self, now: float) -> None:
        """Abandon every operation: an exception such as Ctrl-C has ended the blocking call that needed the result."""
        for pending in self._operations:
            pending.call.abandoned = True
        self._operations.clear()
        self._cluster_call = None

    def _requests(self, pending: PendingOperation[Any, Any], now: float) -> list[Request]:
        if pending.needs_nodes and not self._set_nodes(pending, now):
            return []
        requests: dict[Any, OperationRequest] = {}
        for key in list(pending.unsent):
            node_id = self._node_for(pending, key)
            if node_id is None:
                continue
            operation = pending.operation_for(key)
            group = (node_id, operation.api, key if operation.one_by_one else None)
            sent = requests.setdefault(group, OperationRequest(pending, operation, {}, node_id))
            sent.keys[key] = None
            del pending.unsent[key]
        if pending.unsent:
            pending.unrouted_in = self._metadata.version
            pending.retry.failed(now)
        return [self._request(one, now) for one in requests.values()]

    def _request(self, sent: OperationRequest, now: float) -> Request:
        operation, pending = sent.operation, sent.pending
        deadline = min(now + self._settings.request_timeout_ms / 1000, pending.deadline)
        left = int((deadline - now) * 1000)
        items = {key: pending.items[key] for key in sent.keys}
        return Request(
            self.asker,
            operation.api,
            ANY_NODE if sent.node_id < 0 else Target(sent.node_id),
            lambda version: operation.build(items, version, left),
            deadline,
            sent,
            operation.min_version,
            lambda: operation.max_version,
        )

    def _set_nodes(self, pending: PendingOperation[Any, Any], now: float) -> bool:
        """Set the keys to the ids of all brokers; return False while no broker is known."""
        if not self._metadata.has_brokers:
            self._refresh_cluster("no broker is known yet")
            pending.unrouted_in = self._metadata.version
            pending.retry.failed(now)
            return False
        pending.needs_nodes = False
        pending.items = dict.fromkeys(self._metadata.nodes)
        pending.unsent = dict.fromkeys(pending.items)
        return True

    def _node_for(self, pending: PendingOperation[Any, Any], key: Any) -> int | None:
        """Return the node for ``key``; -1: any broker; None: not known yet, or ``key`` was settled with an error."""
        routing = pending.operation.routing
        if routing is Routing.ANY:
            return -1
        if routing is Routing.COORDINATOR:
            if key not in pending.coordinators:
                parts = self._settings, key, self._metadata, self._random, self._agenda
                coordinator = Coordinator(*parts, asker=self.asker)
                coordinator.want()
                pending.coordinators[key] = coordinator
            return pending.coordinators[key].node_id
        node_id = self._metadata.controller_id if routing is Routing.CONTROLLER else int(key)
        if node_id in self._metadata.nodes:
            return node_id
        if routing is Routing.NODE:
            pending.settle(key, KafkaConnectionError(f"node {key} has left the cluster", node_id=key))
            return None
        pending.last_errors.setdefault(key, KafkaError("no controller is known"))
        self._refresh_cluster("no controller is known")
        return None

    def _apply_lookup(self, coordinator: Coordinator) -> None:
        """Apply a FindCoordinator response to the operation that waits for it."""
        group, error = coordinator.group_id, coordinator.last_error
        for pending in self._operations:
            if pending.coordinators.get(group) is not coordinator or group not in pending.unsent:
                continue
            if error is None:
                pending.retry.pause.clear()
            elif error is coordinator.error:
                pending.settle(group, error)
            else:
                pending.last_errors[group] = error

    def _refresh_cluster(self, why: str) -> None:
        """Request brokers and controller with a backoff, unless a request is under way.

        Without the backoff, a cluster that has no controller for long would receive metadata requests in a busy loop.
        """
        if (self._cluster_call is None or self._cluster_call.over) and not self._cluster_pause.is_ahead(self._now):
            log.debug("requesting metadata of brokers and controller: %s", why)
            self._cluster_call = self._metadata.inquire((), why)
            self._cluster_pause.set(self._now + self._backoff.delay(1, self._random))

    def _apply_error(self, sent: OperationRequest, error: KafkaError, was_written: bool) -> None:
        """Apply the error of a request without a response to all of its keys."""
        code = error.code if isinstance(error, BrokerResponseError) else Code.NONE
        if _action(sent.operation, code) is Action.USE_CLASSIC_API:
            for key in list(sent.keys):
                self._fall_back(sent, key)
            return
        final = isinstance(error, BrokerResponseError) and not error.retriable
        for key in list(sent.keys):
            if was_written:
                sent.pending.maybe_executed.add(key)
            self._fail(sent, key, error, final)
        self._invalidate_route(sent, error)

    def _apply(self, sent: OperationRequest, key: Any, found: KeyResult, node_id: int) -> None:
        pending = sent.pending
        if found.code == Code.NONE:
            del sent.keys[key]
            pending.settle(key, found.value)
            if pending.operation.routing is Routing.COORDINATOR:
                pending.coordinators[key].answered(node_id)
            return
        action = _action(sent.operation, found.code)
        if action is Action.USE_CLASSIC_API:
            self._fall_back(sent, key)
            return
        final = action.told is Told.ERROR
        error = self._error(sent, key, found, node_id, final)
        if action in REROUTED or BY_CODE[found.code].refresh_metadata:
            self._invalidate_route(sent, error, key)
        self._fail(sent, key, error, final)

    def _error(
        self, sent: OperationRequest, key: Any, found: KeyResult, node_id: int, final: bool
    ) -> BrokerResponseError:
        details = [found.detail] if found.detail else []
        if final and key in sent.pending.maybe_executed:
            details.append("an earlier attempt, whose response was lost, may have been executed")
        detail, api = "; ".join(details), sent.operation.name
        error = to_error(found.code, api=api, node_id=node_id, group_id=str(key), detail=detail)
        if isinstance(error, TopicAuthorizationFailedError):
            error.topics = (str(key),)
        return error

    def _fail(self, sent: OperationRequest, key: Any, error: KafkaError, final: bool) -> None:
        """Settle a key with a final error, or queue it for another attempt."""
        pending = sent.pending
        del sent.keys[key]
        if final:
            pending.settle(key, error)
        elif key not in pending.results:
            sent.has_failed = True
            pending.unsent[key] = None
            pending.last_errors[key] = pending.call.last_error = error

    def _fall_back(self, sent: OperationRequest, key: Any) -> None:
        """Queue a key for the request of ``operation.fallback``, without a backoff."""
        del sent.keys[key]
        if key not in sent.pending.results:
            sent.pending.fallen_back.add(key)
            sent.pending.unsent[key] = None

    def _invalidate_route(self, sent: OperationRequest, error: KafkaError, key: Any = None) -> None:
        """Forget the route of a key (None: of all keys of the request) and look it up again."""
        routing = sent.pending.operation.routing
        if routing is Routing.COORDINATOR:
            coordinators = sent.pending.coordinators
            for group in coordinators if key is None else (key,):
                coordinators[group].lost(sent.node_id, str(error), self._now)
            return
        if routing is Routing.CONTROLLER:
            # The node in the cache is not the controller any more, and would reject the next request, too.
            self._metadata.controller_id = -1
        if routing is not Routing.ANY:
            self._refresh_cluster(str(error))

    def _time_out(self, pending: PendingOperation[Any, Any]) -> None:
        if pending.needs_nodes:
            pending.call.fail(self._timeout_error(pending, None))
        for key in list(pending.items):
            if key not in pending.results:
                pending.settle(key, self._timeout_error(pending, key))

    def _timeout_error(self, pending: PendingOperation[Any, Any], key: Any) -> KafkaTimeoutError:
        cause = self.obstacle() or pending.last_errors.get(key) or "no answer yet"
        about = "" if key is None else f" of {key!r}"
        return KafkaTimeoutError(f"{pending.call.what}{about}: no result in time; last: {cause}")


def _action(operation: Operation[Any, Any], code: int) -> Action:
    api, scope = operation.policy
    return rule(api, code, scope).action
