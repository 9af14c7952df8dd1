"""One operation on a consumer group: its records, collected before they are appended as one batch.

Each record depends on the group as it is after the records before. The group itself changes only when all records are
appended: a rejected append changes nothing, and a crash cannot leave half of an operation in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..records import CoordinatorRecord, ReplayedState
from . import records as group_records
from .assignors.user_assignor import ConsumerGroupPartitionAssignor
from .group import ConsumerGroup
from .member import ConsumerGroupMember, Partitions
from .reconciliation import Goal, reconcile
from .target import assignor_of, new_target
from .topic_metadata import metadata_hash, topic_ids

if TYPE_CHECKING:
    from ..shard import GroupCoordinatorShard


class Draft:
    """Collects records; ``group`` is the group as it will be once they are replayed."""

    def __init__(self, shard: GroupCoordinatorShard, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []
        self.on_appended: list[Callable[[], None]] = []  #: Called once the records are appended.
        self._shard = shard
        self._state: ReplayedState | None = None
        self._metadata_version = group.metadata_version

    def add(self, records: Iterable[CoordinatorRecord]) -> None:
        """Add records, and replay them on a copy of the group."""
        group_id = self.group.group_id
        for record in records:
            if self._state is None:
                self._state = ReplayedState()
                self._state.groups[group_id] = self.group.copy()
            self.records.append(record)
            record.change(self._state, -1)
        if self._state is not None:
            self.group = self._state.consumer_group(group_id) or ConsumerGroup(group_id)

    def put_member(self, member: ConsumerGroupMember) -> None:
        """Add the record of a member's subscription, unless the member is unchanged."""
        if self.group.members.get(member.member_id) != member:
            self.add([group_records.member_record(self.group.group_id, member)])

    def drop_unused_regexes(self) -> None:
        """Add tombstones for the resolved regular expressions to which no member subscribes any more."""
        group = self.group
        unused = [regex for regex in group.resolved if regex not in group.regexes]
        self.add(group_records.regex_tombstone(group.group_id, regex) for regex in unused)

    def update_epoch(self, *, must_bump: bool) -> None:
        """Begin a new epoch if ``must_bump``, or if the metadata of the group's topics has changed."""
        group, image = self.group, self._shard.image
        if not must_bump and group.metadata_version == image.version:
            return
        is_users = isinstance(assignor_of(group, self._shard.config.server_assignors), ConsumerGroupPartitionAssignor)
        found = metadata_hash(group.subscribed_topics(), image, has_replicas=is_users)
        if must_bump or found != group.metadata_hash:
            self.add([group_records.epoch_record(group.group_id, group.epoch + 1, found)])
            if group.has_partition_metadata:
                self.add([group_records.partition_metadata_tombstone(group.group_id)])
        self._metadata_version = image.version

    def update_target(self) -> None:
        """Compute a target assignment if the last one is older than the group's epoch.

        ``group.consumer.assignment.interval.ms`` has to pass between two target assignments, so that changes in quick
        succession share one (KIP-1263).

        Raises:
            GroupRequestError: UNKNOWN_SERVER_ERROR: an assignor of the user has failed.
        """
        group, config = self.group, self._shard.config
        if group.epoch <= group.assignment_epoch:
            return
        now_ms, interval_ms = self._shard.wall_ms(), config.group_consumer_assignment_interval_ms
        if interval_ms and group.assignment_timestamp_ms and now_ms < group.assignment_timestamp_ms + interval_ms:
            return
        self.add(list(new_target(group, self._shard.image, config.server_assignors, now_ms)))

    def reconcile(
        self, member_id: str, owned: Partitions | None, *, has_subscription_changed: bool
    ) -> ConsumerGroupMember:
        """Lead a member one step towards its target assignment, and return it. ``owned`` are the partitions that the
        member reports to own, None without a report.

        Raises:
            GroupRequestError: FENCED_MEMBER_EPOCH: see :func:`~.reconciliation.reconcile`.
        """
        group = self.group
        member = group.members[member_id]
        if not has_subscription_changed and member.is_reconciled_to(group.assignment_epoch):
            return member
        goal = Goal(
            group.assignment_epoch,
            group.target(member_id),
            topic_ids(group.subscriptions_of(member), self._shard.image),
            group.partition_epoch,
            owned,
            has_subscription_changed,
        )
        after = reconcile(member, goal)
        if after != member:
            self.add([group_records.current_record(group.group_id, after)])
        return after

    def append(self) -> bool:
        """Append the records; return False if the log has rejected them, so that nothing has changed."""
        if self.records and not self._shard.append(self.records):
            return False
        group = self._shard.latest.consumer_group(self.group.group_id)
        if group is not None:
            group.metadata_version = self._metadata_version
        for callback in self.on_appended:
            callback()
        return True
