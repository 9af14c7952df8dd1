"""What workers of one consumer have to do: between the polls, the handlers and the commits, whatever runs them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import KafkaError, RetriableDeserializationError
from ..types import OffsetAndMetadata, TopicPartition
from .calling import NotBegunError, Record, WrongHandlerError
from .dispatcher import Job, JobDispatcher
from .foreign_maps import decode_any
from .offset_map import OffsetMap, OffsetMapError, decode, encode
from .progress import PartitionProgress
from .settings import WorkerSettings

log = logging.getLogger(__name__)

#: What a record needs in memory beside its key and its value, in bytes.
RECORD_OVERHEAD = 200


class HandlerFailedError(KafkaError):
    """A handler has failed as often as ``attempts`` allows, and ``on_failure`` is "stop". Nothing past it is committed.

    ``__cause__`` is the handler's last exception.
    """

    def __init__(self, records: Sequence[Record], attempts: int) -> None:
        super().__init__(f"the handler failed {attempts} times for {_name(records)}")
        self.records = records  #: The records of the call, with the bytes of keys and values.
        self.attempts = attempts


class Assigned(NamedTuple):
    """What the coordinator and metadata say of one partition that was assigned."""

    committed: OffsetAndMetadata | None
    topic_id: bytes


class Work:
    """The dispatcher of a consumer's records, what of them is committed, and what becomes of failures.

    The methods do not wait and do no I/O. Each may be cut off by Ctrl-C: then records may run once more, none is lost.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        batch_size = 1 if settings.batch_size is None else settings.batch_size
        self.dispatcher: JobDispatcher[Record] = JobDispatcher(
            settings.order,
            batch_size,
            settings.attempts,
            settings.backoff_s,
            settings.waiting_max,
            settings.waiting_bytes_max,
            settings.null_key_order,
        )
        self.stopped_by: HandlerFailedError | None = None  #: Why nothing more is to be started.
        #: Jobs whose records are to be written as dead letters.
        self.given_up: list[tuple[Job[Record], Exception]] = []
        self.finished_count = 0  #: Records whose handler has returned.
        self.failed_count = 0  #: Calls of the handler that have raised.
        self.skipped_count = 0  #: Records that were given up and skipped.
        self.dead_letter_count = 0  #: Records that were written as dead letters.
        #: By partition: the offset of the last commit, and how many records of the lane had finished then.
        self._committed: dict[TopicPartition, tuple[int, int]] = {}

    # -- partitions

    def assign(self, found: Mapping[TopicPartition, Assigned]) -> None:
        """Begin with partitions that were assigned, where the last commit says so."""
        for partition, (committed, topic_id) in found.items():
            if committed is None:
                self._begin(partition, -1, -1, topic_id, None)
            else:
                restored = _restored(partition, committed, topic_id, self.settings)
                self._begin(partition, committed.offset, committed.leader_epoch, topic_id, restored)

    def _begin(
        self, partition: TopicPartition, offset: int, leader_epoch: int, topic_id: bytes, restored: OffsetMap | None
    ) -> None:
        text_max, distance_max = self.settings.metadata_max, self.settings.distance_max
        progress = PartitionProgress(offset, leader_epoch, topic_id, text_max, distance_max, restored)
        self._committed[partition] = (offset, 0)  # first: if Ctrl-C came in between, the last commit would miss it
        self.dispatcher.assign(partition, progress)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that were revoked or lost. Results of their handlers are ignored from here on."""
        for partition in partitions:
            self.dispatcher.remove(partition)
            self._committed.pop(partition, None)

    def running(self, partitions: Iterable[TopicPartition] | None = None) -> int:
        """Return how many jobs of the partitions run; by default of all."""
        lanes = self.dispatcher.lanes
        chosen = lanes if partitions is None else [each for each in partitions if each in lanes]
        return sum(len(lanes[each].running) for each in chosen)

    # -- records

    def take(
        self, records: Mapping[TopicPartition, Sequence[Record]], now: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Take the records of a poll. Return where to seek to, for partitions whose records were not taken.

        With the leader epochs, the client notices if the log is truncated below that offset before it fetches again.

        These are partitions that have not begun, since their commits were not read, and those whose position has moved.
        A position moves back when the log was truncated. Records from there on were replaced by others; they are
        received again, and those that are still the same and finished are left out.
        """
        back: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, each in records.items():
            if not each:
                continue
            lane = self.dispatcher.lanes.get(partition)
            if lane is None:
                back[partition] = OffsetAndMetadata(each[0].offset, "", each[0].leader_epoch)
                continue
            if each[0].offset < lane.progress.next_offset:
                if self._moved_back(partition, lane.progress, each):
                    progress = self.dispatcher.lanes[partition].progress
                    back[partition] = OffsetAndMetadata(progress.offset, "", progress.leader_epoch())
                continue
            lane.note_received(each[0].offset, now)
            self.dispatcher.take(
                partition,
                (
                    (record.offset, record.leader_epoch, record.key, record, _size(record.key) + _size(record.value))
                    for record in each
                ),
            )
        return back

    def _moved_back(self, partition: TopicPartition, progress: PartitionProgress, records: Sequence[Record]) -> bool:
        """Begin again at the first of the records that is not known to be finished; return False if all are.

        A record that has the offset and leader epoch of a finished one is that record, and so are all before it in the
        log. Those behind it that are below the first unfinished record may have replaced finished ones, and would be
        lost if the workers went on behind them. Their epochs may also be older: an unclean election can bring back a
        leader whose log had gone another way.
        """
        end, same = progress.offset, -1
        for n, record in enumerate(records):
            if record.offset >= end:
                break
            if record.leader_epoch == progress.epoch_of(record.offset):
                same = n
        if same + 1 == len(records):
            return False
        first = records[same + 1]
        self.dispatcher.remove(partition)
        if first.offset >= end:
            self._begin(partition, end, progress.leader_epoch(), progress.topic_id, progress.offset_map())
            log.warning("%s-%d: the position has moved back; going on at offset %d", *partition, end)
        else:
            self._begin(partition, first.offset, first.leader_epoch, progress.topic_id, None)
            log.warning("%s-%d: finished records may have been replaced from offset %d on", *partition, first.offset)
        return True

    def next_job(self, now: float) -> Job[Record] | None:
        """Return the next records for a handler, or None if there are none at present, or nothing is to be started."""
        return None if self.stopped_by is not None else self.dispatcher.next_job(now)

    def end(self, job: Job[Record], error: Exception | None, now: float) -> bool:
        """Take the result of a job: None if the handler has returned, or what it has raised.

        Returns False if the result does not count: the job has not begun, or its partition was revoked or lost.
        """
        if self.dispatcher.lanes.get(job.lane.partition) is not job.lane:
            self.dispatcher.leave(job)
            return False
        if isinstance(error, NotBegunError):
            self.dispatcher.put_back(job)
            return False
        if isinstance(error, RetriableDeserializationError):  # the handler was not called: this is no attempt
            job.attempt -= 1
            self.dispatcher.repeat(job, now + error.retry_after_ms / 1000)
            return False
        if error is None:
            self.finished_count += len(job.records)
            self.dispatcher.finish(job)
        else:
            self.failed_count += 1
            if isinstance(error, WrongHandlerError):  # with any record, so that none is to be given up
                self._stop(job, error)
            elif self.dispatcher.fail(job, now):
                log.info("%s: attempt %d failed, and is repeated: %r", _name(job.records), job.attempt, error)
            else:
                self._give_up(job, error)
        return True

    def _give_up(self, job: Job[Record], error: Exception) -> None:
        if self.settings.on_failure == "skip":
            self.skipped_count += len(job.records)
            log.error("%s: skipped after %d attempts: %r", _name(job.records), job.attempt, error)
            self.dispatcher.finish(job)
        elif self.settings.on_failure == "stop":
            self._stop(job, error)
        else:
            self.given_up.append((job, error))

    def _stop(self, job: Job[Record], error: Exception) -> None:
        if self.stopped_by is None:
            self.stopped_by = HandlerFailedError(job.records, job.attempt)
            self.stopped_by.__cause__ = error
        job.lane.running.discard(job)

    def written(self, job: Job[Record]) -> None:
        """Take note that a job's records were written as dead letters."""
        self.dead_letter_count += len(job.records)
        self.dispatcher.finish(job)

    # -- commits

    def offsets(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what to commit for the partitions (default: all) in which records have finished since last time."""
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition in list(self.dispatcher.lanes) if partitions is None else partitions:
            lane = self.dispatcher.lanes.get(partition)
            if lane is None:
                continue
            progress = lane.progress
            state = (progress.offset, progress.finished_count)
            if progress.offset >= 0 and state != self._committed[partition]:
                found[partition] = OffsetAndMetadata(progress.offset, progress.metadata(), progress.leader_epoch())
                self._committed[partition] = state
        return found

    def not_committed(self, partitions: Iterable[TopicPartition]) -> None:
        """Take note that a commit has failed, so that the next one names these partitions again."""
        for partition in partitions:
            if partition in self._committed:
                self._committed[partition] = (-1, -1)


def _restored(
    partition: TopicPartition, committed: OffsetAndMetadata, topic_id: bytes, settings: WorkerSettings
) -> OffsetMap | None:
    if not committed.metadata:
        return None
    try:
        if settings.take_over is None:
            return decode(committed.metadata, committed.offset, topic_id)
        found = decode_any(committed.metadata, committed.offset, topic_id)
        if found is not None and len(encode(found)) > settings.metadata_max:  # no commit could say the same
            raise OffsetMapError("it would be too large in the form of workers")
        return found
    except OffsetMapError as error:
        log.warning(
            "%s-%d: the metadata of the committed offset %d is not used, as %s: records behind it that are finished "
            "may be processed again",
            *partition,
            committed.offset,
            error,
        )
        return None


def _size(data: Any) -> int:
    return RECORD_OVERHEAD // 2 + (len(data) if data else 0)


def _name(records: Sequence[Record]) -> str:
    first = records[0]
    more = f" and {len(records) - 1} more of its batch" if len(records) > 1 else ""
    return f"{first.topic}-{first.partition} offset {first.offset}{more}"
