"""Tells the checkers of readers what a member's reading means: what it was assigned, and from where it goes on.

For them partitions come by ``assign`` and positions by ``seek``; for a member they come by its listener, and from what
the group has committed as the coordinator tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ...types import TopicPartition
from ...wire import Message
from ...wire.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from .checkers import ASSIGNED, Checker, Jury, Member, Reader
from .checkers.base import Records
from .client_tap import SentRequest


class GroupEventAdapter(Checker):
    """See the module. Accuses nobody."""

    def __init__(self, *args: object, jury: Jury, name_of: Callable[[bytes], str]) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._jury = jury
        self._name_of = name_of
        self._owned: dict[Reader, dict[TopicPartition, None]] = {}
        self._starting: dict[Reader, set[TopicPartition]] = {}  #: Whose first position is the committed one.
        self._is_telling = False

    def started(self, reader: Reader) -> None:
        """It has nothing."""
        self._owned[reader], self._starting[reader] = {}, set()

    def ended(self, reader: Reader) -> None:
        """It has nothing any more."""
        self._owned.pop(reader, None)
        self._starting.pop(reader, None)

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        """What comes is there before its callback: it may seek. A callback that failed is called again; where it went
        before it did is where reading begins.
        """
        if what == ASSIGNED:
            self._starting[member] |= set(tps) - self._owned[member].keys()
            self._owned[member].update(dict.fromkeys(sorted(tps)))
            self._jury.tell("assigned", member, list(self._owned[member]))

    def callback_finished(
        self, member: Member, what: str, tps: Collection[TopicPartition], error: Exception | None
    ) -> None:
        """What goes is there until its callback is through."""
        if what != ASSIGNED:
            self._owned[member] = {tp: None for tp in self._owned[member] if tp not in tps}
            self._starting[member] -= set(tps)
            self._jury.tell("assigned", member, list(self._owned[member]))

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        """Go on from what is committed."""
        starting = self._starting.get(member)
        if not starting or not isinstance(response, OffsetFetchResponse):
            return
        assert isinstance(sent.message, OffsetFetchRequest)
        self._is_telling = True
        for tp, offset, epoch in self._committed(response):
            if tp in starting:
                self._jury.tell("sought", member, tp, max(offset, 0), epoch)
        self._is_telling = False

    def sought(self, reader: Reader, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """The user has decided otherwise."""
        if not self._is_telling:
            self._begun(reader, tp)

    def reset(self, reader: Reader, tp: TopicPartition, to_end: bool) -> None:
        """The user has decided otherwise."""
        self._begun(reader, tp)

    def delivered(self, reader: Reader, records: Records, limit: int) -> None:
        """These have begun."""
        for tp in records:
            self._begun(reader, tp)

    def positioned(self, reader: Reader, tp: TopicPartition, offset: int) -> None:
        """This one has begun."""
        self._begun(reader, tp)

    # -- inside

    def _begun(self, reader: Reader, tp: TopicPartition) -> None:
        starting = self._starting.get(reader)
        if starting:
            starting.discard(tp)

    def _committed(self, response: OffsetFetchResponse) -> Iterator[tuple[TopicPartition, int, int]]:
        topics = [topic for group in response.groups if not group.error_code for topic in group.topics]
        for topic in topics or response.topics:
            name = topic.name or self._name_of(getattr(topic, "topic_id", b""))
            for row in topic.partitions:
                if not row.error_code:
                    yield TopicPartition(name, row.partition_index), row.committed_offset, row.committed_leader_epoch
