"""What workers do at present, by numbers, and which record keeps a partition's committed offset from moving."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..metrics import NAN, MetricValues
from ..types import TopicPartition
from .calling import Record
from .dispatcher import Job, PartitionJobs
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

    def metrics(self) -> dict[str, float]:
        """Return the numbers by name."""
        return {
            "calls-running": self.running,
            "calls-retrying": self.retrying,
            "records-waiting": self.waiting,
            **_age(self.oldest),
        }


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
    stuck: tuple[UnfinishedRecord, ...]  #: The records that are unfinished for long, the oldest first.
    reason: str  #: :attr:`stuck` in words; empty if there are none.
    partitions: Mapping[TopicPartition, PartitionWork]

    def metrics(self) -> MetricValues:
        """Return the numbers in the form of ``Consumer.metrics()``: of all, and of each partition."""
        values: dict[str, float] = {
            "calls-running": self.running,
            "calls-retrying": self.retrying,
            "calls-failed-total": self.failures,
            "records-waiting": self.waiting,
            "records-finished-total": self.finished,
            "records-skipped-total": self.skipped,
            "dead-letters-total": self.dead_letters,
            **_age(self.oldest),
        }
        return {
            GROUP: values,
            **{f"{GROUP}.partition-{tp.topic}-{tp.partition}": one.metrics() for tp, one in self.partitions.items()},
        }


def health_of(work: Work, paused: Collection[TopicPartition], now: float, stuck_after: float) -> WorkersHealth:
    """Describe the work at the time ``now``."""
    retrying = work.dispatcher.retrying()
    partitions = {lane.partition: _partition(lane, jobs, paused, now) for lane, jobs in retrying.items()}
    found = sorted((each.oldest for each in partitions.values() if each.oldest is not None), key=lambda one: -one.age)
    stuck = tuple(each for each in found if each.age >= stuck_after)
    return WorkersHealth(
        running=sum(each.running for each in partitions.values()),
        retrying=sum(each.retrying for each in partitions.values()),
        waiting=sum(each.waiting for each in partitions.values()),
        finished=work.finished_count,
        failures=work.failed_count,
        skipped=work.skipped_count,
        dead_letters=work.dead_letter_count,
        oldest=found[0] if found else None,
        stuck=stuck,
        reason="; ".join(in_words(each) for each in stuck),
        partitions=partitions,
    )


def _partition(
    lane: PartitionJobs[Record], retrying: Collection[Job[Record]], paused: Collection[TopicPartition], now: float
) -> PartitionWork:
    oldest = None
    if (found := lane.first(retrying)) is not None:
        record, attempts, is_running = found
        age = max(now - lane.received_at(record.offset), 0.0)
        oldest = UnfinishedRecord(lane.partition, record.offset, record.key, age, attempts, is_running)
    is_paused, offset = lane.partition in paused, lane.progress.offset
    return PartitionWork(len(lane.running), len(retrying), lane.waiting, offset, is_paused, oldest)


def in_words(record: UnfinishedRecord, has_key: bool = True) -> str:
    """Say which record it is, with its key or without, and in which state."""
    topic, number = record.partition
    key = f", key {_key(record.key)}," if has_key else ""
    state = "running" if record.is_running else "waiting"
    return (
        f"{topic}-{number} offset {record.offset}{key} is unfinished since "
        f"{math.floor(record.age)} s: {state}, {record.attempts} attempts"
    )


def _age(record: UnfinishedRecord | None) -> dict[str, float]:
    return {"oldest-unfinished-seconds-ago": NAN if record is None else record.age}


def _key(key: bytes | None) -> str:
    if key is None or len(key) <= 50:
        return repr(key)
    return f"{key[:50]!r}... of {len(key)} bytes"
