"""Checks what workers do: the order of handlers, and what their commits name as finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from thinconsumer.workers.dispatcher import Job, PartitionJobs
from thinconsumer.workers.offset_map import OffsetMapError, decode
from thinconsumer_testing.simulation.checkers.base import Checker, Member

from ..ledger import Ledger
from ..work_knobs import WorkKnobs

#: Records of one partition: offset and leader epoch.
Keys = frozenset[tuple[int, int]]


@dataclass(eq=False)
class WorkChecker(Checker):
    """Checks the jobs of workers, and their commits that coordinators accepted.

    A job begins when no other of its key (with order "partition": of its partition) runs, and when every record of the
    key before it was processed; records without a key may have no order. A commit leaves out no record that is
    unprocessed, its metadata keep to their budget, and no member that reads it later begins a record that it names as
    finished.
    """

    ledgers: Mapping[str, Ledger]
    knobs: Mapping[str, WorkKnobs]
    names: Mapping[bytes, str]  #: The names of all topics by id, also of deleted ones.
    counts: Counter[str] = field(default_factory=Counter, init=False)
    #: By group and partition: the records that the last accepted commit names as finished.
    _named: dict[tuple[str, TopicPartition], Keys] = field(default_factory=dict, init=False)
    #: The same when a member began to read its committed offsets.
    _read: dict[tuple[Member, TopicPartition], Keys] = field(default_factory=dict, init=False)
    #: By lane and key: the jobs that run, and the offset of the last record that has finished.
    _running: dict[tuple[PartitionJobs[Any], Any], int] = field(default_factory=dict, init=False)
    _finished: dict[tuple[PartitionJobs[Any], Any], int] = field(default_factory=dict, init=False)

    def reading(self, member: Member, tps: Collection[TopicPartition]) -> None:
        """A member is about to read the committed offsets of partitions that were assigned to it."""
        for tp in tps:
            self._read[member, tp] = self._named.get((member.group, tp), frozenset())

    def began(self, member: Member, job: Job[Any]) -> None:
        """A handler was called."""
        tp = job.lane.partition
        self.counts["jobs"] += 1
        self.counts["batches"] += len(job.records) > 1
        self.counts["repeated_jobs"] += job.attempt > 1
        named = self._read.get((member, tp), frozenset())
        for record in job.records:
            if (record.offset, record.leader_epoch) in named:
                self.accuse(
                    f"{member} begins {_name(tp, record.offset)}, which a commit that it has read names as done"
                )
        order, null_key_order = self.knobs[member.group].order, self.knobs[member.group].null_key_order
        if (null_key_order if order == "key" and job.key is None else order) == "none":
            self.counts["unordered_jobs"] += 1
            return
        at = job.lane, job.key
        if at in self._running:
            self.accuse(f"{member} begins {_name(tp, job.offsets[0])} while offset {self._running[at]} of its key runs")
        self._running[at] = job.offsets[0]
        if job.offsets[0] <= self._finished.get(at, -1):
            self.accuse(f"{member} begins {_name(tp, job.offsets[0])} after offset {self._finished[at]} of its key")
        truth, epoch = self.truth(tp), job.records[-1].leader_epoch
        for offset in self.ledgers[member.group].missing(tp, 0, job.offsets[-1], epoch):
            row = None if truth is None else truth.rows.get((offset, truth.epoch_at(offset)))
            if offset not in job.offsets and row is not None and (order == "partition" or job.key == row.key):
                self.accuse(f"{member} begins {_name(tp, job.offsets[0])} before offset {offset} of its key")

    def ended(self, reader: Any) -> None:
        """The jobs of a member that has ended do not count any more."""
        self._read = {at: keys for at, keys in self._read.items() if at[0] is not reader}

    def left(self, job: Job[Any], *, is_done: bool) -> None:
        """The workers take the result of a job; it is done unless it is to be tried again."""
        at = job.lane, job.key
        self._running.pop(at, None)
        if is_done:
            self._finished[at] = job.offsets[-1]

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        if not isinstance(request, OffsetCommitRequest) or not isinstance(response, OffsetCommitResponse):
            return
        if request.group_id not in self.knobs:
            return
        taken = {
            topic.name or self.names.get(topic.topic_id, ""): {
                row.partition_index for row in topic.partitions if row.error_code == Code.NONE
            }
            for topic in response.topics
        }
        for topic in request.topics:
            name = topic.name or self.names.get(topic.topic_id, "")
            for row in topic.partitions:
                if row.partition_index in taken.get(name, ()):
                    tp = TopicPartition(name, row.partition_index)
                    self._committed(client, request.group_id, tp, row.committed_offset, row.committed_metadata or "")

    def _committed(self, client: str, group: str, tp: TopicPartition, offset: int, metadata: str) -> None:
        done = self.ledgers[group].done(tp)
        named = {(each, epoch) for each, epoch in done.items() if each < offset}
        self.counts["commits"] += 1
        if metadata:
            self.counts["maps"] += 1
            if len(metadata) > self.knobs[group].metadata_max:
                self.accuse(f"{client} has committed a map of {len(metadata)} characters for {_name(tp, offset)}")
            topic_id = next(each for each, name in self.names.items() if name == tp.topic)
            try:
                found = decode(metadata, offset, topic_id)
            except OffsetMapError as error:
                self.accuse(f"{client} has committed a map for {_name(tp, offset)} that cannot be read: {error}")
                return
            unfinished = {offset, *found.unfinished}
            for each in self.ledgers[group].missing(tp, offset, found.end, found.epochs[-1][1]):
                if each not in unfinished:
                    self.accuse(f"{client} has committed a map for {_name(tp, offset)} in which offset {each} is done")
            named |= {at for at in done.items() if offset <= at[0] < found.end and at[0] not in unfinished}
            self.counts["named_by_maps"] += len(named)
        self._named[group, tp] = frozenset(named)


def _name(tp: TopicPartition, offset: int) -> str:
    return f"{tp.topic}-{tp.partition} offset {offset}"
