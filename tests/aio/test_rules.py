"""Who may call an AsyncConsumer and when, which loops it refuses, and what its calls have in common with Consumer's."""

import asyncio
import inspect
import selectors
import subprocess
import sys
import threading

import anyio
import pytest

from thinconsumer import Consumer
from thinconsumer.aio import AsyncConsumer, UnsupportedLoopError
from thinconsumer.errors import (
    ConcurrentAccessError,
    IllegalArgumentError,
    IllegalStateError,
    KafkaConfigurationError,
    UnsupportedVersionError,
    WakeupError,
)


def test_while_a_task_waits_calls_of_others_are_refused_but_for_three(run, consumer, tp, group):
    async def main():
        async with consumer(group_id=group) as one:
            one.assign([tp])
            await one.poll(5000)
            refused = []

            async def disturb():
                await anyio.sleep(0.1)
                for call in (one.poll, one.commit, one.close, one.__anext__):
                    with pytest.raises(ConcurrentAccessError, match="another task"):
                        await call()
                    refused.append(call)
                for call in (one.assignment, lambda: one.pause(tp), lambda: one.seek(tp, 0)):
                    with pytest.raises(ConcurrentAccessError, match="another task"):
                        call()
                    refused.append(call)
                assert one.health().state.value == "ok" and one.metrics()
                one.wakeup()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(disturb)
                with pytest.raises(WakeupError):
                    await one.poll(20_000)
            assert len(refused) == 7
            assert one.assignment() == {tp} and await one.position(tp) == 60

    run(main)


def test_another_thread_and_another_loop_are_refused(run_asyncio, consumer, tp):
    errors = []

    async def main():
        one = consumer()
        one.assign([tp])
        await one.poll(5000)

        def call():
            for function in (one.assignment, lambda: asyncio.run(one.poll())):
                try:
                    function()
                except ConcurrentAccessError as error:
                    errors.append(str(error))

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        await one.close()

    run_asyncio(main)
    assert len(errors) == 2 and all("thread" in text for text in errors)


def test_it_belongs_to_the_loop_of_its_first_call(consumer, tp):
    one = consumer()
    one.assign([tp])
    assert one.assignment() == {tp}, "a plain call needs no loop"
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    first.run_until_complete(one.poll(100))
    with pytest.raises(ConcurrentAccessError, match="another event loop"):
        second.run_until_complete(one.poll())
    assert one.assignment() == {tp}
    first.run_until_complete(one.close())
    first.close()
    second.close()


def test_a_loop_that_watches_no_descriptors_is_refused(monkeypatch, consumer, run_asyncio):
    """As the proactor loop of Windows. What was opened is closed."""

    async def main():
        def refuse(*args):
            raise NotImplementedError

        loop = asyncio.get_running_loop()
        one = consumer()
        with monkeypatch.context() as patch:
            patch.setattr(type(loop), "add_reader", refuse)
            with pytest.raises(UnsupportedLoopError, match="Windows"):
                await one.poll()
        await one.close()

    run_asyncio(main)


def test_a_selector_without_a_descriptor_is_refused(consumer, run_asyncio):
    async def main():
        async with consumer(selector=selectors.SelectSelector) as one:
            with pytest.raises(UnsupportedLoopError, match="no descriptor"):
                await one.topics()

    run_asyncio(main)


def test_without_a_loop_a_call_is_refused(consumer):
    coroutine = consumer().topics()
    with pytest.raises(UnsupportedLoopError, match="no event loop"):
        coroutine.send(None)


def test_calls_that_would_have_to_wait_are_refused(run, consumer, topic, tp, group):
    async def main():
        async with consumer(group_id=group) as one:
            one.assign([tp])
            with pytest.raises(IllegalArgumentError, match="unsubscribe"):
                one.assign([])
            await one.unsubscribe()
            one.subscribe([topic])
        async with consumer() as one:
            one.assign([tp])
            one.assign([])
            assert one.assignment() == set()
            with pytest.raises(IllegalStateError, match="nothing to read"):
                await one.poll()
        with pytest.raises(IllegalStateError, match="closed"):
            one.pause()
        await one.close()

    run(main)


def test_the_constructors_check_as_those_of_consumer(consumer):
    with pytest.raises(KafkaConfigurationError, match="AsyncConsumer"):
        AsyncConsumer({"bootstrap.servers": "x:1"})
    assert consumer("t").subscription() == {"t"}
    made = AsyncConsumer.from_config({"bootstrap.servers": "localhost:9092", "group.id": "g"}, "t")
    assert made.config.group_id == "g" and made.subscription() == {"t"}
    assert "auto_offset_reset" in AsyncConsumer.__doc__


def test_every_public_call_of_consumer_is_there_with_the_same_arguments():
    """Those left out are the loop's: it drives, and watches the descriptor and the time."""
    names = {name for name in dir(Consumer) if not name.startswith("_")}
    own = {name for name in dir(AsyncConsumer) if not name.startswith("_")}
    assert names - own == {"drive", "fileno", "keep_alive", "wake_at"} and own <= names
    for name in own:
        mine, theirs = getattr(AsyncConsumer, name), getattr(Consumer, name)
        if callable(mine):
            assert list(inspect.signature(mine).parameters) == list(inspect.signature(theirs).parameters), name


def test_the_client_does_not_import_it():
    code = "import sys, thinconsumer as t; t.Consumer(); assert not {'thinconsumer.aio', 'asyncio'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_interceptors_get_the_records_of_polls_and_iterations(run, consumer, topic, tp):
    """A coroutine call returns what the interceptors make of its records, as a plain one does."""

    class Even:
        def on_consume(self, records):
            return {at: [each for each in found if each.offset % 2 == 0] for at, found in records.items()}

    async def main():
        async with consumer(interceptor_classes=[Even]) as one:
            one.assign([tp])
            assert [record.offset for record in (await one.poll(5000, max_records=8))[tp]] == [0, 2, 4, 6]
            found = []
            async for record in one:
                found.append(record.offset)
                if len(found) == 5:
                    break
            assert found == [8, 10, 12, 14, 16]
            assert [record.offset async for record in one.read_to_end()] == list(range(18, 60, 2))

    run(main)


def test_the_client_instance_id_needs_a_broker_that_takes_metrics(run_asyncio, consumer):
    pytest.importorskip("opentelemetry.proto")

    async def main():
        async with consumer(enable_metrics_push=True) as one:
            with pytest.raises(UnsupportedVersionError, match="GetTelemetrySubscriptions"):
                await one.client_instance_id()

    run_asyncio(main)
