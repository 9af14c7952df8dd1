"""Compare the sums of the written orders with the results of the pipeline, in Kafka and in Parquet.

Owns reading the results: the last total of each category in the topic, and the Parquet files that Spark's file sink has
committed. Amounts are integers of cents, so they must be equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

from orders import Order


class Total(NamedTuple):
    """A number of orders and their value."""

    orders: int = 0
    cents: int = 0

    def __str__(self) -> str:
        return f"{self.orders:,} orders, {self.cents / 100:,.2f} EUR"


Window = tuple[datetime, str]  #: Start and category.


def by_category(orders: Iterable[Order]) -> dict[str, Total]:
    """Return the totals of each category."""
    return _sum((order.category, Total(1, order.cents)) for order in orders)


def by_window(orders: Iterable[Order], seconds: int) -> dict[Window, Total]:
    """Return the totals of each category and window of ``seconds``."""
    return _sum(((_start(order.at, seconds), order.category), Total(1, order.cents)) for order in orders)


class Published:
    """The latest totals in the topic, built by reading it from the beginning."""

    def __init__(self) -> None:
        self.totals: dict[str, Total] = {}
        self._batches: dict[str, int] = {}

    @property
    def orders(self) -> int:
        """Number of orders in all totals."""
        return sum(total.orders for total in self.totals.values())

    def take(self, key: bytes, value: bytes) -> None:
        """Apply one record unless it is of an earlier batch than the last one.

        A task of the killed job may still write an old batch after the restarted job has written newer ones.
        """
        category, total = key.decode(), json.loads(value)
        if total["batch"] >= self._batches.get(category, -1):
            self._batches[category] = total["batch"]
            self.totals[category] = Total(total["orders"], total["cents"])


def committed_files(folder: Path) -> list[Path]:
    """Return the Parquet files that Spark's file sink has committed in its ``_spark_metadata`` log.

    A killed job leaves other files, whose rows appear again in the files of the repeated batch. Spark reads this log
    when it reads the folder; other readers must do so themselves.
    """
    names = set()
    for note in (folder / "_spark_metadata").glob("[0-9]*"):
        for line in note.read_text().splitlines()[1:]:  # the first line is the version
            names.add(Path(unquote(urlparse(json.loads(line)["path"]).path)).name)
    return [folder / name for name in sorted(names)]


def read_windows(folder: Path) -> list[tuple[Window, Total]]:
    """Return the rows of the committed Parquet files."""
    from pyarrow import parquet, timestamp  # needed only here

    rows: list[tuple[Window, Total]] = []
    for path in committed_files(folder):
        table = parquet.read_table(path)
        starts = table["start"].cast(timestamp("us", "UTC")).to_pylist()  # the file has no time zone
        columns = (starts, *(table[name].to_pylist() for name in ("category", "orders", "cents")))
        rows += [((start, category), Total(orders, cents)) for start, category, orders, cents in zip(*columns)]
    return rows


def differences(expected: Mapping, found: Mapping) -> list[str]:
    """Describe each difference."""
    return [
        f"{_named(key)}: {found.get(key, 'nothing')} instead of {expected.get(key, 'nothing')}"
        for key in sorted(expected.keys() | found.keys())
        if expected.get(key) != found.get(key)
    ]


def window_differences(expected: Mapping[Window, Total], rows: Iterable[tuple[Window, Total]]) -> list[str]:
    """Describe each difference, and each window that occurs twice."""
    found: dict[Window, Total] = {}
    twice = []
    for window, total in rows:
        if window in found:
            twice.append(f"{_named(window)}: twice")
        found[window] = total
    return twice + differences(expected, found)


def _named(key: str | Window) -> str:
    return key if isinstance(key, str) else f"{key[1]} from {key[0]:%H:%M:%S}"


def _start(at: datetime, seconds: int) -> datetime:
    return datetime.fromtimestamp(at.timestamp() // seconds * seconds, at.tzinfo)


def _sum(found: Iterable[tuple]) -> dict:
    sums: dict = {}
    for key, (orders, cents) in found:
        before = sums.get(key, Total())
        sums[key] = Total(before.orders + orders, before.cents + cents)
    return sums
