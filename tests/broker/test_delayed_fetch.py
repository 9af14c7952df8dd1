"""Delayed fetches: their completion conditions, and their cost while waiting. See also api/test_fetch."""

from types import SimpleNamespace

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.fetch import FetchPartition, PartitionData
from thinconsumer_testing.broker.delayed_fetch import DelayedFetch
from thinconsumer_testing.broker.fetch_sessions import NO_ID, CachedPartition
from thinconsumer_testing.broker.reading import FetchIsolation, FetchParams, FetchReadResult
from thinconsumer_testing.broker.schedule import Schedule


class Log:
    def __init__(self):
        self.start_offset = 0
        self.sizes = []
        self.walks = 0
        self.epochs = {}

    @property
    def end_offset(self):
        return len(self.sizes)

    def batches_from(self, offset):
        self.walks += 1
        for base in range(offset, len(self.sizes)):
            yield SimpleNamespace(next_offset=base + 1, data=bytes(self.sizes[base]))

    def end_of_epoch(self, epoch):
        return self.epochs[epoch]


class Replica:
    """One-record batches of given sizes; ``high_watermark`` follows the log end unless it is fixed."""

    def __init__(self, number=0):
        self.tp = TopicPartition("t", number)
        self.topic_id = b"t" * 16
        self.leader_epoch = 0
        self.image = SimpleNamespace(undeleted_partition_count=-1)
        self.is_leader = True
        self.log = Log()
        self.high_watermark = 0
        self.watchers = {}
        self.numbers = 0

    def add_listener(self, callback):
        self.numbers += 1
        self.watchers[self.numbers] = callback
        return self.numbers

    def remove_listener(self, number):
        del self.watchers[number]

    def changed(self):
        for number in list(self.watchers):
            if number in self.watchers:
                self.watchers[number]()

    def append(self, size, *, committed=True):
        self.log.sizes.append(size)
        if committed:
            self.high_watermark = self.log.end_offset
        self.changed()


class World:
    def __init__(self):
        self.schedule = Schedule()
        self.replicas = [Replica(0), Replica(1)]
        self.node = SimpleNamespace(
            partitions={one.tp: one for one in self.replicas},
            image=SimpleNamespace(partition=lambda topic, number: None),
            call_later=self.schedule.call_later,
        )
        self.done = []

    def park(
        self,
        *,
        min_bytes=1,
        wait_s=0.5,
        leader_only=False,
        isolation=FetchIsolation.HIGH_WATERMARK,
        sizes=(0, 0),
        **asked,
    ):
        params = FetchParams(isolation, min_bytes, 1 << 20, leader_only, "", -1)
        asked = {"partition_max_bytes": 1000, **asked}
        rows = [
            (
                CachedPartition(("t", n), "t", NO_ID, FetchPartition(partition=n, **asked)),
                self.replicas[n],
                PartitionData(records=bytes(sizes[n])),
            )
            for n in range(2)
        ]
        result = FetchReadResult(rows, sum(sizes), False)
        return DelayedFetch(self.node, params, result, wait_s, lambda: self.done.append(self.schedule.now))

    @property
    def is_watching(self):
        return any(one.watchers for one in self.replicas)

    def settle(self):
        self.schedule.advance(self.schedule.now)
        return len(self.done)


@pytest.fixture
def world():
    return World()


def test_timeout_completes_once(world):
    world.park()
    world.schedule.advance(0.4)
    assert world.done == []
    world.schedule.advance(10)
    assert (world.done, world.is_watching) == ([0.5], False)


def test_completion_runs_in_a_callback_of_its_own(world):
    """Never within the append: one connection's work would run inside another's."""
    world.park()
    world.replicas[1].append(10)
    assert (world.done, world.is_watching) == ([], False)
    world.replicas[0].append(10)
    assert world.settle() == 1
    world.schedule.advance(10)
    assert world.done == [0.0]


def test_uncommitted_records_do_not_count(world):
    world.park()
    world.replicas[0].append(10, committed=False)
    assert world.settle() == 0
    world.replicas[0].high_watermark = 1
    world.replicas[0].changed()
    assert world.settle() == 1


def test_followers_wait_for_the_log_end(world):
    world.park(isolation=FetchIsolation.LOG_END)
    world.replicas[0].append(10, committed=False)
    assert world.settle() == 1


def test_bytes_of_all_partitions_count_once(world):
    world.park(min_bytes=100)
    for size, replica, is_over in [(40, 0, 0), (40, 1, 0), (19, 0, 0), (1, 1, 1)]:
        world.replicas[replica].append(size)
        world.replicas[replica].changed()
        assert world.settle() == is_over


def test_bytes_available_before_count(world):
    world.replicas[0].log.sizes = [60]
    world.replicas[0].high_watermark = 1
    world.park(min_bytes=100, sizes=(60, 0))
    world.replicas[1].append(39)
    assert world.settle() == 0
    world.replicas[0].append(1)
    assert world.settle() == 1


def test_bytes_above_the_partition_limit_do_not_count(world):
    world.park(min_bytes=100, partition_max_bytes=50)
    world.replicas[0].append(500)
    world.replicas[0].append(500)
    assert world.settle() == 0
    world.replicas[1].append(500)
    assert world.settle() == 1


def test_batches_are_counted_once(world):
    """The cost of a long wait must not grow with every batch."""
    world.park(min_bytes=1000, partition_max_bytes=2000)
    walked = []
    log = world.replicas[0].log
    batches_from = log.batches_from
    log.batches_from = lambda offset: walked.append(offset) or batches_from(offset)
    for _ in range(50):
        world.replicas[0].append(1)
        world.replicas[0].changed()
    assert walked == list(range(50))


@pytest.mark.parametrize(
    "happening",
    [
        lambda world, replica: setattr(replica, "leader_epoch", 1),
        lambda world, replica: setattr(replica, "is_leader", False),
        lambda world, replica: world.node.partitions.pop(replica.tp),
        lambda world, replica: world.node.partitions.update({replica.tp: Replica()}),
        lambda world, replica: setattr(replica, "high_watermark", -1),
        lambda world, replica: setattr(replica.log, "start_offset", 1),
        lambda world, replica: replica.log.epochs.update({0: (0, -5)}),
        lambda world, replica: replica.log.epochs.update({0: (-1, -1)}),
    ],
)
def test_events_complete_it_immediately(world, happening):
    replica = world.replicas[0]
    replica.log.epochs[0] = (0, 0)
    world.park(current_leader_epoch=0, last_fetched_epoch=0, leader_only=True)
    replica.changed()
    assert world.settle() == 0, "nothing has happened yet"
    happening(world, replica)
    replica.changed()
    assert world.settle() == 1


def test_role_change_does_not_complete_it_for_reads_from_followers(world):
    world.park()
    world.replicas[0].is_leader = False
    world.replicas[0].leader_epoch = 1
    world.replicas[0].changed()
    assert world.settle() == 0


@pytest.mark.parametrize("due", [False, True])
def test_cancelled_fetch_has_no_listener(world, due):
    parked = world.park()
    if due:
        world.replicas[0].append(1)
    parked.cancel()
    parked.cancel()
    world.schedule.advance(10)
    assert (world.done, world.is_watching) == ([], False)
