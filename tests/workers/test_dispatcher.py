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


def dispatcher(order="key", batch_size=1, attempts=None, backoff=lambda failed: 1.0, waiting_max=100, bytes_max=10_000):
    made = JobDispatcher(order, batch_size, attempts, backoff, waiting_max, bytes_max)
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


def test_records_without_a_key_count_as_one_key():
    made = dispatcher()
    take(made, [None, "a", None])
    assert records(jobs(made)) == [["None0"], ["a1"]]


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


@pytest.mark.parametrize("order", ["key", "partition", "none"])
@given(seed=st.integers(0, 10**9))
def test_every_record_finishes_in_order_whatever_fails(order, seed):
    rng = random.Random(seed)
    made = JobDispatcher(order, rng.choice([1, 3]), None, lambda failed: rng.choice([0.0, 2.0]), 10, 500)
    logs = {partition: [] for partition in (A, B)}
    for partition in logs:
        made.assign(partition, PartitionProgress(0, text_max=rng.choice([80, 4096])))
    running, finished, now, count = [], defaultdict(list), 0.0, 0
    while count < 60 or any(lane.progress.count for lane in made.lanes.values()):
        now += 0.1
        if count < 60 and rng.random() < 0.5:
            partition = rng.choice([each for each in logs if each not in made.full()] or [A])
            keys = [rng.choice("abc") for _ in range(rng.choice([1, 5]))]
            take(made, keys, partition, len(logs[partition]))
            logs[partition] += keys
            count += len(keys)
        if len(running) < 4 and (job := made.next_job(now)) is not None:
            if order != "none":
                keys = {record[0] for record in job.records} if order == "key" else {None}
                assert not any(
                    job.lane is each.lane and (order == "partition" or keys & {record[0] for record in each.records})
                    for each in running
                )
            running.append(job)
        if running and rng.random() < 0.4:
            job = running.pop(rng.randrange(len(running)))
            if rng.random() < 0.3:
                made.fail(job, now)
            else:
                for record in job.records:
                    finished[job.lane.partition, record[0] if order == "key" else None].append(int(record[1:]))
                made.finish(job)
    for (partition, key), offsets in finished.items():
        expected = [offset for offset, each in enumerate(logs[partition]) if key in (each, None)]
        assert (sorted(offsets) if order == "none" else offsets) == expected
    assert not any(lane.ready or lane.keys or lane.running or lane.waiting_bytes for lane in made.lanes.values())
