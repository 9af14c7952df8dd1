"""A call that is cancelled at any of its waits has returned nothing: later calls return each record once, in order."""

import asyncio
import itertools
import random
from functools import partial

import anyio
import pytest
from proving.loops import iterated, polled, read_with_cancellations

from thinconsumer.errors import IllegalStateError
from thinconsumer_testing.broker.faults import Delay

COUNT = 60


class Cancelled:
    """Awaits a coroutine of asyncio, and cancels it when it waits for the nth time; then the result is empty."""

    def __init__(self, coroutine, place):
        self._coroutine = coroutine
        self._place = place

    def __await__(self):
        waits = 0
        try:
            pending = self._coroutine.send(None)
            while True:
                waits += 1
                if waits == self._place:
                    if pending is not None:
                        pending._asyncio_future_blocking = False  # nothing will wait for it
                    self._coroutine.throw(asyncio.CancelledError())
                    raise AssertionError("it goes on although it was cancelled")
                yield pending
                pending = self._coroutine.send(None)
        except StopIteration as end:
            return end.value
        except asyncio.CancelledError:
            return None


async def once(consumer, tp, read, place, records):
    """Read once, cancelled at its nth wait; what it returns is counted."""
    found = []
    await Cancelled(read(consumer, tp, found), place)
    records += found


@pytest.mark.parametrize("read", [polled, iterated])
def test_cancelled_at_every_wait_of_the_first_reads(run_asyncio, consumer, tp, read):
    """The first read looks up the position, connects and fetches: it waits some five to ten times."""

    async def main():
        for place in range(1, 12):
            records = []
            async with consumer() as one:
                one.assign([tp])
                await once(one, tp, read, place, records)
                await once(one, tp, read, place + 1, records)
                while len(records) < COUNT:
                    await read(one, tp, records)
                assert await one.position(tp) == COUNT
            assert [record.offset for record in records] == list(range(COUNT)), place

    run_asyncio(main)


@pytest.fixture
def make(consumer, group):
    """Return a function that makes a consumer which commits only when told to."""
    return partial(consumer, enable_auto_commit=False, group_id=group)


@pytest.fixture
def write(broker, tp):
    """Return a function that writes four records and returns the end offset."""
    ends = itertools.count(COUNT + 4, 4)

    def write():
        broker.produce(tp.topic, [b"%d" % n for n in range(4)])
        return next(ends)

    return write


@pytest.mark.parametrize("seed", range(2))
def test_cancelled_at_random(run, make, write, tp, seed):
    run(read_with_cancellations, make, write, tp, 20, random.Random(seed))


@pytest.mark.soak(300)
@pytest.mark.timeout(320)
def test_cancelled_at_a_thousand_random_points(request, run, make, write, tp):
    points = 1000 if request.config.getoption("--soak") else 20
    run(read_with_cancellations, make, write, tp, points, random.Random(7), seconds=280)


def test_cancelled_in_a_group_at_random(run_asyncio, consumer, topic, tp, group):
    """Joining, listeners and the last commit included: what the group has committed is what was returned."""
    rng = random.Random(1)

    async def main():
        records = []
        while len(records) < COUNT:
            one = consumer(topic, group_id=group, enable_auto_commit=False, session_timeout_ms=6000)
            found = []
            for _ in range(12):
                await Cancelled(polled(one, tp, found), rng.randrange(1, 8))
            await one.commit()
            await Cancelled(one.close(), rng.randrange(1, 8))
            assert one._shell.closed
            records += found
        assert [record.offset for record in records] == list(range(COUNT))

    run_asyncio(main)


def test_a_timeout_ends_a_poll_and_a_commit_that_wait(run, consumer, broker, tp, group):
    """The coordinator is silent: the calls end at their time limit, and the next commit is written."""

    async def main():
        async with consumer(group_id=group) as one:
            one.assign([tp])
            assert len((await one.poll(5000))[tp])
            with anyio.move_on_after(0.05) as scope:
                await one.poll(60_000)
            assert scope.cancelled_caught
            rule = broker.on("OffsetCommit", Delay(0.5), times=1)
            with anyio.move_on_after(0.05) as scope:
                await one.commit({tp: 5})
            assert scope.cancelled_caught
            await one.commit({tp: 7})
            assert await one.committed(tp) == 7
            rule.remove()

    run(main)


@pytest.mark.parametrize("place", range(1, 7))
def test_a_close_that_is_cancelled_closes_everything(run_asyncio, consumer, topic, tp, group, place):
    """``run_asyncio`` counts descriptors; no task is left, and the next consumer works."""

    async def main():
        watched = asyncio.get_running_loop()._selector.get_map()
        before = len(watched)
        one = consumer(topic, group_id=group, session_timeout_ms=6000)
        while not (await one.poll(1000)):
            pass
        await Cancelled(one.close(), place)
        assert one._shell.closed and len(asyncio.all_tasks()) == 1 and len(watched) == before
        await one.close()
        with pytest.raises(IllegalStateError, match="closed"):
            await one.poll()
        async with consumer() as other:
            assert await other.end_offsets([tp]) == {tp: COUNT}

    run_asyncio(main)


def test_a_task_that_is_cancelled_in_its_block_leaves_nothing(run, consumer, topic, tp, group):
    """Under trio, each wait of the close raises again."""
    left = []

    async def main():
        async def reading():
            async with consumer(topic, group_id=group) as one:
                left.append(one)
                async for _ in one:
                    pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reading)
            await anyio.sleep(0.2)
            tasks.cancel_scope.cancel()
        assert left[0]._shell.closed
        async with consumer(topic, group_id=group) as one:
            assert (await one.read_to_end(10_000).__anext__()).offset == 0

    run(main)
