"""The demo's verdict: it has to fail whenever it should."""

from __future__ import annotations

import pytest

from thinconsumer import ConsumerRecord
from thinconsumer.cli.orders import orders
from thinconsumer.cli.tally import Tally

ORDERS = list(orders(1, 20))


def record(order, offset, partition=0, value=None):
    value = order.value if value is None else value
    return ConsumerRecord("orders", partition, 0, offset, 0, 0, order.key, value)


def tallied(records, expected=ORDERS):
    tally = Tally()
    for order in expected:
        tally.expect(order)
    for moment, each in enumerate(records):
        tally.add(each, float(moment))
    return tally


def test_every_order_once_is_exact():
    tally = tallied(record(order, offset) for offset, order in enumerate(ORDERS))
    assert tally.is_exact
    assert tally.complaints() == []
    assert sum(tally.revenue.values()) == tally.written_cents == sum(order.cents for order in ORDERS)


def test_holes_between_offsets_are_none_between_orders():
    """What ends a transaction, or was compacted away, takes an offset too."""
    assert tallied(record(order, offset * 3) for offset, order in enumerate(ORDERS)).is_exact


def test_waits_from_a_moment_on_count_what_nobody_had_read_before():
    """A partition without a record before the crash has waited since the crash, not since never."""
    tally = tallied([record(ORDERS[0], 0), record(ORDERS[1], 1)])
    tally.count_waits_from(5.0, range(2))
    tally.add(record(ORDERS[2], 2), 7.0)
    tally.add(record(ORDERS[3], 0, partition=1), 9.0)
    assert tally.lanes[0].longest_wait == 6.0  # since the last one, at 1.0
    assert tally.lanes[1].longest_wait == 4.0


@pytest.mark.parametrize(
    ("records", "complaints"),
    [
        ([(o, i) for i, o in enumerate(ORDERS[:-1])], ["1 missing"]),
        ([(o, i) for i, o in enumerate([*ORDERS[:5], *ORDERS[6:]])], ["1 missing"]),
        ([*((o, i) for i, o in enumerate(ORDERS)), (ORDERS[-1], 20)], ["1 read twice", "1 out of order"]),
        ([*((o, i) for i, o in enumerate(ORDERS)), (ORDERS[-1], 19)], ["1 read twice", "1 out of order"]),
        ([(o, i) for i, o in enumerate([ORDERS[1], ORDERS[0], *ORDERS[2:]])], ["1 out of order"]),
    ],
)
def test_each_way_of_going_wrong_is_seen(records, complaints):
    tally = tallied(record(order, offset) for order, offset in records)
    assert not tally.is_exact
    assert tally.complaints() == complaints


def test_what_nobody_wrote_is_seen():
    right = [record(order, offset) for offset, order in enumerate(ORDERS)]
    stranger = tallied([*right, record(ORDERS[0], 20, value=b"boo")])
    assert stranger.complaints() == ["1 never written"]
    later = tallied(right, expected=ORDERS[:-1])
    assert later.complaints() == ["1 never written"]


def test_another_sum_is_seen():
    right = [record(order, offset) for offset, order in enumerate(ORDERS)]
    right[3] = record(ORDERS[3], 3, value=ORDERS[3].value.replace(b'"total_cents":', b'"total_cents":1'))
    tally = tallied(right)
    assert not tally.is_exact
    assert "read for" in tally.complaints()[0]


def test_the_longest_wait_is_per_partition():
    tally = Tally()
    for order in ORDERS[:6]:
        tally.expect(order)
    for order, partition, offset, now in zip(ORDERS, [0, 1, 0, 0, 1, 0], [0, 0, 1, 2, 1, 3], [0, 1, 2, 7, 8, 9]):
        tally.add(record(order, offset, partition), float(now))
    assert tally.lanes[0].longest_wait == 5
    assert tally.lanes[1].longest_wait == 7
    assert (tally.lanes[0].count, tally.lanes[1].count) == (4, 2)
