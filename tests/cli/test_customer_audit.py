"""The audit by customers: late orders are counted once each, at their partition."""

from thinconsumer.types import ConsumerRecord
from thinconsumer_testing.cli.customer_audit import CustomerAudit, OrderRead
from thinconsumer_testing.cli.orders import Order, orders


def record(order: Order, partition: int):
    return ConsumerRecord("orders", partition, 0, 0, 0, 0, order.key, order.value)


def audit_of(*rows):
    """Return the audit of orders by these customers, numbers and partitions, read in this order."""
    [template] = orders(1, 1)
    audit = CustomerAudit()
    for customer, number, partition in rows:
        value = template.value.replace(b'"order":0', b'"order":%d' % number)
        audit.add(record(template._replace(number=number, key=customer, value=value), partition))
    return audit


def test_orders_of_different_customers_have_no_order():
    audit = audit_of((b"a", 3, 0), (b"b", 1, 1), (b"c", 2, 2), (b"a", 4, 1))
    assert (audit.read, audit.late.total(), audit.repeated) == (4, 0, 0)
    assert audit.partitions == {0: 1, 1: 2, 2: 1}


def test_every_order_behind_a_later_one_of_its_customer_is_late():
    audit = audit_of((b"a", 1, 0), (b"a", 5, 4), (b"a", 2, 0), (b"a", 3, 0), (b"a", 6, 4))
    assert audit.late == {0: 2}
    assert audit.late_customers == {b"a": 2}


def test_a_repeated_order_is_compared_once():
    audit = audit_of((b"a", 1, 0), (b"a", 2, 0), (b"a", 1, 0))
    assert (audit.read, audit.repeated, audit.late.total()) == (2, 1, 0)


def test_the_example_shows_the_first_late_order():
    audit = audit_of(*[(b"a", number, 0) for number in range(20)], (b"a", 30, 1), (b"a", 25, 0), (b"a", 31, 1))
    assert audit.example(b"a", 4) == [OrderRead(19, 0), OrderRead(30, 1), OrderRead(25, 0), OrderRead(31, 1)]
    assert audit.example(b"nobody", 4) == []
    assert len(audit_of((b"a", 2, 0), (b"a", 1, 1)).example(b"a", 7)) == 2
