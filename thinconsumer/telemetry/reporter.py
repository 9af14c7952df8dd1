"""The manager that asks for a telemetry subscription and pushes metrics by it (KIP-714).

Requests go to a node to which a connection is ready and that has the API, to the same one if possible: the client
connects to no other node for metrics, and a cluster without the API is sent nothing. Follows Java's
``ClientTelemetryReporter``, except that counters which a lost or rejected push was to report are part of the next push.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..config import ConsumerConfig
from ..errors import KafkaError, UnsupportedVersionError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..metrics import MetricValues
from ..network.negotiate import Ranges, choose_version
from ..network.request import Answer, Request, Target
from ..support.agenda import NEVER, Agenda
from ..support.imports import import_uninterrupted
from ..support.lazy_dataclass import dataclass
from ..support.state_machine import next_state
from ..support.timers import Backoff, Random
from ..types import Node
from ..wire import ZERO_UUID, Message
from ..wire.error_codes import Code, to_error
from ..wire.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from .states import TRANSITIONS, TelemetryEvent, TelemetryState
from .subscription import DEFAULT_INTERVAL_S, TelemetrySubscription, id_text

if TYPE_CHECKING:
    from .payload import MetricsEncoder

log = logging.getLogger(__name__)

ASKER = "telemetry"  #: As :data:`.managers.TELEMETRY`.
#: The first push after a subscription comes after a random time between these two multiples of the interval, as in
#: Java: clients that were started together would push together otherwise.
JITTER_MIN, JITTER_MAX = 0.5, 1.5


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the manager needs of the client that it belongs to."""

    nodes: Callable[[], Iterable[Node]]  #: The nodes that metadata name.
    ranges_of: Callable[[int], Ranges]  #: The version ranges of a node, see ``NetworkClient.ranges_of``.
    wall_time: Callable[[], float]
    metrics: Callable[[float], MetricValues]  #: Returns the present metrics.
    labels: Callable[[], dict[str, str]]  #: Returns the attributes of the pushing client, by Kafka's names.


class Telemetry:
    """Asks for a subscription, and pushes metrics while it names any."""

    asker = ASKER

    def __init__(self, settings: ConsumerConfig, surroundings: Surroundings, random: Random, agenda: Agenda) -> None:
        self.state = TelemetryState.SUBSCRIPTION_NEEDED
        self.subscription: TelemetrySubscription | None = None  #: The last one, which may be outdated.
        #: Why the last request got no valid response; None after one that did.
        self.error: KafkaError | None = None
        self._around = surroundings
        self._timeout = settings.request_timeout_ms / 1000
        self._backoff = Backoff(1.0, DEFAULT_INTERVAL_S)
        self._random = random
        self._agenda = agenda
        self._due = agenda.alarm(ASKER)
        self._jitter_min = JITTER_MIN
        self._look_at = -NEVER  #: When to look again for a node that has the API.
        self._failures = 0  #: Consecutive requests for a subscription without a response.
        self._node_id = -1  #: The node of the last response.
        self._in_flight: Request | None = None
        self._encoder: MetricsEncoder | None = None
        self._began = surroundings.wall_time()
        self.outages = OutageLog(log)

    def step(self, now: float) -> list[Request]:
        is_needed = self.state in (TelemetryState.SUBSCRIPTION_NEEDED, TelemetryState.PUSH_NEEDED)
        if not is_needed or self._due.is_ahead(now) or now < self._look_at:
            return []
        target = self._target()
        if target is None:
            if self.is_refused:
                self._look_at = now + DEFAULT_INTERVAL_S  # without an alarm: brokers seldom get the API meanwhile
            else:
                self._agenda.join(ASKER)  # a connection may be ready by the next step
            return []
        if self.state is TelemetryState.PUSH_NEEDED:
            return self._push(target, now, TelemetryEvent.PUSH)
        known_id = ZERO_UUID if self.subscription is None else self.subscription.client_instance_id
        self._move(TelemetryEvent.ASK)
        return [self._send(GetTelemetrySubscriptionsRequest(client_instance_id=known_id), target, now)]

    def close(self, now: float) -> list[Request]:
        """Return the last push, if there is a subscription to push by and a node with a ready connection."""
        target, requests = self._target(), []
        may_push = self.state in (TelemetryState.PUSH_NEEDED, TelemetryState.PUSH_IN_PROGRESS)
        if may_push and target is not None:
            if self.state is TelemetryState.PUSH_IN_PROGRESS and self._encoder is not None:
                self._encoder.confirm()  # it has most likely arrived: otherwise the last push would count it again
            requests = self._push(target, now, TelemetryEvent.LAST_PUSH)
        if not requests and self.state is not TelemetryState.TERMINATED:
            self._move(TelemetryEvent.STOP)
        return requests

    def prepare(self) -> None:
        """Import what pushes need."""
        try:
            encoder = import_uninterrupted("thinconsumer.telemetry.payload")
        except ImportError as error:
            self._stop(KafkaError(f"metrics cannot be pushed: {error}"))
        else:
            self._encoder = self._encoder or encoder.MetricsEncoder(self._began)

    def restart(self, now: float) -> None:
        self._in_flight = None
        if self.state is TelemetryState.SUBSCRIPTION_IN_PROGRESS:
            self._move(TelemetryEvent.ASK_AGAIN)
        elif self.state is TelemetryState.PUSH_IN_PROGRESS:
            self._move(TelemetryEvent.PUSHED)
            self._wait(self._interval, now)

    def handle(self, answer: Answer, now: float) -> bool:
        if answer.request is not self._in_flight:
            return True
        self._in_flight = None
        is_push = answer.request.api is PushTelemetryRequest
        if answer.response is None:
            self._lost(is_push, answer.error or KafkaError("the request got no response"), now)
            return True
        self._node_id = answer.node_id
        self._failures = 0
        api = "PushTelemetry" if is_push else "GetTelemetrySubscriptions"
        code = answer.response.error_code
        self.error = to_error(code, api=api, node_id=answer.node_id) if code else None
        action = rule(api, code, Scope.CONSUMER).action
        if self.error is not None and action is Action.STOP_PUSHING:
            self._stop(self.error)
        elif self.error is not None:
            # Also after a push that was too large: the subscription may name fewer metrics by then.
            self._move(TelemetryEvent.ASK_AGAIN)
            if action is Action.NEW_SUBSCRIPTION:
                self._due.clear()
                # A broker counts the interval from a push that it has rejected on, even if it then gives a new
                # subscription: an earlier push would get THROTTLING_QUOTA_EXCEEDED.
                self._jitter_min = 1.0
            else:
                self.outages.failed(code, now, f"metrics are not pushed for now: {self.error}", grace=GRACE)
                self._wait(self._interval, now)
        elif is_push:
            self._pushed(now)
        else:
            self._subscribed(answer.response, now)
        return True

    @property
    def client_instance_id(self) -> str | None:
        """The id that a broker has assigned, as Kafka's tools show it; None without one."""
        return None if self.subscription is None else id_text(self.subscription.client_instance_id)

    @property
    def is_refused(self) -> bool:
        """Whether the broker takes no metrics, because of :attr:`error`."""
        return self.state is TelemetryState.TERMINATED or isinstance(self.error, UnsupportedVersionError)

    @property
    def _interval(self) -> float:
        return DEFAULT_INTERVAL_S if self.subscription is None else self.subscription.interval_s

    def _lost(self, is_push: bool, error: KafkaError, now: float) -> None:
        """Take a request without a response, mostly because the connection was lost."""
        log.debug("metrics are not pushed for now: %s", error)
        self.error = error.with_traceback(None)  # its frames would keep the consumer alive
        self._move(TelemetryEvent.PUSHED if is_push else TelemetryEvent.ASK_AGAIN)
        if is_push:
            self._wait(self._interval, now)
        else:
            self._failures += 1
            self._wait(self._backoff.delay(self._failures, self._random), now)

    def _pushed(self, now: float) -> None:
        if self._encoder is not None:
            self._encoder.confirm()
        self.outages.recovered(None, now, "metrics are pushed again")
        self._move(TelemetryEvent.PUSHED)
        self._wait(self._interval, now)

    def _subscribed(self, response: Any, now: float) -> None:
        known_id = ZERO_UUID if self.subscription is None else self.subscription.client_instance_id
        found = TelemetrySubscription.of(response, known_id)
        if found.client_instance_id == ZERO_UUID:
            self.error = KafkaError("the broker assigned no client instance id")
            self._move(TelemetryEvent.ASK_AGAIN)
            self._wait(self._interval, now)
            return
        self.subscription = found
        log.debug("telemetry subscription: %s", found)
        if not found.prefixes:
            self._move(TelemetryEvent.ASK_AGAIN)
            self._wait(found.interval_s, now)
            return
        self._move(TelemetryEvent.SUBSCRIBED)
        self.prepare()
        least, self._jitter_min = self._jitter_min, JITTER_MIN
        self._wait(found.interval_s * (least + (JITTER_MAX - least) * self._random.random()), now)

    def _push(self, target: Target, now: float, event: TelemetryEvent) -> list[Request]:
        """Return the push, or nothing if it would be larger than the broker accepts."""
        assert self.subscription is not None
        assert self._encoder is not None
        about, around = self.subscription, self._around
        found = self._encoder.encode(about, around.metrics(now), around.labels(), around.wall_time())
        if found is None:
            text = f"metrics are not pushed: they exceed the broker's telemetry.max.bytes, {about.max_bytes}"
            self.outages.failed(Code.TELEMETRY_TOO_LARGE, now, text)
            self._wait(about.interval_s, now)
            return []
        codec, metrics = found
        self._move(event)
        message = PushTelemetryRequest(
            client_instance_id=about.client_instance_id,
            subscription_id=about.subscription_id,
            terminating=event is TelemetryEvent.LAST_PUSH,
            compression_type=codec,
            metrics=metrics,
        )
        return [self._send(message, target, now)]

    def _send(self, message: Message, target: Target, now: float) -> Request:
        request = Request(ASKER, type(message), target, lambda version: message, now + self._timeout)
        self._in_flight = request
        return request

    def _target(self) -> Target | None:
        """Return a node that has the API and a ready connection, that of the last response if possible.

        If there are only nodes without the API, :attr:`error` says so.
        """
        for node_id in (self._node_id, *(node.node_id for node in self._around.nodes())):
            if ranges := self._around.ranges_of(node_id):
                try:
                    choose_version(GetTelemetrySubscriptionsRequest, ranges, node_id)
                except UnsupportedVersionError as error:
                    self.error = error.with_traceback(None)  # its frames would keep the consumer alive
                else:
                    return Target(node_id)
        return None

    def _stop(self, error: KafkaError) -> None:
        if self.state is not TelemetryState.TERMINATED:
            log.warning("no more metrics are pushed to brokers: %s", error)
            self.error = error
            self._move(TelemetryEvent.STOP)

    def _wait(self, seconds: float, now: float) -> None:
        self._due.set(now + seconds)

    def _move(self, event: TelemetryEvent) -> None:
        self.state = next_state(TRANSITIONS, self.state, event, "telemetry")
