"""While the program awaits something else, the loop drives the engine: as ``drive``, and never as a poll."""

import logging
import re
import time

import anyio
import pytest

from thinconsumer import TopicPartition, dead_letter
from thinconsumer.aio import AsyncConsumer
from thinconsumer.consumer import core
from thinconsumer.errors import KafkaError


async def joined(one, tp):
    while tp not in one.assignment():
        await one.poll(1000, max_records=1)


def logged(caplog, text):
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


def test_a_member_stays_while_the_program_awaits_something_else(run_slow, consumer, topic, tp, group, short, caplog):
    """For longer than a session: the coordinator gets heartbeats, and the next poll belongs to the same generation."""

    async def main():
        async with consumer(topic, group_id=group, **short | {"max_poll_interval_ms": 10_000}) as one:
            await joined(one, tp)
            before = one.group_metadata()
            await anyio.sleep(2.5)
            await one.poll(100)
            assert one.group_metadata() == before
            await one.commit()

    run_slow(main)
    assert not logged(caplog, "blocked")


def test_a_step_by_the_loop_fetches_and_commits_but_is_no_poll(run, consumer, tp, group):
    async def main():
        options = {"auto_commit_interval_ms": 0, "group_id": group}
        async with consumer(**options) as one, consumer(group_id=group) as other:
            other.assign([tp])
            one.assign([tp])
            assert len((await one.poll(5000, max_records=7))[tp]) == 7
            await anyio.sleep(0.2)
            assert await other.committed(tp) in (None, 0), "the last result may not be processed yet"
            assert one._partitions.require(tp).cursor.offset == 0
            one.commit_async({tp: 3})
            await anyio.sleep(0.2)
            assert await other.committed(tp) == 3
            one.seek(tp, 20)
            await anyio.sleep(0.2)
            assert (await one.poll(0))[tp][0].offset == 20, "the records had been fetched"

    run(main)


def test_no_listener_or_callback_runs_in_a_step_by_the_loop(run_slow, consumer, topic, tp, group, short):
    heard = []

    class Listener:
        def on_partitions_assigned(self, assigned):
            heard.append(("assigned", assigned))

        def on_partitions_revoked(self, revoked):
            heard.append(("revoked", revoked))

    async def main():
        options = {"group_id": group, **short, "max_poll_interval_ms": 10_000}
        async with consumer(**options) as one, consumer(**options) as other:
            one.subscribe([topic], listener=Listener())
            await joined(one, tp)
            del heard[:]
            one.commit_async({tp: 3}, lambda offsets, error: heard.append("committed"))
            other.subscribe([topic])
            with anyio.move_on_after(0.5):
                await other.poll(10_000)
            assert heard == [], "the rebalance waits for a poll"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(other.poll, 2000)
                while len(heard) < 2:
                    await one.poll(200)
            assert heard[0] == "committed" and heard[1][0] == "revoked"

    run_slow(main)


def test_a_member_leaves_after_max_poll_interval_and_says_so_once(run_slow, consumer, topic, tp, group, short, caplog):
    async def main():
        async with consumer(topic, group_id=group, **short) as one, consumer(group_id=group) as other:
            await joined(one, tp)
            await anyio.sleep(2.5)
            # Without members, the group takes a commit of a consumer that is none.
            other.assign([tp])
            await other.commit({tp: 1})
            await joined(one, tp)

    run_slow(main)
    (text,) = logged(caplog, "max_poll_interval_ms=2000: left the group")
    assert 2.0 <= float(re.search(r"([\d.]+) s between polls", text)[1]) < 2.5


def test_a_blocked_loop_is_named_with_its_figure(run_slow, consumer, topic, tp, group, short, caplog):
    caplog.set_level(logging.WARNING)

    async def main():
        async with consumer(topic, group_id=group, **short | {"max_poll_interval_ms": 10_000}) as one:
            await joined(one, tp)
            time.sleep(2.3)
            await anyio.sleep(0.05)
            await joined(one, tp)

    run_slow(main)
    (text,) = logged(caplog, "the event loop was blocked")
    assert 2.2 < float(re.search(r"blocked for ([\d.]+) s", text)[1]) < 4


def test_a_waiting_call_and_an_idle_consumer_do_not_keep_the_loop_busy(run_asyncio, consumer, topic, tp, group):
    async def main():
        async with consumer(topic, group_id=group) as one:
            await joined(one, tp)
            await one.poll(300)
            one.seek_to_end(tp)
            for waiting in (one.poll(500), anyio.sleep(0.5)):
                before = one._shell.engine.steps
                assert not (await waiting)
                assert one._shell.engine.steps - before < 20

    run_asyncio(main)


@pytest.mark.parametrize("prompt_s", [0, 10])
def test_a_record_that_comes_alone_takes_one_step(run, consumer, broker, topic, monkeypatch, prompt_s):
    """None to send the Fetch that a prompt poll leaves to the next one, none for bytes that a call is to receive."""
    monkeypatch.setattr(core, "PROMPT_S", prompt_s)
    tp, steps = TopicPartition(topic, 1), []

    async def main():
        async with consumer() as one:
            one.assign([tp])
            await one.position(tp)
            step = one._shell.driver.step
            for n in range(12):
                if n == 2:
                    one._shell.driver.step = lambda *args: steps.append(0) or step(*args)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(one.poll, 5000)
                    while one._due is None:
                        await anyio.sleep(0.001)
                    broker.produce(topic, [b"%d" % n], 1)
            assert await one.position(tp) == 12

    run(main)
    assert 10 <= len(steps) < 15


def test_an_idle_consumer_without_brokers_does_not_keep_the_loop_busy(run_asyncio, unused_port):
    async def main():
        async with AsyncConsumer(bootstrap_servers=f"127.0.0.1:{unused_port}") as one:
            with pytest.raises(KafkaError):
                await one.topics(timeout_ms=100)
            before = one._shell.engine.steps
            await anyio.sleep(0.5)
            assert one._shell.engine.steps - before < 60

    run_asyncio(main)


def test_other_tasks_run_beside_one_that_reads_without_waiting(run, consumer, tp):
    """Records that are buffered need no wait; the task gives way nevertheless."""
    ticks = []

    async def main():
        async def tick():
            while True:
                ticks.append(time.monotonic())
                await anyio.sleep(0)

        async with anyio.create_task_group() as tasks, consumer() as one:
            one.assign([tp])
            await one.poll(5000, max_records=1)
            tasks.start_soon(tick)
            await anyio.sleep(0)
            began = time.monotonic()
            while len(ticks) <= 5 and time.monotonic() < began + 10.0:
                one.seek(tp, 0)
                async for record in one:
                    if record.offset == 50:
                        break
            tasks.cancel_scope.cancel()

    run(main)
    assert len(ticks) > 5


def test_what_an_iteration_has_not_returned_is_left_to_the_next_consumer_in_the_loop(run, consumer, topic, tp, group):
    async def main():
        async def read(count):
            found = []
            async with consumer(topic, group_id=group) as one:
                async for record in one:
                    found.append(record.offset)
                    if len(found) == count:
                        break
            return found

        return await read(25), await read(36)

    # As in Consumer, the record that was returned last is not committed: it may still be in process.
    assert run(main) == (list(range(25)), list(range(24, 60)))


def test_bad_records_go_to_a_topic_of_dead_letters_and_their_neighbours_come(run, consumer, broker, topic, tp):
    bad = f"{topic}-bad"
    broker.create_topic(bad, 1)

    def number(data):
        if data in (b"3", b"4"):
            raise ValueError("bad")
        return int(data)

    async def main():
        async with consumer(value_deserializer=number, on_bad_record=dead_letter(bad)) as one:
            one.assign([tp])
            values = []
            while len(values) < 58:
                values += [record.value for rows in (await one.poll(5000)).values() for record in rows]
            assert values == [n for n in range(60) if n not in (3, 4)]
        async with consumer() as other:
            other.assign([TopicPartition(bad, 0)])
            assert [record.value for record in (await other.poll(5000))[TopicPartition(bad, 0)]] == [b"3", b"4"]

    run(main)
