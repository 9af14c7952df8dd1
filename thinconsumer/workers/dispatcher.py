"""Which records run next: in order by key, fair between partitions, with retries that hold back only their own key.

The dispatcher does no I/O, reads no clock and runs no handler. It is given records as polls return them, hands out
jobs, and is told how each has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from ..types import TopicPartition
from .progress import PartitionProgress
from .settings import NullKeyOrder, Order

R = TypeVar("R")


@dataclass(eq=False, slots=True)
class Job(Generic[R]):
    """Records of one key, or records of one partition that have no order, for one call of the handler."""

    lane: PartitionJobs[R]
    key: Hashable
    records: list[R]
    offsets: list[int]
    attempt: int = 0  #: How often the job has been handed out.


@dataclass(eq=False, slots=True)
class Waiting(Generic[R]):
    """Records of one key that wait, in the order of the log; those that have no order count as one key."""

    key: Hashable
    #: The first record. In slots, as the time of the garbage collector grows with what waits, most keys have one record
    #: waiting, and an object for each of them is enough: with three more, workers by key took a quarter more CPU.
    offset: int = -1  #: -1 if no record waits.
    record: Any = None
    size: int = 0  #: In bytes.
    more: deque[tuple[int, R, int]] | None = None  #: The others: offset, record, size.
    busy: bool = False  #: Whether the records wait for a job of the key: an unfinished one, or of an assignment before.

    def add(self, offset: int, record: R, size: int) -> None:
        """Add a record behind the others."""
        if self.offset < 0:
            self.offset, self.record, self.size = offset, record, size
        elif self.more is None:
            self.more = deque(((offset, record, size),))
        else:
            self.more.append((offset, record, size))

    def take(self) -> tuple[int, R, int]:
        """Take the first record out, which there must be."""
        first = (self.offset, self.record, self.size)
        self.offset, self.record, self.size = self.more.popleft() if self.more else (-1, None, 0)
        return first


@dataclass(eq=False)
class PartitionJobs(Generic[R]):
    """One assigned partition."""

    partition: TopicPartition
    progress: PartitionProgress
    keys: dict[Hashable, Waiting[R]] = field(default_factory=dict)
    #: Keys of which the first records were just received, and that could run now, by offset.
    fresh: deque[Waiting[R]] = field(default_factory=deque)
    #: A heap of what else could run now, by its first offset: keys that had to wait, and jobs that are to be retried.
    ready: list[tuple[int, Waiting[R] | Job[R]]] = field(default_factory=list)
    running: set[Job[R]] = field(default_factory=set)
    waiting: int = 0  #: Records received that have never been handed out.
    waiting_bytes: int = 0
    closed: bool = False  #: Nothing is handed out any more: the partition is being revoked, or is gone.
    #: When records were received: offsets, each with the time at which records from there on came.
    received: deque[tuple[int, float]] = field(default_factory=deque)

    def first(self, retrying: Iterable[Job[R]]) -> tuple[R, int, bool] | None:
        """Find the first unfinished record: the record, its attempts, and whether it runs.

        Returns None if it was not received yet, or if all are finished. Takes a time that grows with what waits.
        """
        offset = self.progress.offset
        for job in (*self.running, *retrying):
            if offset in job.offsets:
                return job.records[job.offsets.index(offset)], job.attempt, job in self.running
        heads = (queue.record for queue in self.keys.values() if queue.offset == offset)
        return next(((record, 0, False) for record in heads if record is not None), None)

    @property
    def has_ready(self) -> bool:
        """Whether anything could run now, if its offset fits into the map."""
        return bool(self.fresh or self.ready)

    def note_received(self, offset: int, now: float) -> None:
        """Take note that records from ``offset`` on have come, to a second, so that little is kept of a stuck one."""
        received = self.received
        while len(received) > 1 and received[1][0] <= self.progress.offset:
            received.popleft()
        if not received or now - received[-1][1] >= 1.0:
            received.append((offset, now))

    def received_at(self, offset: int) -> float:
        """Return when the record at ``offset`` was received."""
        return next((at for first, at in reversed(self.received) if first <= offset), self.received[0][1])


class JobDispatcher(Generic[R]):
    """The lanes of all assigned partitions.

    Args:
        order: records of one "key" of a partition, or of one "partition", run one after the other; "none": in no order.
        batch_size: the most records in one job.
        attempts: how often a job may fail before the dispatcher gives it up; None for no limit.
        backoff: the seconds until the next attempt, after so many failed ones.
        waiting_max: records of one partition that may wait before it is to be paused.
        waiting_bytes_max: bytes of all partitions that may wait before those with waiting records are to be paused.
        null_key_order: with order "key": whether records of a partition without a key run one after the other
            ("partition"), or in no order ("none").
    """

    def __init__(
        self,
        order: Order,
        batch_size: int,
        attempts: int | None,
        backoff: Callable[[int], float],
        waiting_max: int,
        waiting_bytes_max: int,
        null_key_order: NullKeyOrder = "none",
    ) -> None:
        self.lanes: dict[TopicPartition, PartitionJobs[R]] = {}
        self._is_by_key = order == "key"
        #: Whether records with the key None have no order. With another order than "key", all count as such.
        self._has_unordered = (null_key_order if self._is_by_key else order) == "none"
        self._batch_size = batch_size
        self._attempts = attempts
        self._backoff = backoff
        self._waiting_max = waiting_max
        self._waiting_bytes_max = waiting_bytes_max
        #: The lanes with something ready, the one whose turn it is first. A lane that has to wait until one of its jobs
        #: has finished is not in here.
        self._turns: dict[PartitionJobs[R], None] = {}
        self._retries: list[tuple[float, int, Job[R]]] = []  #: A heap of jobs, by the end of their backoff.
        self._retry_count = 0
        #: By partition: the jobs that ran when it was removed, and that have not ended. They hold their keys.
        self._left: dict[TopicPartition, set[Job[R]]] = {}

    # -- partitions

    def assign(self, partition: TopicPartition, progress: PartitionProgress) -> None:
        """Begin with a partition that was assigned.

        Jobs of the same partition that were running when it was removed may go on: records of their keys wait for them.
        """
        lane = self.lanes[partition] = PartitionJobs(partition, progress)
        for job in self._left.get(partition, ()):
            if self._has_order(job.key):
                lane.keys[job.key] = Waiting(job.key, busy=True)

    def close(self, partition: TopicPartition) -> None:
        """Hand out no more jobs of a partition that is being revoked. Those that run may finish."""
        if (lane := self.lanes.get(partition)) is not None:
            lane.closed = True
            self._turns.pop(lane, None)

    def remove(self, partition: TopicPartition) -> None:
        """Forget a partition. Results of its jobs are ignored from here on, apart from that they have ended."""
        self.close(partition)
        lane = self.lanes.pop(partition, None)
        if lane is not None and lane.running:
            self._left.setdefault(partition, set()).update(lane.running)

    def full(self, paused: Collection[TopicPartition] = ()) -> set[TopicPartition]:
        """Return the partitions to pause. Those that are paused stay so until half of their records are handed out."""
        waiting = [lane for lane in self.lanes.values() if lane.waiting]
        if sum(lane.waiting_bytes for lane in waiting) < self._waiting_bytes_max:
            most = self._waiting_max
            waiting = [each for each in waiting if each.waiting >= (most / 2 if each.partition in paused else most)]
        return {lane.partition for lane in waiting}

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`next_job` may return a job now, apart from those whose backoff has ended."""
        return bool(self._turns)

    # -- records and jobs

    def take(self, partition: TopicPartition, records: Iterable[tuple[int, int, Hashable, R, int]]) -> None:
        """Take records of a poll, in order: offset, leader epoch, key, record, size in bytes."""
        lane = self.lanes[partition]
        receive, is_by_key = lane.progress.receive, self._is_by_key
        for offset, leader_epoch, key, record, size in records:
            if not receive(offset, leader_epoch):
                continue
            if not is_by_key:
                key = None
            queue = lane.keys.get(key)
            if queue is None:
                queue = lane.keys[key] = Waiting(key)
            if queue.offset < 0 and not queue.busy:
                lane.fresh.append(queue)
            queue.add(offset, record, size)
            lane.waiting += 1
            lane.waiting_bytes += size
        if lane.has_ready and not lane.closed:
            self._turns.setdefault(lane)

    def next_job(self, now: float) -> Job[R] | None:
        """Return the next job to run; None if there is none at present."""
        while self._retries and self._retries[0][0] <= now:
            self._hand_out_again(heappop(self._retries)[2])
        while self._turns:
            lane = next(iter(self._turns))
            del self._turns[lane]
            found = self._next_of(lane)
            if found is not None:
                if lane.has_ready:
                    self._turns[lane] = None  # behind all others
                found.attempt += 1
                lane.running.add(found)
                return found
        return None

    def _next_of(self, lane: PartitionJobs[R]) -> Job[R] | None:
        fresh, ready = lane.fresh, lane.ready
        if fresh and not (ready and ready[0][0] < fresh[0].offset):
            if not lane.progress.dispatch(fresh[0].offset):
                return None
            return self._job_of(lane, fresh.popleft())
        offset, item = ready[0]
        if isinstance(item, Waiting) and not lane.progress.dispatch(offset):
            return None
        heappop(ready)
        return item if isinstance(item, Job) else self._job_of(lane, item)

    def _job_of(self, lane: PartitionJobs[R], queue: Waiting[R]) -> Job[R]:
        """Make a job of the first records of a queue, of which at least one may be dispatched."""
        job: Job[R] = Job(lane, queue.key, [], [])
        dispatch = lane.progress.dispatch
        while queue.offset >= 0 and len(job.offsets) < self._batch_size and dispatch(queue.offset):
            offset, record, size = queue.take()
            job.records.append(record)
            job.offsets.append(offset)
            lane.waiting -= 1
            lane.waiting_bytes -= size
        if self._has_order(queue.key):
            queue.busy = True
        elif queue.offset >= 0:
            heappush(lane.ready, (queue.offset, queue))
        else:
            del lane.keys[queue.key]
        return job

    def _has_order(self, key: Hashable) -> bool:
        return key is not None or not self._has_unordered

    def finish(self, job: Job[R]) -> None:
        """Take note that the job's records are done: processed, skipped, or written as dead letters."""
        lane = job.lane
        if self.lanes.get(lane.partition) is not lane:
            self.leave(job)
            return
        if job not in lane.running:
            return  # Ctrl-C has cut off the first call of this, and the dead letter that was written is found once more
        lane.running.discard(job)
        for offset in job.offsets:
            lane.progress.finish(offset)
        self._go_on(lane, job.key)

    def leave(self, job: Job[R]) -> None:
        """Take note that a job has ended, in whatever way, whose partition was removed."""
        partition = job.lane.partition
        left = self._left.get(partition, set())
        if job in left:
            left.remove(job)
            if not left:
                del self._left[partition]
            if (lane := self.lanes.get(partition)) is not None:
                self._go_on(lane, job.key)

    def _go_on(self, lane: PartitionJobs[R], key: Hashable) -> None:
        """Let records of a key that waited for a job have their turn."""
        queue = lane.keys.get(key)
        if queue is not None and queue.busy:
            queue.busy = False
            if queue.offset >= 0:
                heappush(lane.ready, (queue.offset, queue))
            else:
                del lane.keys[key]
        if lane.has_ready and not lane.closed:
            self._turns.setdefault(lane)

    def fail(self, job: Job[R], now: float) -> bool:
        """Take note that the handler has failed. Return whether the job is to be tried again.

        If not, the caller decides what becomes of its records, and then calls :meth:`finish`. The job runs until then.
        """
        if self._attempts is not None and job.attempt >= self._attempts:
            return False
        self.repeat(job, now + self._backoff(job.attempt))
        return True

    def repeat(self, job: Job[R], at: float) -> None:
        """Hand out a job that has not finished again from the time ``at`` on."""
        lane = job.lane
        if self.lanes.get(lane.partition) is not lane:
            self.leave(job)
            return
        lane.running.discard(job)
        self._retry_count += 1
        heappush(self._retries, (at, self._retry_count, job))

    def put_back(self, job: Job[R]) -> None:
        """Take back a job that has not begun. It is handed out again, and that does not count as an attempt."""
        job.attempt -= 1
        job.lane.running.discard(job)
        self._hand_out_again(job)

    def _hand_out_again(self, job: Job[R]) -> None:
        """Let a job that was handed out before have another turn."""
        heappush(job.lane.ready, (job.offsets[0], job))
        if not job.lane.closed:
            self._turns.setdefault(job.lane)

    def retrying(self) -> dict[PartitionJobs[R], list[Job[R]]]:
        """Return by lane the jobs that wait for another attempt: for the end of their backoff, or for their turn."""
        found = {lane: [item for _, item in lane.ready if isinstance(item, Job)] for lane in self.lanes.values()}
        for _, _, job in self._retries:
            if job.lane in found:
                found[job.lane].append(job)
        return found

    def next_time(self) -> float | None:
        """Return when the next backoff ends; None if no job waits for another attempt."""
        while self._retries and self.lanes.get(self._retries[0][2].lane.partition) is not self._retries[0][2].lane:
            heappop(self._retries)
        return self._retries[0][0] if self._retries else None
