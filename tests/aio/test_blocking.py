"""While a commit or a close waits for the coordinator, other tasks run: the loop is blocked for a few milliseconds."""

import time
from contextlib import contextmanager

import anyio
import pytest

from thinconsumer import OffsetAndMetadata
from thinconsumer.errors import CommitFailedError
from thinconsumer_testing.broker.faults import Delay

#: Longest time in seconds for which a call may block the loop.
LIMIT_S = 0.005


class Ticks:
    """Wakes every millisecond, and notes by how much each time is late: that is how long the loop was blocked."""

    def __init__(self):
        self.late = []

    async def run(self):
        while True:
            began, waited = time.perf_counter(), waited_for_a_core()
            await anyio.sleep(0.001)
            late = time.perf_counter() - began - 0.001
            self.late.append(late - (waited_for_a_core() - waited))

    @contextmanager
    def during(self, waits, seconds):
        """Check a call that waits for so long: how late ticks were is added to ``waits``."""
        self.late.clear()
        began = time.perf_counter()
        yield
        assert time.perf_counter() - began >= seconds and len(self.late) > 5
        waits.append(max(self.late))


def waited_for_a_core():
    """Return for how many seconds this thread was ready to run and other processes had its core (Linux; else 0)."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as figures:
            return int(figures.read().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0


async def blocked(consumer, broker, topic, tp, group, delay, commit):
    """Return how long the loop was blocked by a commit, and by a close, which both wait for the coordinator."""
    found, ticks = [], Ticks()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ticks.run)
        async with consumer(topic, group_id=group) as one:
            while tp not in one.assignment():
                await one.poll(1000, max_records=1)
            rules = [broker.on(api, Delay(delay)) for api in ("OffsetCommit", "LeaveGroup")]
            with pytest.raises(CommitFailedError, match="timed out"):
                await one.commit(timeout_ms=20)
            with ticks.during(found, delay):
                await commit(one, {tp: OffsetAndMetadata(4, "")})
            await one.poll(0)
            with ticks.during(found, delay):
                await one.close()
        for rule in rules:
            rule.remove()
        tasks.cancel_scope.cancel()
    return found


async def awaited(one, offsets):
    await one.commit(offsets)


@pytest.mark.soak(300)
@pytest.mark.timeout(320)
def test_a_slow_coordinator_does_not_block_the_loop(request, run, consumer, broker, topic, tp, group):
    """The best of three attempts counts: a pause of the whole machine or of the garbage collector is no call's."""
    delay, longest = 5.0 if request.config.getoption("--soak") else 0.2, []
    while len(longest) < 3 and not any(max(found) <= LIMIT_S for found in longest):
        longest.append(run(blocked, consumer, broker, topic, tp, group, delay, awaited, seconds=60))
    assert any(max(found) <= LIMIT_S for found in longest), longest


def test_a_call_that_blocks_is_noticed(run_asyncio, consumer, broker, topic, tp, group):
    async def blocks(one, offsets):
        time.sleep(0.02)
        await one.commit(offsets)

    assert run_asyncio(blocked, consumer, broker, topic, tp, group, 0.1, blocks)[0] > 0.015
