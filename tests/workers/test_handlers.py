"""What handlers may do, and that of the others workers count nothing as done that is not."""

import asyncio
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.workers import handlers
from thinconsumer import Consumer, TopicPartition
from thinconsumer.errors import IllegalArgumentError
from thinconsumer.testing import MemoryCluster
from thinconsumer.workers import AsyncWorkers, HandlerFailedError, Workers, WorkerSettings, dead_letter, run
from thinconsumer.workers.calling import Pool, Result
from thinconsumer_testing.simulation.observed import SimConsumer

pytestmark = pytest.mark.once


@pytest.mark.parametrize("pool", ["inline", "threads", "processes"])
def test_a_handler_that_returns_a_coroutine_stops_the_workers(world, pool):
    """With any record it does nothing: as a failure of each of them, all would be skipped."""
    with pytest.raises(HandlerFailedError) as raised:
        world.work(handlers.Coroutine(), pool=pool, concurrency=1, on_failure="skip")
    assert "has returned a coroutine, which needs an AsyncConsumer" in str(raised.value.__cause__)
    assert raised.value.attempts == 1
    assert world.committed() == 0


def work(world, handler, **settings):
    async def main():
        async with (
            world.async_consumer() as consumer,
            AsyncWorkers(consumer, handler, WorkerSettings(**settings)) as workers,
        ):
            await workers.run()

    asyncio.run(main())


def test_a_function_in_place_of_a_coroutine_function_stops_the_workers(world):
    calls = []
    with pytest.raises(HandlerFailedError) as raised:
        work(world, calls.append, on_failure="skip", concurrency=1)
    assert "must be a coroutine function" in str(raised.value.__cause__)
    assert len(calls) == 1
    assert world.committed() == 0


@pytest.mark.parametrize("what", [KeyboardInterrupt, SystemExit])
def test_the_end_does_not_wait_for_a_handler_that_ctrl_c_or_an_exit_has_cut_off(world, what):
    def handler(record):
        if record.value == 13:
            raise what
        handlers.log_record(record)

    began = time.monotonic()
    with pytest.raises(what):
        world.work(handler, drain_timeout_ms=60_000)
    assert time.monotonic() < began + 30
    assert world.committed() < 60
    world.work(handlers.log_record, until=60 - len(world.lines()))
    assert sorted(world.values()) == list(range(60))


def test_the_end_does_not_wait_for_a_task_that_an_exit_has_cut_off(world):
    async def handler(record):
        if record.value == 13:
            raise SystemExit
        handlers.log_record(record)

    began = time.monotonic()
    with pytest.raises(SystemExit):
        work(world, handler, drain_timeout_ms=60_000)
    assert time.monotonic() < began + 30
    assert 13 not in world.values()
    world.work(handlers.log_record, until=60 - len(world.lines()))
    assert sorted(world.values()) == list(range(60))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python does not tell what was cancelled")
def test_a_future_that_was_cancelled_is_a_failure_of_the_handler_that_awaits_it(world):
    async def handler(record):
        if record.value == 13:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

    with pytest.raises(HandlerFailedError, match="failed 2 times") as raised:
        work(world, handler, attempts=2, backoff=0.0)
    assert "CancelledError" in str(raised.value.__cause__)


def test_a_handler_in_a_thread_that_never_ends_does_not_keep_the_program_from_ending(world):
    stuck, begun = threading.Event(), threading.Event()

    def handler(record):
        begun.set()
        stuck.wait()

    with world.consumer() as consumer:
        with Workers(consumer, handler, WorkerSettings(pool="threads", drain_timeout_ms=1)) as workers:
            while not begun.is_set():
                workers.wait(workers.step())
        left = [each for each in threading.enumerate() if each.name.startswith("thinconsumer-worker")]
        assert left
        assert all(each.daemon for each in left)
        stuck.set()
        for each in left:
            each.join(10)
            assert not each.is_alive()


def test_arguments_of_other_kinds_are_refused(world):
    with world.consumer() as consumer:
        with pytest.raises(IllegalArgumentError, match="must be a function, not int"):
            run(consumer, 5)
        with pytest.raises(IllegalArgumentError, match="takes a Consumer or an AsyncConsumer, not function"):
            run(handlers.log_record, consumer)


def test_a_failure_without_a_text_has_a_dead_letter(world):
    class SilentError(Exception):
        def __str__(self):
            raise ValueError

    def handler(record):
        if record.value == 13:
            raise SilentError

    topic = f"{world.topic}-dead"
    world.broker.create_topic(topic, 1)
    world.work(handler, attempts=1, on_failure=dead_letter(topic))
    with Consumer(bootstrap_servers=world.broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        (record,) = consumer.read_to_end()
    assert dict(record.headers)["__workers.errors.message"] == b"its text cannot be made"


def test_a_topic_of_dead_letters_that_is_missing_is_named(world, caplog):
    topic = f"{world.topic}-dead"
    settings = WorkerSettings(attempts=1, on_failure=dead_letter(topic), drain_timeout_ms=0)
    with world.consumer() as consumer, Workers(consumer, handlers.fail, settings) as workers:
        while world.processed(workers) < 40 or topic not in caplog.text:
            workers.wait(workers.step())
        assert f"topic {topic}: create it" in caplog.text
        world.broker.create_topic(topic, 1)
        while world.processed(workers) < 60:
            workers.wait(workers.step())
    assert caplog.text.count("create it") == 1
    assert world.committed() == 60


def test_a_failure_stops_the_workers_although_another_handler_never_ends(world):
    stuck = threading.Event()

    def handler(record):
        if record.value == 13:
            raise ValueError
        if record.value == 0:
            stuck.wait()

    async def coroutine(record):
        if record.value == 13:
            raise ValueError
        if record.value == 0:
            await asyncio.Event().wait()

    settings = {"attempts": 1, "drain_timeout_ms": 1}
    with pytest.raises(HandlerFailedError):
        world.work(handler, pool="threads", **settings)
    stuck.set()
    with pytest.raises(HandlerFailedError):
        work(world, coroutine, **settings)


class SlowPool(Pool):
    """Has one job, which runs until :meth:`end`; handlers in threads and processes look the same to the workers."""

    def __init__(self):
        self.jobs, self.ended, self.started = [], [], 0

    def room(self):
        return 1 - len(self.jobs)

    def start(self, job):
        self.jobs.append(job)
        self.started += 1

    def end(self):
        self.ended, self.jobs = self.jobs, []

    def results(self):
        ended, self.ended = self.ended, []
        return [Result(job, None, None) for job in ended]


def test_a_handler_may_run_for_longer_than_the_session():
    """Heartbeats and polls go on meanwhile, so that the member keeps its partition, and the result counts."""
    cluster, pool = MemoryCluster(1, {"orders": 1}), SlowPool()
    cluster.produce("orders", [b"an order"], 0)
    driver = cluster.driver()
    options = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 2_000, "max_poll_interval_ms": 6_000}
    options |= {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest", "driver": driver}
    with (
        SimConsumer("orders", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer,
        Workers(consumer, print, WorkerSettings(), pool=lambda call, settings: pool) as workers,
    ):
        until = driver.now() + 100
        while driver.now() < until:
            workers.submit(consumer.poll(100))
        assert (pool.started, workers.health().running) == (1, 1)
        pool.end()
        workers.submit(consumer.poll(100))
        assert workers.health().finished == 1


def test_processes_inherit_no_socket_and_ctrl_c_does_not_end_them(world):
    world.work(handlers.interrupt_and_name_sockets, pool="processes", concurrency=1)
    assert sorted(world.values()) == list(range(60))
    assert len({line[0] for line in world.lines()}) == 1
    if sys.platform == "linux":
        assert Path(f"{world.log}.sockets").read_text() == "1"  # the pipe of the process
