"""The cluster in its world: its timers are events, its nodes listen, its logs tell truths, its requests are shown."""

from __future__ import annotations

import pytest

from thinconsumer.broker.config import BrokerConfig
from thinconsumer.testing.simulation import Checker, Simulation
from thinconsumer.types import TopicPartition
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.metadata import MetadataRequest

A0 = TopicPartition("a", 0)


class Notes(Checker):
    """Notes what brokers are asked, answer and lose."""

    def __init__(self, *args):
        super().__init__(*args)
        self.asked, self.answers, self.losses = [], [], []

    def requested(self, client, node, request, now):
        self.asked.append((client, node, type(request), now))

    def answered(self, client, node, request, response, now):
        self.answers.append((client, node, type(request), type(response), now))

    def lost(self, truth, offset, epoch):
        self.losses.append((truth.tp, offset))


@pytest.fixture
def make():
    """Return what makes a simulation with notes and nothing else."""

    def make(brokers=1, **options):
        options.setdefault("topics", {"a": 1})
        return Simulation(1, brokers, checkers=[Notes], **options)

    return make


def notes(sim):
    return sim.jury.checkers[0]


def test_nodes_have_names_addresses_and_racks(make):
    sim = make(2, racks=["x", "y"])
    assert sim.bootstrap_servers == ["kafka1:9092", "kafka2:9092"]
    assert sim.network.node_at(("10.0.0.2", 9092)) == 2
    assert [node.rack for node in sim.cluster.nodes.values()] == ["x", "y"]


def test_the_clusters_timers_pass_without_anybody_asking(make):
    """A dead leader is noticed and replaced by the controller, as time passes."""
    sim = make(3, config=BrokerConfig(broker_session_timeout_ms=2000, default_replication_factor=3))
    dead = row(sim).leader
    sim.kill(dead, silently=True)
    assert row(sim).leader == dead
    sim.world.run_until(sim.now() + 10)
    assert row(sim).leader not in (dead, -1)


def row(sim):
    return sim.cluster.controller.image.partition(*A0)


def test_every_request_and_its_answer_are_shown_with_client_node_and_time(make):
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


def test_truths_know_what_was_committed_and_those_of_another_topic_of_that_name_are_others(make):
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


def test_what_an_unclean_election_loses_is_told(make):
    config = BrokerConfig(
        default_replication_factor=2, unclean_leader_election_enable=True, replica_lag_time_max_ms=500,
        broker_session_timeout_ms=500,
    )  # fmt: skip
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


def test_nodes_states_are_told_and_traced(make):
    sim = make(2)
    sim.pause(1)
    sim.resume(1)
    sim.kill(1)
    sim.kill(1)  # it is dead already, and the trace does not say it twice
    sim.start(1)
    sim.kill(1, silently=True)
    told = [(line.state, line.event, line.why) for line in sim.trace if line.actor == "node 1"]
    assert told == [
        ("paused", "paused", ""), ("up", "resumed", ""), ("up", "killed", ""), ("up", "started", ""),
        ("up", "killed", "without a word"),
    ]  # fmt: skip


def test_paused_nodes_accept_and_say_nothing_and_dead_ones_refuse(make):
    sim = make()
    sim.produce("a", 0, [b"x"])
    sim.pause(1)
    ann = sim.consumer([A0], auto_offset_reset="earliest")
    sim.run_for(3)
    assert sim.network.mishaps.refused == 0 and len(sim.network.connections) == 1 and not ann.records
    sim.resume(1)
    sim.run_until(lambda: ann.records)
    sim.kill(1)
    sim.run_for(1)
    assert sim.network.mishaps.refused > 0 and not sim.network.connections


@pytest.mark.parametrize("silently", [False, True])
def test_clients_of_a_dead_node_learn_of_it_at_once_only_if_its_host_lives(make, silently):
    sim = make()
    sim.consumer([A0])
    sim.run_for(1)
    before = list(sim.network.connections)
    assert before
    sim.kill(1, silently=silently)
    sim.run_for(0.02)
    assert {connection.is_open for connection in before} == {silently}


def test_a_client_that_hangs_up_is_gone_for_the_node_too(make):
    sim = make()
    ann = sim.consumer([A0])
    sim.run_for(1)
    connections = list(sim.network.connections)
    assert connections and all(connection.is_served for connection in connections)
    ann.close()
    sim.run_for(0.1)
    assert not any(connection.is_served for connection in connections)
