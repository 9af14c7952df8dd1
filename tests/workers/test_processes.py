"""The pool of processes alone: jobs sent ahead, taken back, and given to others."""

import os
import signal
import time
from contextlib import contextmanager
from select import select
from signal import SIGKILL

import pytest

from tests.workers import handlers
from thinconsumer import ConsumerRecord, TopicPartition
from thinconsumer.workers import processes
from thinconsumer.workers.calling import HandlerCall, NotBegunError
from thinconsumer.workers.dispatcher import Job, PartitionJobs
from thinconsumer.workers.processes import DEPTH_MAX, ProcessPool, WorkerDiedError
from thinconsumer.workers.progress import PartitionProgress

pytestmark = pytest.mark.once
A, B = (PartitionJobs(TopicPartition("t", number), PartitionProgress(0)) for number in range(2))


class Pool(ProcessPool):
    """A pool that remembers its results, and that tests wait for."""

    handler = staticmethod(handlers.do)

    def __init__(self, concurrency):
        super().__init__(HandlerCall(self.handler, None, None, False), concurrency)
        self.found = []

    def go_on(self):
        if self.before_wait() >= 0:
            select([descriptor for descriptor, _ in self.watched()], [], [], 0.05)
        self.found += self.results()

    def run(self, *values, lane=A):
        """Start a job for each value, and return the jobs."""
        jobs = []
        for value in values:
            while not self.room():
                self.go_on()
            jobs.append(Job(lane, None, [record(value)], [0]))
            self.start(jobs[-1])
        return jobs

    def until(self, condition, seconds=20.0):
        end = time.monotonic() + seconds
        while not condition(self.found):
            assert time.monotonic() < end
            self.go_on()
        return self.found

    def warm(self, seconds=0.0001):
        """Return once all processes are ready. From then on, jobs count as if they took so long on average."""
        self.found.clear()
        self.until(lambda found: all(worker.is_ready for worker in self._workers))
        self._seconds = seconds
        self.go_on()


def record(value):
    return ConsumerRecord("t", 0, 0, 0, 0, 0, None, value, (), None, 0, len(value), 0)


@contextmanager
def pool(concurrency):
    made = Pool(concurrency)
    try:
        yield made
    finally:
        made.stop(0.0)


def test_how_many_jobs_are_sent_ahead_follows_from_how_long_they_take():
    with pool(1) as made:
        made.run(*[b"0"] * 100)
        made.until(lambda found: len(found) == 100)
        assert made._depth > 1
        made.warm()
        assert made._depth == DEPTH_MAX
        made.warm(0.09)
        assert made._depth == 2
        made.run(b"2")
        made.until(len)
        assert made._depth == 1


def test_results_may_wait_while_every_process_has_jobs_ahead():
    with pool(2) as made:
        made.warm(0.002)
        assert made.before_wait() == 0
        made.run(*[b"0.002"] * 3)
        assert made.before_wait() == 0
        made.run(*[b"0.002"] * 3)
        assert made.before_wait() == pytest.approx(2 * 0.002 / 5)


def test_jobs_behind_one_that_takes_long_are_taken_back_for_a_process_without_jobs():
    with pool(2) as made:
        made.warm()
        long, *others = made.run(b"30", *[b"0.001"] * 9)
        found = made.until(lambda found: len(found) == 9)
        assert {each.job for each in found} == set(others)
        behind = [each.job for each in found if each.error is not None]
        assert behind and all(isinstance(each.error, NotBegunError) for each in found if each.job in behind)
        assert [list(worker.jobs) for worker in made._workers if worker.jobs] == [[long]]


def test_jobs_behind_one_that_takes_long_are_taken_back_while_all_processes_are_busy():
    with pool(2) as made:
        made.warm()
        made.run(b"0.1", b"30")  # each to one of the processes, and what follows in turns
        behind = [made.run(b"0.1", b"0")[1] for _ in range(5)]
        found = made.until(lambda found: any(each.job in behind for each in found))
        assert all(isinstance(each.error, NotBegunError) for each in found if each.job in behind)
        assert sum(each.error is None for each in found) < 6  # the other process has not come to the end of its jobs


def test_jobs_of_a_partition_that_is_given_up_do_not_begin(monkeypatch):
    monkeypatch.setattr(processes, "LATE_S", 100.0)
    with pool(1) as made:
        made.warm()
        first, second = made.run(b"0.3", b"0")
        gone = made.run(b"0", lane=B)
        last = made.run(b"0")
        made.take_back([B.partition])
        assert not made.room()
        found = made.until(lambda found: len(found) == 4)
        errors = {each.job: each.error for each in found}
        assert errors[first] is errors[second] is None
        assert all(isinstance(errors[job], NotBegunError) for job in gone + last)
        made.until(lambda found: made.room())  # the process has skipped them
        made.run(b"0")
        made.until(lambda found: len(found) == 5)
        assert made.found[-1].error is None


def test_a_process_that_dies_costs_only_the_job_that_it_ran():
    with pool(1) as made:
        made.warm()
        ended, killer, *others = made.run(b"0", b"kill", b"0", b"0")
        found = made.until(lambda found: len(found) == 4)
        errors = {each.job: type(each.error) for each in found}
        assert errors[ended] is type(None)
        assert errors[killer] is WorkerDiedError
        assert {errors[job] for job in others} == {NotBegunError}
        made.warm()


def test_a_process_that_is_killed_between_two_jobs_costs_none_an_attempt():
    with pool(1) as made:
        made.warm()
        os.kill(made._workers[0]._process.pid, SIGKILL)
        made._workers[0]._process.join()
        jobs = made.run(b"0", b"0")
        found = made.until(lambda found: len(found) == 2)
        assert {each.job for each in found} == set(jobs)
        assert all(isinstance(each.error, NotBegunError) for each in found)


def test_large_records_are_not_sent_ahead_without_bounds():
    with pool(1) as made:
        made.warm()
        count = 0
        while made.room():
            made.run(b"0.1" + b" " * 100_000)
            count += 1
        assert count == 2
        made.until(lambda found: len(found) == count)


def test_a_process_that_cannot_start_is_named_and_the_pool_can_be_stopped(monkeypatch):
    """Its handler is there in this process only."""

    def hidden(record):
        pass

    hidden.__module__, hidden.__qualname__ = handlers.__name__, "hidden"
    monkeypatch.setattr(handlers, "hidden", hidden, raising=False)
    monkeypatch.setattr(Pool, "handler", staticmethod(hidden))
    with pool(2) as made, pytest.raises(WorkerDiedError, match="before it was ready"):
        made.warm()


def test_a_pool_can_be_stopped_after_no_process_could_be_started_in_place_of_one_that_died(monkeypatch):
    def fail(*about):
        raise OSError("no more processes")

    with pool(1) as made:
        made.warm()
        monkeypatch.setattr(processes, "_Worker", fail)
        made.run(b"kill")
        with pytest.raises(OSError, match="no more processes"):
            made.until(lambda found: found)


def test_what_a_process_had_no_room_for_goes_to_no_other_file(tmp_path):
    with pool(1) as made:
        made.warm()
        (worker,) = made._workers
        os.kill(worker._process.pid, signal.SIGSTOP)  # else it may read as fast as it is sent to
        made.run(b"1" + b" " * 1_000_000)
        assert worker.unsent
        worker.hang_up()
        file = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
        os.dup2(file, worker.descriptor)
        try:
            worker.hang_up()
            assert (tmp_path / "file").stat().st_size == 0
        finally:
            for descriptor in {file, worker.descriptor}:
                os.close(descriptor)
