"""From options and what the cluster says to the ranges that are read: decisions only, as pure functions.

Owns which offsets a bound means, what counts as lost data, how much of a backlog one micro-batch takes, and into how
many tasks it is split. Everything it has to know is an argument, the time too; who asks the cluster is ``lookup``. The
formulas are those of Spark's own connector (``KafkaOffsetReaderAdmin``, ``KafkaMicroBatchStream`` and
``KafkaOffsetRangeCalculator``), so that a job that moves over has the same batches and tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import KafkaConfigurationError, KafkaError
from ..types import TopicPartition
from ..wire import ZERO_UUID
from .offsets import EARLIEST, INT64_MAX, LATEST, Offsets, show
from .options import AtOffsets, AtTime, AtTimes, Bound, Committed, Mark

Partitions = Iterable[TopicPartition]
#: What a record is taken to have where none could be looked at: to read all there is would be no limit.
USUAL_BYTES = 1000


class OffsetRange(NamedTuple):
    """Offsets to read of one partition: from ``start`` on, up to and without ``until``."""

    topic: str
    partition: int
    start: int
    until: int
    #: Of the topic that was planned, so that a task recognises one created again under its name; zero where unknown.
    topic_id: bytes = ZERO_UUID

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """How many offsets it spans; records may be fewer, since compaction and transactions leave holes."""
        return self.until - self.start


class Loss(NamedTuple):
    """Offsets of a partition that were to be read and cannot be: from ``start`` up to and without ``until``.

    Either is None where nobody knows any more: a partition that is gone takes its end with it.
    """

    tp: TopicPartition
    start: int | None
    until: int | None
    why: str

    def __str__(self) -> str:
        span = f"[{'?' if self.start is None else self.start}, {'?' if self.until is None else self.until})"
        return f"{self.tp.topic}-{self.tp.partition} {span}: {self.why}"


class DataLossError(KafkaError):
    """Data that was to be read is gone, and ``failOnDataLoss`` is true. ``losses`` has each range."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = tuple(losses)
        super().__init__(
            f"{tell(losses)}\nSet failOnDataLoss to false to go on with what is there; to read all of it again, start "
            "with a new checkpoint"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What to read, and what of it is not there any more."""

    ranges: list[OffsetRange]
    losses: list[Loss]


def tell(losses: Sequence[Loss]) -> str:
    """Return the losses as words, one range to a line."""
    some = "\n  ".join(str(loss) for loss in losses[:100])
    more = f"\n  and {len(losses) - 100} more" if len(losses) > 100 else ""
    return f"data may have been lost in {len(losses)} partitions:\n  {some}{more}"


# -- what a bound means


def question(bound: Bound, partitions: Partitions) -> Offsets:
    """Return what ListOffsets has to be asked for a bound: a time in ms, or a mark, for each partition."""
    if isinstance(bound, AtTime):
        return dict.fromkeys(partitions, bound.timestamp)
    if isinstance(bound, AtTimes):
        return {tp: bound.timestamps[tp] for tp in partitions if tp in bound.timestamps}
    return {}


def check_named(bound: Bound, partitions: Partitions, option: str) -> None:
    """Raise unless a bound that names partitions names all there are, and no others.

    Raises:
        KafkaConfigurationError: says which are missing and which are too many.
    """
    if isinstance(bound, AtOffsets):
        named = bound.offsets.keys()
    elif isinstance(bound, AtTimes):
        named = bound.timestamps.keys()
    else:
        return
    assigned = set(partitions)
    if named == assigned:
        return
    missing, extra = assigned - named, named - assigned
    words = [f"it leaves out {show(missing)}"] * bool(missing) + [f"it names {show(extra)}"] * bool(extra)
    raise KafkaConfigurationError(
        f"{option} has to name every partition that is read and no other; {', and '.join(words)}. Write -1 for latest "
        "and -2 for earliest"
    )


@dataclass(frozen=True, slots=True)
class Facts:
    """What the cluster says about partitions: ends of their logs, and what was asked for a bound."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    found: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    committed: Mapping[TopicPartition, int | None] = field(default_factory=dict)


def starts(bound: Bound, facts: Facts, *, no_match_is_latest: bool) -> Offsets:
    """Return where reading begins, per partition.

    Raises:
        KafkaConfigurationError: no record is as young as a time asked for, and the strategy is ``error``.
    """
    found = {tp: _resolved(bound, tp, facts) for tp in facts.latest}
    unmatched = [tp for tp, offset in found.items() if offset is None]
    if unmatched and not no_match_is_latest and isinstance(bound, (AtTime, AtTimes)):
        raise KafkaConfigurationError(
            f"no record in {show(unmatched)} is as young as the starting time: choose an earlier one, or set "
            "startingOffsetsByTimestampStrategy to latest to begin at the end there"
        )
    return {tp: facts.latest[tp] if offset is None else offset for tp, offset in found.items()}


def ends(bound: Bound, facts: Facts) -> Offsets:
    """Return where reading ends, per partition: at the latest offset where no record is as young as a time."""
    found = {tp: _resolved(bound, tp, facts) for tp in facts.latest}
    return {tp: facts.latest[tp] if offset is None else offset for tp, offset in found.items()}


def _resolved(bound: Bound, tp: TopicPartition, facts: Facts) -> int | None:
    if isinstance(bound, (AtTime, AtTimes)):
        return facts.found.get(tp)
    if isinstance(bound, Committed):
        offset = facts.committed.get(tp)
        return facts.earliest[tp] if offset is None else offset
    offset = bound.offset if isinstance(bound, Mark) else bound.offsets[tp]
    return facts.earliest[tp] if offset == EARLIEST else facts.latest[tp] if offset == LATEST else offset


# -- ranges, and what is lost of them


def plan_batch(start: Offsets, until: Mapping[TopicPartition, int], facts: Facts) -> Plan:
    """Return the ranges of a batch read; what lies outside of the log is cut off and told."""
    ranges, losses = [], []
    for tp in sorted(start):
        first, last, low, high = start[tp], until[tp], facts.earliest[tp], facts.latest[tp]
        if first < min(low, last):
            losses.append(Loss(tp, first, min(low, last), f"deleted; the log begins at {low}"))
        if max(first, last) > high:
            losses.append(Loss(tp, high, max(first, last), f"not there; the log ends at {high}"))
        ranges.append(OffsetRange(tp.topic, tp.partition, max(first, low), min(last, high)))
    return Plan([found for found in ranges if found.size > 0], losses)


def plan_micro_batch(start: Offsets, end: Offsets, earliest: Mapping[TopicPartition, int]) -> Plan:
    """Return the ranges of a micro-batch. Partitions that ``start`` does not know are read from their beginning.

    ``earliest`` says where logs begin now, and leaves out partitions that are gone.
    """
    ranges = []
    losses = [Loss(tp, start[tp], None, "the partition is gone") for tp in sorted(start.keys() - end.keys())]
    for tp in sorted(end):
        until, low = end[tp], earliest.get(tp)
        first = start.get(tp)
        if first is None:
            if low is None:
                losses.append(Loss(tp, 0, until, "a new partition that is gone again"))
                continue
            if low > 0:
                losses.append(Loss(tp, 0, low, f"a new partition whose log begins at {low} already"))
            first = low
        elif low is None:
            if until > first:
                losses.append(Loss(tp, first, until, "the partition is gone"))
            continue
        elif until < first:
            losses.append(Loss(tp, until, first, f"the log ended at {first} once and now at {until}"))
        elif first < min(low, until):
            losses.append(Loss(tp, first, min(low, until), f"deleted; the log begins at {low}"))
            first = low
        ranges.append(OffsetRange(tp.topic, tp.partition, first, until))
    return Plan([found for found in ranges if found.size > 0], losses)


# -- how much of it at once


def limited(start: Offsets, latest: Offsets, earliest: Mapping[TopicPartition, int], offsets_max: int) -> Offsets:
    """Return ends that leave about ``offsets_max`` offsets to read, shared out in proportion to what is waiting.

    A share below one is one, lest a small partition next to huge ones is never read. ``earliest`` is for partitions
    that ``start`` does not know; one that it does not know either is left to :func:`plan_micro_batch`.
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


def waiting(start: Offsets, latest: Offsets, earliest: Mapping[TopicPartition, int]) -> int:
    """Return how many offsets there are to read."""
    return sum(max(0, end - start.get(tp, earliest.get(tp, 0))) for tp, end in latest.items())


def must_wait(backlog: int, offsets_min: int, waited_ms: float, delay_max_ms: float) -> bool:
    """Return whether to skip a trigger: there is too little to read, and it has not been too little for too long."""
    return backlog < offsets_min and waited_ms < delay_max_ms


def offsets_within(bytes_max: int, samples: Iterable[tuple[int, int]]) -> int:
    """Return how many offsets ``bytes_max`` bytes are likely to be, at least one.

    ``samples`` are (offsets, bytes) of what was looked at; without any, a record is taken to be of a usual size.
    """
    looked_at = [(offsets, size) for offsets, size in samples if offsets > 0] or [(1, USUAL_BYTES)]
    offsets, size = sum(n for n, _ in looked_at), sum(b for _, b in looked_at)
    return max(1, bytes_max * offsets // max(1, size))


# -- in how many tasks


def split(
    ranges: Sequence[OffsetRange], *, parts_min: int | None = None, records_max: int | None = None
) -> list[OffsetRange]:
    """Return ranges no longer than ``records_max``, and about ``parts_min`` of them if these would be fewer.

    Large ranges are split in proportion to their size, small ones are left whole.
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
