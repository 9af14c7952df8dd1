"""An adapter that reports a group member's events as those of a reader, so that readers' checkers check members too.

A reader gets partitions by ``assign`` and positions by ``seek``. A member gets partitions through its listener, and
positions from the group's committed offsets in OffsetFetch responses.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from thinconsumer_testing.simulation.checkers.base import ASSIGNED, Checker, Jury, Member, Records, SimReader
from thinconsumer_testing.simulation.client_tap import SentRequest


@dataclass(eq=False)
class GroupEventAdapter(Checker):
    """Reports members' assignments as ``assign`` and their first positions as ``seek``; records no violations."""

    jury: Jury
    name_of: Callable[[bytes], str]
    _owned: dict[SimReader, dict[TopicPartition, None]] = field(default_factory=dict, init=False)
    #: Assigned partitions without a position yet: their first position will be the committed offset (OffsetFetch). The
    #: value is the number of OffsetFetch requests that were written before the assignment. One of those may be answered
    #: late, by a coordinator of before: no position begins at its offsets.
    _starting: dict[SimReader, dict[TopicPartition, int]] = field(default_factory=dict, init=False)
    _asked: dict[SimReader, list[SentRequest]] = field(default_factory=dict, init=False)
    _is_telling: bool = field(default=False, init=False)

    def started(self, reader: SimReader) -> None:
        self._owned[reader], self._starting[reader], self._asked[reader] = {}, {}, []

    def ended(self, reader: SimReader) -> None:
        self._owned.pop(reader, None)
        self._starting.pop(reader, None)
        self._asked.pop(reader, None)

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        """Report an assignment before its callback runs, so that a seek inside the callback is reported after it.

        A callback that raised is called again. This second call does not add its partitions to ``_starting`` again: the
        callback may have sought them in the first call, before it raised. A request of the first call may still be
        under way, and its response gives the positions.
        """
        if what == ASSIGNED:
            if set(tps) - self._owned[member].keys():
                self._starting[member] |= dict.fromkeys(set(tps) - self._owned[member].keys(), len(self._asked[member]))
            self._owned[member].update(dict.fromkeys(sorted(tps)))
            self.jury.tell("assigned", member, list(self._owned[member]))

    def callback_finished(
        self, member: Member, what: str, tps: Collection[TopicPartition], error: Exception | None
    ) -> None:
        if what != ASSIGNED:
            self._owned[member] = {tp: None for tp in self._owned[member] if tp not in tps}
            for tp in tps:
                self._starting[member].pop(tp, None)
            self.jury.tell("assigned", member, list(self._owned[member]))

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        if isinstance(sent.message, OffsetFetchRequest) and member in self._asked:
            self._asked[member].append(sent)

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        starting = self._starting.get(member)
        if not starting or not isinstance(response, OffsetFetchResponse):
            return
        number = next((at for at, each in enumerate(self._asked[member]) if each is sent), -1)
        self._is_telling = True
        for tp, offset, epoch in self._committed(response):
            if tp in starting and number >= starting[tp]:
                self.jury.tell("sought", member, tp, max(offset, 0), epoch)
        self._is_telling = False

    def sought(self, reader: SimReader, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        if not self._is_telling:
            self._begun(reader, tp)

    def reset(self, reader: SimReader, tp: TopicPartition, to_end: bool) -> None:
        self._begun(reader, tp)

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        for tp in records:
            self._begun(reader, tp)

    def positioned(self, reader: SimReader, tp: TopicPartition, offset: int) -> None:
        self._begun(reader, tp)

    def _begun(self, reader: SimReader, tp: TopicPartition) -> None:
        starting = self._starting.get(reader)
        if starting:
            starting.pop(tp, None)

    def _committed(self, response: OffsetFetchResponse) -> Iterator[tuple[TopicPartition, int, int]]:
        topics = [topic for group in response.groups if not group.error_code for topic in group.topics]
        for topic in topics or response.topics:
            name = topic.name or self.name_of(getattr(topic, "topic_id", b""))
            for row in topic.partitions:
                if not row.error_code:
                    yield TopicPartition(name, row.partition_index), row.committed_offset, row.committed_leader_epoch
