"""The base of both gatekeepers: follows topics and assignment, moves holds, calls the listener, reports to health."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from ..config import ConsumerConfig
from ..errors import KafkaError
from ..fetch.gatekeeper import HeldPartition
from ..group.listener import call_key_listener
from ..network.metadata import Metadata
from ..network.request import Answer
from ..positions.partitions import Partitions
from ..support.timers import Random
from ..types import TopicPartition
from .holds import Hold, HoldState
from .leader_epochs import Thresholds
from .topics import HeldTopic

if TYPE_CHECKING:
    from ..group.group import Group


T = TypeVar("T", bound=HeldTopic)
#: Acts on a hold of a topic in one state: moves the hold on, or asks for what it needs.
Step = Callable[[T, Hold, float], None]


class KeyGatekeeper(Generic[T]):
    """A gatekeeper of topics whose keys move between partitions; see :class:`.fetch.gatekeeper.Gatekeeper`."""

    _find_gates: Step[T]  #: Gives the hold its gates, if they are known.
    _decide_start: Step[T]  #: Decides whether the gate before the first record counts, if that can be decided.
    _find_thresholds: Step[T]  #: Gives the hold the offset of its gate, or asks leaders for the missing thresholds.
    _compare_positions: Step[T]  #: Notes that the gate is passed, if the group has read all that the gate requires.
    #: Adds, changes and removes topics as metadata and assignment have them now.
    _follow_topics: Callable[[float], None]
    #: Yields the progress of other partitions that the gate waits for, in words.
    _awaited_progress: Callable[[T, Hold], Iterator[str]]
    #: By state: the event that health names for a held partition.
    REASONS: ClassVar[Mapping[HoldState, str]]
    #: The states that health reports as waiting for the progress of other partitions or for a grace time, not as stuck.
    PROGRESS: frozenset[HoldState]

    asker: str

    def __init__(
        self, config: ConsumerConfig, partitions: Partitions, metadata: Metadata, random: Random, group: Group | None
    ) -> None:
        self._partitions = partitions
        self._metadata = metadata
        self._agenda = partitions.agenda
        self._subscription = None if group is None else group.subscription
        self._thresholds = Thresholds(config, metadata, random, self._agenda, self.asker)
        self._topics: dict[str, T] = {}
        self._seen = (-1, -1)
        #: Each hold that is not FREE, with its topic.
        self._waiting: list[tuple[T, Hold]] = []
        self._steps: Mapping[HoldState, Step[T]] = {
            HoldState.AWAITING_EPOCHS: self._find_gates,
            HoldState.AWAITING_START: self._decide_start,
            HoldState.AWAITING_THRESHOLDS: self._find_thresholds,
            HoldState.AWAITING_POSITIONS: self._compare_positions,
            HoldState.AWAITING_CALLBACK: self._await_callback,
        }

    def moved(self) -> None:
        if self._waiting:
            self._agenda.touch()

    def errors(self) -> Iterator[KafkaError]:
        return iter(())

    def handle(self, answer: Answer, now: float) -> None:
        self._thresholds.handle(answer, now)

    def restart(self, now: float) -> None:
        self._seen = (-1, -1)
        self._thresholds.restart(now)

    def next_callback(self, now: float) -> Callable[[], bool] | None:
        """Return the call of ``on_partition_keys_assigned`` that is due, after which gates open."""
        found = [hold.partition for _, hold in self._waiting if hold.state is HoldState.AWAITING_CALLBACK]
        tps = [partition.tp for partition in found if not partition.callback_pending]
        return partial(self._call_keys_assigned, tps) if tps else None

    def _call_keys_assigned(self, tps: Collection[TopicPartition]) -> bool:
        call_key_listener(self._listener, "assigned", tps)
        for topic, hold in self._waiting:
            if hold.partition.tp in tps and hold.state is HoldState.AWAITING_CALLBACK:
                self._open(topic, hold)
        return True

    def held(self) -> Iterator[HeldPartition]:
        """Yield the partitions whose next record is held, each with what it waits for."""
        for topic, hold in self._waiting:
            partition, end = hold.partition, hold.partition.delivery_end
            if end is not None and partition.has_position and partition.cursor.offset >= end:
                awaited = self.REASONS.get(hold.state) or " and ".join(self._awaited_progress(topic, hold))
                reason = f"held until {awaited or 'the next step'}"
                yield HeldPartition(partition, reason, hold.state in self.PROGRESS)

    @property
    def _listener(self) -> object:
        return None if self._subscription is None else self._subscription.listener

    def _follow(self, now: float) -> None:
        """Follow metadata and assignment, if one of them has changed since the last step."""
        seen = self._metadata.version, self._partitions.generation
        if self._seen == seen:
            return
        self._seen = seen
        self._follow_topics(now)
        for topic in self._topics.values():
            topic.holds = {p: hold for p, hold in topic.holds.items() if self._partitions.get(p.tp) is p}
        for partition in self._partitions:
            topic_of = self._topics.get(partition.tp.topic)
            if topic_of is not None and partition not in topic_of.holds:
                topic_of.holds[partition] = Hold(partition, self._agenda)
        every = [(topic, hold) for topic in self._topics.values() for hold in topic.holds.values()]
        self._waiting = [one for one in every if one[1].state is not HoldState.FREE]

    def _advance_all(self, now: float) -> None:
        """Move each hold as far as it goes without another response."""
        for topic, hold in self._waiting:
            hold.follow_position()
            before = None
            while hold.state is not before and hold.state in self._steps:
                before = hold.state
                self._steps[before](topic, hold, now)
        self._waiting = [one for one in self._waiting if one[1].state is not HoldState.FREE]

    def _await_callback(self, topic: T, hold: Hold, now: float) -> None:
        """Open the gate at once if the listener has no ``on_partition_keys_assigned``; otherwise wait for that call."""
        if not hasattr(self._listener, "on_partition_keys_assigned"):
            self._open(topic, hold)

    def _open(self, topic: T, hold: Hold) -> None:
        hold.called()
