"""Pure functions that plan reads: resolve bounds to offsets, find lost data, limit micro-batches, split tasks.

For the options of Spark's own connector, the formulas are that connector's (``KafkaOffsetReaderAdmin``,
``KafkaMicroBatchStream``, ``KafkaOffsetRangeCalculator``): a job keeps its batches and tasks when it moves here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..config.values import INT64_MAX
from ..errors import KafkaConfigurationError, KafkaError
from ..types import TopicPartition
from ..wire import ZERO_UUID
from .offsets import EARLIEST, LATEST, Offsets, partition_names
from .options import AtCommitted, AtOffsets, AtTimes, Bound

#: Assumed bytes of a record while none could be sampled; without it ``maxBytesPerTrigger`` would limit nothing.
USUAL_BYTES = 1000


class OffsetRange(NamedTuple):
    """The offsets of one partition that a task reads: ``start`` inclusive, ``until`` exclusive."""

    tp: TopicPartition
    start: int
    until: int
    #: Topic id at planning, by which a task notices that the topic was deleted and created again; zeros if unknown.
    topic_id: bytes = ZERO_UUID

    @property
    def size(self) -> int:
        """Number of offsets in the range. There may be fewer records, after compaction and in transactions."""
        return self.until - self.start


class Loss(NamedTuple):
    """Offsets of a partition that cannot be read, from ``start`` to ``until`` (exclusive), each None if unknown."""

    tp: TopicPartition
    start: int | None
    until: int | None
    why: str

    def __str__(self) -> str:
        span = f"[{'?' if self.start is None else self.start}, {'?' if self.until is None else self.until})"
        return f"{self.tp.topic}-{self.tp.partition} {span}: {self.why}"


class DataLossError(KafkaError):
    """Offsets to read no longer exist, and ``failOnDataLoss`` is true. ``losses`` lists the missing ranges."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = tuple(losses)
        super().__init__(
            f"{describe_losses(losses)}\nSet failOnDataLoss to false to skip them; a new load(), or a stream with a "
            "new checkpoint, is planned from the logs as they are now"
        )


class ReadPlan(NamedTuple):
    """Ranges to read, and the offsets that are lost."""

    ranges: list[OffsetRange]
    losses: list[Loss]


def describe_losses(losses: Sequence[Loss]) -> str:
    some = "\n  ".join(str(loss) for loss in losses[:100])
    more = f"\n  and {len(losses) - 100} more" if len(losses) > 100 else ""
    return f"lost offsets in {len(losses)} {'range' if len(losses) == 1 else 'ranges'}:\n  {some}{more}"


def times_to_look_up(bound: Bound, partitions: Iterable[TopicPartition]) -> Offsets:
    """Return the timestamps (ms) that ListOffsets must resolve for a bound; empty if it has no timestamps."""
    if not isinstance(bound, AtTimes):
        return {}
    times = bound.times
    return dict.fromkeys(partitions, times) if isinstance(times, int) else {tp: times[tp] for tp in partitions}


def check_every_partition_named(bound: Bound, partitions: Iterable[TopicPartition], option: str) -> None:
    """Raise ``KafkaConfigurationError`` unless a bound with a value by partition names exactly ``partitions``."""
    if isinstance(bound, AtCommitted) or isinstance(bound[0], int):
        return
    assigned, named = set(partitions), bound[0].keys()
    differences = ("leaves out", assigned - named), ("adds", named - assigned)
    wrong = " and ".join(f"{verb} {partition_names(tps)}" for verb, tps in differences if tps)
    if wrong:
        raise KafkaConfigurationError(
            f"{option} must name exactly the partitions that are read, but {wrong}; write -1 for latest and -2 for "
            "earliest"
        )


class ClusterOffsets(NamedTuple):
    """Log starts, log ends, and what else a bound needs: for each partition, the offset by timestamp or the committed
    one; None if there is none.
    """

    earliest: Offsets
    latest: Offsets
    found: Mapping[TopicPartition, int | None] = {}


def offsets_of(bound: Bound, cluster: ClusterOffsets, *, no_match_is_latest: bool) -> Offsets:
    """Return the offset of each partition to which a bound resolves.

    Raises:
        KafkaConfigurationError: a partition has no record at or after its timestamp, unless ``no_match_is_latest``.
    """
    earliest, latest, found = cluster
    if isinstance(bound, AtOffsets):
        ends = {EARLIEST: earliest, LATEST: latest}
        given = dict.fromkeys(latest, bound.offsets) if isinstance(bound.offsets, int) else bound.offsets
        return {tp: ends[given[tp]][tp] if given[tp] in ends else given[tp] for tp in latest}
    known = {tp: offset for tp in latest if (offset := found.get(tp)) is not None}
    unmatched = latest.keys() - known.keys()
    if unmatched and isinstance(bound, AtTimes) and not no_match_is_latest:
        raise KafkaConfigurationError(
            f"no record at or after the starting timestamp in {partition_names(unmatched)}: choose an earlier one, or "
            "set startingOffsetsByTimestampStrategy to latest to begin at the end of these logs"
        )
    return {**(latest if isinstance(bound, AtTimes) else earliest), **known}


def plan_batch(start: Offsets, until: Mapping[TopicPartition, int], cluster: ClusterOffsets) -> ReadPlan:
    """Return the ranges of a batch read, limited to the offsets in the logs; offsets outside are losses."""
    ranges, losses = [], []
    for tp in sorted(start):
        first, last, low, high = start[tp], until[tp], cluster.earliest[tp], cluster.latest[tp]
        if first < min(low, last):
            losses.append(Loss(tp, first, min(low, last), f"deleted; the log begins at {low}"))
        if max(first, last) > high:
            losses.append(Loss(tp, high, max(first, last), f"missing; the log ends at {high}"))
        ranges.append(OffsetRange(tp, max(first, low), min(last, high)))
    return ReadPlan([found for found in ranges if found.size > 0], losses)


def plan_micro_batch(start: Offsets, end: Offsets, earliest: Mapping[TopicPartition, int]) -> ReadPlan:
    """Return the ranges of a micro-batch. A partition without a start offset is new and is read from its beginning.

    ``earliest`` has the log start offsets of the partitions that still exist.
    """
    ranges = []
    losses = [Loss(tp, start[tp], None, "the partition was deleted") for tp in sorted(start.keys() - end.keys())]
    for tp in sorted(end):
        until, low, first = end[tp], earliest.get(tp), start.get(tp)
        if low is None:
            begin, what = (0, "added and deleted") if first is None else (first, "deleted")
            if until > begin:
                losses.append(Loss(tp, begin, until, f"the partition was {what}"))
            continue
        if first is None:
            if low > 0:
                losses.append(Loss(tp, 0, low, f"deleted from a new partition; the log begins at {low}"))
            first = low
        elif until < first:
            losses.append(Loss(tp, until, first, f"the log ended at {first} before and ends at {until} now"))
        elif first < min(low, until):
            losses.append(Loss(tp, first, min(low, until), f"deleted; the log begins at {low}"))
            first = low
        ranges.append(OffsetRange(tp, first, until))
    return ReadPlan([found for found in ranges if found.size > 0], losses)


def removed_before_read(removed: Offsets, latest: Mapping[TopicPartition, int]) -> list[Loss]:
    """Return the losses in partitions that were removed from counted topics once they had no records.

    ``removed`` has the offset up to which each partition was read, ``latest`` its log end when it was last seen.
    """
    why = "deleted, and the emptied partition was removed"
    return [Loss(tp, offset, latest[tp], why) for tp, offset in sorted(removed.items()) if latest.get(tp, 0) > offset]


def limit_ends(start: Offsets, latest: Offsets, earliest: Mapping[TopicPartition, int], offsets_max: int) -> Offsets:
    """Return end offsets for about ``offsets_max`` offsets in all, shared in proportion to each partition's backlog.

    A partition's part of less than one offset is rounded up to one: otherwise a small partition beside huge ones would
    never be read. ``earliest`` has the log start offsets of new partitions, which have no offset in ``start``. A new
    partition that is missing in ``earliest``, too, was deleted; :func:`plan_micro_batch` reports its offsets as lost.
    """
    begins = {tp: start.get(tp, earliest.get(tp)) for tp in latest}
    sizes = {tp: latest[tp] - first for tp, first in begins.items() if first is not None and latest[tp] > first}
    total = sum(sizes.values())
    if not total:
        return dict(latest)
    found = dict(latest)
    for tp, size in sizes.items():
        share = float(offsets_max) * (size / float(total))
        count = math.ceil(share) if share < 1 else math.floor(share)
        found[tp] = min(latest[tp], latest[tp] - size + count, INT64_MAX)
    return found


def backlog_of(start: Offsets, latest: Offsets, earliest: Mapping[TopicPartition, int]) -> int:
    """Return how many offsets of all partitions are to be read; the parameters are those of :func:`limit_ends`."""
    return sum(max(0, end - start.get(tp, earliest.get(tp, 0))) for tp, end in latest.items())


def offsets_within(bytes_max: int, samples: Iterable[tuple[int, int]]) -> int:
    """Return the number of offsets with about ``bytes_max`` bytes, at least 1; ``samples`` are (offsets, bytes)."""
    counted = [(offsets, size) for offsets, size in samples if offsets > 0] or [(1, USUAL_BYTES)]
    offsets, size = sum(n for n, _ in counted), sum(b for _, b in counted)
    return max(1, bytes_max * offsets // max(1, size))


def split_ranges(
    ranges: Sequence[OffsetRange], *, parts_min: int | None = None, records_max: int | None = None
) -> list[OffsetRange]:
    """Split ranges into about ``parts_min`` parts or more, none with more than ``records_max`` offsets.

    Large ranges are split in proportion to their size; small ones are not split.
    """
    found = [one for one in ranges if one.size > 0]
    if records_max is not None:
        found = [part for one in found for part in _divided(one, -(-one.size // records_max))]
    if parts_min is None or len(found) >= parts_min:
        return found
    total = sum(one.size for one in found)
    small = {one for one in found if _count(one.size, total, parts_min) == 1}
    rest = total - sum(one.size for one in small)
    wanted = max(parts_min - len(small), 1)
    counts = {one: 1 if one in small else _count(one.size, rest, wanted) for one in found}
    return [part for one in found for part in _divided(one, counts[one])]


def _count(size: int, total: int, parts: int) -> int:
    return max(math.floor(size / total * parts + 0.5), 1)


def _divided(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    found, first, left = [], whole.start, whole.size
    for index in range(parts):
        size = left // (parts - index)
        left -= size
        if size:
            found.append(whole._replace(start=first, until=first + size))
        first += size
    return found
