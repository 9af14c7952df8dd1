"""The manager that pushes metrics, without a network: what it sends when, to which node, after which response."""

from types import SimpleNamespace

import pytest

from thinconsumer.errors import KafkaConnectionError, UnsupportedVersionError
from thinconsumer.metrics import CONSUMER
from thinconsumer.network.request import Answer, Target
from thinconsumer.support.agenda import Agenda
from thinconsumer.telemetry.reporter import Surroundings, Telemetry
from thinconsumer.telemetry.states import TelemetryState
from thinconsumer.types import Node
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

pytest.importorskip("opentelemetry.proto")

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

HAS_API = {71: (0, 0), 72: (0, 0)}
INTERVAL_S = 10.0


class Bench:
    """A manager, its nodes by id with the version ranges that each has told, and a counter that it pushes."""

    def __init__(self, drawn=0.0, **nodes):
        self.ranges = {int(name[1:]): ranges for name, ranges in (nodes or {"n1": HAS_API}).items()}
        self.looks, self.count = 0, 5.0
        surroundings = Surroundings(
            nodes=lambda: [Node(node_id, "h", 9092) for node_id in self.ranges],
            ranges_of=self.ranges_of,
            wall_time=lambda: 1000.0,
            metrics=lambda now: {CONSUMER: {"request-total": self.count}},
            labels=dict,
        )
        random = SimpleNamespace(random=lambda: drawn)
        self.agenda = Agenda()
        self.manager = Telemetry(SimpleNamespace(request_timeout_ms=1000), surroundings, random, self.agenda)
        self.sent = None

    def ranges_of(self, node_id):
        self.looks += 1
        return self.ranges.get(node_id, {})

    def step(self, now):
        """Return the API that is sent at this time, or None."""
        [self.sent] = self.manager.step(now) or [None]
        return None if self.sent is None else self.sent.api

    def answer(self, now, response=None, error=None, node_id=1):
        assert self.manager.handle(Answer(self.sent, node_id, 0, response, error), now)

    def subscribe(self, now=0.0, node_id=1):
        assert self.step(now) is GetTelemetrySubscriptionsRequest
        self.answer(now, subscription(), node_id=node_id)

    def pushed(self, request):
        """Return the delta in a push."""
        data = MetricsData.FromString(request.build(0).metrics)
        return data.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points[0].as_double

    def next_push(self, now):
        """Return when the next push comes, in tenths of a second from ``now`` on."""
        tenths = next(n for n in range(1000) if self.step(now + n / 10) is not None)
        assert self.sent.api is PushTelemetryRequest
        return tenths / 10


def subscription(**fields):
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=b"i" * 16,
        subscription_id=1,
        push_interval_ms=int(1000 * INTERVAL_S),
        delta_temporality=True,
        requested_metrics=["*"],
        **fields,
    )


@pytest.mark.parametrize(("drawn", "seconds"), [(0.0, 5.0), (0.5, 10.0), (0.999, 15.0)])
def test_the_first_push_comes_at_a_random_time_and_the_others_after_the_interval(drawn, seconds):
    bench = Bench(drawn)
    bench.subscribe()
    assert bench.next_push(0.0) == pytest.approx(seconds, abs=0.1)
    bench.answer(20.0, PushTelemetryResponse())
    assert bench.next_push(20.0) == INTERVAL_S


def test_after_a_rejected_push_a_broker_counts_the_interval_from_that_push_on():
    bench = Bench(0.0)
    bench.subscribe()
    bench.next_push(0.0)
    bench.answer(5.0, PushTelemetryResponse(error_code=int(Code.UNKNOWN_SUBSCRIPTION_ID)))
    bench.subscribe(5.0)
    assert bench.next_push(5.0) == INTERVAL_S
    bench.answer(15.0, PushTelemetryResponse(error_code=int(Code.TELEMETRY_TOO_LARGE)))
    assert bench.step(24.9) is None
    bench.subscribe(25.0)
    assert bench.next_push(25.0) == INTERVAL_S / 2


def test_the_last_push_leaves_out_what_the_one_in_flight_reports():
    bench = Bench()
    bench.subscribe()
    bench.next_push(0.0)
    assert bench.pushed(bench.sent) == 5
    bench.count = 7.0
    [last] = bench.manager.close(6.0)
    assert last.build(0).terminating
    assert bench.pushed(last) == 2
    assert bench.manager.step(1000.0) == []
    bench.answer(6.1, PushTelemetryResponse())
    assert bench.manager.state is TelemetryState.TERMINATING_PUSH_IN_PROGRESS


@pytest.mark.parametrize("steps", [0, 1])
def test_without_a_subscription_there_is_no_last_push(steps):
    bench = Bench()
    for _ in range(steps):
        bench.step(0.0)
    assert bench.manager.close(1.0) == []
    assert bench.manager.state is TelemetryState.TERMINATED
    assert bench.manager.close(1.0) == []


def test_after_a_restart_requests_in_flight_are_sent_again_and_pushes_in_the_next_interval():
    bench = Bench()
    bench.step(0.0)
    bench.manager.restart(1.0)
    bench.subscribe(1.0)
    bench.next_push(1.0)
    bench.manager.restart(6.0)
    assert bench.step(15.9) is None
    assert bench.step(16.0) is PushTelemetryRequest


def test_requests_go_to_the_node_that_has_answered_for_as_long_as_it_is_connected():
    bench = Bench(n1=HAS_API, n2=HAS_API, n3={})
    bench.ranges[1] = {}
    bench.subscribe(node_id=2)
    bench.ranges[1] = HAS_API
    bench.next_push(0.0)
    assert bench.sent.target == Target(2)
    bench.answer(5.0, PushTelemetryResponse(), node_id=2)
    bench.ranges[2] = {}
    bench.next_push(5.0)
    assert bench.sent.target == Target(1)


def test_nodes_without_the_api_are_looked_at_every_five_minutes():
    bench = Bench(n1={3: (0, 13)}, n2={})
    assert bench.step(0.0) is None
    assert isinstance(bench.manager.error, UnsupportedVersionError) and bench.manager.is_refused
    looks = bench.looks
    assert bench.step(299.0) is None
    assert (bench.looks, bench.agenda.joining, bench.agenda.entries) == (looks, {}, [])
    bench.ranges[2] = HAS_API
    assert bench.step(300.0) is GetTelemetrySubscriptionsRequest
    assert bench.sent.target == Target(2)


def test_lost_requests_for_a_subscription_are_repeated_ever_more_rarely():
    bench, now, pauses = Bench(), 0.0, []
    for _ in range(12):
        pause = next(n for n in range(400) if bench.step(now + n) is not None)
        now += pause
        pauses.append(pause)
        bench.answer(now, error=KafkaConnectionError("gone"))
    assert pauses[0] == 0 and pauses[1] == 1
    assert pauses == sorted(pauses) and 240 <= pauses[-1] <= 300


def test_a_lost_push_is_followed_by_one_with_what_it_had_after_the_interval():
    bench = Bench()
    bench.subscribe()
    bench.next_push(0.0)
    bench.answer(5.0, error=KafkaConnectionError("gone"))
    bench.count = 6.0
    assert bench.next_push(5.0) == INTERVAL_S
    assert bench.pushed(bench.sent) == 6


def test_a_late_response_changes_nothing():
    bench = Bench()
    bench.step(0.0)
    late = bench.sent
    bench.manager.restart(1.0)
    bench.manager.handle(Answer(late, 1, 0, subscription()), 2.0)
    assert bench.manager.subscription is None
