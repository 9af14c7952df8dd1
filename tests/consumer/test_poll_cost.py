"""The cost of one poll over real sockets: engine steps and system calls for each record returned.

Records come one at a time, so that each Fetch response has one. ``benchmarks/hops.py`` counts the function calls.
"""

import sys

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer_testing.broker.server import EmbeddedBroker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have other calls")

T0 = TopicPartition("t", 0)
#: The calls of built-in functions that are system calls on the way of a record. ``poll`` is the wait of epoll.
SYSTEM_CALLS = {"poll", "recv_into", "send", "sendmsg", "register", "modify", "unregister", "setsockopt", "select"}


class Reading:
    """A consumer that waits for records, and the broker."""

    def __init__(self, broker):
        self.broker = broker
        self.consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
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

    def answer_fetch(self):
        self.broker.produce("t", [b"x"], 0)
        for _ in range(20):
            self.broker.step()

    def counted_poll(self):
        """Return what one poll costs: system calls by name, and engine steps."""
        system_calls, before = {}, self.engine.steps

        def note(frame, event, arg):
            if event == "c_call" and arg.__name__ in SYSTEM_CALLS:
                system_calls[arg.__name__] = system_calls.get(arg.__name__, 0) + 1

        sys.setprofile(note)
        try:
            records = self.consumer.poll(5000)
        finally:
            sys.setprofile(None)
        assert list(records) == [T0]
        return system_calls, self.engine.steps - before


@pytest.fixture
def reading():
    """A consumer that has read all records of a broker on real sockets, at which its Fetch waits."""
    with EmbeddedBroker(1, {"t": 1}) as broker:
        broker.produce("t", [b"x"] * 3, 0)
        reading = Reading(broker)
        reading.poll_until(3)
        for _ in range(5):  # the first responses of a connection cost more
            reading.answer_fetch()
            reading.poll_until(1)
        yield reading
        reading.consumer.close(timeout_ms=0)


def test_a_record_costs_one_wait_one_receive_and_one_send(reading):
    for _ in range(10):
        reading.answer_fetch()
        system_calls, steps = reading.counted_poll()
        assert system_calls == {"poll": 1, "recv_into": 1, "send": 1}
        assert steps == 1


def test_a_record_costs_no_more_system_calls_if_the_next_fetch_is_sent_after_it(reading, monkeypatch):
    monkeypatch.setattr("thinconsumer.consumer.core.PROMPT_S", 1000.0)
    for _ in range(10):
        reading.consumer.poll(0)  # sends the Fetch: the broker is stepped between two polls only
        reading.answer_fetch()
        system_calls, steps = reading.counted_poll()
        assert system_calls == {"poll": 1, "recv_into": 1}
        assert steps == 1
