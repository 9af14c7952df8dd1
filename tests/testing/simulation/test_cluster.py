"""The cluster's timers are events of the world; logs, losses, requests and node states are reported."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer_testing.simulation import Checker, Simulation

A0 = TopicPartition("a", 0)


class Notes(Checker):
    """Records the brokers' requests, responses and losses."""

    def __init__(self, *args, **about):
        super().__init__(*args, **about)
        self.asked, self.answers, self.losses = [], [], []

    def requested(self, client, node, request, now):
        self.asked.append((client, node, type(request), now))

    def answered(self, client, node, request, response, now):
        self.answers.append((client, node, type(request), type(response), now))

    def lost(self, truth, offset, epoch):
        self.losses.append((truth.tp, offset))


@pytest.fixture
def make():
    """Return a function that builds a simulation with these notes as its only checker."""

    def make(brokers=1, **options):
        options.setdefault("topics", {"a": 1})
        return Simulation(1, brokers, checkers=[Notes], **options)

    return make


def notes(sim):
    return sim.jury.checkers[0]


def row(sim):
    return sim.cluster.controller.image.partition(*A0)


def test_each_request_and_response_is_reported_with_client_node_and_time(make):
    sim = make()
    sim.produce("a", 0, [b"x"])
    began = sim.now()
    sim.consumer([A0], name="ann", auto_offset_reset="earliest", fetch_max_wait_ms=700)
    sim.run_for(0.5)
    seen = notes(sim)
    kinds = [kind for _, _, kind, _ in seen.asked]
    assert MetadataRequest in kinds and FetchRequest in kinds
    assert {client for client, *_ in seen.asked} == {"ann"} and {node for _, node, *_ in seen.asked} == {1}
    assert all(began < now <= sim.now() for *_, now in seen.asked)
    assert all(response is request.RESPONSE for _, _, request, response, _ in seen.answers)
    # The last one waits for records, and its answer is shown when it leaves.
    assert len(seen.answers) == len(seen.asked) - 1 and seen.asked[-1][2] is FetchRequest
    sim.run_until(lambda: len(seen.answers) == len(kinds), 5)
    assert seen.answers[-1][-1] - seen.asked[len(kinds) - 1][-1] == pytest.approx(0.7, abs=0.01)


def test_recreated_topic_has_a_new_truth(make):
    sim = make()
    assert sim.cluster.truth(TopicPartition("b", 0)) is None
    sim.produce("a", 0, [b"x", b"y"])
    first = sim.cluster.truth(A0)
    assert (first.tp, first.end) == (A0, 2)
    sim.cluster.delete_topic("a")
    assert sim.cluster.truth(A0) is None
    sim.create_topic("a")
    sim.run_for(1)
    second = sim.cluster.truth(A0)
    assert second is not first and second.end == 0 and first.end == 2


def test_losses_of_an_unclean_election_are_reported(make):
    config = {
        "default_replication_factor": 2, "unclean_leader_election_enable": True, "replica_lag_time_max_ms": 500,
        "broker_session_timeout_ms": 500,
    }  # fmt: skip
    sim = make(2, config=config)
    sim.produce("a", 0, [b"kept"])
    sim.run_for(2)
    leader = row(sim).leader
    other = 3 - leader
    sim.kill(other)
    sim.run_for(5)
    assert list(row(sim).isr) == [leader]
    sim.produce("a", 0, [b"lost", b"lost"])
    sim.run_for(1)
    sim.kill(leader)
    sim.start(other)
    sim.run_for(10)
    if row(sim).leader != other:
        sim.cluster.controller.elect_unclean(A0, other)
        sim.run_for(1)
    assert notes(sim).losses == [(A0, 1)]


def test_node_states_are_reported_and_traced(make):
    sim = make(2)
    sim.pause(1)
    sim.resume(1)
    sim.kill(1)
    sim.kill(1)  # already dead: no second line in the trace
    sim.start(1)
    sim.kill(1, silently=True)
    told = [(line.state, line.event, line.why) for line in sim.trace if line.actor == "node 1"]
    assert told == [
        ("paused", "paused", ""), ("up", "resumed", ""), ("up", "killed", ""), ("up", "started", ""),
        ("up", "killed", "without a word"),
    ]  # fmt: skip
