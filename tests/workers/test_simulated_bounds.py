"""A stuck record and a stuck key among many records, with a real consumer in a simulated cluster and virtual time.

With ``--soak`` there are 200,000 records, else 3,000.
"""

from collections import deque

import pytest

from thinconsumer import TopicPartition
from thinconsumer.records.builder import NewRecord
from thinconsumer.workers import Workers, WorkerSettings
from thinconsumer.workers.base import POLL_MAX
from thinconsumer.workers.calling import Pool, Result
from thinconsumer_testing import Simulation
from thinconsumer_testing.simulation.observed import SimConsumer

pytestmark = [pytest.mark.once, pytest.mark.timeout(900)]

STUCK, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
WAITING_MAX = 200
ROOM = 100
BATCH = 500


class HandlerPool(Pool):
    """Handlers that end at once, except those of records with the key ``stuck``, as long as that is set."""

    def __init__(self):
        self.stuck = b"stuck"
        self.ended, self.held, self.begun = deque(), [], []

    def room(self):
        return ROOM - len(self.ended) - len(self.held)

    def start(self, job):
        self.begun += [(each.partition, each.offset) for each in job.records]
        (self.held if job.key == self.stuck else self.ended).append(Result(job, None, None))

    def free(self):
        self.stuck = None
        self.ended += self.held
        self.held.clear()

    def results(self):
        results = list(self.ended)
        self.ended.clear()
        return results


class World:
    """One topic of two partitions, half of the records in each, and a member of a group with workers."""

    def __init__(self, count, key_of):
        self.half = count // 2
        self.sim = Simulation(1, topics={"t": 2}, traced=False, checkers=())
        for partition in (STUCK, OTHER):
            for first in range(0, self.half, BATCH):
                records = range(first, min(first + BATCH, self.half))
                keys = [key_of(each) if partition == STUCK else b"%d" % each for each in records]
                self.sim.produce(*partition, [NewRecord(b"v", key) for key in keys])

    def start(self, distance_max):
        self.driver = self.sim.driver()
        consumer = SimConsumer(
            "t",
            driver=self.driver,
            bootstrap_servers=self.sim.bootstrap_servers,
            group_id="g",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self.pool = HandlerPool()
        settings = WorkerSettings(distance_max=distance_max, waiting_max=WAITING_MAX, commit_interval_ms=100)
        self.workers = Workers(consumer, print, settings, lambda call, settings: self.pool)
        self.most_waiting = self.most_unfinished = self.longest = 0

    def step(self):
        self.sim.run_for(0.005)
        self.workers.step()
        if (lane := self.lane) is not None:
            self.most_waiting = max(self.most_waiting, lane.waiting)
            self.most_unfinished = max(self.most_unfinished, lane.progress.count)
            self.longest = max(self.longest, len(lane.progress.metadata()))

    @property
    def lane(self):
        return self.workers._work.dispatcher.lanes.get(STUCK)

    def run_until(self, condition):
        while not condition():
            self.step()

    def run_until_it_waits(self):
        """Run until the other partition is done, and the one with the stuck record has nothing more to run."""
        self.run_until(lambda: sum(1 for partition, _ in self.pool.begun if partition == 1) == self.half)
        while True:
            before = len(self.pool.begun)
            for _ in range(50):
                self.step()
            if len(self.pool.begun) == before:
                return

    def committed(self):
        return self.workers._calls.committed([STUCK, OTHER], metadata=True)

    def crash(self):
        """End without a commit, as a process that is killed."""
        self.driver.die()

    def close(self):
        self.workers.close()
        self.workers._calls.close()


@pytest.fixture
def count(request):
    return 200_000 if request.config.getoption("--soak") else 3_000


def test_a_stuck_record_holds_its_partition_at_the_distance_and_a_restart_repeats_only_it(count):
    distance = count // 4
    world = World(count, lambda offset: b"stuck" if offset == 3 else b"%d" % offset)
    world.start(distance)
    world.run_until_it_waits()
    own = [offset for partition, offset in world.pool.begun if partition == 0]
    assert sorted(own) == list(range(3 + distance))
    assert world.most_waiting < WAITING_MAX + POLL_MAX
    assert world.most_unfinished <= world.most_waiting + ROOM
    assert world.longest <= 4096
    assert [at.offset for at in world.committed().values()] == [3, world.half]
    world.crash()
    world.start(distance)
    world.pool.free()
    world.run_until(lambda: len(world.pool.begun) == world.half - len(own) + 1)
    assert sorted(world.pool.begun) == [(0, 3), *((0, offset) for offset in range(3 + distance, world.half))]
    world.close()


def test_a_stuck_key_of_one_percent_holds_its_partition_when_enough_of_its_records_wait(count):
    every = 100 if count > 100_000 else 5  # of few records, one percent would be too few to wait for
    world = World(count, lambda offset: b"stuck" if offset % every == 0 else b"%d" % offset)
    world.start(1_000_000)
    world.run_until_it_waits()
    own = [offset for partition, offset in world.pool.begun if partition == 0]
    assert [offset for offset in own if offset % every == 0] == [0]
    assert WAITING_MAX / 2 * (every - 1) <= len(own) < world.half
    assert WAITING_MAX / 2 <= world.lane.waiting <= world.most_waiting < WAITING_MAX + POLL_MAX
    assert world.most_unfinished <= world.most_waiting + ROOM
    assert world.longest <= 4096
    world.pool.free()
    world.run_until(lambda: len(world.pool.begun) == 2 * world.half)
    begun = [offset for partition, offset in world.pool.begun if partition == 0]
    assert sorted(begun) == list(range(world.half))
    assert [offset for offset in begun if offset % every == 0] == list(range(0, world.half, every))
    world.close()
