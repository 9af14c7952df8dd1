"""Look up the gates of whole topics, as offsets, for programs that plan which offsets are read when (KIP-253).

A consumer holds its own partitions at gates (:mod:`.delivery`), since its positions move while it reads. A program that
assigns ranges of offsets to several consumers, such as Spark's driver, needs the gates themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ..config import ConsumerConfig
from ..network.metadata import Metadata
from ..network.request import Answer, Request
from ..support.agenda import Agenda
from ..support.calls import Call
from ..support.timers import Random
from ..wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest
from .gates import START, Requirement
from .leader_epochs import LeaderEpochRequests, Thresholds
from .topics import GatedTopic, Shape, shapes

ASKER = "gate queries"


class OffsetGate(NamedTuple):
    """A gate as offsets: records from ``offset`` on may be read once other partitions have reached ``requires``."""

    offset: int  #: :data:`.gates.START` if the gate is before the first record.
    requires: Mapping[int, int]  #: For each awaited partition the offset that must have been reached.


#: By topic and partition: the gates of the partition, the one of the earliest change first.
TopicGates = Mapping[str, Mapping[int, Sequence[OffsetGate]]]


class GateQueries:
    """A manager that answers one query at a time: the gates of all partitions of some topics."""

    asker = ASKER

    def __init__(self, config: ConsumerConfig, metadata: Metadata, random: Random, agenda: Agenda) -> None:
        self._metadata = metadata
        self._agenda = agenda
        self._epochs = LeaderEpochRequests(ASKER, config, metadata, random, agenda)
        self._thresholds = Thresholds(config, metadata, random, agenda, ASKER)
        self._names: tuple[str, ...] = ()
        self._call: Call[TopicGates] | None = None
        self._topics: dict[str, GatedTopic] = {}
        self.version = 0  #: Incremented when :meth:`topics` changes.

    def ask(self, names: Collection[str]) -> Call[TopicGates]:
        """Begin a query, in place of an earlier one. Topics without changed counts are left out of the result.

        Ask only after the same consumer has looked up the log ends. Its metadata then have each change of the partition
        counts that came before these ends, as a leader rejects requests that are based on older metadata.
        """
        self._end()
        call: Call[TopicGates] = Call("look_up_gates()")
        self._names = tuple(sorted(self._changed(names)))
        if self._names:
            self._call = call
            self.version += 1
        else:
            call.succeed({})
        return call

    def topics(self) -> frozenset[str]:
        """Return the topics whose metadata must be refreshed."""
        return frozenset(self._names)

    def step(self, now: float) -> list[Request]:
        """Return the requests that are due for the pending query, or complete the query."""
        call = self._call
        if call is None:
            return []
        if not call.over:
            self._follow()
            topics = self._topics.values()
            requests = self._epochs.step(now, [(topic, number) for topic in topics for number in topic.shape.existing])
            if self._epochs.error is not None:
                call.fail(self._epochs.error)
            elif self._epochs.is_complete and self._has_thresholds():
                call.succeed({topic.name: self._offset_gates(topic) for topic in topics})
            call.last_error = self._thresholds.last_error or call.last_error
            if not call.over:
                return requests + self._thresholds.step(now)
        self._end()
        return []

    def handle(self, answer: Answer, now: float) -> None:
        if answer.request.api is PartitionLeaderEpochsForPartitionsRequest:
            self._epochs.handle(answer, now)
        else:
            self._thresholds.handle(answer, now)

    def restart(self, now: float) -> None:
        """Drop the pending query: an exception has ended the call that waited for it."""
        self._end()
        self._thresholds.restart(now)

    def _end(self) -> None:
        if self._call is not None:
            self._call.abandoned = True
            self._call = None
            self._names = ()
            for topic in self._topics.values():
                topic.clear()
            self._topics.clear()
            self._epochs.restart()
            self._epochs.error = None
            self.version += 1
            self._agenda.touch()

    def _follow(self) -> None:
        """Begin anew with topics whose counts have changed in the metadata."""
        changed = self._changed(self._names)
        for topic in list(self._topics.values()):
            if changed.get(topic.name) != topic.shape:
                self._topics.pop(topic.name).clear()
        for name, shape in sorted(changed.items()):
            if name not in self._topics:
                self._topics[name] = GatedTopic(name, shape)

    def _changed(self, names: Collection[str]) -> dict[str, Shape]:
        return {n: shape for n, shape in shapes(self._metadata).items() if n in names and shape.has_changed}

    def _has_thresholds(self) -> bool:
        """Return whether all thresholds are known; ask leaders for the missing ones."""
        missing = [
            (topic, one)
            for topic in self._topics.values()
            for number in topic.shape.existing
            for gate in topic.gates(number)
            for one in gate.thresholds(number)
            if not self._thresholds.is_current(topic, one)
        ]
        for topic, one in missing:
            self._thresholds.ask(topic, one)
        return not missing

    def _offset_gates(self, topic: GatedTopic) -> dict[int, list[OffsetGate]]:
        found: dict[int, list[OffsetGate]] = {}
        for number in sorted(topic.shape.existing):
            for gate in topic.gates(number):
                after = START if gate.after == START else topic.thresholds[Requirement(number, gate.after)].offset
                requires = {one.partition: topic.thresholds[one].offset for one in gate.requires}
                found.setdefault(number, []).append(OffsetGate(after, requires))
        return found
