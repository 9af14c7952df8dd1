"""The health and the metrics of a GroupMember."""

import pytest

from thinconsumer import GroupMember, HealthState
from thinconsumer.errors import InconsistentGroupProtocolError
from thinconsumer.testing import Simulation


class Worker(GroupMember):
    def perform_assignment(self, leader_id, protocol, members):
        return dict.fromkeys(members, b"share")

    def on_join_complete(self, protocol, share):
        pass


@pytest.fixture
def sim():
    return Simulation(seed=1, brokers=3)


@pytest.fixture
def worker(sim, closed_at_end):
    options = {"group_id": "g", "heartbeat_interval_ms": 300, "bootstrap_servers": sim.bootstrap_servers}
    return lambda kind="tasks": closed_at_end(Worker(kind, driver=sim.driver(), **options))


def settle(sim, *workers):
    """Poll in turn until all are stable."""
    deadline = sim.now() + 60
    for found in workers:
        found.poll(100)
    while not all(found.is_stable for found in workers):
        assert sim.now() < deadline, workers
        for found in workers:
            found.poll(20)


def test_health_tells_what_a_member_waits_for(sim, worker):
    ann = worker()
    health = ann.health()
    assert (health.state, health.group_state, health.last_poll_age) == (HealthState.WORKING, "unjoined", None)
    assert "the coordinator of group g is not known" in health.reason
    settle(sim, ann)
    health = ann.health()
    assert (health.state, health.reason, health.since) == (HealthState.OK, "", None)
    assert (health.generation_id, health.member_id) == ann.group_metadata()[1:3]
    assert health.coordinator == ann._coordinator.node_id
    assert 0 <= health.last_heartbeat_age < 5 and health.last_poll_age < 1
    sim.partition({1, 2, 3}, {"client-1"})
    until(sim, ann, lambda: ann.health().state is HealthState.WORKING)
    assert ann.health().last_error is None
    until(sim, ann, lambda: ann.health().state is HealthState.STUCK)
    assert ann.health().since >= 22.5 and ann.health().reason
    sim.heal()
    until(sim, ann, lambda: ann.health().state is HealthState.OK)


def test_an_error_that_lasts_is_in_health_at_once(sim, worker):
    ann, bob = worker(), worker(kind="other")
    settle(sim, ann)
    with pytest.raises(InconsistentGroupProtocolError):
        until(sim, bob, lambda: False)
    health = bob.health()
    assert health.state is HealthState.STUCK and isinstance(health.last_error, InconsistentGroupProtocolError)


def test_metrics_have_the_consumers_names(sim, worker):
    ann = worker()
    settle(sim, ann)
    ann.poll(3000)
    metrics = ann.metrics()
    assert set(metrics) == {"member-coordinator-metrics", "member-metrics"}
    group, connections = metrics["member-coordinator-metrics"], metrics["member-metrics"]
    assert group["join-total"] == group["sync-total"] == group["rebalance-total"] == 1
    assert group["rebalance-latency-max"] > 0 and group["heartbeat-total"] >= 9
    assert 0 <= group["last-heartbeat-seconds-ago"] < 1
    assert connections["connection-count"] >= 1 and connections["connection-creation-total"] >= 1
    assert not {"commit-total", "assigned-partitions", "poll-idle-ratio-avg"} & (group.keys() | connections.keys())
    bob = worker()
    settle(sim, bob, ann)
    assert ann.metrics()["member-coordinator-metrics"]["rebalance-total"] == 2


def until(sim, member, condition, seconds=120):
    deadline = sim.now() + seconds
    while not condition():
        assert sim.now() < deadline, (member, member.health())
        member.poll(500)
