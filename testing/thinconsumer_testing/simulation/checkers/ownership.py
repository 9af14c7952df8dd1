"""Checks that records are only fetched and returned if their partition is assigned and not paused.

The response to a Fetch that was sent before a partition was paused may still have records of this partition. But a
fetch session is strictly sequential (KIP-227): the next request of the session must remove the partition from it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.fetch import FetchRequest, FetchResponse
from thinconsumer.wire.metadata import MetadataResponse

from .base import Checker, Records, SimReader, by_reader


@dataclass(eq=False)
class OwnershipChecker(Checker):
    """Checks that polled and fetched records are of partitions that are assigned and not paused."""

    _assigned: dict[SimReader, set[TopicPartition]] = by_reader(set)
    _paused: dict[SimReader, set[TopicPartition]] = by_reader(set)
    _moment: int = field(default=0, init=False)  #: Number of Fetch responses so far, used as a clock.
    #: By client: the value of ``_moment`` when each partition was paused or unassigned.
    _unwanted: dict[str, dict[TopicPartition, int]] = field(default_factory=dict, init=False)
    #: By client, node and fetch session: the value of ``_moment`` at the last response.
    _answered: dict[tuple[str, int, int], int] = field(default_factory=dict, init=False)
    _names: dict[bytes, str] = field(default_factory=dict, init=False)  #: Names of topics by topic id.

    def started(self, reader: SimReader) -> None:
        self._unwanted[reader.name] = {}

    def ended(self, reader: SimReader) -> None:
        self._assigned.pop(reader, None)

    def assigned(self, reader: SimReader, tps: Sequence[TopicPartition]) -> None:
        gone = self._assigned[reader] - set(tps)
        self._assigned[reader] = set(tps)
        self._paused[reader] &= set(tps)
        self._want(reader, set(tps) - self._paused[reader], True)
        self._want(reader, gone, False)

    def paused(self, reader: SimReader, tps: Iterable[TopicPartition], on: bool) -> None:
        if on:
            self._paused[reader] |= set(tps)
        else:
            self._paused[reader] -= set(tps)
        self._want(reader, tps, not on)

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        for tp in records:
            name = f"{tp.topic}-{tp.partition}"
            if tp not in self._assigned[reader]:
                self.accuse(f"{reader} got records of {name}, which is not assigned to it")
            elif tp in self._paused[reader]:
                self.accuse(f"{reader} got records of {name}, which it has paused")

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        if isinstance(response, MetadataResponse):
            self._names.update((topic.topic_id, topic.name) for topic in response.topics if topic.name)
        if not isinstance(request, FetchRequest) or not isinstance(response, FetchResponse) or not response.session_id:
            return
        session = client, node, response.session_id
        before = self._answered.get(session, 0)
        self._moment += 1
        self._answered[session] = self._moment
        unwanted = self._unwanted.get(client)
        if not unwanted or request.session_epoch <= 0:
            return
        for topic in response.responses:
            name = topic.topic or self._names.get(topic.topic_id, "")
            for data in topic.partitions:
                if data.records and unwanted.get(TopicPartition(name, data.partition_index), before) < before:
                    words = f"node {node} still sends {client} records of {name}-{data.partition_index}, which"
                    self.accuse(f"{words} is paused or unassigned: the client has not removed it from the session")

    def _want(self, reader: SimReader, tps: Iterable[TopicPartition], on: bool) -> None:
        unwanted = self._unwanted[reader.name]
        for tp in tps:
            if on:
                unwanted.pop(tp, None)
            else:
                unwanted.setdefault(tp, self._moment)
