"""Checks what workers do: the order of handlers, and what their commits name as finished."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from thinconsumer.produce.dead_letters import HEADER_PREFIX
from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitResponse
from thinconsumer.workers.dispatcher import Job, PartitionJobs
from thinconsumer.workers.offset_map import OffsetMapError, decode
from thinconsumer_testing.simulation.checkers.base import Checker, Member
from thinconsumer_testing.simulation.truth import Truth

from ..ledger import Ledger
from ..work_knobs import LETTERS, WorkKnobs


class Named(NamedTuple):
    """The records that an accepted commit names as finished."""

    offset: int  #: The committed offset: all records before it, and those that the map behind it names.
    records: frozenset[tuple[int, int]]  #: Their offsets and leader epochs.


NOTHING = Named(0, frozenset())


@dataclass(eq=False)
class WorkChecker(Checker):
    """Checks the jobs of workers, and their commits that coordinators accepted.

    A job begins when no other of its key (with order "partition": of its partition) runs, and when every record of the
    key before it was processed; records without a key may have no order. A commit leaves out no record that is
    unprocessed, its metadata keep to their budget, and no member that reads it later begins a record that it names as
    finished, unless the record was lost meanwhile.
    """

    ledgers: Mapping[str, Ledger]
    knobs: Mapping[str, WorkKnobs]
    names: Mapping[bytes, str]  #: The names of all topics by id, also of deleted ones.
    counts: Counter[str] = field(default_factory=Counter, init=False)
    #: By group and partition: the records that the last accepted commit names as finished.
    _named: dict[tuple[str, TopicPartition], Named] = field(default_factory=dict, init=False)
    #: The same when a member began to read its committed offsets.
    _read: dict[tuple[Member, TopicPartition], Named] = field(default_factory=dict, init=False)
    #: By lane and key: the jobs that run, and the offset of the last record that has finished.
    _running: dict[tuple[PartitionJobs[Any], Any], int] = field(default_factory=dict, init=False)
    _finished: dict[tuple[PartitionJobs[Any], Any], int] = field(default_factory=dict, init=False)
    #: The topic, partition and offset of the records of which dead letters were committed, and how many were read.
    _letters: set[tuple[str, int, int]] = field(default_factory=set, init=False)
    _letters_read: int = field(default=0, init=False)
    #: Partitions that have lost records in unclean elections.
    _truncated: set[TopicPartition] = field(default_factory=set, init=False)

    def reading(self, member: Member, tps: Collection[TopicPartition]) -> None:
        """A member is about to read the committed offsets of partitions that were assigned to it."""
        for tp in tps:
            self._read[member, tp] = self._named.get((member.group, tp), NOTHING)

    def began(self, member: Member, job: Job[Any]) -> None:
        """A handler was called."""
        tp = job.lane.partition
        self.counts["jobs"] += 1
        self.counts["batches"] += len(job.records) > 1
        self.counts["repeated_jobs"] += job.attempt > 1
        named = self._read.get((member, tp), NOTHING)
        for record in job.records:
            # Workers know no leader epochs of records before the committed offset: after an unclean election, these may
            # have been replaced.
            may_differ = tp in self._truncated and record.offset < named.offset
            if (record.offset, record.leader_epoch) in named.records and not may_differ:
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
        if truth is None or not truth.counts(job.offsets[-1], epoch):
            return  # the record was lost, and the member has not noticed yet: other records may be before it now
        for offset in self.ledgers[member.group].missing(tp, 0, job.offsets[-1], epoch):
            row = truth.rows.get((offset, truth.epoch_at(offset)))
            if offset not in job.offsets and row is not None and (order == "partition" or job.key == row.key):
                self.accuse(f"{member} begins {_name(tp, job.offsets[0])} before offset {offset} of its key")

    def written(self, member: Member, job: Job[Any]) -> None:
        """The workers take the dead letters of a job for written."""
        self.counts["dead_letters"] += len(job.records)
        self._read_letters()
        for record in job.records:
            if (record.topic, record.partition, record.offset) not in self._letters:
                where = _name(job.lane.partition, record.offset)
                self.accuse(f"{member} counts {where} as done before its dead letter was written")
        self._finished[job.lane, job.key] = job.offsets[-1]

    def _read_letters(self) -> None:
        """Read the dead letters that were written since the last call."""
        truth = self.truth(TopicPartition(LETTERS, 0))
        for row in islice(() if truth is None else truth.rows.values(), self._letters_read, None):
            self._letters_read += 1
            headers = {name.removeprefix(HEADER_PREFIX): (value or b"").decode() for name, value in row.headers}
            at = headers["topic"], int(headers["partition"]), int(headers["offset"])
            source = self.truth(TopicPartition(*at[:2]))
            rows = () if source is None else [found for key, found in source.rows.items() if key[0] == at[2]]
            if not any((row.key, row.value) == (found.key, found.value) for found in rows):
                self.accuse(f"the dead letter of {at[0]}-{at[1]} offset {at[2]} has another key or value")
            self._letters.add(at)

    def lost(self, truth: Truth, offset: int, epoch: int) -> None:
        """Let records from ``offset`` on be given again: members go back, and the old leader may be elected again."""
        tp = truth.tp
        self._truncated.add(tp)
        for kept in (self._named, self._read):
            for at in [at for at in kept if at[1] == tp]:
                before, records = kept[at]  # type: ignore[index]
                kept[at] = Named(before, frozenset(key for key in records if key[0] < offset))  # type: ignore[index]

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
                    self._committed(client, request.group_id, tp, row)

    def _committed(self, client: str, group: str, tp: TopicPartition, row: OffsetCommitRequestPartition) -> None:
        done, offset, metadata = self.ledgers[group].done(tp), row.committed_offset, row.committed_metadata or ""
        # After a truncation, records of a newer epoch may be processed before the commit of what they replace arrives.
        newest = row.committed_leader_epoch if row.committed_leader_epoch >= 0 else sys.maxsize
        named = {(each, epoch) for each, epoch in done.items() if each < offset and epoch <= newest}
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
            truth = self.truth(tp)
            for each in self.ledgers[group].missing(tp, offset, found.end):
                # A record that has replaced one of the map has another leader epoch, which the next reader compares.
                is_same = truth is not None and truth.epoch_at(each) == found.epoch_of(each)
                if is_same and each not in unfinished:
                    self.accuse(f"{client} has committed a map for {_name(tp, offset)} in which offset {each} is done")
            named |= {
                (each, epoch)
                for each, epoch in done.items()
                if offset <= each < found.end and each not in unfinished and epoch == found.epoch_of(each)
            }
            self.counts["named_by_maps"] += len(named)
        self._named[group, tp] = Named(offset, frozenset(self._lasting(tp, named)))

    def _lasting(self, tp: TopicPartition, named: set[tuple[int, int]]) -> set[tuple[int, int]]:
        """Leave out the records that were lost, and those that a deposed leader lacks, to which members may go back."""
        truth = self.truth(tp) if tp in self._truncated else None
        return named if truth is None else {key for key in named if truth.counts(*key) and truth.rival(*key) is None}


def _name(tp: TopicPartition, offset: int) -> str:
    return f"{tp.topic}-{tp.partition} offset {offset}"
