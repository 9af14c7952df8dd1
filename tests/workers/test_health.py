"""The health of workers: numbers, and the record that keeps a partition's offset from being committed."""

import asyncio
import logging
import math

import pytest

from thinconsumer import ConsumerRecord, HealthState, TopicPartition
from thinconsumer.workers import AsyncWorkers, UnfinishedRecord, Workers, WorkerSettings, base, dead_letter
from thinconsumer.workers.health import health_of
from thinconsumer.workers.work import Assigned, Work

pytestmark = pytest.mark.once

A = TopicPartition("t", 0)


def record(offset, key):
    return ConsumerRecord("t", 0, 0, offset, 0, 0, key, b"v")


def work(**settings):
    made = Work(WorkerSettings(backoff=5.0, **settings))
    made.assign({A: Assigned(None, bytes(16))})
    return made


def health(made, now, stuck_after=60.0):
    return health_of(made, {A}, now, stuck_after)


def test_the_first_unfinished_record_is_named_in_each_of_its_states():
    made = work()
    assert health(made, 100.0).partitions[A].oldest is None
    made.take({A: [record(7, b"k"), record(8, b"l"), record(9, b"l")]}, 100.0)
    made.take({A: [record(10, b"m")]}, 150.0)
    assert health(made, 103.0).oldest == UnfinishedRecord(A, 7, b"k", 3.0, 0, False)
    first, second = made.next_job(104.0), made.next_job(104.0)
    found = health(made, 160.0)
    assert (found.oldest.age, found.oldest.attempts, found.oldest.is_running) == (60.0, 1, True)
    assert found.reason == "t-0 offset 7, key b'k', is unfinished since 60 s: running, 1 attempts"
    assert (found.running, found.retrying, found.waiting) == (2, 0, 2)
    assert (found.partitions[A].offset, found.partitions[A].is_paused) == (7, True)
    made.end(first, ValueError(), 160.0)
    found = health(made, 161.0)
    assert (found.oldest.offset, found.oldest.attempts, found.oldest.is_running) == (7, 1, False)
    assert (found.running, found.retrying, found.failures) == (1, 1, 1)
    made.end(second, None, 161.0)
    made.end(made.next_job(165.0), None, 165.0)
    assert health(made, 165.0).oldest.offset == 9
    while (job := made.next_job(166.0)) is not None:
        if job.offsets == [10]:
            assert health(made, 166.0).oldest.age == 16.0
        made.end(job, None, 166.0)
    found = health(made, 167.0)
    assert (found.oldest, found.reason, found.finished) == (None, "", 4)
    assert math.isnan(found.metrics()["worker-metrics"]["oldest-unfinished-seconds-ago"])


def test_only_records_that_are_old_enough_are_stuck_and_long_keys_are_cut():
    made = work()
    made.take({A: [record(0, b"x" * 100)]}, 0.0)
    assert health(made, 9.0, stuck_after=10.0).reason == ""
    assert "x' ... of" not in health(made, 10.0, stuck_after=10.0).reason
    assert f"key {b'x' * 50!r}... of 100 bytes" in health(made, 10.0, stuck_after=10.0).reason


def test_times_of_records_behind_a_stuck_one_take_little_memory():
    """One entry a second at most; none of before the committed offset."""
    made = work()
    for offset in range(1000):
        made.take({A: [record(offset, b"%d" % offset)]}, offset / 100)
    assert len(made.dispatcher.lanes[A].received) == 10
    while (job := made.next_job(10.0)) is not None:
        made.end(job, None, 10.0)
    made.take({A: [record(1000, b"k")]}, 11.0)
    made.take({A: [record(1001, b"k")]}, 12.0)
    assert len(made.dispatcher.lanes[A].received) <= 2


def test_workers_report_what_became_of_all_records(world):
    topic = f"{world.topic}-dead"
    world.broker.create_topic(topic, 1)

    def handler(record):
        if record.value == 13:
            raise ValueError

    settings = WorkerSettings(attempts=2, backoff=0.0, on_failure=dead_letter(topic))
    with world.consumer() as consumer, Workers(consumer, handler, settings) as workers:
        while world.processed(workers) < 60:
            workers.wait(workers.step())
        found = workers.health()
        assert (found.finished, found.failures, found.dead_letters, found.skipped) == (59, 2, 1, 0)
        assert (found.running, found.retrying, found.waiting, found.oldest) == (0, 0, 0, None)
        assert sum(each.offset for each in found.partitions.values()) == 60
        assert workers.metrics()["worker-metrics"]["records-finished-total"] == 59


def test_the_consumer_and_the_log_tell_of_stuck_records_too(world, monkeypatch, caplog):
    """A program that calls ``run`` has no other object to ask."""
    monkeypatch.setattr(base, "STUCK_S", 0.2)
    goes_on = False

    def handler(record):
        if record.value == 13 and not goes_on:
            raise ValueError

    settings = WorkerSettings(attempts=None, backoff=0.1, commit_interval_ms=10)
    caplog.set_level(logging.INFO, base.log.name)
    with world.consumer() as consumer:
        with Workers(consumer, handler, settings) as workers:
            while world.processed(workers) < 53 or not caplog.records:
                workers.wait(workers.step())
            health, metrics = consumer.health(), consumer.metrics()
            place = f"{world.topic}-0 offset 5"
            assert f"{place}, key b'k6', is unfinished since 0 s: waiting, " in health.reason
            assert health.state is HealthState.WORKING
            assert metrics["worker-metrics"]["records-finished-total"] == 53
            assert metrics[f"worker-metrics.partition-{world.topic}-0"]["calls-retrying"] == 1
            goes_on = True
            while len(caplog.records) < 2:
                workers.wait(workers.step())
        assert "worker-metrics" not in consumer.metrics()
        assert not consumer.health().reason
    stuck, over = (record.getMessage() for record in caplog.records)
    assert stuck.startswith(f"{place} is unfinished since 0 s: waiting, ")
    assert over.startswith(f"{world.topic}-0 goes on after ")


def test_a_task_sees_the_record_that_is_stuck(world):
    async def main():
        stuck = asyncio.Event()

        async def handler(record):
            if record.value == 13:
                await stuck.wait()

        async with world.async_consumer() as consumer, AsyncWorkers(consumer, handler, WorkerSettings()) as workers:
            while world.processed(workers) < 50:
                await workers.step()
            found = workers.health(stuck_after_ms=0)
            assert f"{world.topic}-0 offset 5, key b'k6', is unfinished" in found.reason
            assert found.partitions[TopicPartition(world.topic, 0)].oldest.is_running
            stuck.set()

    asyncio.run(main())
