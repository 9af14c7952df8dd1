"""The work in a poll grows with the partitions that have something to do, not with those assigned."""

import sys

import pytest

FEW, MANY = 20, 1000

PACKAGE = sys.modules["thinconsumer"].__file__.removesuffix("__init__.py")


class Lines:
    """Counts the lines of the client that are executed: each turn of a loop or comprehension counts."""

    def __init__(self):
        self.count = 0

    def _trace(self, frame, event, arg):
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            return None
        self.count += event == "line"
        return self._trace

    def of(self, call):
        """Return how many lines a call executes."""
        self.count = 0
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            call()
        finally:
            sys.settrace(before)
        return self.count


@pytest.fixture
def lines_of(world):
    """Return a function: how many lines a consumer of ``count`` partitions executes in ``act(world, consumer)``."""

    def measure(count, act):
        w = world(topics={"t": count})
        for number in range(count):
            w.append(1, number)
        consumer = w.consumer(*[("t", number) for number in range(count)], max_poll_records=count)
        read = 0
        while read < count:
            read += sum(map(len, consumer.poll(1000).values()))
        consumer.poll(3000)
        return Lines().of(lambda: act(w, consumer))

    return measure


def read_one(w, consumer):
    w.append(1, 7)
    found = consumer.poll(5000)
    assert [len(records) for records in found.values()] == [1]
    consumer.poll(100)


def wait(w, consumer):
    """Wait for records that do not come; health looks at all partitions twice a second."""
    assert not consumer.poll(5000)


def poll_without_waiting(w, consumer):
    """Call ``poll(0)`` as an event loop does."""
    for _ in range(20):
        assert not consumer.poll(0)


def seek_and_pause(w, consumer):
    """Change one partition, and read it again."""
    tp = next(iter(consumer.assignment()))
    consumer.pause(tp)
    consumer.seek(tp, 0)
    consumer.poll(0)
    consumer.resume(tp)
    assert consumer.poll(5000)


@pytest.mark.parametrize("act", [read_one, wait, poll_without_waiting, seek_and_pause])
def test_fifty_times_the_partitions_cost_hardly_more(lines_of, act):
    few, many = lines_of(FEW, act), lines_of(MANY, act)
    assert many < 1.3 * few + 200, f"{FEW} partitions: {few} lines, {MANY}: {many}"
