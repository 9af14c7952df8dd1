"""Checks the order of each key's records, also across partitions, by when the handlers of workers begin and end.

A record counts as delivered when its handler has ended, or when the workers have given it up. So
:class:`.key_order.KeyOrderChecker` compares the order in which records *finish*, and what members finish after gates
have opened. This module compares when they *begin*:

* A handler begins no record before all earlier ones of its key have finished, those of the same call apart.
* It begins none while another one runs that has a record of the key, unless the other one's member has lost or given up
  the partition: after ``drain_timeout_ms`` and after lost sessions, handlers of the old owner may still run.

A member that has another owner's partition is not checked: it cannot know. It may be cut off for less than its session
timeout while the group goes on without it, or have heartbeats with a coordinator that was deposed.
"""

from __future__ import annotations

from typing import Any

from thinconsumer.types import ConsumerRecord, TopicPartition
from thinconsumer.workers.dispatcher import Job

from .key_order import KeyOrderChecker, WrittenRecord


class WorkOrderChecker(KeyOrderChecker):
    """Checks the jobs of all members."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._running: dict[Job[Any], str] = {}  #: By job that runs: its member.

    def began(self, member: str, job: Job[Any], *, is_assigned: bool) -> None:
        """Check a handler that begins. The member has the partition as far as it can know, or should not begin it."""
        if not is_assigned:
            self._find(f"{member} begins offset {job.offsets[0]} of {job.lane.partition}, which it does not have")
        self.counts["jobs"] += 1
        self.counts["repeated jobs"] += job.attempt > 1
        self.counts["batches"] += len(job.records) > 1
        for record in job.records:
            self._check_earlier(member, record, job)
        self._running[job] = member

    def left(self, member: str, job: Job[Any], *, is_done: bool) -> None:
        """Note that a handler has ended; its records are done unless they are to be tried again."""
        if self._running.pop(job, None) is not None and is_done:
            for record in job.records:
                self.delivered(member, record)

    def gave_up(self, member: str, tps: set[TopicPartition] | None = None) -> None:
        """Note that the results of a member's handlers do not count any more, for these partitions or for all."""
        for job in [job for job, name in self._running.items() if name == member]:
            if tps is None or job.lane.partition in tps:
                del self._running[job]

    def _check_earlier(self, member: str, record: ConsumerRecord[Any, Any], job: Job[Any]) -> None:
        tp = TopicPartition(record.topic, record.partition)
        rank, written = self._ranks[tp, record.offset, record.leader_epoch]
        own_now = self._owners.get(tp)
        if own_now is not None and own_now.member != member:
            self.counts["begun by old owners"] += 1
            return
        where = f"{member} begins {written} ({tp.topic}-{tp.partition} offset {record.offset})"
        for other, name in self._running.items():
            owner = self._owners.get(other.lane.partition)
            is_owner = owner is not None and owner.member == name
            if is_owner and any(WrittenRecord.of(each.value).key == written.key for each in other.records):
                self._find(f"{where} while {name} runs {[each.value for each in other.records]}")
        own = {(tp, offset) for offset in job.offsets}
        for at in ((other, offset) for other, offsets in self._unread.items() for offset in offsets):
            if at not in self.seen and at not in own and at in self._epochs:
                earlier, unfinished = self._ranks[at[0], at[1], self._epochs[at]]
                if unfinished.key == written.key and earlier < rank:
                    self._find(f"{where} before {unfinished} has finished ({at[0].topic}-{at[0].partition} {at[1]})")
