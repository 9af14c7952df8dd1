"""The products table of the Spark job: for each order, the last category and price that were written before it.

A worker process of Spark reads the compacted topic once, and from then on only what is new. The job uses this table in
place of a join with a DataFrame: Spark reads such a DataFrame as the topic was when the job was started.
"""

from __future__ import annotations

import json
from bisect import bisect_right, insort
from collections import defaultdict
from functools import cache
from typing import Any, NamedTuple

from thinconsumer import Consumer, ConsumerRecord, TopicPartition


class Version(NamedTuple):
    """One value of a product. Versions are ordered by timestamp and offset.

    Offsets alone do not order them: after an expansion of the topic, the later records of a product may be in a new
    partition, where offsets are lower.
    """

    written: int  #: The record's timestamp in milliseconds.
    offset: int
    partition: int
    category: str | None = None  #: None if the product was deleted, or its value is malformed.
    cents: int | None = None


class Products:
    """All versions of all products in the topic. ``options`` are those of :class:`Consumer`."""

    def __init__(self, topic: str, **options: Any) -> None:
        self._topic = topic
        self._consumer: Consumer[Any, Any] = Consumer(auto_offset_reset="earliest", **options)
        self._versions: defaultdict[str, list[Version]] = defaultdict(list)

    def refresh(self) -> Products:
        """Read what has been written since the last call, in new partitions too."""
        numbers = self._consumer.partitions_for_topic(self._topic) or ()
        self._consumer.assign([TopicPartition(self._topic, number) for number in sorted(numbers)])
        if numbers:
            for record in self._consumer.read_to_end():
                if record.key is not None:
                    insort(self._versions[record.key.decode(errors="replace")], _version(record))
        return self

    def find(self, product: str | None, written: int) -> tuple[str | None, int | None]:
        """Return the category and price of a product for an order that was written at this time, or two None.

        A version that comes later does not count, so that each query and each repeated batch finds the same price.
        """
        versions = self._versions.get(product or "", [])
        number = bisect_right(versions, written, key=lambda version: version.written)
        return versions[number - 1][-2:] if number else (None, None)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


@cache
def products_of(servers: str, topic: str) -> Products:
    """Return the table of this process."""
    return Products(topic, bootstrap_servers=servers)


def _version(record: ConsumerRecord[Any, Any]) -> Version:
    version = Version(record.timestamp, record.offset, record.partition)
    try:
        value = json.loads(record.value)
        return version._replace(category=str(value["category"]), cents=int(value["cents"]))
    except (TypeError, ValueError, KeyError):
        return version
