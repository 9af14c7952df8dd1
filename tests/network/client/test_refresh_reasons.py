"""Reasons to refresh metadata: broken connections, and nodes that requests cannot reach."""

import pytest

from thinconsumer.network.request import ANY_NODE, Target
from thinconsumer.network.route import SLOW_ATTEMPT
from thinconsumer.types import Node


@pytest.fixture
def bench(make_bench):
    """Connected to node 1, and nothing in flight."""
    bench = make_bench(2)
    bench.know()
    bench.send(Target(1))
    assert bench.run(1.0) == [] and bench.client.is_ready(1)
    return bench


def test_a_broken_connection_is_one_refresh_reason_even_without_requests_in_flight(bench):
    bench.network.kill("kafka1", 9092)
    (reason,) = bench.run(5.0)
    assert reason.startswith("node 1: backing off") and "connection reset" in reason


@pytest.mark.parametrize("fault", ["kill", "black_hole"])
def test_an_unreachable_node_is_a_refresh_reason_while_a_request_waits(bench, fault):
    """The host may drop packets: an attempt then fails after 20 s, too late for a refresh."""
    bench.network.reset("kafka1", 9092)
    getattr(bench.network, fault)("kafka1", 9092)
    assert len(bench.run(0.01)) == 1
    bench.send(Target(1))
    assert bench.run(0.01)
    if fault == "black_hole":
        assert bench.run(5.0)


def test_a_first_attempt_is_a_refresh_reason_once_it_is_slow(bench):
    bench.network.black_hole("kafka2", 9092)
    bench.send(Target(2))
    assert bench.run(SLOW_ATTEMPT - 0.01) == []
    assert bench.run(0.02)


@pytest.mark.parametrize(
    "end",
    [
        lambda bench: bench.cluster.clock.advance(700.0),
        lambda bench: bench.client.update_nodes([]),
        lambda bench: bench.client.rebootstrap(bench.now),
        lambda bench: bench.client.update_nodes([Node(1, "elsewhere", 9092)]),
    ],
    ids=["idle", "gone", "rebootstrap", "moved"],
)
def test_a_connection_closed_by_the_client_is_no_refresh_reason(bench, end):
    end(bench)
    assert bench.run(1.0) == []
    assert not bench.client.any_ready()


def test_bootstrap_servers_are_no_refresh_reason(make_bench):
    """Metadata does not name them, so a refresh would change nothing about them."""
    bench = make_bench(2)
    bench.send(ANY_NODE)
    bench.run(1.0)
    assert bench.client.any_ready()
    for name in ("kafka1", "kafka2"):
        bench.network.kill(name, 9092)
    bench.send(ANY_NODE)
    assert bench.run(3.0) == []
    assert not bench.client.any_ready()


def test_a_pause_while_connecting_counts_only_up_to_wake_at(make_bench):
    """The bytes received at its end extend the setup; the outage must not count the pause before."""
    bench = make_bench(2)
    bench.know()
    began = bench.now
    bench.send(Target(1))
    bench.turn(began)
    bench.cluster.clock.advance(700.0)
    bench.turn(bench.now)  # connected long ago; ApiVersions is sent now
    assert not bench.client.any_ready()
    assert bench.now - bench.client.outage(bench.now).since <= SLOW_ATTEMPT
    bench.run(1.0)
    assert bench.client.any_ready()


@pytest.fixture
def parked(bench):
    """Return the target of a request that the broker does not answer."""
    target = Target(1, "group")
    bench.send(target)
    assert bench.run(1.0) == [] and bench.client.is_ready(1, "group")
    bench.network.pause("kafka1", 9092)
    bench.send(target)
    return target


def test_dropping_a_connection_answers_its_requests_and_is_no_refresh_reason(bench, parked):
    """A JoinGroup that the member does not need any more would delay all requests behind it."""
    bench.client.drop(parked, "the coordinator is elsewhere")
    (answer,) = bench.client.take_answers()
    assert "elsewhere" in str(answer.error) and answer.request.target == parked
    assert bench.run(1.0) == [] and not bench.client.is_ready(1, "group")
    assert bench.client.is_ready(1), "the node's other connections stay"
    bench.client.drop(parked, "twice")
    bench.client.drop(Target(7), "never there")
    assert bench.client.take_answers() == []


def test_the_connection_to_a_node_missing_in_metadata_can_be_dropped(bench, parked):
    """A coordinator that died is forgotten first; a JoinGroup may be parked there for minutes all the same."""
    bench.client.update_nodes([Node(2, "kafka2", 9092)])
    bench.client.step_due(bench.now)
    assert bench.client.take_answers() == []
    bench.client.drop(parked, "the coordinator is elsewhere")
    (answer,) = bench.client.take_answers()
    assert "elsewhere" in str(answer.error) and answer.request.target == parked
