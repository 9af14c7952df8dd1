"""One consumer group: its epochs, members, target assignment, and the owner of each partition.

Only the changes in :mod:`.records` modify a group, each of them the replay of one record. The exceptions are
``metadata_version`` and ``regex_version``, which are in memory only: operations set them. Follows Kafka's
``ModernGroup`` and ``ConsumerGroup``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from thinconsumer.wire.error_codes import Code

from .errors import GroupRequestError
from .member import NO_EPOCH, ConsumerGroupMember, Target
from .states import ConsumerGroupState

#: The epoch of a new group and of its target assignment: Kafka 4.3 begins with 1, as members join with 0.
FIRST_EPOCH = 1


class ResolvedRegex(NamedTuple):
    """The topics that matched a regular expression when it was last resolved: at ``timestamp_ms``, in the metadata
    image with the number ``version``.
    """

    topics: frozenset[str]
    version: int = 0
    timestamp_ms: int = 0


class ConsumerGroup:
    """A group of the consumer group protocol (KIP-848)."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0  #: When the target assignment was computed; 0 if that is unknown.
        self.metadata_hash = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}  #: Member ids of static members by instance id.
        self.targets: dict[str, Target] = {}  #: Target assignments by member id.
        self.resolved: dict[str, ResolvedRegex] = {}  #: By regular expression.
        #: Whether the log has a record of topic metadata, which Kafka wrote before 4.1; the next epoch removes it.
        self.has_partition_metadata = False
        #: The version of the metadata image for which ``metadata_hash`` was last compared; -1: not yet.
        self.metadata_version = -1
        #: The version of the metadata image for which the regular expressions were last resolved; -1: not yet.
        self.regex_version = -1
        self._owners: dict[tuple[bytes, int], str] = {}  #: The member that owns each partition.
        self._subscribers: Counter[str] = Counter()  #: The number of members by subscribed topic name.
        self._regex_subscribers: Counter[str] = Counter()
        self._assignors: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<ConsumerGroup {self.group_id} {self.state.value} epoch {self.epoch}, {len(self.members)} members>"

    def copy(self) -> ConsumerGroup:
        """Return a copy, whose changes leave this group as it is; members and targets are immutable and shared."""
        other = ConsumerGroup(self.group_id)
        for name, value in vars(self).items():
            setattr(other, name, value.copy() if isinstance(value, dict) else value)
        return other

    @property
    def state(self) -> ConsumerGroupState:
        """The state, which follows from the epochs and the members."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    # -- changes, by the replay of records

    def put_member(self, member: ConsumerGroupMember) -> None:
        """Add a member, or replace the one with this id."""
        self._uncount(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._subscribers.update(member.subscribed_topic_names)
        if member.subscribed_topic_regex:
            self._regex_subscribers[member.subscribed_topic_regex] += 1
        if member.server_assignor is not None:
            self._assignors[member.server_assignor] += 1
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, indexes in owned.items():
                self._owners.update(((topic_id, index), member.member_id) for index in indexes)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self._uncount(member)
        instance_id = None if member is None else member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def _uncount(self, member: ConsumerGroupMember | None) -> None:
        """Forget what follows from a member: its subscriptions, its assignor and the partitions that it owns."""
        if member is None:
            return
        _subtract(self._subscribers, member.subscribed_topic_names)
        if member.subscribed_topic_regex:
            _subtract(self._regex_subscribers, (member.subscribed_topic_regex,))
        if member.server_assignor is not None:
            _subtract(self._assignors, (member.server_assignor,))
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, indexes in owned.items():
                for index in indexes:
                    # In a compacted log, the record of a partition's new owner may come before the last one of its
                    # former owner, which must not take the partition from the new owner.
                    if self._owners.get((topic_id, index)) == member.member_id:
                        del self._owners[topic_id, index]

    # -- what follows from the state

    def member(self, member_id: str) -> ConsumerGroupMember:
        """Return a member. Raises: GroupRequestError: UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            text = f"Member {member_id} is not a member of group {self.group_id}."
            raise GroupRequestError(Code.UNKNOWN_MEMBER_ID, text)
        return member

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the member with this instance id, None without one."""
        return self.members.get(self.static_members.get(instance_id or "", ""))

    def partition_epoch(self, topic_id: bytes, index: int) -> int:
        """Return the epoch of the member that owns a partition, -1 if no member does."""
        member = self.members.get(self._owners.get((topic_id, index), ""))
        return NO_EPOCH if member is None else member.member_epoch

    def target(self, member_id: str) -> Target:
        return self.targets.get(member_id, {})

    @property
    def regexes(self) -> Collection[str]:
        return self._regex_subscribers.keys()

    def subscriptions_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Return the topics that a member subscribes to by name or regular expression, whether they exist or not."""
        found = self.resolved.get(member.subscribed_topic_regex)
        return member.subscribed_topic_names if found is None else member.subscribed_topic_names | found.topics

    def subscribed_topics(self) -> set[str]:
        """Return the topics that members subscribe to, whether they exist or not."""
        topics = set(self._subscribers)
        for regex in self._regex_subscribers:
            if regex in self.resolved:
                topics |= self.resolved[regex].topics
        return topics

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether any member subscribes to a topic; its committed offsets do not expire then."""
        return topic in self._subscribers or any(
            topic in self.resolved[regex].topics for regex in self._regex_subscribers if regex in self.resolved
        )

    def preferred_assignor(self) -> str | None:
        """Return the assignor that most members ask for, None if no member asks for any."""
        return max(self._assignors, key=lambda name: (self._assignors[name], name), default=None)

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, *, transactional: bool
    ) -> ConsumerGroupMember | None:
        """Return the member if it commits in an older epoch than its own; None if it may commit for every partition.

        In an older epoch a member may commit only for partitions that it has owned since that epoch (KIP-1251). An
        administrator may commit while the group has no members; a transactional producer without member id and epoch
        always may.

        Raises:
            GroupRequestError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, or the epoch is newer than the member's.
        """
        if epoch < 0 and not self.members:
            return None
        if transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not transactional and member.classic is None and version < MEMBER_EPOCH_FROM:
            text = "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            raise GroupRequestError(Code.UNSUPPORTED_VERSION, text)
        if epoch > member.member_epoch:
            raise GroupRequestError(stale_code(member), f"The received epoch {epoch} is newer than that of the member.")
        return None if epoch == member.member_epoch else member

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Check the member that fetches offsets, unless the request names none.

        Raises:
            GroupRequestError: UNKNOWN_MEMBER_ID, or the epoch is not the member's.
        """
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.member_epoch:
            raise GroupRequestError(stale_code(member), f"The received epoch {epoch} is not that of the member.")


#: The first version of OffsetCommit and OffsetFetch with member epochs.
MEMBER_EPOCH_FROM = 9


def stale_code(member: ConsumerGroupMember) -> Code:
    """Return the error for a commit or fetch of offsets by this member with another epoch than its own."""
    return Code.STALE_MEMBER_EPOCH if member.classic is None else Code.ILLEGAL_GENERATION


def _subtract(counter: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        counter[name] -= 1
        if counter[name] <= 0:
            del counter[name]
