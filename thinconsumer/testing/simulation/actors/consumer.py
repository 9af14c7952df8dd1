"""An application with a consumer: it polls, thinks, remembers how far it has come, now and then does something odd.

Owns one consumer at a time and what a real application would keep of it: a checkpoint of what it has processed, which
it starts from again after a crash. The consumer is the real one, unchanged, on a :class:`~..driver.SimDriver`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ....errors import (
    CorruptRecordError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NoBrokersAvailable,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from ....timers import NEVER
from ....types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from ..checkers import Jury, Reader
from ..driver import Crashed, SimDriver
from ..observed import ObservedConsumer, SimConsumer
from ..world import Actor, World

#: So many polls in a row that want to be called again at once and bring nothing are a loop that spins.
SPINS_MAX = 100
#: What to do after an error, in seconds: an application that goes on at once would spin on its own.
PAUSE_AFTER_ERROR = 0.1


@dataclass(slots=True)
class Behaviour:
    """How an application goes about it. The default is a plain loop: ``poll(1000)`` again and again."""

    poll_timeout_ms: tuple[int, int] = (1000, 1000)
    think_s: tuple[float, float] = (0.0, 0.0)  #: Between two polls, when there were records.
    think_rate: float = 1.0  #: How often it thinks at all.
    odd_rate: float = 0.0  #: How often it does something besides polling: a seek, a pause, a question, ...
    blocks: bool = True  #: Whether it waits in ``poll(timeout)``; else it polls with 0 as an event loop would.
    jumps_far: bool = False  #: Whether its seeks may leave out or repeat much.


class ConsumerActor(Actor):
    """See the module. Tests read ``records``; everything it does can be done by hand, too.

    ``group`` and ``topics`` are handed on to the Consumer as they are.
    """

    def __init__(
        self,
        world: World,
        name: str,
        jury: Jury,
        new_driver: Callable[[str], SimDriver],
        *,
        assign: Iterable[TopicPartition] = (),
        topics: Iterable[str] = (),
        group: str | None = None,
        options: Mapping[str, Any],
        behaviour: Behaviour | None = None,
    ) -> None:
        super().__init__(world, name)
        self.jury = jury
        self.options = {"client_id": name, **options, **({"group_id": group} if group is not None else {})}
        self.topics = tuple(topics)
        self.behaviour = behaviour or Behaviour()
        self.records: list[ConsumerRecord[Any, Any]] = []
        self.assigned: list[TopicPartition] = list(assign)
        #: What was processed so far: offset of the next record and the epoch of the last.
        self.checkpoint: dict[TopicPartition, tuple[int, int]] = {}
        self.lives = 0
        self.crashes = 0
        self.errors: list[KafkaError] = []
        self.stalled_until = 0.0
        self.is_running = False
        self._new_driver = new_driver
        self._to_do: list[Callable[[], None]] = []
        self._unprocessed: list[ConsumerRecord[Any, Any]] = []
        self._paused: list[TopicPartition] = []
        self._spins = 0
        self._sleeps = False  #: Until its consumer's wake_at, or mail.
        self.start()

    def __repr__(self) -> str:
        return f"<ConsumerActor {self.name} life {self.lives}, {len(self.records)} records>"

    # -- life

    def start(self) -> None:
        """Begin, or begin again from the checkpoint."""
        self.is_running = True
        driver = self.driver = self._new_driver(self.name)
        driver.on_mail = self._mail
        consumer = SimConsumer(*self.topics, driver=driver, **self.options)
        config = consumer.config
        reader = Reader(
            self.name,
            self.lives,
            read_committed=config.isolation_level == "read_committed",
            policy=str(config.auto_offset_reset),
            max_poll_records=config.max_poll_records,
            max_buffered_bytes=config.max_buffered_bytes,
            options=self.options,
        )
        self.lives += 1
        self.consumer = ObservedConsumer(reader, consumer, self.jury, self.world.trace)
        self._unprocessed, self._paused, self._spins, self._sleeps = [], [], 0, False
        self._to_do.clear()  # what the one before was about to do died with it
        if self.assigned:
            self.consumer.assign(self.assigned)
            for tp in self.assigned:
                if tp in self.checkpoint:
                    self._read_again(tp)
        self.wake()

    def crash(self, *, silently: bool = False) -> None:
        """As ``kill -9`` of the application; ``silently``: as if its host lost power. :meth:`start` begins again."""
        if not self.is_running:
            return
        self.is_running = False
        self.crashes += 1
        self.world.trace.add(self.name, "", "crashed", "silently" if silently else "")
        self.driver.die(silently=silently)
        self.consumer.gone()

    def close(self) -> None:
        """Close the consumer, in order."""
        if self.is_running:
            self.is_running = False
            self.consumer.raw.close()
            self.consumer.gone()

    def stall(self, seconds: float) -> None:
        """Do nothing for so long, as a process that is swapped out or stopped."""
        self.stalled_until = max(self.stalled_until, self.world.now() + seconds)
        self.wake(self.stalled_until)
        self.world.trace.add(self.name, "", "stalls", "for %.3f s", seconds)

    def soon(self, do: Callable[[], None]) -> None:
        """Do something in the next turn: whoever is in a call just now must not be called again."""
        self._to_do.append(do)
        self.wake()

    # -- by hand

    def position(self, tp: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the consumer's position."""
        with self.busy():
            return self.consumer.position(tp, timeout_ms)

    def assign(self, tps: Iterable[TopicPartition]) -> None:
        """Read these from now on."""
        self.assigned = list(tps)
        self.consumer.assign(self.assigned)
        self._paused = [tp for tp in self._paused if tp in self.assigned]
        self.wake()

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go there."""
        self.consumer.seek(tp, offset)
        self._forget(tp)
        self.wake()

    def pause(self, *tps: TopicPartition) -> None:
        """Stop reading these."""
        self.consumer.pause(*tps)
        self._paused += [tp for tp in tps if tp not in self._paused]

    def resume(self, *tps: TopicPartition) -> None:
        """Read these again; all, if none are named."""
        tps = tps or tuple(self._paused)
        if tps:
            self.consumer.resume(*tps)
        self._paused = [tp for tp in self._paused if tp not in tps]
        self.wake()

    # -- turns

    def turn(self) -> float:
        """Process what came last, perhaps do something odd, poll."""
        now = self.world.now()
        if not self.is_running:
            return NEVER
        if now < self.stalled_until:
            return self.stalled_until
        self._sleeps = False
        self._process()
        try:
            while self._to_do:
                self._to_do.pop(0)()
            if self.behaviour.odd_rate and self.random.random() < self.behaviour.odd_rate:
                self._do_something_odd()
            return self._poll() if self.assigned or self.topics else NEVER
        except KafkaError as error:
            self._cope_with(error)
            return self.world.now() + PAUSE_AFTER_ERROR
        except Crashed:
            return NEVER

    def _mail(self) -> None:
        if self._sleeps and self.world.now() >= self.stalled_until:
            self.wake()

    def _poll(self) -> float:
        behaviour, random = self.behaviour, self.random
        may_block = behaviour.blocks and self.world.depth == 0
        timeout_ms = random.randint(*behaviour.poll_timeout_ms) if may_block else 0
        found = self.consumer.poll(timeout_ms)
        now = self.world.now()
        if found:
            self._spins = 0
            for records in found.values():
                self.records += records
                self._unprocessed += records
            if behaviour.think_s[1] and random.random() < behaviour.think_rate:
                return now + random.uniform(*behaviour.think_s)
            return now
        if timeout_ms:
            return now
        due = self.consumer.raw.wake_at()
        self._spins = self._spins + 1 if due <= now else 0
        if self._spins > SPINS_MAX:
            self.world.accuse(f"{self.name} spins: poll(0) brings nothing and wake_at() says to call again at once")
        self._sleeps = True
        return due

    def _process(self) -> None:
        for record in self._unprocessed:
            self.checkpoint[TopicPartition(record.topic, record.partition)] = record.offset + 1, record.leader_epoch
        self._unprocessed = []

    def _forget(self, tp: TopicPartition) -> None:
        """After a jump, what was not processed of a partition does not count any more."""
        self._unprocessed = [r for r in self._unprocessed if (r.topic, r.partition) != tp]
        self.checkpoint.pop(tp, None)

    def _cope_with(self, error: KafkaError) -> None:
        self.errors.append(error)
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
        elif not isinstance(error, (KafkaTimeoutError, NoBrokersAvailable)):
            self.world.accuse(f"{self.name}: an unexpected error: {error!r}")

    def _read_again(self, tp: TopicPartition) -> None:
        """What has been processed is known; the rest is asked for once more."""
        if tp in self.checkpoint:
            offset, epoch = self.checkpoint[tp]
            self.consumer.seek(tp, OffsetAndMetadata(offset, "", epoch))
        else:
            self.consumer.seek(tp, self.consumer.raw.position(tp, 0))

    # -- odd things

    def _do_something_odd(self) -> None:
        if self.assigned:
            odd = self.random.choice(ODD)
            odd(self, self.random.choice(self.assigned))

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
        """Leave one partition out, and take it back: what it had is not its any more."""
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


ODD: tuple[Callable[[ConsumerActor, TopicPartition], None], ...] = (
    ConsumerActor._odd_position,
    ConsumerActor._odd_ends,
    ConsumerActor._odd_pause,
    ConsumerActor._odd_resume,
    ConsumerActor._odd_resume,
    ConsumerActor._odd_seek_back,
    ConsumerActor._odd_seek_forth,
    ConsumerActor._odd_beginning,
    ConsumerActor._odd_end,
    ConsumerActor._odd_assignment,
)
