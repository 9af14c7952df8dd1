"""The shop's goods and random orders. The same seed gives the same orders, so the expected sums are known.

Owns goods, prices, event times and their encoding: one JSON object per line, the input of
``python -m thinconsumer produce --json``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

#: Article, category, cents.
GOODS = (
    ("espresso beans", "coffee", 2190),
    ("filter roast", "coffee", 1250),
    ("decaf", "coffee", 790),
    ("green tea", "tea", 890),
    ("rooibos", "tea", 640),
    ("blue mug", "cups", 1400),
    ("sand mug", "cups", 1400),
    ("hand grinder", "gear", 8900),
    ("gooseneck kettle", "gear", 7900),
    ("paper filters", "gear", 650),
    ("dark chocolate", "sweets", 420),
    ("shortbread", "sweets", 580),
)
#: Event time of the first order. It is fixed, so that the sums by window do not depend on when this runs.
OPENS = datetime(2026, 1, 5, 9, tzinfo=timezone.utc)
#: One order in twenty is late, by at most this; seconds.
LATE_S = 4.0
#: Event time between the last order and the closing one; seconds.
CLOSING_S = 60


class Order(NamedTuple):
    """One order, with the category and amount that the pipeline must compute for it."""

    number: int
    product: str
    quantity: int
    at: datetime
    category: str
    cents: int

    def line(self) -> bytes:
        """Return the order as a record. Its key spreads orders over partitions; price and category are left out."""
        at = self.at.isoformat(timespec="milliseconds")
        value = {"number": self.number, "product": self.product, "quantity": self.quantity, "at": at}
        return _line(str(self.number), value)


def orders(seed: int, rate: int) -> Iterator[Order]:
    """Yield orders without end, ``rate`` per second of event time."""
    chance = random.Random(seed)
    number = 0
    while True:
        product, category, cents = GOODS[int(chance.random() ** 1.5 * len(GOODS))]
        quantity = 1 + int(chance.random() ** 3 * 5)
        late_s = chance.random() * LATE_S if chance.random() < 0.05 else 0.0
        at = _millis(OPENS + timedelta(seconds=number / rate - late_s))
        yield Order(number, product, quantity, at, category, quantity * cents)
        number += 1


def closing(number: int, rate: int) -> Order:
    """Return an order of quantity 0 after the last one: it advances the watermark, which closes the windows."""
    product, category, _ = GOODS[0]
    at = _millis(OPENS + timedelta(seconds=number / rate + CLOSING_S))
    return Order(number, product, 0, at, category, 0)


def product_lines() -> Iterator[bytes]:
    """Yield the changelog of the products table: old prices, a deleted product, and the current prices."""
    for name, _, cents in GOODS:
        yield _line(name, {"category": "news", "cents": cents - 100})
    yield _line("instant coffee", {"category": "coffee", "cents": 1})
    yield _line("instant coffee", None)
    for name, category, cents in GOODS:
        yield _line(name, {"category": category, "cents": cents})


def _millis(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _line(key: str, value: dict[str, object] | None) -> bytes:
    text = None if value is None else json.dumps(value)
    return json.dumps({"key": key, "value": text}).encode() + b"\n"
