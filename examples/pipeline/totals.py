"""Do the sums agree? What the orders come to, and what the pipeline says, in Kafka and in Parquet.

Owns how results are read: of the topic the last total of each category, of the folder the files that Spark's file sink
has committed. Cents are integers: they are equal, or they are not.
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
    """How many orders, and what they are worth."""

    orders: int = 0
    cents: int = 0

    def __str__(self) -> str:
        return f"{self.orders:,} orders, {self.cents / 100:,.2f} EUR"


Window = tuple[datetime, str]  #: When it starts, and which category.


def by_category(orders: Iterable[Order]) -> dict[str, Total]:
    """Return what they come to."""
    return _sum((order.category, Total(1, order.cents)) for order in orders)


def by_window(orders: Iterable[Order], seconds: int) -> dict[Window, Total]:
    """Return what they come to in each window of so many seconds."""
    return _sum(((_start(order.at, seconds), order.category), Total(1, order.cents)) for order in orders)


class Published:
    """The totals in the topic, as somebody sees them who reads it from the beginning."""

    def __init__(self) -> None:
        self.totals: dict[str, Total] = {}
        self._batches: dict[str, int] = {}

    @property
    def orders(self) -> int:
        """How many orders are in all totals."""
        return sum(total.orders for total in self.totals.values())

    def take(self, key: bytes, value: bytes) -> None:
        """Take one record.

        One of an earlier batch than the one before is no news: a task of a job that was killed may live for a moment
        longer, and write what it had in hand when the job that came after it has written more.
        """
        category, said = key.decode(), json.loads(value)
        if said["batch"] >= self._batches.get(category, -1):
            self._batches[category] = said["batch"]
            self.totals[category] = Total(said["orders"], said["cents"])


def committed_files(folder: Path) -> list[Path]:
    """Return the Parquet files that Spark's file sink has noted as written.

    A job that is killed leaves others beside them, whose rows come once more in files of the batch that is repeated.
    Spark looks at these notes by itself when it reads the folder; other readers have to be told.
    """
    names = set()
    for note in (folder / "_spark_metadata").glob("[0-9]*"):
        for line in note.read_text().splitlines()[1:]:  # the first one is the version
            names.add(Path(unquote(urlparse(json.loads(line)["path"]).path)).name)
    return [folder / name for name in sorted(names)]


def read_windows(folder: Path) -> list[tuple[Window, Total]]:
    """Return what is in the Parquet files, row by row."""
    from pyarrow import parquet, timestamp  # of no other use here

    rows: list[tuple[Window, Total]] = []
    for path in committed_files(folder):
        table = parquet.read_table(path)
        starts = table["start"].cast(timestamp("us", "UTC")).to_pylist()  # in the file it is of no time zone
        columns = (starts, *(table[name].to_pylist() for name in ("category", "orders", "cents")))
        rows += [((start, category), Total(orders, cents)) for start, category, orders, cents in zip(*columns)]
    return rows


def differences(expected: Mapping, found: Mapping) -> list[str]:
    """Return what does not agree, in words."""
    return [
        f"{_named(key)}: {found.get(key, 'nothing')} instead of {expected.get(key, 'nothing')}"
        for key in sorted(expected.keys() | found.keys())
        if expected.get(key) != found.get(key)
    ]


def window_differences(expected: Mapping[Window, Total], rows: Iterable[tuple[Window, Total]]) -> list[str]:
    """Return what does not agree; a window that is there twice is as wrong as one that is missing."""
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
