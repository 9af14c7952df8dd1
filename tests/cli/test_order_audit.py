"""The audit of the demo: every kind of error is detected."""

import pytest

from thinconsumer import ConsumerRecord
from thinconsumer_testing.cli.order_audit import OrderAudit
from thinconsumer_testing.cli.orders import orders

ORDERS = list(orders(1, 20))


def record(order, offset, partition=0, value=None):
    value = order.value if value is None else value
    return ConsumerRecord("orders", partition, 0, offset, 0, 0, order.key, value)


def audit_of(records, expected=ORDERS):
    audit = OrderAudit()
    for order in expected:
        audit.expect(order)
    for moment, each in enumerate(records):
        audit.add(each, float(moment))
    return audit


def test_every_order_once_is_exact():
    audit = audit_of(record(order, offset) for offset, order in enumerate(ORDERS))
    assert audit.is_exact
    assert audit.errors() == []
    assert sum(audit.revenue.values()) == audit.written_cents == sum(order.cents for order in ORDERS)


def test_gaps_between_offsets_are_no_missing_orders():
    """Transaction markers and compacted records take offsets too."""
    assert audit_of(record(order, offset * 3) for offset, order in enumerate(ORDERS)).is_exact


def test_restarted_pauses_include_partitions_without_a_record():
    """The pause of a partition without an earlier record begins at the restart."""
    audit = audit_of([record(ORDERS[0], 0), record(ORDERS[1], 1)])
    audit.restart_pauses(5.0, range(2))
    audit.add(record(ORDERS[2], 2), 7.0)
    audit.add(record(ORDERS[3], 0, partition=1), 9.0)
    assert audit.partitions[0].longest_pause == 6.0  # since the last record, at 1.0
    assert audit.partitions[1].longest_pause == 4.0


@pytest.mark.parametrize(
    ("records", "errors"),
    [
        ([(o, i) for i, o in enumerate(ORDERS[:-1])], ["1 missing"]),
        ([(o, i) for i, o in enumerate([*ORDERS[:5], *ORDERS[6:]])], ["1 missing"]),
        ([*((o, i) for i, o in enumerate(ORDERS)), (ORDERS[-1], 20)], ["1 read twice", "1 out of order"]),
        ([*((o, i) for i, o in enumerate(ORDERS)), (ORDERS[-1], 19)], ["1 read twice", "1 out of order"]),
        ([(o, i) for i, o in enumerate([ORDERS[1], ORDERS[0], *ORDERS[2:]])], ["1 out of order"]),
    ],
)
def test_missing_repeated_and_reordered_orders_are_detected(records, errors):
    audit = audit_of(record(order, offset) for order, offset in records)
    assert not audit.is_exact
    assert audit.errors() == errors


def test_orders_that_were_never_written_are_detected():
    right = [record(order, offset) for offset, order in enumerate(ORDERS)]
    extra = audit_of([*right, record(ORDERS[0], 20, value=b"boo")])
    assert extra.errors() == ["1 never written"]
    later = audit_of(right, expected=ORDERS[:-1])
    assert later.errors() == ["1 never written"]


def test_a_changed_amount_is_detected():
    right = [record(order, offset) for offset, order in enumerate(ORDERS)]
    right[3] = record(ORDERS[3], 3, value=ORDERS[3].value.replace(b'"total_cents":', b'"total_cents":1'))
    audit = audit_of(right)
    assert not audit.is_exact
    assert "read for" in audit.errors()[0]


def test_the_longest_pause_is_measured_per_partition():
    audit = OrderAudit()
    for order in ORDERS[:6]:
        audit.expect(order)
    for order, partition, offset, now in zip(ORDERS, [0, 1, 0, 0, 1, 0], [0, 0, 1, 2, 1, 3], [0, 1, 2, 7, 8, 9]):
        audit.add(record(order, offset, partition), float(now))
    assert audit.partitions[0].longest_pause == 5
    assert audit.partitions[1].longest_pause == 7
    assert (audit.partitions[0].count, audit.partitions[1].count) == (4, 2)
