"""OffsetCommit, TxnOffsetCommit and OffsetFetch of a group.

Partitions that do not exist have been rejected before. Follows Kafka's ``OffsetMetadataManager`` and
``ClassicGroup.validateOffsetCommit``.
"""

from __future__ import annotations

from typing import NamedTuple

from ...wire.error_codes import Code
from ...wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ...wire.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopics,
)
from ...wire.schema import ZERO_UUID
from ...wire.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from . import rebalance
from .group import UNKNOWN_MEMBER_ID, ClassicGroup
from .offsets import CommittedOffset
from .records import CoordinatorRecord, ReplayedState, offset_record
from .shard import GroupCoordinatorShard
from .states import GroupState

NO_OFFSET = -1
#: From this OffsetCommit version on a missing group has its own error code.
GROUP_NOT_FOUND_FROM = 9


class OffsetCommitter(NamedTuple):
    """The member and generation that commit, or neither for a consumer that assigns partitions itself."""

    generation: int
    member_id: str
    instance_id: str | None

    @property
    def is_simple(self) -> bool:
        """Whether it commits without group membership."""
        return self.generation < 0 and self.member_id == UNKNOWN_MEMBER_ID and self.instance_id is None


def check_commit(group: ClassicGroup, committer: OffsetCommitter, *, transactional: bool) -> int:
    """Return the code that rejects a commit, 0 if it is allowed."""
    if group.state is GroupState.DEAD:
        return int(Code.COORDINATOR_NOT_AVAILABLE)
    if committer.generation < 0 and group.state is GroupState.EMPTY:
        return 0
    if not committer.is_simple:
        code = group.check_member(committer.member_id, committer.instance_id)
        if code:
            return code
        if committer.generation != group.generation:
            return int(Code.ILLEGAL_GENERATION)
    elif not transactional:
        # The group has members: a commit by a non-member would reset their offsets.
        return int(Code.UNKNOWN_MEMBER_ID)
    if not transactional and group.state is GroupState.COMPLETING_REBALANCE:
        # The next assignment may give the member's partitions to another.
        return int(Code.REBALANCE_IN_PROGRESS)
    return 0


def commit(
    shard: GroupCoordinatorShard, request: OffsetCommitRequest, version: int
) -> tuple[int, OffsetCommitResponse]:
    """Write the valid offsets; return (error code for all, response once they are committed)."""
    committer = OffsetCommitter(request.generation_id_or_member_epoch, request.member_id, request.group_instance_id)
    group = shard.latest.groups.get(request.group_id)
    if group is None:
        if committer.generation >= 0:
            old = version < GROUP_NOT_FOUND_FROM
            return int(Code.ILLEGAL_GENERATION if old else Code.GROUP_ID_NOT_FOUND), OffsetCommitResponse()
        group = shard.create_group(request.group_id)
    code = check_commit(group, committer, transactional=False)
    if code:
        return code, OffsetCommitResponse()
    member = group.members.get(committer.member_id)
    if member is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        rebalance.reschedule_heartbeat(group, member)
    now_ms = shard.wall_ms()
    expires_ms = now_ms + request.retention_time_ms if request.retention_time_ms != -1 else -1
    entries: list[CoordinatorRecord] = []
    response = OffsetCommitResponse()
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answer)
        for partition in topic.partitions:
            code = check_metadata(shard, partition.committed_metadata)
            answer.partitions.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            )
            if not code:
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                    now_ms,
                    expires_ms,
                    topic.topic_id,
                )
                entries.append(offset_record(group, topic.name, partition.partition_index, committed))
    if entries:
        shard.append(entries)
    return 0, response


def commit_transactional(
    shard: GroupCoordinatorShard, request: TxnOffsetCommitRequest
) -> tuple[int, TxnOffsetCommitResponse]:
    """Write offsets that stay pending until their transaction ends; return as :func:`commit` does."""
    committer = OffsetCommitter(request.generation_id_or_member_epoch, request.member_id, request.group_instance_id)
    group = shard.latest.groups.get(request.group_id)
    if group is None:
        if committer.generation >= 0:
            return int(Code.ILLEGAL_GENERATION), TxnOffsetCommitResponse()
        group = shard.create_group(request.group_id)
    code = check_commit(group, committer, transactional=True)
    if code:
        return code, TxnOffsetCommitResponse()
    now_ms = shard.wall_ms()
    entries: list[CoordinatorRecord] = []
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answer)
        for partition in topic.partitions:
            code = check_metadata(shard, partition.committed_metadata)
            answer.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            )
            if not code:
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                    now_ms,
                )
                index = partition.partition_index
                entries.append(offset_record(group, topic.name, index, committed, request.producer_id))
    if entries:
        shard.append(entries, producer_id=request.producer_id, producer_epoch=request.producer_epoch)
    return 0, response


def check_metadata(shard: GroupCoordinatorShard, metadata: str | None) -> int:
    """Return the code that rejects a commit's metadata string, 0 if it is short enough; Kafka counts UTF-16 units."""
    # Counting UTF-16 units encodes the string; it never has more than two per character.
    limit = shard.config.offset_metadata_max_bytes
    if metadata is None or len(metadata) * 2 <= limit:
        return 0
    units = len(metadata.encode("utf-16-le", "surrogatepass")) // 2
    return int(Code.OFFSET_METADATA_TOO_LARGE) if units > limit else 0


def fetch(
    view: ReplayedState, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> list[OffsetFetchResponseTopics]:
    """Return the requested offsets, or all of the group without topics; -1 for partitions without an offset."""
    group_id = request.group_id
    if request.topics is not None:
        return [_fetched(view, group_id, topic, require_stable) for topic in request.topics]
    by_topic: dict[str, list[int]] = {}
    for topic, partition in view.offsets.of_group(group_id):
        by_topic.setdefault(topic, []).append(partition)
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=found) for name, found in by_topic.items()]
    return [_fetched(view, group_id, topic, require_stable) for topic in topics]


def _fetched(
    view: ReplayedState, group_id: str, topic: OffsetFetchRequestTopics, require_stable: bool
) -> OffsetFetchResponseTopics:
    partitions = []
    for index in topic.partition_indexes:
        answer = OffsetFetchResponsePartition(partition_index=index, committed_offset=NO_OFFSET)
        partitions.append(answer)
        if require_stable and view.offsets.is_unstable(group_id, topic.name, index):
            answer.error_code = int(Code.UNSTABLE_OFFSET_COMMIT)
            continue
        found = view.offsets.get(group_id, topic.name, index)
        # An offset of a deleted topic of the same name is invalid.
        if found is not None and (ZERO_UUID in (found.topic_id, topic.topic_id) or found.topic_id == topic.topic_id):
            answer.committed_offset = found.offset
            answer.committed_leader_epoch = found.leader_epoch
            answer.metadata = found.metadata
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
