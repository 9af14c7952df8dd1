"""The demo's orders: the same for the same seed, and readable."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from thinconsumer.cli.orders import COUNTRIES, orders, read_order


def test_the_same_seed_gives_the_same_orders():
    assert list(orders(1, 50)) == list(orders(1, 50))
    assert list(orders(1, 50)) != list(orders(2, 50))
    assert list(islice(orders(1, 1000), 50)) == list(orders(1, 50))


def test_an_order_says_the_same_in_its_fields_and_in_its_json():
    for order in orders(3, 200):
        written = json.loads(order.value)
        assert read_order(order.value) == (order.number, order.country, order.cents)
        assert order.key == str(written["customer"]["number"]).encode()
        assert order.cents == sum(line["quantity"] * line["cents"] for line in written["items"]) > 0
        assert order.country in COUNTRIES


def test_customers_come_again():
    """Else a key would say nothing about order within a partition."""
    assert len({order.key for order in orders(1, 3000)}) < 2000


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"order":1}', b"\xff", b'{"order":1,"customer":1}'])
def test_what_is_no_order_is_said_to_be_none(value):
    with pytest.raises(ValueError):
        read_order(value)
