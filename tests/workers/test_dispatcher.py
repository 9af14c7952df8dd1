"""The dispatcher: jobs in order by key, fair between partitions, and retries that hold back only their own key."""

import random
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer import TopicPartition
from thinconsumer.workers.dispatcher import JobDispatcher
from thinconsumer.workers.progress import PartitionProgress

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def dispatcher(
    order="key",
    batch_size=1,
    attempts=None,
    backoff=lambda failed: 1.0,
    waiting_max=100,
    bytes_max=10_000,
    null_key_order="none",
):
    made = JobDispatcher(order, batch_size, attempts, backoff, waiting_max, bytes_max, null_key_order)
    for partition in (A, B):
        made.assign(partition, PartitionProgress(0))
    return made


def take(made, keys, partition=A, first=0):
    made.take(partition, [(first + at, 0, key, f"{key}{first + at}", 10) for at, key in enumerate(keys)])


def jobs(made, now=0.0):
    found = []
    while (job := made.next_job(now)) is not None:
        found.append(job)
    return found


def records(found):
    return [job.records for job in found]


def test_records_of_a_key_run_one_after_the_other():
    made = dispatcher()
    take(made, "aab")
    first, other = jobs(made)
    assert records([first, other]) == [["a0"], ["b2"]]
    made.finish(other)
    assert jobs(made) == []
    made.finish(first)
    assert records(jobs(made)) == [["a1"]]


def test_records_without_a_key_have_no_order():
    made = dispatcher()
    take(made, [None, "a", None, None, "a"])
    found = jobs(made)
    assert records(found) == [["None0"], ["a1"], ["None2"], ["None3"]]
    made.finish(found[2])
    assert jobs(made) == []
    take(made, [None], first=5)
    assert records(jobs(made)) == [["None5"]]


def test_records_without_a_key_may_have_the_order_of_their_partition():
    made = dispatcher(null_key_order="partition")
    take(made, [None, "a", None])
    take(made, [None], B)
    first, other, third = jobs(made)
    assert records([first, other, third]) == [["None0"], ["None0"], ["a1"]]
    made.finish(first)
    assert records(jobs(made)) == [["None2"]]


def test_an_empty_key_is_a_key():
    made = dispatcher()
    take(made, [b"", b""])
    assert len(jobs(made)) == 1


def test_records_of_a_partition_without_a_key_are_in_one_job_up_to_the_batch_size():
    made = dispatcher(batch_size=2)
    take(made, [None, "a", None, None, "a", None])
    take(made, [None], B)
    assert records(jobs(made)) == [["None0", "None2"], ["None0"], ["a1", "a4"], ["None3", "None5"]]


def test_records_without_an_order_wait_for_the_map_and_go_on():
    """The first of a batch may be dispatched, the next only once an earlier record has finished."""
    made = dispatcher(batch_size=3)
    made.assign(A, PartitionProgress(0, distance_max=4))
    take(made, "x")
    take(made, [None] * 5, first=1)
    stuck, batch = jobs(made)
    assert records([stuck, batch]) == [["x0"], ["None1", "None2", "None3"]]
    made.finish(batch)
    assert jobs(made) == []
    made.finish(stuck)
    assert records(jobs(made)) == [["None4", "None5"]]


def test_a_job_has_records_of_one_key_up_to_the_batch_size():
    made = dispatcher(batch_size=2)
    take(made, "abaaba")
    first, second = jobs(made)
    assert records([first, second]) == [["a0", "a2"], ["b1", "b4"]]
    made.finish(first)
    assert records(jobs(made)) == [["a3", "a5"]]


def test_records_of_a_partition_run_one_after_the_other_with_that_order():
    made = dispatcher("partition", batch_size=2)
    take(made, "abc")
    take(made, "d", B)
    first, other = jobs(made)
    assert records([first, other]) == [["a0", "b1"], ["d0"]]
    made.finish(first)
    assert records(jobs(made)) == [["c2"]]


def test_without_an_order_all_records_run_at_once():
    made = dispatcher("none", batch_size=2)
    take(made, "aaa")
    assert records(jobs(made)) == [["a0", "a1"], ["a2"]]


def test_partitions_take_turns():
    made = dispatcher()
    take(made, "abcd")
    take(made, "xy", B)
    assert [job.lane.partition for job in jobs(made)] == [A, B, A, B, A, A]


def test_a_job_that_failed_is_repeated_after_its_backoff_and_holds_back_only_its_key():
    made = dispatcher(attempts=3, backoff=lambda failed: 10.0 * failed)
    take(made, "aab")
    first, other = jobs(made)
    assert made.fail(first, 5.0)
    made.finish(other)
    take(made, "b", first=3)
    assert records(jobs(made, 14.9)) == [["b3"]]
    assert made.next_time() == 15.0
    (again,) = jobs(made, 15.0)
    assert (again.records, again.attempt) == (["a0"], 2)
    assert made.fail(again, 15.0)
    assert made.next_time() == 35.0
    (again,) = jobs(made, 35.0)
    assert not made.fail(again, 35.0)
    assert made.next_time() is None
    made.finish(again)
    assert records(jobs(made, 35.0)) == [["a1"]]


def test_a_job_that_was_not_begun_is_handed_out_before_later_ones_and_has_had_no_attempt():
    made = dispatcher(attempts=1)
    take(made, "aabc")
    first, other = made.next_job(0.0), made.next_job(0.0)
    made.put_back(first)
    (again, third) = jobs(made)
    assert (again, again.attempt, third.records) == (first, 1, ["c3"])
    made.close(A)
    made.put_back(again)
    assert jobs(made) == []
    assert made.lanes[A].running == {other, third}


def test_a_partition_that_is_being_revoked_hands_out_nothing_but_its_jobs_may_finish():
    made = dispatcher()
    take(made, "abc")
    running = made.next_job(0.0)
    made.fail(made.next_job(0.0), 0.0)
    made.close(A)
    assert jobs(made, 100.0) == []
    made.finish(running)
    assert made.lanes[A].progress.offset == 1


def test_results_of_a_partition_that_is_gone_are_ignored():
    made = dispatcher()
    take(made, "ab")
    old, retried = jobs(made)
    made.remove(A)
    made.assign(A, PartitionProgress(0))
    take(made, "a")
    made.finish(old)
    made.fail(retried, 0.0)
    assert made.next_time() is None
    assert made.lanes[A].progress.offset == 0
    assert records(jobs(made, 100.0)) == [["a0"]]


def test_jobs_of_an_assignment_before_hold_their_keys_until_they_have_ended():
    made = dispatcher(attempts=1)
    take(made, "aabc")
    old = jobs(made)
    for _ in range(2):
        made.remove(A)
        made.assign(A, PartitionProgress(0))
    take(made, "aabcd")
    assert records(jobs(made)) == [["d4"]]
    made.finish(old[1])
    assert records(jobs(made)) == [["b2"]]
    made.repeat(old[0], 100.0)  # as it was cancelled
    (job,) = jobs(made)
    assert job.records == ["a0"]
    made.finish(job)
    assert records(jobs(made)) == [["a1"]]
    made.leave(old[2])
    assert records(jobs(made)) == [["c3"]]
    assert not made._left


@pytest.mark.parametrize(("order", "count"), [("partition", 0), ("none", 3)])
def test_jobs_of_an_assignment_before_hold_what_they_have_an_order_with(order, count):
    made = dispatcher(order)
    take(made, "abc")
    (old, *_) = jobs(made)
    made.remove(A)
    made.assign(A, PartitionProgress(0))
    take(made, "abc")
    assert len(jobs(made)) == count
    made.finish(old)
    assert len(jobs(made)) == 1 - min(count, 1)


def test_a_partition_is_full_by_its_records_or_by_the_bytes_of_all():
    made = dispatcher(waiting_max=3)
    take(made, "aa")
    take(made, "aaaa", B)
    assert made.full() == {B}
    made = dispatcher(bytes_max=60)
    take(made, "aaaaa")
    assert made.full() == set()
    take(made, "a", B)
    assert made.full() == {A, B}
    assert len(jobs(made)) == 2
    assert made.full() == set()


@pytest.mark.parametrize(
    ("order", "null_key_order"), [("key", "none"), ("key", "partition"), ("partition", "none"), ("none", "partition")]
)
@given(seed=st.integers(0, 10**9))
def test_every_record_finishes_in_order_whatever_fails(order, null_key_order, seed):
    def chain_of(key):
        """Return what names the records that run one after the other with those of the key; None: in no order."""
        if order == "key":
            return key or (null_key_order == "partition" and "null")
        return order == "partition" and "all"

    rng = random.Random(seed)
    made = dispatcher(order, rng.choice([1, 3]), None, lambda failed: rng.choice([0.0, 2.0]), 10, 500, null_key_order)
    logs = {partition: [] for partition in (A, B)}
    for partition in logs:
        made.assign(partition, PartitionProgress(0, text_max=rng.choice([80, 4096])))
    running, finished, now, count = [], defaultdict(list), 0.0, 0
    while count < 60 or any(lane.progress.count for lane in made.lanes.values()):
        now += 0.1
        if count < 60 and rng.random() < 0.5:
            partition = rng.choice([each for each in logs if each not in made.full()] or [A])
            keys = [rng.choice(["a", "b", "c", None]) for _ in range(rng.choice([1, 5]))]
            take(made, keys, partition, len(logs[partition]))
            logs[partition] += map(chain_of, keys)
            count += len(keys)
        if len(running) < 4 and (job := made.next_job(now)) is not None:
            log = logs[job.lane.partition]
            (chain,) = {log[offset] for offset in job.offsets}
            assert not any(chain and job.lane is each.lane and chain == log[each.offsets[0]] for each in running)
            running.append(job)
        if running and rng.random() < 0.4:
            job = running.pop(rng.randrange(len(running)))
            if rng.random() < 0.3:
                made.fail(job, now)
            else:
                partition = job.lane.partition
                finished[partition, logs[partition][job.offsets[0]]] += job.offsets
                made.finish(job)
    for (partition, chain), offsets in finished.items():
        expected = [offset for offset, each in enumerate(logs[partition]) if each == chain]
        assert (offsets if chain else sorted(offsets)) == expected
    assert not any(lane.has_ready or lane.keys or lane.running or lane.waiting_bytes for lane in made.lanes.values())
