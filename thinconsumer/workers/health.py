"""What workers do at present, by numbers, and which record keeps a partition's committed offset from moving."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..metrics import NAN, MetricValues
from ..types import TopicPartition
from .calling import Record
from .dispatcher import PartitionJobs
from .work import Work

#: The group of the metrics of workers.
GROUP = "worker-metrics"


@dataclass(frozen=True, slots=True)
class UnfinishedRecord:
    """The first unfinished record of a partition: its offset is the one that is committed."""

    partition: TopicPartition
    offset: int
    key: bytes | None
    age: float  #: Seconds since it was received, to about one second.
    attempts: int  #: How often it was handed to a handler; 0 if it waits for the first time.
    is_running: bool  #: Whether its handler runs; else it waits, for the end of a backoff or for its turn.


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """What workers do with one assigned partition."""

    running: int  #: Calls of the handler that run.
    retrying: int  #: Calls that have failed, and wait for their next attempt.
    waiting: int  #: Records that were received and never handed to a handler.
    offset: int  #: The offset that is committed next; -1 if it is not known before the first record.
    is_paused: bool  #: Whether no more of it is fetched, as enough waits.
    oldest: UnfinishedRecord | None  #: None if all records that were received are finished.


@dataclass(frozen=True, slots=True)
class WorkersHealth:
    """What workers do. The sums are over the assigned partitions, the counters since the start."""

    running: int  #: Calls of the handler that run.
    retrying: int  #: Calls that have failed, and wait for their next attempt.
    waiting: int  #: Records that were received and never handed to a handler.
    finished: int  #: Records whose handler has returned.
    failures: int  #: Calls that have failed.
    skipped: int  #: Records that were given up and skipped.
    dead_letters: int  #: Records that were given up and written as dead letters.
    oldest: UnfinishedRecord | None  #: The oldest of all partitions.
    reason: str  #: The stuck records in words, the oldest first; empty if there are none.
    partitions: Mapping[TopicPartition, PartitionWork]

    def metrics(self) -> MetricValues:
        """Return the numbers in the form of ``Consumer.metrics()``."""
        values: dict[str, float] = {
            "calls-running": self.running,
            "calls-retrying": self.retrying,
            "calls-failed-total": self.failures,
            "records-waiting": self.waiting,
            "records-finished-total": self.finished,
            "records-skipped-total": self.skipped,
            "dead-letters-total": self.dead_letters,
            "oldest-unfinished-seconds-ago": NAN if self.oldest is None else self.oldest.age,
        }
        return {GROUP: values}


def health_of(work: Work, paused: Collection[TopicPartition], now: float, stuck_after: float) -> WorkersHealth:
    """Describe the work at the time ``now``."""
    partitions = {tp: _partition(work, lane, tp in paused, now) for tp, lane in work.dispatcher.lanes.items()}
    found = sorted((each.oldest for each in partitions.values() if each.oldest is not None), key=lambda one: -one.age)
    return WorkersHealth(
        running=sum(each.running for each in partitions.values()),
        retrying=sum(each.retrying for each in partitions.values()),
        waiting=sum(each.waiting for each in partitions.values()),
        finished=work.finished_count,
        failures=work.failed_count,
        skipped=work.skipped_count,
        dead_letters=work.dead_letter_count,
        oldest=found[0] if found else None,
        reason="; ".join(_words(each) for each in found if each.age >= stuck_after),
        partitions=partitions,
    )


def _partition(work: Work, lane: PartitionJobs[Record], is_paused: bool, now: float) -> PartitionWork:
    oldest = None
    if (found := work.dispatcher.first(lane)) is not None:
        record, attempts, is_running = found
        age = max(now - lane.received_at(record.offset), 0.0)
        oldest = UnfinishedRecord(lane.partition, record.offset, record.key, age, attempts, is_running)
    retrying = len(work.dispatcher.retrying(lane))
    return PartitionWork(len(lane.running), retrying, lane.waiting, lane.progress.offset, is_paused, oldest)


def _words(record: UnfinishedRecord) -> str:
    topic, number = record.partition
    state = "running" if record.is_running else "waiting"
    return (
        f"{topic}-{number} offset {record.offset}, key {_key(record.key)}, is unfinished since "
        f"{math.floor(record.age)} s: {state}, {record.attempts} attempts"
    )


def _key(key: bytes | None) -> str:
    if key is None or len(key) <= 50:
        return repr(key)
    return f"{key[:50]!r}... of {len(key)} bytes"
