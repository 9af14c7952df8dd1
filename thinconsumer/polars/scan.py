"""Reads the offsets that a query needs, and yields their records as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import polars as pl
from polars.io.plugins import register_io_source

from ..consumer import Consumer
from ..consumer.bulk_queries import known_positions, look_up, partitions_of, poll_up_to
from ..errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from ..records.columnar.arrow import SCHEMA_WITH_HEADERS, to_arrow
from ..types import TopicPartition
from .bounds import ALL, MAX, parse

#: The timestamps by which ListOffsets is asked for the log start and the log end.
LOG_START, LOG_END = -2, -1
#: The schema of :meth:`.RecordColumns.to_arrow` with headers, as Polars has it.
SCHEMA: dict[str, Any] = dict(pl.DataFrame(SCHEMA_WITH_HEADERS.empty_table()).schema)

Offsets = dict[TopicPartition, int]


class Scan(NamedTuple):
    """The source of a LazyFrame; each query reads with a consumer of its own."""

    connect: Callable[[], Consumer[Any, Any]]
    topics: Sequence[str]
    timestamps_ascend: bool = False

    def frame(self) -> pl.LazyFrame:
        """Return the LazyFrame."""
        return register_io_source(self.read, schema=SCHEMA)

    def read(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a query. ``predicate`` applies to the first ``n_rows`` rows only, as in Polars' sources."""
        names = list(SCHEMA) if with_columns is None else with_columns
        # Views save copying values. But of a response of which few rows or no values are wanted, they keep all bytes.
        views = predicate is None and "value" in names
        left = n_rows
        with self.connect() as consumer:
            starts, ends = self._plan(consumer, predicate if n_rows is None else None)
            consumer.assign(starts)
            for tp, offset in starts.items():
                consumer.seek(tp, offset)
            for columns in _columns(consumer, ends):
                part = columns if left is None else columns.slice(0, left)
                rows = pl.DataFrame(to_arrow(part, names, views))
                yield rows if predicate is None else rows.filter(predicate)
                if left is not None:
                    left -= len(part)
                    if not left:
                        return

    def _plan(self, consumer: Consumer[Any, Any], predicate: pl.Expr | None) -> tuple[Offsets, Offsets]:
        """Return the offsets from which and up to which to read; without partitions in which nothing can match."""
        found = partitions_of(consumer, self.topics)
        if missing := [topic for topic in self.topics if not found.get(topic)]:
            raise UnknownTopicOrPartitionError(
                f"topic {', '.join(map(repr, missing))} does not exist, or the client lacks DESCRIBE on it",
                code=3,
                name="UNKNOWN_TOPIC_OR_PARTITION",
                retriable=True,
            )
        tps = [TopicPartition(topic, number) for topic in self.topics for number in found[topic]]
        allowed = (lambda tp: ALL) if predicate is None else parse(predicate)
        wanted = {tp: limits for tp in tps if not (limits := allowed(tp)).is_empty}
        starts, ends = look_up(consumer, [dict.fromkeys(wanted, LOG_START), dict.fromkeys(wanted, LOG_END)])
        # ListOffsets takes milliseconds, and negative ones have other meanings.
        since = {tp: -(-limits.since // 1000) for tp, limits in wanted.items() if limits.since > 0}
        ending = wanted if self.timestamps_ascend else ()
        until = {tp: max(-(-wanted[tp].until // 1000), 0) for tp in ending if wanted[tp].until < MAX}
        # After the log ends: a partition without a timestamp from ``since`` on has none before its log end.
        first, last = look_up(consumer, [since, until]) if since or until else ({}, {})
        for tp, limits in wanted.items():
            ends[tp] = min(ends[tp], limits.end, _offset(last, tp, MAX))
            starts[tp] = max(starts[tp], limits.start, _offset(first, tp, ends[tp]) if tp in first else 0)
        return (
            {tp: offset for tp, offset in starts.items() if offset < ends[tp]},
            {tp: offset for tp, offset in ends.items() if starts[tp] < offset},
        )


def _offset(found: Offsets, tp: TopicPartition, default: int) -> int:
    """Return the offset found for a partition; ``default`` if there is none, or no record is so new."""
    offset = found.get(tp, -1)
    return default if offset < 0 else offset


def _columns(consumer: Consumer[Any, Any], ends: Offsets) -> Iterator[Any]:
    """Yield the records before ``ends`` as :class:`.RecordColumns`."""
    timeout_ms = consumer.config.default_api_timeout_ms
    before: object = None
    limit = 2 * consumer.config.batches_fetch_bytes  # a compressed response is decoded in few polls
    while ends:
        found = poll_up_to(consumer, ends, limit, timeout_ms, columns=True).records
        for tp, columns in found.items():
            count = int(columns.offsets.searchsorted(ends[tp]))
            if count:
                yield columns.slice(0, count)
        if found:
            continue
        # The last offsets of a log may have no records: what has been read is told by positions alone.
        positions = {tp: known.offset for tp, known in known_positions(consumer).items()}
        if all(positions.get(tp, -1) >= end for tp, end in ends.items()):
            return
        if positions == before:
            raise KafkaTimeoutError(f"no records came for {timeout_ms} ms: {consumer.health()}")
        before = positions
