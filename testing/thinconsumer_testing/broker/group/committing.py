"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete of a group.

The caller of a commit or deletion has already rejected partitions that do not exist. Follows Kafka's
``OffsetMetadataManager``, and ``validateOffsetCommit`` and ``validateOffsetDelete`` of ``ClassicGroup``.
"""

from collections.abc import Iterator
from itertools import repeat
from math import inf

from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from thinconsumer.wire.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from thinconsumer.wire.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopics,
)
from thinconsumer.wire.schema import ZERO_UUID

from ..wire.transactions import TxnOffsetCommitRequest
from . import rebalance
from .consumer.errors import GroupRequestError
from .consumer.group import ConsumerGroup, stale_code
from .consumer.member import ConsumerGroupMember
from .group import UNKNOWN_MEMBER_ID, ClassicGroup
from .log_format import OffsetCommitValue
from .offsets import NO_PRODUCER_ID
from .records import CoordinatorRecord, ReplayedState, offset_record, offset_tombstone
from .shard import GroupCoordinatorShard
from .states import GroupState

NO_OFFSET = -1
#: First OffsetCommit version in which a commit with a generation gets GROUP_ID_NOT_FOUND if the group is missing; in
#: older versions, and in TxnOffsetCommit, it gets ILLEGAL_GENERATION.
GROUP_NOT_FOUND_FROM = 9


def _check_commit(group: ClassicGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest) -> int:
    generation, member_id = request.generation_id_or_member_epoch, request.member_id
    transactional = isinstance(request, TxnOffsetCommitRequest)
    if generation < 0 and group.state is GroupState.EMPTY:
        return 0
    if generation >= 0 or member_id != UNKNOWN_MEMBER_ID or request.group_instance_id is not None:
        code = group.check_member(member_id, request.group_instance_id)
        if code:
            return code
        if generation != group.generation:
            return int(Code.ILLEGAL_GENERATION)
    elif not transactional:
        # The request is not from a member, but the group has members: the commit would overwrite their offsets.
        return int(Code.UNKNOWN_MEMBER_ID)
    if not transactional and group.state is GroupState.COMPLETING_REBALANCE:
        # The member does not have the new assignment yet, which may give its partitions to another member.
        return int(Code.REBALANCE_IN_PROGRESS)
    return 0


def commit(
    shard: GroupCoordinatorShard, request: OffsetCommitRequest | TxnOffsetCommitRequest, version: int
) -> Iterator[int]:
    """Append the valid offsets to the log; return an error code for each partition, in the order of the request.

    Offsets of a TxnOffsetCommit stay pending until their transaction is committed or aborted.
    """
    group = shard.latest.groups.get(request.group_id)
    if group is None:
        if request.generation_id_or_member_epoch >= 0:
            return repeat(int(Code.ILLEGAL_GENERATION if version < GROUP_NOT_FOUND_FROM else Code.GROUP_ID_NOT_FOUND))
        group = shard.create_group(request.group_id)
    if isinstance(group, ConsumerGroup):
        code = _check_consumer_commit(shard, group, request, version)
    else:
        code = _check_commit(group, request)
    if code:
        return repeat(code)
    now_ms = shard.wall_ms()
    expires_ms, producer_id, producer_epoch = -1, NO_PRODUCER_ID, -1
    if isinstance(request, TxnOffsetCommitRequest):
        producer_id, producer_epoch = request.producer_id, request.producer_epoch
    else:
        if isinstance(group, ClassicGroup):
            _keep_session(group, request.member_id)
        if request.retention_time_ms != -1:
            expires_ms = now_ms + request.retention_time_ms
    codes: list[int] = []
    entries: list[CoordinatorRecord] = []
    for topic in request.topics:
        topic_id = topic.topic_id if isinstance(topic, OffsetCommitRequestTopic) else ZERO_UUID
        for partition in topic.partitions:
            codes.append(_check_metadata(shard, partition.committed_metadata))
            if not codes[-1]:
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata or "",
                    commit_timestamp=now_ms,
                    expire_timestamp=expires_ms,
                    topic_id=topic_id,
                )
                entries.append(offset_record(group, topic.name, partition.partition_index, value, producer_id))
    if entries:
        shard.append(entries, producer_id=producer_id, producer_epoch=producer_epoch)
    return iter(codes)


def _keep_session(group: ClassicGroup, member_id: str) -> None:
    """Restart the session timeout of a member that commits."""
    member = group.members.get(member_id)
    if member is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        rebalance.reschedule_heartbeat(group, member)


def _check_consumer_commit(
    shard: GroupCoordinatorShard,
    group: ConsumerGroup,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    version: int,
) -> int:
    """Return the error code that rejects a commit in a consumer group, else 0.

    A commit in an older epoch than the member's is rejected as a whole, unless the member has owned all partitions of
    the commit since that epoch (KIP-1251).
    """
    transactional = isinstance(request, TxnOffsetCommitRequest)
    epoch = request.generation_id_or_member_epoch
    try:
        member = group.check_commit(
            request.member_id, request.group_instance_id, epoch, version, transactional=transactional
        )
    except GroupRequestError as error:
        code = error.code
    else:
        code = 0
        if member is not None and not all(epoch >= since for since in _owned_since(shard, member, request)):
            code = int(stale_code(member))
    # Clients of TxnOffsetCommit do not expect STALE_MEMBER_EPOCH.
    return int(Code.ILLEGAL_GENERATION) if transactional and code == Code.STALE_MEMBER_EPOCH else code


def _owned_since(
    shard: GroupCoordinatorShard, member: ConsumerGroupMember, request: OffsetCommitRequest | TxnOffsetCommitRequest
) -> Iterator[float]:
    """Yield for each partition of a commit the epoch since which the member owns it, infinity if it is not owned."""
    for topic in request.topics:
        found = shard.image.topics.get(topic.name)
        for partition in topic.partitions:
            since = None if found is None else member.assignment_epoch(found.topic_id, partition.partition_index)
            yield inf if since is None else since


def _check_metadata(shard: GroupCoordinatorShard, metadata: str | None) -> int:
    # Kafka compares the limit with the length of a Java string, which counts UTF-16 units.
    utf_16_units = len((metadata or "").encode("utf-16-le", "surrogatepass")) // 2
    return int(Code.OFFSET_METADATA_TOO_LARGE) if utf_16_units > shard.config.offset_metadata_max_bytes else 0


def fetch(
    view: ReplayedState, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> tuple[int, list[OffsetFetchResponseTopics]]:
    """Return an error code, and a group's committed offsets of the requested partitions, or all of them if ``topics``
    is null.

    A requested partition without a committed offset gets -1. With ``require_stable``, a partition with a pending
    transactional offset gets UNSTABLE_OFFSET_COMMIT. In a consumer group, the member and its epoch are checked if the
    request has them.
    """
    group = view.consumer_group(request.group_id)
    if group is not None:
        try:
            group.check_fetch(request.member_id, request.member_epoch)
        except GroupRequestError as error:
            return error.code, []
    topics = request.topics
    if topics is None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in view.offsets.of_group(request.group_id):
            by_topic.setdefault(topic, []).append(partition)
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=found) for name, found in by_topic.items()]
    return 0, [_fetched(view, request.group_id, one, require_stable) for one in topics]


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
        committed = view.offsets.get(group_id, topic.name, index)
        if committed is None:
            continue
        value = committed.value
        # An offset that was committed for a deleted topic of the same name, but with another id, is not returned.
        if ZERO_UUID in (value.topic_id, topic.topic_id) or value.topic_id == topic.topic_id:
            answer.committed_offset = value.offset
            answer.committed_leader_epoch = value.leader_epoch
            answer.metadata = value.metadata
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def delete(shard: GroupCoordinatorShard, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete committed and pending offsets, but those of topics to which a member subscribes.

    A partition without an offset counts as deleted. A group of other members than consumers is rejected.
    """
    group = shard.latest.groups.get(request.group_id)
    if group is None:
        return OffsetDeleteResponse(error_code=int(Code.GROUP_ID_NOT_FOUND))
    if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY and not group.is_consumer_group:
        return OffsetDeleteResponse(error_code=int(Code.NON_EMPTY_GROUP))
    subscribed = {topic.name for topic in request.topics if group.is_subscribed_to(topic.name)}
    places = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
    stored = set(shard.latest.offsets.places(request.group_id))
    entries = [
        offset_tombstone(request.group_id, *place) for place in places if place in stored and place[0] not in subscribed
    ]
    if entries:
        shard.append(entries)
    codes = {True: Code.GROUP_SUBSCRIBED_TO_TOPIC, False: Code.NONE}
    return OffsetDeleteResponse(
        topics=[deletion_results(topic, codes[topic.name in subscribed]) for topic in request.topics]
    )


def deletion_results(topic: OffsetDeleteRequestTopic, code: Code) -> OffsetDeleteResponseTopic:
    """Return the results of a topic's partitions, all with the same code."""
    partitions = [
        OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=int(code))
        for one in topic.partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)
