"""An application that assigns itself partitions, and after a crash resumes from a checkpoint.

The checkpoint has, for each partition, the offset after the last processed record and that record's leader epoch.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from thinconsumer.errors import (
    CorruptRecordError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NoBrokersAvailable,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
)
from thinconsumer.support.timers import NEVER
from thinconsumer.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

from ..checkers.base import Jury
from ..driver import SimDriver
from ..world import World
from .application import Application, Behaviour

#: The extra calls of an odd turn: the methods' names without ``_odd_``. "resume" is drawn twice as often as the others.
ODD = ["position", "ends", "pause", "resume", "resume", "seek_back", "seek_forth", "beginning", "end", "assignment"]


class ConsumerActor(Application):
    """An application with assigned partitions. ``records`` has all polled records. Tests may call public methods."""

    def __init__(
        self,
        world: World,
        name: str,
        jury: Jury,
        new_driver: Callable[[str], SimDriver],
        *,
        assign: Iterable[TopicPartition] = (),
        options: Mapping[str, Any],
        behaviour: Behaviour | None = None,
    ) -> None:
        super().__init__(world, name, jury, options, behaviour or Behaviour())
        self.records: list[ConsumerRecord[Any, Any]] = []
        self.assigned: list[TopicPartition] = list(assign)
        self.checkpoint: dict[TopicPartition, tuple[int, int]] = {}
        self._make_driver = new_driver
        self._paused: list[TopicPartition] = []
        self.start()

    def _new_driver(self) -> SimDriver:
        return self._make_driver(self.name)

    def _subscribe(self) -> None:
        self._paused = []
        if self.assigned:
            self.consumer.assign(self.assigned)
            for tp in self.assigned:
                if tp in self.checkpoint:
                    self._read_again(tp)

    def close(self) -> None:
        if self.is_running:
            self.is_running = False
            self.consumer.raw.close()
            self.jury.tell("ended", self.reader)

    def calm(self) -> None:
        """End the extra calls such as seeks and pauses, and resume every partition: from now on, only poll."""
        self.behaviour.odd_rate = 0.0
        self.resume()

    def position(self, tp: TopicPartition, timeout_ms: float | None = None) -> int:
        with self.busy():
            return self.consumer.position(tp, timeout_ms)

    def assign(self, tps: Iterable[TopicPartition]) -> None:
        """Assign partitions, and schedule a turn that polls them."""
        self.assigned = list(tps)
        self.consumer.assign(self.assigned)
        self._paused = [tp for tp in self._paused if tp in self.assigned]
        self.wake()

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Seek a partition, and drop its checkpoint and unprocessed records."""
        self.consumer.seek(tp, offset)
        self._forget(tp)
        self.wake()

    def pause(self, *tps: TopicPartition) -> None:
        self.consumer.pause(*tps)
        self._paused += [tp for tp in tps if tp not in self._paused]

    def resume(self, *tps: TopicPartition) -> None:
        """Resume these partitions; without an argument, all paused ones."""
        tps = tps or tuple(self._paused)
        if tps:
            self.consumer.resume(*tps)
        self._paused = [tp for tp in self._paused if tp not in tps]
        self.wake()

    def _poll(self) -> float:
        return super()._poll() if self.assigned else NEVER

    def _think(self, now: float) -> float:
        self.records += self._unprocessed
        behaviour, random = self.behaviour, self.random
        if behaviour.think_s[1] and (behaviour.think_rate >= 1.0 or random.random() < behaviour.think_rate):
            return now + random.uniform(*behaviour.think_s)
        return now

    def _process(self) -> None:
        for record in self._unprocessed:
            self.checkpoint[TopicPartition(record.topic, record.partition)] = record.offset + 1, record.leader_epoch
        self._unprocessed = []

    def _forget(self, tp: TopicPartition) -> None:
        """Drop a partition's checkpoint and unprocessed records: after a seek they belong to the old position."""
        self._unprocessed = [r for r in self._unprocessed if (r.topic, r.partition) != tp]
        self.checkpoint.pop(tp, None)

    def _cope_with(self, error: KafkaError) -> None:
        if isinstance(error, OffsetOutOfRangeError) and error.partition is not None:
            self.seek(error.partition, max(0, error.log_start or 0))
        elif isinstance(error, LogTruncationError):
            at = error.divergent_offset
            if at is None:
                self.consumer.seek_to_beginning(error.partition)
                self._forget(error.partition)
            else:
                self.seek(error.partition, at)
        elif isinstance(error, CorruptRecordError):
            self._read_again(error.partition)
        elif isinstance(error, NoOffsetForPartitionError):
            for tp in error.partitions:
                self.consumer.seek_to_beginning(tp)
        elif not isinstance(error, (KafkaTimeoutError, NoBrokersAvailable, SaslAuthenticationFailedError)):
            self.world.accuse(f"{self.name}: an unexpected error: {error!r}")

    def _read_again(self, tp: TopicPartition) -> None:
        """Seek to a partition's checkpoint, or without one to its current position: its records are fetched again."""
        if tp in self.checkpoint:
            offset, epoch = self.checkpoint[tp]
            self.consumer.seek(tp, OffsetAndMetadata(offset, "", epoch))
        else:
            self.consumer.seek(tp, self.consumer.raw.position(tp, 0))

    def _do_something_odd(self) -> None:
        if self.assigned:
            odd = getattr(self, f"_odd_{self.random.choice(ODD)}")
            odd(self.random.choice(self.assigned))

    def _odd_position(self, tp: TopicPartition) -> None:
        self.position(tp, self._patience())

    def _odd_ends(self, tp: TopicPartition) -> None:
        self.consumer.end_offsets([tp], self._patience())

    def _odd_pause(self, tp: TopicPartition) -> None:
        if tp not in self._paused:
            self.pause(tp)

    def _odd_resume(self, tp: TopicPartition) -> None:
        self.resume()

    def _odd_seek_back(self, tp: TopicPartition) -> None:
        if tp in self.checkpoint:
            offset = self.checkpoint[tp][0]
            self.seek(tp, max(0, offset - self.random.randrange(200 if self.behaviour.jumps_far else 20)))

    def _odd_seek_forth(self, tp: TopicPartition) -> None:
        if tp in self.checkpoint and self.behaviour.jumps_far:
            self.seek(tp, self.checkpoint[tp][0] + self.random.randrange(20))

    def _odd_beginning(self, tp: TopicPartition) -> None:
        if self.behaviour.jumps_far:
            self.consumer.seek_to_beginning(tp)
            self._forget(tp)

    def _odd_end(self, tp: TopicPartition) -> None:
        if self.behaviour.jumps_far:
            self.consumer.seek_to_end(tp)
            self._forget(tp)

    def _odd_assignment(self, tp: TopicPartition) -> None:
        """Unassign one partition and assign it again: its old position and buffered records must not be used again."""
        if len(self.assigned) > 1:
            tps = list(self.assigned)
            self.assign([other for other in tps if other != tp])
            if self.world.depth == 0:
                self.consumer.poll(self.random.randrange(50))
            self.assign(tps)
            if tp in self.checkpoint:
                self._read_again(tp)

    def _patience(self) -> float:
        return self.random.randrange(500) if self.world.depth == 0 else 0
