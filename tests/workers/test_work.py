"""What workers do with the records of a poll whose position has moved back, or whose commits were not read."""

from types import SimpleNamespace

import pytest

from thinconsumer import OffsetAndMetadata, RetriableDeserializationError, TopicPartition
from thinconsumer.workers import WorkerSettings
from thinconsumer.workers.work import Assigned, Work

A = TopicPartition("t", 0)


def records(first, *epochs):
    return [
        SimpleNamespace(offset=first + at, leader_epoch=epoch, key=b"%d" % at, value=b"", topic="t", partition=0)
        for at, epoch in enumerate(epochs)
    ]


def at(offset, leader_epoch):
    """Where the client is to seek to: with the epoch by which it notices another truncation."""
    return {A: OffsetAndMetadata(offset, "", leader_epoch)}


def begun(*epochs):
    """Return work of which the records from offset 0 on are finished."""
    work = Work(WorkerSettings())
    work.assign({A: Assigned(OffsetAndMetadata(0, "", -1), bytes(16))})
    assert work.take({A: records(0, *epochs)}, 0.0) == {}
    run(work)
    return work


def run(work):
    """Run and finish all jobs; return their offsets."""
    offsets = []
    while (job := work.next_job(0.0)) is not None:
        offsets += job.offsets
        work.end(job, None, 0.0)
    return sorted(offsets)


def test_records_that_have_replaced_finished_ones_are_processed():
    work = begun(0, 0, 0, 0)
    assert work.take({A: records(1, 0, 1, 1)}, 0.0) == at(2, 1)
    assert work.take({A: records(2, 1, 1, 1)}, 0.0) == {}
    assert run(work) == [2, 3, 4]
    assert work.offsets()[A].offset == 5


def test_finished_records_that_come_again_are_left_out():
    work = begun(0, 0, 1, 1)
    assert work.take({A: records(0, 0, 0)}, 0.0) == {}
    assert work.take({A: records(2, 1, 1, 1)}, 0.0) == at(4, 1)
    assert work.take({A: records(4, 1)}, 0.0) == {}
    assert run(work) == [4]


def test_records_of_an_older_leader_epoch_that_have_replaced_finished_ones_are_processed():
    """A deposed leader had gone on in its epoch, and was elected again after an unclean election of another."""
    work = begun(1, 0, 2, 2)
    assert work.take({A: records(0, 1, 1, 1)}, 0.0) == at(1, 1)
    assert work.take({A: records(1, 1, 1)}, 0.0) == {}
    assert run(work) == [1, 2]
    assert work.offsets()[A].offset == 3


def test_a_deserializer_that_is_not_ready_is_no_attempt():
    work = Work(WorkerSettings(attempts=1, on_failure="skip"))
    work.assign({A: Assigned(OffsetAndMetadata(0, "", -1), bytes(16))})
    work.take({A: records(0, 0)}, 0.0)
    for now in range(5):
        assert now == 0 or work.next_job(now - 0.1) is None
        job = work.next_job(now)
        error = RetriableDeserializationError.__new__(RetriableDeserializationError)
        error.retry_after_ms = 1000
        assert not work.end(job, error, now)
    job = work.next_job(5)
    assert (job.attempt, work.failed_count, work.skipped_count) == (1, 0, 0)
    work.end(job, None, 5)
    assert work.offsets()[A].offset == 1


@pytest.mark.parametrize("epochs", [[-1, -1, -1], range(200)], ids=["unknown", "forgotten"])
def test_records_that_come_again_and_may_have_replaced_finished_ones_are_processed(epochs):
    work = begun(*epochs)
    work.offsets()
    assert work.take({A: records(0, *epochs[:50])}, 0.0) == at(0, epochs[0])


@pytest.mark.parametrize(("epoch", "back"), [(1, at(3, 1)), (2, {})], ids=["another", "the same"])
def test_records_before_the_committed_offset_are_left_out_if_the_last_of_them_is_still_the_same(epoch, back):
    work = Work(WorkerSettings())
    work.assign({A: Assigned(OffsetAndMetadata(5, "", 2), bytes(16))})
    work.take({A: records(5, 2)}, 0.0)
    assert run(work) == [5]
    assert work.take({A: records(3, 1, epoch)}, 0.0) == back


def test_a_partition_whose_commits_were_not_read_goes_back_to_its_first_record():
    work = Work(WorkerSettings())
    assert work.take({A: records(7, 0, 0)}, 0.0) == at(7, 0)
    assert run(work) == []


@pytest.mark.parametrize(("order", "count"), [("none", 2), ("partition", 1)])
def test_the_order_of_records_without_a_key_is_a_setting(order, count):
    work = Work(WorkerSettings(null_key_order=order))
    work.assign({A: Assigned(None, bytes(16))})
    taken = records(0, 0, 0)
    for each in taken:
        each.key = None
    work.take({A: taken}, 0.0)
    jobs = [work.next_job(0.0) for _ in taken]
    assert sum(job is not None for job in jobs) == count
