"""The demo's orders: reproducible by seed, and parsed back."""

import json
from itertools import islice

import pytest

from thinconsumer_testing.cli.orders import COUNTRIES, orders, read_order


def test_the_same_seed_gives_the_same_orders():
    assert list(orders(1, 50)) == list(orders(1, 50))
    assert list(orders(1, 50)) != list(orders(2, 50))
    assert list(islice(orders(1, 1000), 50)) == list(orders(1, 50))


def test_the_json_of_an_order_matches_its_fields():
    for order in orders(3, 200):
        written = json.loads(order.value)
        assert read_order(order.value) == (order.number, order.country, order.cents)
        assert order.key == str(written["customer"]["number"]).encode()
        assert order.cents == sum(line["quantity"] * line["cents"] for line in written["items"]) > 0
        assert order.country in COUNTRIES


def test_customers_order_more_than_once():
    """Otherwise keys would not test the order within a partition."""
    assert len({order.key for order in orders(1, 3000)}) < 2000


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"order":1}', b"\xff", b'{"order":1,"customer":1}'])
def test_values_that_are_not_orders_are_refused(value):
    with pytest.raises(ValueError):
        read_order(value)
