"""Problems that users of other clients have with groups: liveness, rejoining, and the promises of commits.

These tests run a whole consumer in a simulated cluster; its parts have tests of their own.
"""

import itertools
import random

import pytest

from thinconsumer import Consumer, KafkaConfigurationError, TopicPartition
from thinconsumer.errors import CommitFailedError, InvalidSessionTimeoutError, KafkaTimeoutError
from thinconsumer.testing import Simulation
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.faults import Delay, Reply, Silence

EAGER, COOPERATIVE = ("range",), ("cooperative-sticky",)
STYLES = pytest.mark.parametrize("style", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
SHORT = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 3_000, "max_poll_interval_ms": 10_000}
EXPULSIONS = pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])


def alone(make_world, **options):
    world = make_world(**options)
    world.add_subject()
    assert world.run(lambda: world.in_order_since(world.now() - 0.6), 10)
    world.cancel()
    return world


def polls(world, seconds, pause=0.05, ms=0):
    until = world.now() + seconds
    while world.now() < until:
        world.subject.poll(ms)
        world.sim.run_for(pause)


def test_polling_with_all_partitions_paused_keeps_membership_and_buffered_records(make_world):
    world = alone(make_world, **SHORT, max_poll_records=1)
    world.stop_writing = True
    subject = world.subject
    polls(world, 1.0, ms=100)
    for partition in range(world.partitions):
        world.written += [b"%d-%d" % (partition, n) for n in range(10)]
        world.sim.produce("t", partition, world.written[-10:])
    subject.poll(1000)
    polls(world, 0.5)
    before, read = subject.consumer.group_metadata(), len(subject.values)
    subject.consumer.pause(*subject.consumer.assignment())
    world.cancel()
    polls(world, 60.0, 3.0)
    assert len(subject.values) == read
    assert 19 <= len(world.asked("Heartbeat")) <= 21
    assert subject.consumer.group_metadata() == before and subject.listener.heard == [] and world.lines() == []
    assert world.asked("Fetch") == []
    subject.consumer.resume(*subject.consumer.paused())
    for _ in range(10):
        subject.poll(0)
    assert len(subject.values) == read + 10 and len(world.asked("Fetch")) <= 3, "buffered records are returned at once"
    world.finish()


def test_commits_and_heartbeats_do_not_wait_behind_fetches(make_world):
    """The coordinator also leads the partitions, and holds the Fetch back for seconds."""
    world = alone(make_world, brokers=1, fetch_max_wait_ms=4_500)
    world.stop_writing = True
    polls(world, 6.0)
    for _ in range(5):
        began = world.now()
        world.subject.consumer.commit({TopicPartition("t", 0): 1})
        assert world.now() - began < 0.05
        polls(world, 0.7)
    beats = world.asked("Heartbeat")
    assert max(b - a for a, b in itertools.pairwise(beats)) < 1.1
    fetches = world.asked("Fetch")
    assert len(fetches) <= 2 + (world.now() - 1000) / 4.5


def test_a_rejected_session_timeout_is_raised_with_the_broker_options(make_world):
    world = make_world(config={"group.max.session.timeout.ms": 9_000})
    subject = world.add_subject()
    assert not world.run(lambda: subject.listener.owned, 5.0)
    assert {type(error) for error in subject.raised} == {InvalidSessionTimeoutError}
    assert "group.min.session.timeout.ms" in str(subject.raised[0])
    assert len(world.asked("JoinGroup")) == 1, "the error is final"
    with pytest.raises(KafkaConfigurationError, match="heartbeat_interval_ms"):
        Consumer(group_id="g", session_timeout_ms=3000, heartbeat_interval_ms=3000, max_poll_interval_ms=3000)


@pytest.mark.parametrize("how", ["refuses", "is silent", "is gone"])
def test_without_a_coordinator_every_call_keeps_its_timeout(make_world, how):
    world = make_world()
    subject = world.add_subject()
    if how == "is gone":
        world.run(lambda: world.in_order_since(1000.0), 5.0)
        for node in (1, 2, 3):
            world.sim.kill(node, silently=True)
    else:
        world.break_("FindCoordinator", Silence() if how == "is silent" else Reply(Code.COORDINATOR_NOT_AVAILABLE))
    world.stop_writing = True
    polls(world, 3.0, ms=100)
    tp = TopicPartition("t", 0)
    for ms in (0, 10, 1000, 3000):
        began = world.now()
        subject.poll(ms)
        assert world.now() - began == pytest.approx(ms / 1000, abs=0.001)
    for call in (subject.consumer.committed, lambda tp, timeout_ms: subject.consumer.commit({tp: 1}, timeout_ms)):
        began = world.now()
        with pytest.raises((KafkaTimeoutError, CommitFailedError)):
            call(tp, timeout_ms=700)
        assert world.now() - began <= 0.701
    began = world.now()
    subject.consumer.close(timeout_ms=2000)
    assert world.now() - began <= 2.001


def test_an_idle_coordinator_connection_that_ends_is_replaced(make_world):
    world = alone(make_world)
    world.stop_writing = True
    polls(world, 2.0)
    for connection in list(world.sim.network.connections):
        if connection.client == "subject":
            world.sim.network.break_off(connection)
    world.cancel()
    driver = world.subject.consumer._shell.driver
    before = driver.steps
    polls(world, 10.0, 0.0, ms=1000)
    assert driver.steps - before < 20 * 10
    assert len(world.asked("Heartbeat")) >= 8 and world.subject.raised == []
    world.subject.consumer.commit({TopicPartition("t", 0): 1}, timeout_ms=500)
    assert world.subject.listener.heard == []


@STYLES
def test_a_removed_member_with_offsets_to_commit_rejoins(make_world, style):
    world = alone(make_world, style=style, enable_auto_commit=True, auto_commit_interval_ms=100)
    member_id = world.subject.consumer.group_metadata().member_id
    world.forget_member(member_id)
    world.cancel()
    began = world.now()
    polls(world, 3.0)
    stale = [r for _, who, name, r in world.said if name == "OffsetCommit" and r.member_id == member_id]
    assert len(stale) <= 1
    assert world.subject.listener.heard == ["lost", "assigned"]
    assert world.asked("SyncGroup") and world.asked("SyncGroup")[0] - began < 2.0
    assert len(world.asked("JoinGroup")) == 2 and len(world.lines()) <= 5
    world.finish()


@EXPULSIONS
@STYLES
def test_an_expelled_member_returns_no_records(make_world, style, code):
    """It drops buffered records, too, and commits nothing."""
    world = alone(make_world, style=style)
    world.break_("JoinGroup", Reply(Code.COORDINATOR_LOAD_IN_PROGRESS))
    world.break_("Heartbeat", Reply(code), times=1)
    if code == Code.UNKNOWN_MEMBER_ID:
        world.forget_member(world.subject.consumer.group_metadata().member_id)
    assert world.run(lambda: "lost" in world.subject.listener.heard, 3.0)
    read = len(world.subject.values)
    world.run(lambda: False, 5.0)
    assert len(world.subject.values) == read and world.subject.consumer.assignment() == set()
    with pytest.raises(CommitFailedError) as caught:
        world.subject.consumer.commit({TopicPartition("t", 0): 1})
    assert caught.value.reason in ("unknown_member", "rebalance_in_progress")
    world.heal()
    healed = world.now()
    assert world.run(lambda: world.in_order_since(healed), 3.0)
    world.finish()


@STYLES
@pytest.mark.parametrize("seconds", [0.005, 0.3, 0.9, 1.5])
def test_a_commit_that_overlaps_a_rebalance_succeeds(make_world, style, seconds):
    """The coordinator reads it before, in, or after the rebalance, and may reject it; then it is retried."""
    world = make_world(style=style).join()
    subject = world.subject
    world.commits = False
    before = subject.consumer.group_metadata()
    world.break_("OffsetCommit", Delay(seconds), times=1)
    subject.commit_async()
    subject.poll(0)
    subject.consumer.enforce_rebalance("the test says so")
    assert world.run(lambda: subject.told, 5.0)
    world.run(lambda: False, 2.0)
    after = subject.consumer.group_metadata()
    assert after.member_id == before.member_id and after.generation_id > before.generation_id
    assert [error for _, error in subject.told] == [None]
    assert "lost" not in subject.listener.heard, world.story()
    assert len(world.asked("JoinGroup")) == after.generation_id - before.generation_id == 1
    world.finish()


class Reader:
    """A program that is killed while it processes records; it keeps the values that it has processed."""

    def __init__(self, sim, life, how):
        self.driver = sim.driver(f"reader-{life}")
        self.how = how
        self.consumer = Consumer(
            "t",
            driver=self.driver,
            bootstrap_servers=sim.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=1,
            session_timeout_ms=1000,
            heartbeat_interval_ms=300,
            max_poll_interval_ms=1000,
            max_poll_records=7,
            consumer_timeout_ms=3000,
        )

    def process(self, count, done):
        if self.how == "iterated":
            for record in self.consumer:
                if count == 0:
                    return
                count -= 1
                done.add(record.value)
            return
        idle = 0
        while idle < 30:
            found = self.consumer.poll(100)
            idle = 0 if found else idle + 1
            for records in found.values():
                for record in records:
                    if count == 0:
                        return
                    count -= 1
                    done.add(record.value)

    def die(self):
        self.driver.die()
        self.consumer._shell.closed = True


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", ["polled", "iterated"])
def test_after_a_kill_at_any_record_no_record_is_skipped(seed, how):
    """Twenty-five kills in each simulation, with an auto-commit in every poll."""
    sim = Simulation(seed, 1, {"t": 2}, config={"offsets.topic.num.partitions": 1}, traced=False, checkers=())
    lot = random.Random(seed)
    written, done = set(), set()

    def write(count):
        for partition in range(2):
            values = [b"%d-%d" % (partition, len(written) + n) for n in range(count)]
            written.update(values)
            sim.produce("t", partition, values)

    for life in range(25):
        write(lot.randrange(1, 12))
        reader = Reader(sim, life, how)
        reader.process(lot.randrange(len(written - done) + 1), done)
        reader.die()
        sim.run_for(lot.choice([0.0, 0.5, 2.0]))
    last = Reader(sim, "last", how)
    last.process(10_000, done)
    last.consumer.close()
    assert done == written


@STYLES
def test_the_last_commit_completes_before_partitions_move(make_world, style):
    """The commit is slow, and records keep arriving; partitions under revocation return none meanwhile."""
    world = make_world(style=style, enable_auto_commit=True, auto_commit_interval_ms=300)
    world.commits = False
    world.add_subject()
    assert world.run(lambda: world.now() > 1003.0, 5.0)
    world.sim.cluster.on("OffsetCommit", Delay(0.8), where=lambda call: call.client_id == "subject")
    world.add_other()
    world.run(lambda: False, 8.0)
    world.sim.cluster.rules.clear()
    assert all(member.listener.owned for member in world.members())
    world.run(lambda: False, 2.0)
    world.finish()
    read = [value for member in world.members() for value in member.values]
    assert sorted(read) == sorted(world.written), "each record once"
