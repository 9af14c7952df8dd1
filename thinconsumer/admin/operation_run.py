"""Runs one operation of the admin: routes each key to a broker, retries it, and keeps its result or error.

After Java's ``AdminApiDriver`` and its lookup strategies.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

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


class SentKeys(NamedTuple):
    """The context of a request: what its answer belongs to."""

    run: OperationRun[Any, Any]
    operation: Operation[Any, Any]  #: The operation of the run, or its fallback.
    keys: dict[Any, None]  #: The request's keys that are not handled yet.
    node_id: int  #: The broker; -1 for any.

    def falls_back(self, error: KafkaError) -> bool:
        """Return whether keys with this error are to be sent again, with the fallback operation."""
        api, scope = self.operation.policy
        code = error.code if isinstance(error, BrokerResponseError) else Code.NONE
        return rule(api, code, scope).action is Action.USE_CLASSIC_API


class OperationRun(Generic[K, V]):
    """The manager of one operation: sends its requests, and applies the responses to their keys.

    Args:
        items: the argument of each key (a topic, group or broker). None sends a request to every broker; the keys are
            the node ids.
        deadline: when the admin's call ends, and calls :meth:`time_out`.
    """

    asker = "admin"

    def __init__(
        self,
        operation: Operation[K, V],
        items: Mapping[K, Any] | None,
        deadline: float,
        settings: ClientOptions,
        metadata: Metadata,
        random: Random,
        agenda: Agenda,
    ) -> None:
        self._operation = operation
        self._items: dict[K, Any] | None = None if items is None else dict(items)  #: None until the keys are known.
        self._unsent: dict[K, None] = dict.fromkeys(items or ())
        self._deadline = deadline
        self._settings, self._metadata, self._random, self._agenda = settings, metadata, random, agenda
        self._coordinators: dict[Any, Coordinator] = {}  #: By group, if the requests go to coordinators.
        backoff = Backoff.from_settings(settings)
        self._retry = Retry(backoff, random, agenda)
        self._lookups = Retry(backoff, random, agenda)  #: The backoff of metadata requests for brokers and controller.
        self._cluster_call: Call[Any] | None = None  #: The latest metadata request for brokers and controller.
        self._fallen_back: set[K] = set()  #: Keys that are sent with the operation's fallback.
        self._results: dict[K, V | KafkaError] = {}
        self._last_errors: dict[K, KafkaError] = {}
        #: Keys of requests that were written but got no response, so that the broker may have executed them.
        self._maybe_executed: set[K] = set()
        self._now = 0.0

    @property
    def is_done(self) -> bool:
        return self._items is not None and len(self._results) == len(self._items)

    @property
    def results(self) -> dict[K, V | KafkaError]:
        """The results, in the order of the keys."""
        return {key: self._results[key] for key in self._items or ()}

    def time_out(self, obstacle: str) -> None:
        """Give each key without a result a KafkaTimeoutError.

        It names ``obstacle``, the reason why brokers do not respond; if that is empty, the key's last error.

        Raises:
            KafkaTimeoutError: no broker is known yet, and the operation is for all of them.
        """
        if self._items is None:
            raise KafkaTimeoutError(f"{self._operation.name}: no result in time; last: {obstacle or 'no answer yet'}")
        for key in self._items:
            cause = obstacle or self._last_errors.get(key) or "no answer yet"
            error = KafkaTimeoutError(f"{self._operation.name} of {key!r}: no result in time; last: {cause}")
            self._results.setdefault(key, error)
        self._unsent.clear()

    def step(self, now: float) -> list[Request]:
        self._now = now
        requests: list[Request] = []
        if self._retry.may_send(now):
            requests += self._requests(now)
        for group, coordinator in self._coordinators.items():
            if group in self._unsent and coordinator.node_id is None:
                requests += coordinator.step(now)
        return requests

    def handle(self, answer: Answer, now: float) -> None:
        self._now = now
        sent = answer.request.context
        # Answers to an operation that has timed out are dropped.
        if isinstance(sent, Coordinator):
            if self._coordinators.get(sent.group_id) is sent:
                sent.handle(answer, now)
                self._apply_lookup(sent)
        elif sent.run is self:
            asked = list(sent.keys)
            self._apply_answer(sent, answer)
            if any(key in self._unsent and self._operation_of(key) is sent.operation for key in asked):
                self._retry.failed(now)

    def restart(self, now: float) -> None:
        self._cluster_call = None
        for coordinator in self._coordinators.values():
            coordinator.restart(now)

    def _apply_answer(self, sent: SentKeys, answer: Answer) -> None:
        keys = sent.keys
        if answer.response is None:
            error = answer.error or KafkaError("no response")
            final = isinstance(error, BrokerResponseError) and not error.retriable
            if answer.version >= 0:
                self._maybe_executed.update(keys)
            for key in list(keys):
                self._fail(sent, key, error, final)
            if not sent.falls_back(error):
                self._invalidate_route(sent, error)
            return
        for found in sent.operation.read(answer.response, answer.version):
            key = next(iter(keys), None) if found.key is None else found.key
            if key in keys:
                self._apply(sent, key, found, answer.node_id)
        for key in list(keys):
            self._fail(sent, key, KafkaError("the response lacks this key"), False)

    def _operation_of(self, key: K) -> Operation[K, V]:
        return self._operation.fallback or self._operation if key in self._fallen_back else self._operation

    def _requests(self, now: float) -> Iterable[Request]:
        if self._items is None:
            if not self._metadata.has_brokers:
                self._look_up_cluster("no broker is known yet")
                return ()
            self._items = dict.fromkeys(self._metadata.nodes)  # type: ignore[arg-type] # the keys are node ids
            self._unsent = dict.fromkeys(self._items)
        requests: dict[Any, SentKeys] = {}
        for key in list(self._unsent):
            node_id = self._node_for(key)
            if node_id is None:
                continue
            operation = self._operation_of(key)
            group = node_id, operation.api, key if operation.one_by_one else None
            sent = requests.setdefault(group, SentKeys(self, operation, {}, node_id))
            sent.keys[key] = None
            del self._unsent[key]
        return [self._request(one, self._items, now) for one in requests.values()]

    def _request(self, sent: SentKeys, items: Mapping[K, Any], now: float) -> Request:
        operation = sent.operation
        deadline = min(now + self._settings.request_timeout_ms / 1000, self._deadline)
        left = int((deadline - now) * 1000)
        wanted = {key: items[key] for key in sent.keys}
        return Request(
            self.asker,
            operation.api,
            ANY_NODE if sent.node_id < 0 else Target(sent.node_id),
            lambda version: operation.build(wanted, version, left),
            deadline,
            sent,
            operation.min_version,
            lambda: operation.max_version,
        )

    def _node_for(self, key: Any) -> int | None:
        """Return the node for ``key``; -1: any broker; None: not known yet, or ``key`` was settled with an error."""
        routing, coordinators = self._operation.routing, self._coordinators
        if routing is Routing.ANY:
            return -1
        if routing is Routing.COORDINATOR:
            if key not in coordinators:
                shared = self._metadata, self._random, self._agenda
                coordinators[key] = Coordinator(self._settings, key, *shared, asker=self.asker)
                coordinators[key].want()
            return coordinators[key].node_id
        node_id = self._metadata.controller_id if routing is Routing.CONTROLLER else int(key)
        if node_id in self._metadata.nodes:
            return node_id
        if routing is Routing.NODE:
            self._settle(key, KafkaConnectionError(f"node {key} has left the cluster", node_id=key))
            return None
        self._last_errors.setdefault(key, KafkaError("no controller is known"))
        self._look_up_cluster("no controller is known")
        return None

    def _apply_lookup(self, coordinator: Coordinator) -> None:
        group: Any = coordinator.group_id
        error = coordinator.last_error
        if group in self._unsent and error is not None:
            self._last_errors[group] = error
            if error is coordinator.error:
                self._settle(group, error)

    def _look_up_cluster(self, why: str) -> None:
        """Request brokers and controller, unless such a request is under way, or the backoff after the last one lasts.

        Without the backoff, a cluster that has no controller for long would receive metadata requests in a busy loop.
        """
        if (self._cluster_call is None or self._cluster_call.over) and self._lookups.may_send(self._now):
            log.debug("requesting metadata of brokers and controller: %s", why)
            self._cluster_call = self._metadata.inquire((), why)
            self._lookups.failed(self._now)

    def _apply(self, sent: SentKeys, key: Any, found: KeyResult, node_id: int) -> None:
        if found.code == Code.NONE:
            del sent.keys[key]
            self._settle(key, found.value)
            if self._operation.routing is Routing.COORDINATOR:
                self._coordinators[key].answered(node_id)
            return
        api, scope = sent.operation.policy
        action = rule(api, found.code, scope).action
        final = action.told is Told.ERROR
        error = self._error(key, found, node_id, final)
        if action in REROUTED or BY_CODE[found.code].refresh_metadata:
            self._invalidate_route(sent, error, key)
        self._fail(sent, key, error, final)

    def _error(self, key: Any, found: KeyResult, node_id: int, final: bool) -> BrokerResponseError:
        details = [found.detail] if found.detail else []
        if final and key in self._maybe_executed:
            details.append("an earlier attempt, whose response was lost, may have been executed")
        detail, api = "; ".join(details), self._operation.name
        error = to_error(found.code, api=api, node_id=node_id, group_id=str(key), detail=detail)
        if isinstance(error, TopicAuthorizationFailedError):
            error.topics = (str(key),)
        return error

    def _settle(self, key: Any, result: Any) -> None:
        """Keep a key's result; a later result of the same key is dropped."""
        self._unsent.pop(key, None)
        self._results.setdefault(key, result)

    def _fail(self, sent: SentKeys, key: Any, error: KafkaError, final: bool) -> None:
        """Settle a key with a final error, or queue it for another attempt or for the fallback operation."""
        del sent.keys[key]
        if sent.falls_back(error):
            self._fallen_back.add(key)
            self._unsent[key] = None
        elif final:
            self._settle(key, error)
        elif key not in self._results:
            self._unsent[key] = None
            self._last_errors[key] = error

    def _invalidate_route(self, sent: SentKeys, error: KafkaError, key: Any = None) -> None:
        """Look up the broker of a failed request again, unless any broker may take the request.

        If the broker was a coordinator, look up that of the group ``key`` (None: of all groups that it coordinated).
        """
        routing, coordinators = self._operation.routing, self._coordinators
        if routing is Routing.COORDINATOR:
            for group in coordinators if key is None else (key,):
                coordinators[group].lost(sent.node_id, str(error), self._now)
            return
        if routing is Routing.CONTROLLER:
            # The node may not be the controller any more: it would then reject the next request, too.
            self._metadata.controller_id = -1
        if routing is not Routing.ANY:
            self._look_up_cluster(str(error))
