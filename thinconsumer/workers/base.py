"""What workers of a ``Consumer`` and of an ``AsyncConsumer`` have in common: all that does not wait."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..config.values import DeadLetter
from ..consumer import Consumer
from ..consumer.health import Obstacle, Processing
from ..errors import IllegalArgumentError, IllegalStateError, KafkaTimeoutError
from ..failures import OutageLog
from ..metrics import MetricValues
from ..types import OffsetAndMetadata, TopicPartition
from .calling import CallResult, HandlerCall, Record
from .dead_letters import DeadLetters
from .dispatcher import Job
from .health import WorkersHealth, health_of, in_words
from .settings import WorkerSettings
from .work import Assigned, Work

if TYPE_CHECKING:
    from ..aio import AsyncConsumer

log = logging.getLogger(__name__)

#: After so many seconds an unfinished record is stuck: the consumer's health names it, and a line is logged.
STUCK_S = 60.0
#: How long to wait for the commits of assigned partitions, in ms. Meanwhile the work on all others stands still.
COMMITTED_MS = 3_000
#: The most records of one poll.
POLL_MAX = 2_000
#: The callbacks of a listener that are called only if it has them.
KEY_CALLBACKS = ("on_partition_keys_assigned", "on_partition_keys_maybe_revoked")


class BaseWorkers:
    """The work of one subscribed consumer, its commits and its dead letters."""

    def __init__(
        self,
        consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any],
        handler: Callable[[Any], Any],
        settings: WorkerSettings,
    ) -> None:
        settings.check()
        if not callable(handler):
            raise IllegalArgumentError(f"the handler must be a function, not {type(handler).__name__}")
        self._reader = consumer._reader
        self._calls = consumer
        self._settings = settings
        self._group = self._usable_group(consumer)
        self._work = Work(settings)
        self._call = HandlerCall(handler, *self._reader.deserializing.leave(), settings.batch_size is not None)
        on_failure = settings.on_failure
        self._dead_letters: DeadLetters | None = None
        if isinstance(on_failure, DeadLetter):
            self._dead_letters = DeadLetters(consumer.config, on_failure.topic, str(consumer.config.group_id))
        #: Results for the application, which feeds the workers by ``submit``; None if they poll by themselves.
        self._results: list[CallResult] | None = None
        #: Whether all records that the consumer has returned were taken: else its positions may be past others.
        self._has_all = False
        self._paused: set[TopicPartition] = set()
        self._commit_at = self._now() + settings.commit_interval_ms / 1000
        self._outages = OutageLog(log)
        self._look_at = self._now() + STUCK_S  #: When to look for stuck records, which takes long if many wait.
        self._reader.managers.processing = Processing(self._obstacles, self.metrics)
        # Else records of a key could begin in its new partition while those in the old one wait or run.
        self._reader.partitions.awaits_commits = True
        self._stopping = False
        self._closed = False

    @staticmethod
    def _usable_group(consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any]) -> Any:
        """Return what manages the consumer's group; raise IllegalStateError if workers cannot use the consumer."""
        group = consumer._reader.managers.group
        if group is None or not group.subscription.is_subscribed:
            raise IllegalStateError("workers need a consumer with a group_id that has subscribed to topics")
        if consumer.config.enable_auto_commit:
            raise IllegalStateError(
                "workers commit what their handlers have finished: make the consumer with enable_auto_commit=False"
            )
        if consumer.assignment():
            # Its positions may be past records that are not finished, of which the workers would not know.
            raise IllegalStateError("make workers before the first poll of their consumer")
        return group

    @staticmethod
    def key_callback(listener: Any, name: str) -> Any:
        """Return a callback of the application's listener that concerns keys. Raises AttributeError if it has none."""
        if name in KEY_CALLBACKS:
            return getattr(listener, name)
        raise AttributeError(name)

    def _leave_consumer(self) -> None:
        """Let the consumer do as without workers from here on."""
        self._reader.managers.processing = None
        self._reader.partitions.awaits_commits = False

    def _now(self) -> float:
        return self._reader.shell.driver.now()

    def stop(self) -> None:
        """Let ``run`` return after the present step. Handlers and signal handlers may call this."""
        self._stopping = True
        self._calls.wakeup()

    def health(self, stuck_after_ms: float = 60_000) -> WorkersHealth:
        """Return what the workers do, and which records are stuck, without I/O. The consumer's health names these, too.

        Call it in the thread or event loop of the consumer. A record is stuck, and named in
        :attr:`WorkersHealth.reason`, if it keeps its partition's committed offset from moving, and was received
        ``stuck_after_ms`` ago.
        """
        return health_of(self._work, self._paused, self._now(), stuck_after_ms / 1000)

    def metrics(self) -> MetricValues:
        """Return the numbers of :meth:`health` by name, in the form of ``Consumer.metrics()``. No I/O."""
        return self.health().metrics()

    def _obstacles(self, now: float) -> Iterator[Obstacle]:
        """Yield the stuck records for the consumer's health: a handler may take as long as it needs."""
        for each in health_of(self._work, self._paused, now, STUCK_S).stuck:
            yield Obstacle(in_words(each), since=now - each.age, is_wait=True)

    def _log_stuck(self, now: float) -> None:
        self._look_at = now + STUCK_S
        self._outages.keep(self._work.dispatcher.lanes)
        stuck = {each.partition: each for each in health_of(self._work, self._paused, now, STUCK_S).stuck}
        for partition in self._work.dispatcher.lanes.keys() - stuck:
            self._outages.recovered(partition, now, f"{partition.topic}-{partition.partition} goes on")
        for partition, record in stuck.items():
            self._outages.failed(partition, now, in_words(record, has_key=False), subject=partition, attempts=0)

    def results(self) -> list[CallResult]:
        """Return how calls of the handler have ended since the last call of this, also those that will be repeated.

        There are results from the first ``submit`` on, and they are kept until this is called.
        """
        results = self._results or []
        if self._results is not None:
            self._results = []
        return results

    def _end(self, job: Job[Record], value: Any, error: Exception | None) -> None:
        if self._work.end(job, error, self._now()) and self._results is not None:
            self._results.append(CallResult(job.records, value, error, job.attempt))

    def _begin(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Begin with partitions that were assigned, at their committed offsets.

        Those of a topic that metadata do not know yet begin with their first records. Without the topic's id, no map
        would be believed: neither the one that was committed nor those that this member writes.
        """
        topics = self._reader.managers.metadata.topics
        known = [each for each in committed if each.topic in topics and topics[each.topic].partitions]
        self._work.assign({each: Assigned(committed[each], topics[each.topic].topic_id) for each in known})

    @staticmethod
    def _not_read_in_time(error: KafkaTimeoutError) -> None:
        """Begin without partitions whose commits cannot be read, as those of a topic that was deleted meanwhile.

        Raised by the listener, the error would keep the member from giving such a partition up, and from all others.
        """
        log.warning("the commits of assigned partitions were not read; they are read with the first records: %s", error)

    def _take(self, records: Mapping[TopicPartition, Sequence[Any]]) -> list[TopicPartition]:
        """Take the records of a poll. Return partitions whose commits were not read, and which begin once they are."""
        back = self._work.take(records, self._now())
        for partition, offset in back.items():
            self._calls.seek(partition, offset)
        not_begun = [each for each in back if each not in self._work.dispatcher.lanes]
        for partition in back.keys() - not_begun:
            self._reader.partitions.require(partition).committed = None  # other records may be before it by now
        return not_begun

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that another member may own by now."""
        self._work.remove(partitions)
        self._paused -= set(partitions)

    def _offsets(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what is to be committed at a revocation, or at the end."""
        if self._has_all:
            self._advance()
        return self._work.offsets(partitions)

    def _advance(self) -> None:
        """Move past what is no record, such as control batches, in partitions where all records are finished."""
        for partition, lane in self._work.dispatcher.lanes.items():
            found = None if lane.progress.received_count else self._reader.partitions.get(partition)
            if found is not None and found.may_commit:
                lane.progress.advance(found.cursor.offset)

    def _commit_if_due(self) -> None:
        now = self._now()
        if now >= self._commit_at:
            self._commit_at = now + self._settings.commit_interval_ms / 1000
            if now >= self._look_at:
                self._log_stuck(now)
            self._advance()
            if offsets := self._work.offsets():
                self._calls.commit_async(offsets, self._committed)

    def _committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        if error is not None:
            log.warning("a commit has failed and is repeated: %s", error)
            self._work.not_committed(offsets)

    @staticmethod
    def _not_committed_in_time(error: Exception) -> None:
        """Go on without the last commit of partitions that are given up: raised, it would end all of the work."""
        log.warning("the last commit of revoked partitions failed; their next owner processes more again: %s", error)

    def _pause(self) -> None:
        """Pause the partitions of which enough records wait, and resume the others."""
        full = self._work.dispatcher.full(self._paused)
        if full != self._paused:
            assigned = self._calls.assignment()
            self._calls.resume(*((self._paused - full) & assigned))
            self._calls.pause(*(full & assigned))
            self._paused = full

    def _write_dead_letters(self) -> None:
        if self._dead_letters is None:
            return
        given_up, self._work.given_up = self._work.given_up, []
        for job, error in given_up:
            self._dead_letters.send(job, error)
        for job, failure in self._dead_letters.poll():
            if failure is None:
                self._work.written(job)
            else:
                log.error("a dead letter was not written; its handler is called again: %s", failure)
                self._work.dispatcher.repeat(job, self._now() + self._settings.backoff_s(job.attempt))
