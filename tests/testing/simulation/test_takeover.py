"""The steps of an unclean takeover by a follower happen in order and leave nothing behind."""

from random import Random
from types import SimpleNamespace

from lab.chaos import Chaos
from lab.knobs import Knobs
from lab.request_faults import GROUP_ERRORS
from lab.takeover import Takeover

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation import Simulation

TP = TopicPartition("a", 0)
#: The random draws of a takeover, fixed by the test.
CALM = {
    "_batches": 1, "_holds_all": False, "_holds_rest": False, "_seeker": 9, "_blind_s": 0.0, "_back_after_s": 0.0,
    "_writes_at_old": False, "_breaks": False, "_pauses_s": 3.0, "_records": 4,
}  # fmt: skip


class Stage:
    """Two brokers, one partition that the first leads, one reader, and a takeover that begins."""

    def __init__(self, readers=1, **drawn):
        config = {
            "default_replication_factor": 2, "unclean_leader_election_enable": True, "replica_lag_time_max_ms": 500,
            "broker_session_timeout_ms": 5000,
        }  # fmt: skip
        self.sim = sim = Simulation(1, 2, {"a": 1}, config=config)
        knobs = Knobs.draw(1)
        for name in [name for name, value in vars(knobs).items() if isinstance(value, float)]:
            setattr(knobs, name, 0.0)
        options = {
            "auto_offset_reset": "earliest",
            "max_poll_records": 2,
            "metadata_max_age_ms": 300,
            "fetch_max_wait_ms": 700,
        }
        self.readers = [sim.consumer([TP], **options) for _ in range(readers)]
        self.written = []
        swarm = SimpleNamespace(
            sim=sim,
            knobs=knobs,
            actors=self.readers,
            tps=[TP],
            groups=(),
            log_writer=self,
            logins=None,
            group_errors=GROUP_ERRORS,
        )
        self.chaos = Chaos(swarm)
        sim.produce(*TP, [b"1", b"2"])
        sim.run_for(1.0)
        self.old = sim.cluster.leader(TP).node.node_id
        self.new = 3 - self.old
        self.story = Takeover(self.chaos, Random(1), TP, self.old, self.new)
        for name, value in {**CALM, **drawn}.items():
            assert hasattr(self.story, name)
            setattr(self.story, name, value)

    def write(self, tp, node, count):
        self.sim.cluster.produce(tp.topic, [b"x"] * count, tp.partition, node=node)
        self.written.append((node, count))

    @property
    def row(self):
        return self.sim.cluster.controller.image.partition(*TP)

    def events(self, name):
        return [line for line in self.sim.trace if line.event == name]


def test_follower_leads_after_it_left_the_isr_and_a_reader_has_read_on():
    stage = Stage()
    assert stage.sim.network.cuts == {(stage.old, stage.new)} and stage.story.begin()
    assert stage.row.isr == (stage.old,)
    stage.sim.run_until(lambda: stage.row.leader == stage.new, 10)
    reader = stage.readers[0]
    assert [r.leader_epoch for r in reader.records[2:]] == [0] * len(reader.records[2:]) and len(reader.records) > 2
    assert stage.written[0] == (None, 4)
    assert not stage.sim.network.cuts
    stage.sim.run_for(10)
    assert len(stage.events("unclean")) == len(stage.events("lost")) == 1
    assert set(stage.row.isr) == {1, 2}
    stage.sim.check()


def test_former_leader_unaware_of_the_election_accepts_writes():
    stage = Stage(_blind_s=4.0, _writes_at_old=True)
    assert stage.story.begin()
    stage.sim.run_until(lambda: stage.row.leader == stage.new, 10)
    old = stage.sim.cluster.nodes[stage.old].partitions[TP]
    assert old.is_leader and old.leader_epoch == 0
    assert stage.written[-1] == (stage.old, 1)
    led = []
    # Not after run_for(3.5): a poll that begins within that time may end after it.
    stage.sim.world.call_later(3.5, lambda: led.append((old.is_leader, stage.sim.cluster.leader(TP).node.node_id)))
    stage.sim.run_for(4.5)
    assert led == [(True, stage.new)]
    assert not old.is_leader and not stage.sim.network.cuts
    stage.sim.check()


def test_takeover_ends_with_the_faults():
    stage = Stage(_blind_s=5.0, _back_after_s=1.0)
    assert stage.story.begin()
    stage.sim.run_for(1.0)
    stage.chaos.over()
    leader, written = stage.row.leader, len(stage.written)
    stage.sim.run_for(20)
    assert (stage.row.leader, len(stage.written)) == (leader, written) and not stage.sim.network.cuts
    stage.sim.check()
