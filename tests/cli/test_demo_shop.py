"""The demos' producer of orders: its rate, and what counts as done."""

from collections import namedtuple

from thinconsumer_testing.cli.demo_shop import CHUNK, OrderProducer
from thinconsumer_testing.cli.orders import orders

Written = namedtuple("Written", "partition offset")


class Future:
    done = False

    def __init__(self, offset):
        self.offset = offset

    def result(self):
        return Written(self.offset % 2, self.offset)


class SlowProducer:
    """Acknowledges the first orders only when it is told to."""

    def __init__(self):
        self.sent = []

    def send(self, topic, value, *, key):
        self.sent.append(Future(len(self.sent)))
        return self.sent[-1]

    def poll(self, timeout_ms):
        pass


class Audit:
    def __init__(self):
        self.expected = []

    def expect(self, order):
        self.expected.append(order.number)


def test_orders_are_written_at_the_rate_and_counted_before():
    producer, audit = SlowProducer(), Audit()
    shop = OrderProducer(orders(1, 1000), 1.0, 100, producer)
    shop.write(0.1, audit)
    assert audit.expected == list(range(10)) and len(producer.sent) == shop.sent == 10
    shop.write(0.11, audit)
    assert shop.sent == 11


def test_a_late_call_writes_a_limited_number():
    shop = OrderProducer(orders(1, 10 * CHUNK), 100.0, CHUNK, SlowProducer())
    shop.write(9.0, Audit())
    assert shop.sent == CHUNK


def test_the_producer_is_done_when_all_orders_are_acknowledged():
    producer, audit = SlowProducer(), Audit()
    shop = OrderProducer(orders(1, 1000), 1.0, 100, producer)
    shop.write(0.05, audit)
    assert not shop.is_done
    shop.write(1.0, audit)
    assert (shop.sent, shop.acknowledged, shop.is_done) == (5, 0, False)
    for one in producer.sent[1:]:
        one.done = True
    shop.write(1.1, audit)
    assert (shop.acknowledged, shop.is_done, shop.ends) == (4, False, {1: 4, 0: 5})
    producer.sent[0].done = True
    shop.write(1.2, audit)
    assert shop.is_done
