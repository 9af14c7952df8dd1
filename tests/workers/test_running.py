"""Workers of a consumer on the embedded broker, with each kind of pool."""

import dataclasses
import os
import threading
import time
from collections import Counter

import pytest

from tests.workers import handlers
from thinconsumer import Consumer, TopicPartition
from thinconsumer.broker import EntryError
from thinconsumer.errors import IllegalArgumentError, IllegalStateError, KafkaConfigurationError
from thinconsumer.records.builder import NewRecord
from thinconsumer.wire.error_codes import Code
from thinconsumer.workers import HandlerFailedError, WorkerOptions, Workers, WorkerSettings, dead_letter, running

pytestmark = pytest.mark.once

POOLS = ("inline", "threads", "processes")


@pytest.mark.parametrize("pool", POOLS)
def test_every_record_is_processed_in_order_by_key_and_committed(world, pool):
    world.work(handlers.log_slowly, pool=pool, concurrency=2)
    lines = world.lines()
    assert sorted(int(line[4]) for line in lines) == list(range(60))
    assert world.is_in_order()
    assert world.committed() == 60
    assert (str(os.getpid()) in {line[0] for line in lines}) == (pool != "processes")


def test_a_list_of_one_keys_records_is_one_call(world):
    calls = []
    world.work(calls.append, batch_size=4)
    assert all(len({record.key for record in call}) == 1 for call in calls)
    assert max(map(len, calls)) > 1
    assert sorted(record.value for call in calls for record in call) == list(range(60))


@pytest.mark.parametrize("pool", POOLS)
def test_a_handler_that_fails_too_often_stops_the_workers_before_a_commit_passes_the_record(world, pool):
    with pytest.raises(HandlerFailedError, match="failed 2 times for .* offset") as raised:
        world.work(handlers.fail, pool=pool, attempts=2, backoff=0.0)
    assert isinstance(raised.value.__cause__, ValueError)
    assert [record.value for record in raised.value.records] == [b"13"]
    processed = {int(line[4]) for line in world.lines()}
    assert 13 not in processed
    world.log.unlink()
    world.work(handlers.log_record, until=60 - len(processed))  # the map of the commit leaves out what is finished
    assert {int(line[4]) for line in world.lines()} == set(range(60)) - processed


def test_records_that_are_skipped_count_as_done(world):
    world.work(handlers.fail, attempts=2, backoff=0.0, on_failure="skip")
    assert {int(line[4]) for line in world.lines()} == set(range(60)) - {13}
    assert world.committed() == 60


def test_dead_letters_are_written_with_reasons_before_the_record_counts_as_done(world):
    topic = f"{world.topic}-dead"
    world.broker.create_topic(topic, 1)
    world.work(handlers.fail, attempts=2, backoff=0.0, on_failure=dead_letter(topic))
    with Consumer(bootstrap_servers=world.broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        (record,) = consumer.read_to_end()
    assert (record.key, record.value) == (b"k6", b"13")
    headers = {name.removeprefix("__workers.errors."): value.decode() for name, value in record.headers}
    assert headers.pop("log") == str(world.log)
    assert int(headers.pop("timestamp")) == record.timestamp
    assert headers == {
        "topic": world.topic, "partition": "0", "offset": "5", "group": f"group-{world.topic}", "attempts": "2",
        "exception": "builtins.ValueError", "message": "thirteen",
    }  # fmt: skip
    assert world.committed() == 60


def test_records_that_no_deserializer_can_read_are_failures_of_their_handler(world):
    world.broker.produce(world.topic, [NewRecord(b"no number", b"k9", [])])
    world.work(handlers.log_record, until=61, attempts=1, on_failure="skip")
    assert world.committed() == 61


def test_a_process_that_is_killed_costs_an_attempt_and_loses_nothing(world):
    world.work(handlers.kill_once, pool="processes", concurrency=2, backoff=0.0)
    values = [int(line[4]) for line in world.lines()]
    assert set(values) == set(range(60))
    assert world.is_in_order()


def test_a_record_that_kills_its_process_each_time_is_given_up(world):
    world.work(handlers.kill_always, pool="processes", concurrency=1, backoff=0.0, attempts=2, on_failure="skip")
    assert {int(line[4]) for line in world.lines()} >= set(range(60)) - {13}
    assert world.committed() == 60


def test_jobs_that_were_sent_ahead_do_not_begin_once_their_partitions_are_lost(world):
    settings = WorkerSettings(pool="processes", concurrency=1, order="none")
    with world.consumer() as consumer, Workers(consumer, handlers.log_slowly, settings) as workers:
        while not world.processed(workers):
            workers.wait(workers.step())
        workers._pool._seconds = 0.0001  # so that many are sent ahead
        workers.step()
        workers.wait(0.0)
        began = len(world.lines())
        workers.lose(consumer.assignment())
        time.sleep(0.3)
        assert len(world.lines()) <= began + 3


def test_partitions_that_move_are_committed_with_what_is_finished(world):
    """A second member joins while records are processed: none is processed twice, none is lost."""
    with (
        world.consumer() as first,
        Workers(first, handlers.log_very_slowly, WorkerSettings()) as one,
        world.consumer(heartbeat_interval_ms=50) as second,
        Workers(second, handlers.log_slowly, WorkerSettings()) as other,
    ):
        while world.processed(one) < 10 or not second.assignment():
            one.step()
            other.step()
            if world.processed(one) > world.count - 10:
                world.produce(20)  # so that some are left for the second member
        while world.processed(one) + world.processed(other) < world.count:
            one.step()
            other.step()
        assert world.processed(other)
    assert sorted(world.values()) == list(range(world.count))
    assert world.committed() == world.count


def test_a_handler_of_a_partition_that_was_lost_and_assigned_again_holds_back_its_key(world):
    """It cannot be ended. The record is handed out again, and must not run beside it, nor those behind it."""
    lock, goes_on, running, most = threading.Lock(), threading.Event(), Counter(), 0

    def handler(record):
        nonlocal most
        with lock:
            running[record.key] += 1
            most = max(most, *running.values())
        if record.key == b"k6":
            goes_on.wait(30)
        with lock:
            running[record.key] -= 1

    settings = WorkerSettings(pool="threads")
    with world.consumer() as consumer, Workers(consumer, handler, settings) as workers:
        while not running[b"k6"]:
            workers.wait(workers.step())
        partitions = consumer.assignment()
        workers.lose(partitions)
        workers.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        done = world.processed(workers)
        while world.processed(workers) < done + 60:
            workers.wait(workers.step())
            if world.processed(workers) >= done + 52:  # all but those of the key
                goes_on.set()
    assert most == 1


def test_commits_that_cannot_be_read_do_not_hold_up_other_partitions_for_long(world, monkeypatch):
    monkeypatch.setattr(running, "COMMITTED_MS", 50)
    place = {"name": world.topic, "partition_index": 0}
    rule = world.broker.on("OffsetFetch", EntryError(Code.UNSTABLE_OFFSET_COMMIT, place))
    with world.consumer() as consumer, Workers(consumer, handlers.log_record, WorkerSettings()) as workers:
        began = time.monotonic()
        while world.processed(workers) < 34:  # those of partitions 1 and 2
            workers.wait(workers.step())
        assert time.monotonic() - began < 40
        rule.remove()
        while world.processed(workers) < 60:
            workers.wait(workers.step())
    assert sorted(world.values()) == list(range(60))


def test_partitions_of_a_topic_that_metadata_do_not_know_yet_begin_with_its_id(world, monkeypatch):
    """A map without it would not be believed by the next owner, which would give finished records again."""
    with world.consumer() as consumer, Workers(consumer, handlers.log_record, WorkerSettings()) as workers:
        metadata, begin = consumer._reader.managers.metadata, workers._begin

        def begin_early(committed):
            with monkeypatch.context() as patch:
                patch.setattr(metadata, "topics", {})
                begin(committed)
            workers._begin = begin

        workers._begin = begin_early
        while world.processed(workers) < 60:
            workers.wait(workers.step())
        found = {lane.progress.topic_id for lane in workers._work.dispatcher.lanes.values()}
        assert found == {metadata.topic_id(world.topic)}
    assert sorted(world.values()) == list(range(60))


def test_the_end_commits_although_the_workers_were_stopped(world):
    """``stop`` wakes the consumer up: of what comes next that waits, only a poll raises, not the last commit."""
    with world.consumer() as consumer, Workers(consumer, handlers.log_record, WorkerSettings()) as workers:
        while world.processed(workers) < 60:
            workers.step()
        workers.stop()
        workers.run()
    assert world.committed() == 60


@pytest.mark.parametrize(
    ("options", "words"),
    [({"enable_auto_commit": True}, "enable_auto_commit=False"), ({"group_id": None}, "group_id")],
    ids=["auto-commit", "no-group"],
)
def test_a_consumer_that_workers_cannot_use_is_refused(broker, options, words):
    options = {
        "group_id": "group",
        "enable_auto_commit": False,
        "bootstrap_servers": broker.bootstrap_servers,
        **options,
    }
    with Consumer("topic", **options) as consumer, pytest.raises(IllegalStateError, match=words):
        Workers(consumer, print, WorkerSettings())


def test_options_are_checked_together(world):
    with world.consumer() as consumer, pytest.raises(KafkaConfigurationError, match="order must be .*; attempts must"):
        Workers(consumer, print, WorkerSettings(order="any", attempts=0))


@pytest.mark.parametrize("pool", POOLS)
def test_a_program_with_a_loop_of_its_own_submits_records_and_takes_results(world, pool):
    results, polled = [], {}
    settings = WorkerSettings(pool=pool, concurrency=2, attempts=2, backoff=0.0, on_failure="skip")
    with world.consumer() as consumer, Workers(consumer, handlers.double, settings) as workers:
        while world.processed(workers) < 60:
            records = consumer.poll(20)
            polled |= {(tp.partition, record.offset): record.value for tp in records for record in records[tp]}
            workers.wait(workers.submit(records))
            results += workers.results()
        assert workers.results() == []
    assert len(polled) == 60
    failed = [result for result in results if result.error is not None]
    assert [(type(each.error), each.value, each.attempts) for each in failed] == [(ValueError, None, n) for n in (1, 2)]
    done = {(record.partition, record.offset): each.value for each in results for record in each.records}
    assert done == {at: None if int(value) == 13 else 2 * int(value) for at, value in polled.items()}
    assert world.committed() == 60


def test_records_that_were_polled_and_not_submitted_are_not_committed(world):
    """What ends the workers between ``poll`` and ``submit`` must not let their last commit pass the records."""
    with world.consumer() as consumer, Workers(consumer, handlers.log_record, WorkerSettings()) as workers:
        while not (records := consumer.poll(1000)):
            workers.submit(records)
        consumer.position(next(iter(records)))  # moves the positions
    assert world.committed() == 0
    world.work(handlers.log_record)
    assert sorted(world.values()) == list(range(60))


def test_results_are_only_kept_for_programs_that_submit(world):
    with world.consumer() as consumer, Workers(consumer, handlers.double, WorkerSettings(on_failure="skip")) as workers:
        while world.processed(workers) < 40:
            workers.step()
        assert workers.results() == []


def test_a_consumer_that_has_polled_is_refused(world):
    """Records that it has returned are unknown to the workers, which would commit past them."""
    with world.consumer() as consumer:
        while not consumer.poll(1000):
            pass
        with pytest.raises(IllegalStateError, match="before the first poll"):
            Workers(consumer, print, WorkerSettings())


def test_a_coroutine_function_is_refused(world):
    async def handler(record):
        pass

    with world.consumer() as consumer, pytest.raises(IllegalArgumentError, match="needs an AsyncConsumer"):
        Workers(consumer, handler, WorkerSettings())


def test_the_typed_keywords_are_the_options():
    fields = {field.name: field.type for field in dataclasses.fields(WorkerSettings)}
    assert {name: hint.__forward_arg__ for name, hint in WorkerOptions.__annotations__.items()} == fields


def test_a_handler_that_processes_cannot_import_is_refused(world):
    with world.consumer() as consumer, pytest.raises(IllegalArgumentError, match="importable by name"):
        Workers(consumer, lambda record: None, WorkerSettings(pool="processes"))


def test_a_process_in_place_of_another_may_get_its_descriptor(world):
    """Under the number of a pipe that is closed, the pipe of the next process is waited for like any other."""
    with world.consumer() as consumer, Workers(consumer, handlers.log_record, WorkerSettings()) as workers:
        for _ in range(2):
            reader, writer = os.pipe()
            os.write(writer, b"x")
            workers._select({reader: False}, time.monotonic() + 0.01)
            began = time.monotonic()
            workers._select({reader: False}, began + 5.0)
            assert time.monotonic() < began + 1.0
            os.close(reader)
            os.close(writer)


def test_workers_wait_while_the_producer_of_dead_letters_has_nothing_to_write(world):
    """Its idle connection is due to be closed, and readable once the broker has closed it: neither ends the waits."""
    topic = f"{world.topic}-dead"
    world.broker.create_topic(topic, 1)
    settings = WorkerSettings(attempts=1, on_failure=dead_letter(topic))
    with (
        world.consumer(request_timeout_ms=1000, connections_max_idle_ms=1100) as consumer,
        Workers(consumer, handlers.fail, settings) as workers,
    ):
        while world.processed(workers) < 60:
            workers.wait(workers.step())
        steps, until = 0, time.monotonic() + 1.6
        while time.monotonic() < until:
            workers.wait(workers.step())
            steps += 1
    assert steps < 100
