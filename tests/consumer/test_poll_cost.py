"""The cost of one poll over real sockets: engine steps, system calls and function calls for each record returned.

Records come one at a time, so that each Fetch response has one. Times would depend on the machine; counts do not.
"""

import sys

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.broker.server import EmbeddedBroker

T0 = TopicPartition("t", 0)
#: The calls of built-in functions that are system calls on the way of a record. ``poll`` is the wait of epoll.
SYSTEM_CALLS = {"poll", "recv_into", "send", "sendmsg", "register", "modify", "unregister", "setsockopt", "select"}
#: Function calls in a poll that returns one record: 560 before there was a bound, and fewer since Python 3.12.
CALLS_MAX = 153
#: The same for a poll that returns buffered records, which are decoded already.
BUFFERED_CALLS_MAX = 63


class Counter:
    """Counts the calls of functions in Python, and the system calls by name."""

    def __init__(self):
        self.calls = 0
        self.system_calls = {}

    def _note(self, frame, event, arg):
        if event == "call":
            self.calls += 1
        elif event == "c_call" and arg.__name__ in SYSTEM_CALLS:
            self.system_calls[arg.__name__] = self.system_calls.get(arg.__name__, 0) + 1

    def __enter__(self):
        sys.setprofile(self._note)
        return self

    def __exit__(self, *about):
        sys.setprofile(None)


@pytest.fixture
def broker():
    """A broker on real sockets that the test steps."""
    with EmbeddedBroker(1, {"t": 1}) as broker:
        yield broker


class Reading:
    """A consumer that waits for records, and the broker."""

    def __init__(self, broker, **options):
        self.broker = broker
        self.consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", **options)
        if "group_id" in options:
            self.consumer.subscribe(["t"])
        else:
            self.consumer.assign([T0])
        self.engine = self.consumer._shell.engine

    def poll_until(self, count):
        """Step both until the consumer has returned so many records."""
        for _ in range(2000):
            self.broker.step()
            count -= sum(map(len, self.consumer.poll(1).values()))
            if count <= 0:
                return
        raise AssertionError("the records do not come")

    def answer_fetch(self, values):
        """Append records, and have the broker respond to the Fetch that waits for them."""
        self.broker.produce("t", values, 0)
        for _ in range(20):
            self.broker.step()

    def counted_poll(self):
        """Return what one poll costs: function calls, system calls and engine steps."""
        before = self.engine.steps
        with Counter() as counter:
            records = self.consumer.poll(5000)
        assert list(records) == [T0]
        return counter.calls, counter.system_calls, self.engine.steps - before


@pytest.fixture
def reading(broker):
    """Return a function that makes a consumer which has read all records and has a Fetch at the broker."""
    consumers = []

    def make(**options):
        broker.produce("t", [b"x"] * 3, 0)
        reading = Reading(broker, **options)
        consumers.append(reading.consumer)
        reading.poll_until(3)
        for _ in range(5):  # the first responses of a connection, and the first answers of a group, cost more
            reading.answer_fetch([b"x"])
            reading.poll_until(1)
        return reading

    yield make
    for consumer in consumers:
        consumer.close(timeout_ms=0)  # the broker is no longer stepped, so a LeaveGroup would get no response


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other calls")
def test_a_record_costs_one_wait_one_receive_and_one_send(reading):
    reading = reading()
    for _ in range(10):
        reading.answer_fetch([b"x"])
        _, system_calls, steps = reading.counted_poll()
        assert system_calls == {"poll": 1, "recv_into": 1, "send": 1}
        assert steps == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other calls")
def test_a_record_costs_no_more_system_calls_if_the_next_fetch_is_sent_after_it(reading, monkeypatch):
    reading = reading()
    monkeypatch.setattr("thinconsumer.consumer.reader.PROMPT_S", 1000.0)
    for _ in range(10):
        reading.consumer.poll(0)  # sends the Fetch: the broker is stepped between two polls only
        reading.answer_fetch([b"x"])
        _, system_calls, steps = reading.counted_poll()
        assert system_calls == {"poll": 1, "recv_into": 1}
        assert steps == 1


@pytest.mark.parametrize(
    "options", [{}, {"group_id": "g", "heartbeat_interval_ms": 60_000, "session_timeout_ms": 200_000}]
)
def test_function_calls_for_a_record_are_bounded(reading, options):
    reading = reading(**options)
    counts = []
    for _ in range(20):
        reading.answer_fetch([b"x"])
        counts.append(reading.counted_poll()[0])
    allowed = CALLS_MAX + 32 * bool(options)
    assert sorted(counts)[10] <= allowed, counts


def test_function_calls_for_buffered_records_are_bounded(reading):
    """The bound does not depend on the number of records that the poll returns."""
    reading = reading(max_poll_records=500)
    reading.answer_fetch([b"x"] * 5000)
    counts = [reading.counted_poll()[0] for _ in range(9)]
    assert sorted(counts)[4] <= BUFFERED_CALLS_MAX, counts
