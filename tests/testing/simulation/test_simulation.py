"""The public Simulation: scenarios, timeouts, checks and reports that repeat a failure."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from thinconsumer import Consumer, IllegalArgumentError
from thinconsumer.broker import ListenerSecurity
from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation import Checker, Simulation, Violation

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)

STORY = """
from thinconsumer_testing.simulation import Behaviour, Simulation, NetworkFaults
faults = NetworkFaults(latency_max_s=0.1, jitter_s=0.1, split_rate=0.1, reset_rate=0.01)
sim = Simulation(7, 3, {"a": 3, "b": 2}, network_faults=faults)
tps = {"a": [0, 1, 2], "b": [0, 1]}
readers = [sim.consumer(tps, auto_offset_reset="earliest", behaviour=Behaviour(odd_rate=0.1)) for _ in range(2)]
sim.producer(tps)
sim.run_for(2)
sim.partition({1, "nobody", "someone", *readers}, {2, "others", 3})
sim.run_for(1)
sim.heal()
sim.kill(1)
sim.run_for(1)
print(sim.trace.digest(), len(sim.trace))
"""


class Ends(Checker):
    """Accuses in the end."""

    def finish(self):
        self.accuse("it ended")


def reader(sim, *tps, **options):
    return sim.consumer(tps or [A0], **{"auto_offset_reset": "earliest", **options})


@pytest.fixture
def sim():
    """Three brokers, one topic."""
    return Simulation(1, 3, {"a": 2})


# -- the scenario of the documentation


def test_documented_scenario_runs():
    sim = Simulation(seed=1, brokers=3, topics={"orders": 6})
    consumer = sim.consumer(assign={"orders": [0, 1]}, auto_offset_reset="earliest")
    sim.produce("orders", 0, [b"a", b"b"])
    sim.run_until(lambda: len(consumer.records) == 2)
    sim.kill(1)
    sim.run_for(5)
    sim.check()
    assert [record.value for record in consumer.records] == [b"a", b"b"]
    assert repr(sim).startswith("<Simulation seed=1 at 100") and "1 actors" in repr(sim)


# -- determinism


def test_equal_seeds_give_equal_traces_in_every_process():
    """The order of sets of strings, which differs between processes, must not matter."""

    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    other = subprocess.Popen([sys.executable, "-c", STORY], env=environment, stdout=subprocess.PIPE, text=True)
    with redirect_stdout(io.StringIO()) as one:
        exec(STORY, {})
    out, _ = other.communicate(timeout=50)
    assert out == one.getvalue() and int(out.split()[1]) > 50


# -- time


def test_run_for_takes_exactly_its_seconds(sim):
    began = sim.now()
    sim.run_for(3600)
    assert sim.now() == began + 3600


def test_run_until_stops_when_its_condition_holds(sim):
    began = sim.now()
    sim.run_until(lambda: True)
    assert sim.now() == began
    sim.actor(lambda: 1.0)
    sim.run_until(lambda: sim.now() >= began + 2)
    assert sim.now() == began + 2


def test_run_until_timeout_names_condition_and_repeat_command(sim, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    began = sim.now()
    sim.pause(1)
    with pytest.raises(Violation) as caught:
        sim.run_until(lambda: False, timeout=30, what="pigs fly")
    assert sim.now() == began + 30
    words = str(caught.value)
    assert words.startswith("the condition is not true after 30 virtual seconds: pigs fly\n")
    assert "repeat it with: Simulation(seed=1, ...)" in words and "node 1" in words
    (file,) = tmp_path.iterdir()
    assert f"all of the trace: {file}" in words and file.read_text() == sim.trace.text() + "\n"


def test_reports_of_untraced_runs_say_so_and_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sim = Simulation(1, traced=False)
    with pytest.raises(Violation, match="nowhere: tracing was off"):
        sim.run_until(lambda: False, timeout=1)
    assert list(tmp_path.iterdir()) == [] and len(sim.trace) == 0


# -- checks


def test_check_raises_the_violations_of_every_checker():
    Simulation(1, checkers=[]).check()
    with pytest.raises(Violation, match="it ended"):
        Simulation(1, checkers=[Ends]).check()


def test_check_raises_bugs_of_the_broker(sim):
    sim.check()
    sim.cluster.bugs.append("wrong")
    with pytest.raises(Violation, match=r"bugs of the embedded broker, not of the client: \['wrong'\]"):
        sim.check()


def test_checkers_are_on_by_default(sim):
    """A consumer that returns a wrong position is a violation."""
    ann = reader(sim)
    sim.produce("a", 0, [b"x"] * 5)
    sim.run_until(lambda: len(ann.records) == 5)
    sim.jury.tell("delivered", ann.consumer.reader, {A0: ann.records[:1]}, 500)
    with pytest.raises(Violation, match="a-0"):
        sim.check()


# -- actors


def test_other_clients_run_on_drivers_of_the_world(sim):
    sim.produce("a", 0, [b"x"])
    with Consumer(bootstrap_servers=sim.bootstrap_servers, driver=sim.driver(), auto_offset_reset="earliest") as mine:
        mine.assign([A0])
        began = sim.now()
        assert [record.value for record in mine.poll(5000)[A0]] == [b"x"]
        assert mine.poll(5000) == {} and sim.now() >= began + 5


# -- operations


def test_topics_are_created_grown_and_trimmed(sim):
    sim.create_topic("c", cleanup_policy="compact")
    sim.create_topic("b", 2, 3)
    topics = sim.cluster.controller.image.topics
    assert len(topics["b"].partitions) == 2 and len(topics["c"].partitions) == 1
    assert "compact" in str(topics["c"]) and "compact" not in str(topics["b"])
    sim.expand("b", 4)
    assert len(sim.cluster.controller.image.topics["b"].partitions) == 4
    assert sim.produce("b", 3, [b"x", b"y"]) == 0 and sim.produce("b", 3, [b"z"]) == 2
    sim.delete_records(TopicPartition("b", 3), 2)
    assert sim.cluster.leader(TopicPartition("b", 3)).log.start_offset == 2


def test_leaders_move_to_the_given_broker(sim):
    sim.create_topic("b", 1, 3)
    b0 = TopicPartition("b", 0)
    before = sim.cluster.controller.image.partition(*b0).leader
    to = next(node for node in (1, 2, 3) if node != before)
    assert sim.move_leader(b0, to) == to == sim.cluster.controller.image.partition(*b0).leader
    assert any(line.event == "leader" and str(line).endswith(f"of b-0: node {to}") for line in sim.trace)


def test_partitions_of_the_network_are_between_brokers_and_clients_by_id_name_or_actor(sim):
    ann = reader(sim)
    sim.partition({1}, {2, ann, "bob"})
    cut = sim.network.is_cut
    for pair in ((1, 2), (1, ann.name), (1, "bob")):
        assert cut(*pair) and cut(*reversed(pair))
    assert not cut(2, ann.name) and not cut(3, 1)
    assert not sim.cluster.reachable(1, 2) and sim.cluster.reachable(2, 3)
    sim.heal()
    assert not cut(1, 2) and sim.cluster.reachable(1, 2)


def test_one_way_partition_is_one_way_for_clients_only(sim):
    sim.partition({1}, {"bob", 2}, one_way=True)
    assert sim.network.is_cut(1, "bob") and not sim.network.is_cut("bob", 1)
    assert not sim.cluster.reachable(1, 2) and not sim.cluster.reachable(2, 1)
    assert "1 from 2, bob, one way" in sim.trace.text()


def test_the_controller_can_be_cut_off(sim):
    sim.partition({-1}, {2})
    assert not sim.cluster.reachable(2, -1) and sim.cluster.reachable(1, -1)
    sim.heal()
    assert sim.cluster.reachable(2, -1)


@pytest.mark.parametrize("about", [{"topics": ["a"]}, {"group": "g"}, {"group_id": "g"}])
def test_consumer_with_a_group_id_is_rejected(about):
    sim = Simulation(topics={"a": 1})
    with pytest.raises(IllegalArgumentError, match=r"driver=sim\.driver\(\)"):
        sim.consumer(**about)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_clients_log_in_and_authenticate_again(mechanism):
    security = ListenerSecurity(
        "SASL_PLAINTEXT",
        sasl_enabled_mechanisms=(mechanism,),
        users={"alice": "alice-secret"},
        connections_max_reauth_ms=5_000,
    )
    sim = Simulation(seed=1, topics={"orders": 1}, security=security)
    options = {"sasl_mechanism": mechanism, "sasl_plain_username": "alice", "sasl_plain_password": "alice-secret"}
    consumer = sim.consumer(
        assign={"orders": [0]}, auto_offset_reset="earliest", security_protocol="SASL_PLAINTEXT", **options
    )
    for number in range(5):
        sim.produce("orders", 0, [b"%d" % number])
        sim.run_for(6)
    assert len(consumer.records) == 5
    sim.check()
    assert {one.principal for one in sim.cluster.nodes[1].connections} == {"User:alice"}
    assert not sim.cluster.invalid_requests and not sim.cluster.failed_logins
