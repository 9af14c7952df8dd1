"""aiokafka's consumer on the embedded broker: its calls, what they return and raise, and several tasks at once."""

import asyncio
import itertools
import logging
import random
import time
import warnings
from contextlib import asynccontextmanager

import pytest

from thinconsumer import Consumer, TopicPartition, errors
from thinconsumer.compat import aiokafka as compat
from thinconsumer.compat.aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, shared_consumer
from thinconsumer.compat.aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from thinconsumer_testing.broker.process import BrokerProcess

pytestmark = pytest.mark.once
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess(nodes=1) as found:
        yield found


@pytest.fixture
def topic(broker):
    """A topic with two partitions, the first of which has 20 records in batches of four."""
    name = f"aiokafka-{next(NUMBERS)}"
    broker.create_topic(name, 2)
    for n in range(0, 20, 4):
        broker.produce(name, [b"%d" % m for m in range(n, n + 4)])
    return name


@pytest.fixture
def tp(topic):
    return TopicPartition(topic, 0)


@pytest.fixture
def group():
    return f"group-{next(NUMBERS)}"


@pytest.fixture
def started(broker):
    """Return a context manager that starts a consumer."""

    @asynccontextmanager
    async def start(*topics, **options):
        options = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100, **options}
        async with AIOKafkaConsumer(*topics, bootstrap_servers=broker.bootstrap_servers, **options) as consumer:
            yield consumer

    return start


def run(main, *args, seconds=30):
    return asyncio.run(asyncio.wait_for(main(*args), seconds))


def committed(broker, group, tp):
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id=group) as consumer:
        return consumer.committed(tp)


def test_records_come_one_by_one_by_iteration_and_in_lists(started, topic, tp):
    async def main():
        async with started(topic) as consumer:
            first = await consumer.getone()
            assert (first.topic, first.partition, first.offset, first.value, first.key) == (topic, 0, 0, b"0", None)
            assert (first.timestamp_type, first.serialized_key_size, first.serialized_value_size) == (0, -1, 1)
            assert first.headers == ()
            async for record in consumer:
                assert record.offset == 1
                break
            assert (await consumer.getone(tp)).offset == 2
            found = await consumer.getmany(timeout_ms=1000, max_records=3)
            assert [(r.offset, r.value) for r in found[tp]] == [(3, b"3"), (4, b"4"), (5, b"5")]
            assert type(found[tp]) is list
            assert await consumer.position(tp) == 6
            rest = await consumer.getmany(tp, timeout_ms=1000)
            assert [r.offset for r in rest[tp]] == list(range(6, 20))
            assert await consumer.getmany() == {}
            assert await consumer.getmany(TopicPartition(topic, 1), timeout_ms=10) == {}

    run(main)


def test_values_are_of_aiokafkas_classes(started, topic, tp):
    pytest.importorskip("aiokafka")
    from aiokafka import structs

    async def main():
        async with started(topic) as consumer:
            assert isinstance(await consumer.getone(), structs.ConsumerRecord)
            assert consumer.assignment() == {tp, TopicPartition(topic, 1)}
            assert all(isinstance(found, structs.TopicPartition) for found in consumer.assignment())
            found = await consumer.offsets_for_times({tp: 0})
            assert isinstance(found[tp], structs.OffsetAndTimestamp)
            [key] = await consumer.getmany(timeout_ms=1000)
            assert isinstance(key, structs.TopicPartition)

    run(main)
    assert compat.TopicPartition is structs.TopicPartition


def test_what_was_returned_is_committed_by_default_at_stop(broker, started, topic, tp, group):
    async def main():
        async with started(topic, group_id=group) as consumer:
            for _ in range(3):
                await consumer.getone()
            await consumer.commit()
            assert await consumer.committed(tp) == 3
            await consumer.getone()

    run(main)
    assert committed(broker, group, tp) == 4


def test_unsubscribe_leaves_the_group_without_a_call_that_follows(broker, started, topic, tp, group):
    async def main():
        async with started(topic, group_id=group) as one, started(topic, group_id=group) as two:
            one.unsubscribe()
            assert (one.subscription(), one.assignment()) == (frozenset(), set())
            while len(two.assignment()) < 2:
                await asyncio.sleep(0.02)
            one.subscribe([topic])
            while len(one.assignment()) != 1:
                await asyncio.sleep(0.02)

    run(main)


def test_automatic_commits_cover_the_record_that_was_returned_last(broker, started, topic, tp, group):
    async def main():
        async with started(topic, group_id=group, auto_commit_interval_ms=100) as consumer:
            await consumer.getone()
            waiting = asyncio.ensure_future(consumer.getone(TopicPartition(topic, 1)))
            while not await consumer.committed(tp):  # 0 if a commit has come before the record was returned
                await asyncio.sleep(0.02)
            waiting.cancel()
            return await consumer.committed(tp)

    assert run(main) == 1


def test_offsets_to_commit_are_checked_as_in_aiokafka(started, topic, tp, group):
    async def main():
        async with started(topic, group_id=group, enable_auto_commit=False) as consumer:
            await consumer.commit({tp: 2})
            assert await consumer.committed(tp) == 2
            await consumer.commit({tp: (3, "note")})
            assert await consumer.committed(tp) == 3
            assert await consumer.committed(TopicPartition("unknown", 0)) is None
            for wrong in ({}, "text", {tp: (1, "a", 2)}, {tp: -1}):
                with pytest.raises(ValueError):
                    await consumer.commit(wrong)
            for wrong in ({"text": 1}, {tp: (1, 5)}):
                with pytest.raises(TypeError):
                    await consumer.commit(wrong)
            with pytest.raises(IllegalStateError, match="not assigned"):
                await consumer.commit({TopicPartition(topic, 7): 1})
            consumer.unsubscribe()
            assert consumer.assignment() == set()
            with pytest.raises(IllegalStateError, match="Not subscribed"):
                await consumer.commit()

    run(main)


def test_without_a_group_there_are_no_commits(started, topic, tp):
    async def main():
        async with started(topic) as consumer:
            for call in (consumer.commit(), consumer.committed(tp), consumer.seek_to_committed()):
                with pytest.raises(IllegalOperation):
                    await call

    run(main)


def test_positions_are_set(started, topic, tp, group):
    async def main():
        async with started(topic, group_id=group) as consumer:
            consumer.seek(tp, 17)
            assert (await consumer.getone()).offset == 17
            assert await consumer.seek_to_beginning(tp)
            assert (await consumer.getone(tp)).offset == 0
            await consumer.seek_to_end()
            assert await consumer.position(tp) == 20
            await consumer.commit({tp: 5})
            assert await consumer.seek_to_committed(tp) == {tp: 5}
            assert (await consumer.getone()).offset == 5
            assert (consumer.highwater(tp), consumer.last_stable_offset(tp)) == (20, -1)
            assert abs(consumer.last_poll_timestamp(tp) / 1000 - time.time()) < 10
            assert await consumer.beginning_offsets([tp]) == {tp: 0}
            assert await consumer.end_offsets([tp]) == {tp: 20}
            assert consumer.partitions_for_topic(topic) == {0, 1}
            assert consumer.partitions_for_topic("unknown") is None
            assert topic in await consumer.topics()
            unknown = TopicPartition(topic, 9)
            for offset in (-1, "", None):
                with pytest.raises(ValueError):
                    consumer.seek(tp, offset)
            with pytest.raises(IllegalStateError):
                consumer.seek(unknown, 1)
            with pytest.raises(IllegalStateError):
                await consumer.seek_to_end(unknown)
            with pytest.raises(TypeError):
                await consumer.seek_to_end(1)
            with pytest.raises(AssertionError):
                consumer.highwater(unknown)

    run(main)


def test_paused_partitions_return_nothing(started, topic, tp):
    async def main():
        async with started(topic) as consumer:
            await consumer.getone()
            consumer.pause(tp)
            assert consumer.paused() == {tp}
            assert await consumer.getmany(timeout_ms=50) == {}
            waiting = asyncio.ensure_future(consumer.getone(tp))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            consumer.resume(tp)
            assert (await waiting).offset == 1

    run(main)


def test_errors_have_aiokafkas_names(started, topic, tp, group):
    async def main():
        async with started(topic, group_id=group, auto_offset_reset="none") as consumer:
            with pytest.raises(NoOffsetForPartitionError) as caught:
                await consumer.getone()
            assert isinstance(caught.value, errors.NoOffsetForPartitionError)
            assert isinstance(caught.value, KafkaError)
            consumer.seek(tp, 500)
            consumer.seek(TopicPartition(topic, 1), 0)
            with pytest.raises(OffsetOutOfRangeError) as caught:
                await consumer.getmany(timeout_ms=5000)
            assert caught.value.args == ({tp: 500},)
            await consumer.seek_to_beginning(*caught.value.args[0])
            assert (await consumer.getone()).offset == 0

    run(main)


def test_a_commit_does_not_wait_for_a_poll_of_another_task(broker, started, topic, group):
    async def main():
        async with started(topic, group_id=group) as consumer:
            await consumer.getmany(timeout_ms=1000)
            waiting = [asyncio.ensure_future(consumer.getone()) for _ in range(3)]
            await asyncio.sleep(0)
            for _ in range(5):
                await consumer.commit()
                await consumer.position(TopicPartition(topic, 0))
                consumer.seek_to_beginning  # noqa: B018 - an attribute that a poll of another task does not disturb
            assert not any(task.done() for task in waiting)
            broker.produce(topic, [b"a", b"b", b"c"])
            return sorted(record.offset for record in await asyncio.gather(*waiting))

    assert run(main) == [20, 21, 22]


def test_two_tasks_read_each_record_once(started, topic, group):
    async def main():
        found = []

        async def read():
            while len(found) < 20:
                found.append((await consumer.getone()).offset)
                await consumer.commit()

        async with started(topic, group_id=group) as consumer:
            tasks = [asyncio.ensure_future(read()) for _ in range(4)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            return found

    assert run(main) == list(range(20))


def test_cancelled_calls_lose_and_repeat_nothing(started, topic, tp):
    async def main():
        chance, found = random.Random(5), []
        async with started(topic) as consumer:
            while len(found) < 20:
                many = chance.random() < 0.5
                call = consumer.getmany(timeout_ms=1000, max_records=2) if many else consumer.getone()
                task = asyncio.ensure_future(call)
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    result = await task
                except asyncio.CancelledError:
                    continue
                found += [r.offset for r in result.get(tp, ())] if many else [result.offset]
        return found

    assert run(main) == list(range(20))


def test_stop_ends_calls_that_wait(started, topic, tp):
    async def main():
        async with started(topic) as consumer:
            await consumer.getmany(timeout_ms=1000)
            one = asyncio.ensure_future(consumer.getone())
            many = asyncio.ensure_future(consumer.getmany(timeout_ms=9000))
            lookup = asyncio.ensure_future(consumer.end_offsets([TopicPartition(topic, 9)]))  # of no partition

            async def iterate():
                return [record async for record in consumer]

            iteration = asyncio.ensure_future(iterate())
            await asyncio.sleep(0.05)
            await consumer.stop()
            for waiting in (one, lookup):
                with pytest.raises(ConsumerStoppedError):
                    await waiting
            assert await many == {}
            assert await iteration == []
            for call in (consumer.getone, consumer.getmany):
                with pytest.raises(ConsumerStoppedError):
                    await call()
            with pytest.raises(ConsumerStoppedError):
                aiter(consumer)
            await consumer.stop()

    run(main)


class Recorder(ConsumerRebalanceListener):
    def __init__(self):
        self.calls = []

    def on_partitions_revoked(self, revoked):
        self.calls.append(("revoked", len(revoked)))

    async def on_partitions_assigned(self, assigned):
        await asyncio.sleep(0)
        self.calls.append(("assigned", len(assigned)))


def test_rebalances_go_on_while_the_application_awaits_something_else(started, topic, group):
    async def main():
        first, second = Recorder(), Recorder()
        async with started(group_id=group) as one:
            one.subscribe([topic], listener=first)
            await one.getone()
            assert first.calls == [("revoked", 0), ("assigned", 2)]
            async with started(group_id=group) as two:
                two.subscribe([topic], listener=second)
                while len(two.assignment()) != 1:  # while no task polls the first one
                    await two.getmany(timeout_ms=20)
                while not one.assignment():  # its response may be the later one
                    await asyncio.sleep(0.02)
                assert len(one.assignment()) == 1
            assert first.calls[2:4] == [("revoked", 2), ("assigned", 1)]
            while len(first.calls) < 6:
                await asyncio.sleep(0.02)
            return first.calls[4:], second.calls

    again, others = run(main)
    assert again == [("revoked", 1), ("assigned", 2)]
    assert others == [("revoked", 0), ("assigned", 1)]  # stop() calls no listener


def test_a_listener_may_call_and_its_errors_are_logged(started, topic, tp, group, caplog):
    class Seeking(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            raise ZeroDivisionError

        async def on_partitions_assigned(self, assigned):
            async def seek():
                assert await consumer.committed(tp) is None
                assert await consumer.position(tp) == 0
                await consumer.seek_to_end(tp)
                consumer.seek(tp, await consumer.position(tp) - 1)

            assert await consumer.committed(tp) is None
            await asyncio.ensure_future(seek())

    async def main():
        consumer.subscribe([topic], listener=Seeking())
        return (await consumer.getone()).offset

    async def outer():
        nonlocal consumer
        async with started(group_id=group) as consumer:
            return await main()

    consumer = None
    with caplog.at_level(logging.ERROR):
        assert run(outer) == 19
    assert "on_partitions_revoked" in caplog.text


def test_a_pattern_matches_the_beginning_of_a_name(broker, started, topic):
    async def main():
        async with started() as consumer:
            consumer.subscribe(pattern=topic[:-1] + r"\d")
            assert topic in {(await consumer.getone()).topic} | consumer.subscription()
            for wrong in (
                {},
                {"topics": [topic], "pattern": "a"},
                {"topics": topic},
                {"topics": [topic], "listener": 1},
            ):
                with pytest.raises(TypeError):
                    consumer.subscribe(**wrong)
            with pytest.raises(ValueError):
                consumer.subscribe(pattern="(")
            with pytest.raises(IllegalStateError):
                consumer.assign([TopicPartition(topic, 0)])
            consumer.unsubscribe()
            consumer.assign([TopicPartition(topic, 0)])
            assert (await consumer.getone()).offset == 0

    run(main)


def test_a_subscription_after_the_call_ends_its_wait(started, topic):
    async def main():
        async with started() as consumer:
            waiting = asyncio.ensure_future(consumer.getone())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            consumer.assign([TopicPartition(topic, 0)])
            return (await waiting).offset

    assert run(main) == 0


def test_a_member_that_is_not_polled_leaves_after_max_poll_interval_ms(started, topic, group):
    async def main():
        options = {"group_id": group, "session_timeout_ms": 1000, "max_poll_interval_ms": 1000}
        async with started(topic, **options) as one:
            await one.getone()
            async with started(topic, **options) as two:
                while len(two.assignment()) != 2:
                    await two.getmany(timeout_ms=20)
                return (await two.getmany(timeout_ms=1000)) is not None

    assert run(main)


def test_a_consumer_that_was_not_stopped_is_reported(broker):
    async def main():
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context["message"]))
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
        await consumer.start()
        with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaConsumer"):
            del consumer
        return reports

    assert run(main) == ["Unclosed AIOKafkaConsumer"]


def test_no_broker_is_a_connection_error():
    from thinconsumer.compat.aiokafka.errors import KafkaConnectionError

    async def main():
        consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=100)
        try:
            with pytest.raises(KafkaConnectionError):
                await consumer.start()
        finally:
            await consumer.stop()

    run(main)


def test_a_consumer_is_made_in_a_running_loop():
    with pytest.raises(RuntimeError), warnings.catch_warnings():
        AIOKafkaConsumer()


def test_a_call_that_waits_for_an_idle_partition_keeps_no_other_from_its_records(broker, started, topic, tp):
    async def main():
        idle = TopicPartition(topic, 1)
        async with started(topic) as consumer:
            waiting = asyncio.ensure_future(consumer.getone(idle))
            await asyncio.sleep(0.05)
            found = await asyncio.wait_for(consumer.getmany(tp, timeout_ms=5000), 5)
            assert [record.offset for record in found[tp]] == list(range(20))
            others = [asyncio.ensure_future(consumer.getone()) for _ in range(2)]
            assert await asyncio.wait_for(consumer.getmany(tp, timeout_ms=100), 5) == {}
            broker.produce(topic, [b"a", b"b", b"c"], 1)
            return sorted(record.offset for record in await asyncio.gather(waiting, *others))

    assert run(main) == [0, 1, 2]


def test_a_call_that_waits_for_long_returns_records_as_soon_as_they_come(broker, started, topic, tp, monkeypatch):
    """Every so often it looks for an error; only without anything to poll does it wait for other calls then."""
    monkeypatch.setattr(shared_consumer, "POLL_S", 0.05)
    monkeypatch.setattr(shared_consumer, "LOOK_AGAIN_S", 9)

    async def main():
        async with started(topic) as consumer:
            await consumer.getmany(tp, timeout_ms=5000)
            waiting = asyncio.ensure_future(consumer.getmany(timeout_ms=9000))
            await asyncio.sleep(0.2)
            broker.produce(topic, [b"late"])
            return [record.value for record in (await asyncio.wait_for(waiting, 4))[tp]]

    assert run(main) == [b"late"]


def test_a_member_without_partitions_commits_nothing(started, topic, tp, group):
    async def main():
        async with (
            started(topic, group_id=group) as one,
            started(topic, group_id=group) as two,
            started(topic, group_id=group) as three,
        ):
            members = one, two, three
            while sorted(len(member.assignment()) for member in members) != [0, 1, 1] or not all(
                member._consumer.is_settled for member in members
            ):
                await asyncio.sleep(0.02)
            idle = next(member for member in members if not member.assignment())
            await idle.commit()
            with pytest.raises(IllegalStateError):
                await idle.commit({tp: 1})

    run(main)


def test_a_commit_after_the_partitions_were_lost_fails_as_in_aiokafka(started, topic, group):
    async def main():
        options = {"group_id": group, "session_timeout_ms": 1000, "max_poll_interval_ms": 1000}
        async with started(topic, **options) as consumer:
            await consumer.getone()
            while consumer.assignment():
                await asyncio.sleep(0.1)
            with pytest.raises(CommitFailedError):
                await consumer.commit()
            return (await consumer.getone()).offset

    assert run(main) == 0
