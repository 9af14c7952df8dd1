"""Workers of an AsyncConsumer on the embedded broker: handlers in tasks."""

import asyncio
import contextlib

import pytest

from tests.workers import handlers
from thinconsumer import Consumer, RebalanceListener, TopicPartition
from thinconsumer.consumer.group_calls import LISTENER_METHODS
from thinconsumer.engine import ListenerPendingError
from thinconsumer.errors import IllegalArgumentError
from thinconsumer.workers import AsyncWorkers, HandlerFailedError, WorkerSettings, dead_letter, run

pytestmark = pytest.mark.once


async def log_soon(record):
    await asyncio.sleep(0.005)
    handlers.log_record(record)


async def fail(record):
    await asyncio.sleep(0)
    handlers.fail(record)


def work(world, handler, until=60, **settings):
    async def main():
        async with world.async_consumer() as consumer:
            async with AsyncWorkers(consumer, handler, WorkerSettings(**settings)) as workers:
                while world.processed(workers) < until:
                    await workers.step()
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


@pytest.mark.parametrize("concurrency", [1, 50])
def test_every_record_is_processed_in_order_by_key_and_committed(world, concurrency):
    work(world, log_soon, concurrency=concurrency)
    assert sorted(world.values()) == list(range(60))
    assert world.is_in_order()
    assert world.committed() == 60


def test_handlers_of_different_keys_run_at_the_same_time(world):
    running, most = 0, 0

    async def handler(record):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    work(world, handler, concurrency=20)
    assert most == 7


def test_a_handler_that_fails_too_often_stops_the_workers(world):
    with pytest.raises(HandlerFailedError, match="failed 2 times"):
        work(world, fail, attempts=2, backoff=0.01)
    assert 13 not in world.values()


def test_dead_letters_are_written(world):
    topic = f"{world.topic}-dead"
    world.broker.create_topic(topic, 1)
    work(world, fail, attempts=2, backoff=0.01, on_failure=dead_letter(topic))
    with Consumer(bootstrap_servers=world.broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.value for record in consumer.read_to_end()] == [b"13"]
    assert world.committed() == 60


def test_the_end_cancels_handlers_that_take_too_long_and_commits_what_is_finished(world):
    cancelled = []

    async def handler(record):
        if record.value == 13:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancelled.append(record.value)
                raise
        handlers.log_record(record)

    work(world, handler, until=50, drain_timeout_ms=100)
    assert cancelled == [13]
    done = set(world.values())
    world.log.unlink()
    work(world, log_soon, until=60 - len(done))
    assert set(world.values()) == set(range(60)) - done


def test_handlers_of_lost_partitions_give_their_places_back_also_if_they_have_not_begun(world):
    async def main():
        async with world.async_consumer() as consumer, AsyncWorkers(consumer, log_soon, WorkerSettings()) as workers:
            while not workers._tasks:
                await workers.step()
            workers.lose(consumer.assignment())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not workers._tasks
            assert not workers._work.dispatcher._left

    asyncio.run(main())
    assert world.values() == []


def test_all_callbacks_of_a_listener_are_passed_on(world):
    """Also those that concern keys, which are called only if the listener has them. Each may be a coroutine."""
    calls = []

    class Listener:
        def __getattr__(self, name):
            if name not in LISTENER_METHODS:
                raise AttributeError(name)

            async def callback(tps):
                await asyncio.sleep(0)
                calls.append((name, tps))

            return callback

    async def main():
        async with world.async_consumer() as consumer:
            for given, count in ((RebalanceListener(), 3), (Listener(), 5)):
                consumer.subscribe([world.topic], listener=given)
                async with AsyncWorkers(consumer, log_soon, WorkerSettings()) as workers:
                    listener = workers._group.subscription.listener
                    names = [name for name in LISTENER_METHODS if hasattr(listener, name)]
                    assert len(names) == count
                    for name in names:
                        with contextlib.suppress(ListenerPendingError):
                            getattr(listener, name)({TopicPartition("t", 0)})
                        await consumer._shell.coroutines.pop()

    asyncio.run(main())
    assert [name for name, _ in calls] == list(LISTENER_METHODS)
    assert all(tps == {TopicPartition("t", 0)} for _, tps in calls)


def test_a_program_with_a_loop_of_its_own_submits_records_and_takes_results(world):
    async def double(record):
        await asyncio.sleep(0.001)
        return handlers.double(record)

    async def main():
        results = []
        settings = WorkerSettings(attempts=2, backoff=0.0, on_failure="skip")
        async with world.async_consumer() as consumer, AsyncWorkers(consumer, double, settings) as workers:
            while world.processed(workers) < 60:
                await workers.submit(await consumer.poll(10))
                results += workers.results()
        return [*results, *workers.results()]

    results = asyncio.run(main())
    assert [str(each.error) for each in results if each.error is not None] == ["thirteen"] * 2
    values = {record.value: each.value for each in results for record in each.records}
    assert values == {b"%d" % n: None if n == 13 else 2 * n for n in range(60)}
    assert world.committed() == 60


def test_a_failure_that_ends_the_workers_is_raised_by_submit(world):
    async def main():
        settings = WorkerSettings(attempts=1)
        async with world.async_consumer() as consumer, AsyncWorkers(consumer, fail, settings) as workers:
            while True:
                await workers.submit(await consumer.poll(10))  # no WakeupError: the program has not asked for one

    with pytest.raises(HandlerFailedError):
        asyncio.run(main())


def test_pools_for_functions_are_refused(world):
    async def main():
        async with world.async_consumer() as consumer:
            with pytest.raises(IllegalArgumentError, match="pool='processes' needs a Consumer"):
                AsyncWorkers(consumer, log_soon, WorkerSettings(pool="processes"))

    asyncio.run(main())


def test_run_ends_with_the_task(world):
    async def main():
        async with world.async_consumer() as consumer:
            task = asyncio.create_task(run(consumer, log_soon))
            while len(world.lines()) < 60:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert world.committed() == 60


def test_the_end_commits_although_the_workers_were_stopped(world):
    async def main():
        async with (
            world.async_consumer() as consumer,
            AsyncWorkers(consumer, log_soon, WorkerSettings(concurrency=10)) as workers,
        ):
            while world.processed(workers) < 60:
                await workers.step()
            workers.stop()
            await workers.run()

    asyncio.run(main())
    assert world.committed() == 60
