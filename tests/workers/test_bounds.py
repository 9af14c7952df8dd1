"""What a stuck record holds back: its key, then its partition within bounds, and never another partition."""

import pytest

from thinconsumer import TopicPartition
from thinconsumer.workers.dispatcher import JobDispatcher
from thinconsumer.workers.progress import PartitionProgress

STUCK, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
POLL = 100
WAITING_MAX = 300


class World:
    """Two partitions; of the first, the record at offset 0 never ends. Everything else ends at once."""

    def __init__(self, key_of, distance_max):
        self.key_of = key_of
        self.made = JobDispatcher("key", 1, None, lambda failed: 1.0, WAITING_MAX, 1 << 26)
        for partition in (STUCK, OTHER):
            self.made.assign(partition, PartitionProgress(0, distance_max=distance_max))
        self.next = {STUCK: 0, OTHER: 0}
        self.most_waiting = self.most_unfinished = self.longest_map = 0
        self.paused = set()

    def poll(self):
        """Take records of the partitions that are not paused, and run all that may run."""
        for partition, first in self.next.items():
            if partition not in self.paused:
                records = [(first + n, 0, self.key_of(first + n), None, 100) for n in range(POLL)]
                self.made.take(partition, records)
                self.next[partition] += POLL
        while (job := self.made.next_job(0.0)) is not None:
            if (job.lane.partition, job.offsets) != (STUCK, [0]):
                self.made.finish(job)
        self.paused = self.made.full(self.paused)
        lane = self.made.lanes[STUCK]
        self.most_waiting = max(self.most_waiting, lane.waiting)
        self.most_unfinished = max(self.most_unfinished, lane.progress.count)
        self.longest_map = max(self.longest_map, len(lane.progress.metadata()))


def world_until_it_waits(key_of, distance_max):
    world = World(key_of, distance_max)
    while STUCK not in world.paused:
        world.poll()
    for _ in range(20):
        world.poll()
    assert world.paused == {STUCK}
    assert world.made.lanes[OTHER].progress.offset == world.next[OTHER] > world.next[STUCK]
    assert world.made.lanes[STUCK].progress.offset == 0
    assert world.most_waiting < WAITING_MAX + POLL
    assert world.most_unfinished <= world.most_waiting + 1
    assert world.longest_map <= 4096
    return world


def test_a_stuck_record_whose_key_is_never_seen_again_holds_its_partition_only_at_the_distance():
    world = world_until_it_waits(lambda offset: offset, 20_000)
    lane = world.made.lanes[STUCK]
    assert 20_000 + WAITING_MAX <= world.next[STUCK] <= 20_000 + WAITING_MAX + POLL
    assert lane.progress.finished_count == 20_000 - 1


@pytest.mark.parametrize("every", [100, 10])
def test_a_stuck_key_holds_its_partition_when_enough_of_its_records_wait(every):
    world = world_until_it_waits(lambda offset: 0 if offset % every == 0 else offset, 1_000_000)
    lane = world.made.lanes[STUCK]
    assert lane.waiting == pytest.approx(WAITING_MAX, abs=POLL)
    assert lane.progress.finished_count > 2_000


def test_a_stuck_record_that_ends_lets_its_partition_go_on():
    world = world_until_it_waits(lambda offset: 0 if offset % 10 == 0 else offset, 1_000_000)
    (stuck,) = world.made.lanes[STUCK].running
    world.made.finish(stuck)
    at = world.next[STUCK]
    world.poll()
    world.poll()
    assert world.made.lanes[STUCK].progress.offset == world.next[STUCK] > at
