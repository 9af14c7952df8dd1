"""Checks the records of consumer groups (KIP-848) in the committed contents of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from thinconsumer.errors import KafkaError
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.group.consumer import log_format as f
from thinconsumer_testing.broker.group.log_format import GroupMetadataKey, GroupMetadataValue, decode_key, decode_value
from thinconsumer_testing.broker.naming import OFFSETS_TOPIC
from thinconsumer_testing.simulation.checkers.base import Checker
from thinconsumer_testing.simulation.truth import Truth

#: Partitions by topic id and number.
_Ids = frozenset[tuple[bytes, int]]


@dataclass(slots=True)
class _Group:
    """One group, by the records that were replayed so far. Kafka 4.3 writes no record of the first epoch, 1.

    A classic group of generation 0, whose members join for the first time, becomes a consumer group of epoch 0: only
    the second record of an epoch is compared with the one before.
    """

    epoch: int = 1
    target_epoch: int = 1
    recorded: set[str] = field(default_factory=set)  #: Which of the two epochs have a record.
    epochs: dict[str, int] = field(default_factory=dict)  #: By member id.
    owned: dict[str, _Ids] = field(default_factory=dict)  #: What a member owns, and what it has yet to revoke.
    pending: dict[str, _Ids] = field(default_factory=dict)


@dataclass(eq=False)
class GroupLogChecker(Checker):
    """Checks at the end that no epoch went back, and that no partition had two owners, in the order of the log.

    A member's epoch is at most that of the target assignment, which is at most the group's. A batch of records is one
    operation: partitions are compared after the last record of a batch only.
    """

    truths: Mapping[tuple[TopicPartition, bytes], Truth]

    def finish(self) -> None:
        for truth in self._logs():
            self._replay(truth)

    def check_rest(self) -> None:
        """Check that each group is at rest: its members have the epoch of the group, and nothing to revoke."""
        for truth in self._logs():
            for name, group in self._replay(truth).items():
                behind = sorted(who for who, epoch in group.epochs.items() if epoch not in (group.epoch, -2))
                if group.target_epoch != group.epoch or behind or any(group.pending.values()):
                    self.accuse(f"group {name} in epoch {group.epoch} has a target of epoch {group.target_epoch}, and"
                                f" members that are not in it: {', '.join(behind)}")  # fmt: skip

    def without_leader(self) -> set[str]:
        """Return the groups that have become classic groups, and have not rebalanced since.

        No member knows that it leads such a group: none rejoins if partitions are added, or if a topic is deleted. Two
        ways lead to it, also in Kafka. A static member that was the last one of the consumer group protocol, and has
        restarted with the classic one, begins no rebalance. If the last member has left, the coordinator begins one,
        but writes that the group is stable: if the coordinator moves before the end of that rebalance, its successor
        begins none.
        """
        found: set[str] = set()
        for truth in self._logs():
            epochs: dict[str, int] = {}  #: The last epoch of each consumer group, and of each that has been removed.
            groups: dict[str, int] = {}  #: The groups that have become classic ones, with their generation then.
            for key, data in self._records(truth):
                if isinstance(key, f.ConsumerGroupMetadataKey) and data is not None:
                    epochs[key.group_id] = decode_value(f.ConsumerGroupMetadataValue, data).epoch
                elif isinstance(key, GroupMetadataKey):
                    # A static member that restarts is written with its new member id, in the same generation.
                    generation = None if data is None else decode_value(GroupMetadataValue, data).generation
                    if generation != groups.get(key.group):
                        groups.pop(key.group, None)
                    if generation is not None and generation == epochs.pop(key.group, None):
                        groups[key.group] = generation
            found.update(groups)
        return found

    def _logs(self) -> Iterator[Truth]:
        return (truth for (tp, _), truth in self.truths.items() if tp.topic == OFFSETS_TOPIC)

    @staticmethod
    def _records(truth: Truth) -> Iterator[tuple[object, bytes | None]]:
        """Yield the key and value of each record that counts."""
        for (offset, epoch), row in sorted(truth.rows.items()):
            if not truth.counts(offset, epoch) or row.key is None:
                continue
            try:
                key = decode_key(row.key)
            except KafkaError:
                continue
            yield key, row.value

    def _replay(self, truth: Truth) -> dict[str, _Group]:
        groups: dict[str, _Group] = {}
        for key, value in self._records(truth):
            if type(key) in f.CONSUMER_KEYS.values():
                self._take(groups.setdefault(key.group_id, _Group()), key, value)  # type: ignore[attr-defined]
        return groups

    def _take(self, group: _Group, key: object, value: bytes | None) -> None:
        if isinstance(key, f.ConsumerGroupMetadataKey):
            if value is None:
                group.epoch = 1
                group.recorded.discard("epoch")
                return
            epoch = decode_value(f.ConsumerGroupMetadataValue, value).epoch
            if "epoch" in group.recorded:
                self._check_epoch(f"group {key.group_id}", group.epoch, epoch)
            group.epoch = epoch
            group.recorded.add("epoch")
        elif isinstance(key, f.ConsumerGroupTargetAssignmentMetadataKey):
            if value is None:
                group.target_epoch = 1
                group.recorded.discard("target")
                return
            epoch = decode_value(f.ConsumerGroupTargetAssignmentMetadataValue, value).assignment_epoch
            if "target" in group.recorded:
                self._check_epoch(f"the target of group {key.group_id}", group.target_epoch, epoch)
            if epoch > group.epoch:
                self.accuse(f"the target of group {key.group_id} has epoch {epoch}, the group {group.epoch}")
            group.target_epoch = epoch
            group.recorded.add("target")
        elif isinstance(key, f.ConsumerGroupCurrentMemberAssignmentKey):
            self._take_member(group, key, value)

    def _take_member(self, group: _Group, key: f.ConsumerGroupCurrentMemberAssignmentKey, data: bytes | None) -> None:
        who = key.member_id
        if data is None:
            for found in (group.epochs, group.owned, group.pending):
                found.pop(who, None)
            return
        value = decode_value(f.ConsumerGroupCurrentMemberAssignmentValue, data)
        epoch, before = value.member_epoch, group.epochs.get(who, 0)
        if epoch != -2:
            self._check_epoch(f"member {who} of group {key.group_id}", before, epoch)
        if epoch > group.target_epoch:
            self.accuse(f"member {who} has epoch {epoch}, the target assignment {group.target_epoch}")
        pending = _ids(value.partitions_pending_revocation)
        group.epochs[who], group.pending[who] = epoch, pending
        mine = group.owned[who] = _ids(value.assigned_partitions) | pending
        for other, theirs in group.owned.items():
            if other != who and mine & theirs:
                self.accuse(f"{sorted(mine & theirs)} of group {key.group_id} has two owners: {who} and {other}")

    def _check_epoch(self, what: str, before: int, epoch: int) -> None:
        if epoch < before:
            self.accuse(f"the epoch of {what} goes back from {before} to {epoch}")


def _ids(rows: list[f.OwnedTopicPartitions]) -> _Ids:
    return frozenset((row.topic_id, number) for row in rows for number in row.partitions)
