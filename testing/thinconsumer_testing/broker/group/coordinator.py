"""The group coordinator of one broker: it runs each request on the shard of the request's group.

A group belongs to the shard of its partition of ``__consumer_offsets``. Most responses are passed to ``reply``
callbacks, immediately or once the changes that they report are committed. The caller has translated topic ids to names.
Follows Kafka's ``GroupCoordinatorService``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest, ConsumerGroupPositionsResponse
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.groups import (
    DeletableGroupResult,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedGroupMember,
    ListedGroup,
)
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupResponse
from thinconsumer.wire.leave_group import LeaveGroupResponse, MemberIdentity
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from thinconsumer.wire.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseTopics
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse

from ..naming import OFFSETS_TOPIC
from ..wire.transactions import TxnOffsetCommitRequest
from . import committing, joining, membership, retention
from .append_errors import append_error
from .consumer import classic_members
from .consumer import heartbeat as consumer_heartbeat
from .consumer import records as consumer_records
from .consumer.describing import described
from .consumer.errors import GroupRequestError
from .consumer.group import ConsumerGroup
from .consumer.heartbeat import HeartbeatCall, check_heartbeat
from .consumer.states import ConsumerGroupState
from .group import CONSUMER as CONSUMER_PROTOCOL
from .group import UNKNOWN_MEMBER_ID, ClassicGroup
from .hashing import partition_for
from .joining import JoinGroupCall
from .positions import ExchangedPositions, Place
from .records import CoordinatorRecord, end_transaction, offset_tombstone
from .shard import EventProcessor, GroupCoordinatorShard
from .states import GroupState, ShardState

if TYPE_CHECKING:
    from ..node import BrokerNode
    from ..partition import PartitionReplica

#: The types of groups in ListGroups (KIP-848).
CLASSIC, CONSUMER = "classic", "consumer"
#: The error message for a group that exists, but has another type than the request: group id, requested type.
WRONG_TYPE = "Group {} is not a {} group."

T = TypeVar("T")


def partition_of_group(node: BrokerNode, group_id: str) -> TopicPartition:
    """Return the partition of ``__consumer_offsets`` to which a group belongs; the topic need not exist yet."""
    topic = node.image.topics.get(OFFSETS_TOPIC)
    count = node.config.offsets_topic_num_partitions if topic is None else len(topic.partitions)
    return TopicPartition(OFFSETS_TOPIC, partition_for(group_id, count))


class GroupCoordinator:
    """Coordinates the groups in the partitions of ``__consumer_offsets`` that this broker leads."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._event_processor = EventProcessor()
        self.shards: dict[int, GroupCoordinatorShard] = {}  #: Shards by partition of ``__consumer_offsets``.
        #: The exchanged positions by group object. A coordinator that loads a group makes a new object, and so begins
        #: without positions.
        self._positions: WeakKeyDictionary[ClassicGroup | ConsumerGroup, ExchangedPositions] = WeakKeyDictionary()

    def elected(self, index: int, leader_epoch: int, partition: PartitionReplica) -> None:
        """Load the groups and offsets of a partition that this broker now leads."""
        shard = self.shards.setdefault(index, GroupCoordinatorShard(self._node, index, self._event_processor))
        self._event_processor.run(lambda: shard.elected(leader_epoch, partition))

    def resigned(self, index: int) -> None:
        """Unload the groups and offsets of a partition that this broker no longer leads."""
        shard = self.shards.get(index)
        if shard is not None and shard.state is not ShardState.DOWN:
            self._event_processor.run(shard.resigned)

    def on_marker(self, index: int, producer_id: int, commit: bool) -> None:
        """Commit or discard a transaction's pending offsets: its marker is in the log of the partition ``index``."""
        shard = self.shards.get(index)
        if shard is not None:
            shard.apply(end_transaction(producer_id, commit))

    def on_topics_deleted(self, names: Iterable[str]) -> None:
        """Remove the offsets of deleted topics; offsets with the topic id of a new topic of the same name are kept."""
        known = self._node.image.topics
        topics = {name: known[name].topic_id if name in known else None for name in names}

        def remove_offsets() -> None:
            for shard in self.shards.values():
                if shard.state is ShardState.READY:
                    entries = retention.of_deleted_topics(shard.latest, topics)
                    if entries:
                        shard.append(entries)

        self._event_processor.run(remove_offsets)

    def join(self, call: JoinGroupCall) -> None:
        """Handle JoinGroup; while a classic group rebalances, the response waits until the join phase completes."""
        request = call.request
        config = self._node.config
        timeouts = range(config.group_min_session_timeout_ms, config.group_max_session_timeout_ms + 1)
        if not request.group_id:
            call.refuse(Code.INVALID_GROUP_ID, request.member_id)
        elif request.session_timeout_ms not in timeouts:
            call.refuse(Code.INVALID_SESSION_TIMEOUT, request.member_id)
        else:
            self._run(
                request.group_id,
                lambda shard, later: _join(shard, call._replace(reply=later)),
                lambda code: JoinGroupResponse(error_code=code),
                call.reply,
            )

    def sync(self, request: SyncGroupRequest, reply: Callable[[SyncGroupResponse], None]) -> None:
        """Handle SyncGroup; in a classic group the response waits until the leader's assignment is in the log."""
        self._run(
            request.group_id,
            lambda shard, later: _sync(shard, request, later),
            lambda code: SyncGroupResponse(error_code=code),
            reply,
            needs_id=True,
        )

    def heartbeat(self, request: HeartbeatRequest, reply: Callable[[int], None]) -> None:
        """Restart a member's session timeout; ``reply`` gets the error code."""
        self._run(
            request.group_id,
            lambda shard, _: _heartbeat(shard, request),
            # While the log is being loaded, a member cannot be checked. As in Kafka it gets no error: clients do not
            # expect COORDINATOR_LOAD_IN_PROGRESS in a Heartbeat response.
            lambda code: 0 if code == Code.COORDINATOR_LOAD_IN_PROGRESS else code,
            reply,
            needs_id=True,
        )

    def exchange_positions(
        self,
        request: ConsumerGroupPositionsRequest,
        positions: Sequence[tuple[Place, int]],
        wanted: Sequence[Place],
        reply: Callable[[ConsumerGroupPositionsResponse], None],
    ) -> None:
        """Handle ConsumerGroupPositions; the caller has left out missing and unreadable partitions."""

        def operate(shard: GroupCoordinatorShard) -> ConsumerGroupPositionsResponse:
            group = shard.latest.groups.get(request.group_id)
            code, epochs = _position_senders(group, request)
            if group is None or code:
                return ConsumerGroupPositionsResponse(error_code=code)
            found = self._positions.setdefault(group, ExchangedPositions())
            found.exchange(request.member_id, epochs, positions, wanted)
            return found.response(wanted)

        self._run(
            request.group_id,
            lambda shard, _: operate(shard),
            lambda code: ConsumerGroupPositionsResponse(error_code=code),
            reply,
            needs_id=True,
        )

    def consumer_heartbeat(
        self, call: HeartbeatCall, version: int, reply: Callable[[ConsumerGroupHeartbeatResponse], None]
    ) -> None:
        """Handle ConsumerGroupHeartbeat: a member of a consumer group joins, goes on or leaves."""
        try:
            check_heartbeat(call.request, version, tuple(self._node.config.server_assignors))
        except GroupRequestError as error:
            reply(consumer_heartbeat.error_response(error))
            return
        self._run(
            call.request.group_id,
            lambda shard, _: consumer_heartbeat.handle(shard, call),
            lambda code: ConsumerGroupHeartbeatResponse(error_code=code),
            reply,
        )

    def leave(
        self, group_id: str, leaving: Sequence[MemberIdentity], reply: Callable[[LeaveGroupResponse], None]
    ) -> None:
        self._run(
            group_id,
            lambda shard, _: _leave(shard, group_id, leaving),
            lambda code: LeaveGroupResponse(error_code=code),
            reply,
            needs_id=True,
        )

    def commit(
        self,
        request: OffsetCommitRequest | TxnOffsetCommitRequest,
        version: int,
        reply: Callable[[Iterator[int]], None],
    ) -> None:
        """Commit offsets; ``reply`` gets a code for each partition, in the request's order.

        The caller has set the topics' names and, in OffsetCommit, ids, and rejected partitions that do not exist. For
        TxnOffsetCommit, the caller has made sure that the transaction has the group's partition of
        ``__consumer_offsets``.
        """
        self._run(
            request.group_id,
            lambda shard, _: committing.commit(shard, request, version),
            repeat,
            reply,
            needs_id=isinstance(request, TxnOffsetCommitRequest),
        )

    def fetch_offsets(
        self,
        request: OffsetFetchRequestGroup,
        require_stable: bool,
        reply: Callable[[int, list[OffsetFetchResponseTopics]], None],
    ) -> None:
        """Pass an error code and the group's committed offsets to ``reply``. With ``require_stable``, partitions with
        pending transactional offsets get UNSTABLE_OFFSET_COMMIT.
        """
        if not require_stable:
            shard = self._shard(request.group_id)
            code = shard.unavailable_code()
            reply(*((code, []) if code else committing.fetch(shard.committed, request, require_stable=False)))
            return
        self._run(
            request.group_id,
            lambda shard, _: committing.fetch(shard.latest, request, require_stable=True),
            # Older clients do not expect COORDINATOR_NOT_AVAILABLE in OffsetFetch, but all handle NOT_COORDINATOR.
            lambda code: (int(Code.NOT_COORDINATOR) if code == Code.COORDINATOR_NOT_AVAILABLE else code, []),
            lambda answer: reply(*answer),
        )

    def delete_offsets(self, request: OffsetDeleteRequest, reply: Callable[[OffsetDeleteResponse], None]) -> None:
        self._run(
            request.group_id,
            lambda shard, _: committing.delete(shard, request),
            lambda code: OffsetDeleteResponse(error_code=code),
            reply,
            needs_id=True,
        )

    def describe(self, group_ids: Sequence[str], version: int) -> list[DescribedGroup]:
        """Describe groups; a group is found once its first record is committed."""
        return [self._describe(group_id, version) for group_id in group_ids]

    def _describe(self, group_id: str, version: int) -> DescribedGroup:
        shard = self._shard(group_id)
        code = shard.unavailable_code()
        if code:
            return DescribedGroup(group_id=group_id, error_code=code)
        group = shard.committed.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return _described(group)
        dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= 6:
            dead.error_code = int(Code.GROUP_ID_NOT_FOUND)
            is_missing = group is None
            dead.error_message = f"Group {group_id} not found." if is_missing else WRONG_TYPE.format(group_id, CLASSIC)
        return dead

    def describe_consumer_groups(self, group_ids: Sequence[str]) -> list[DescribedConsumerGroup]:
        """Describe consumer groups, as they are after the last committed record."""
        return [self._describe_consumer_group(group_id) for group_id in group_ids]

    def _describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        if not group_id:
            return DescribedConsumerGroup(group_id="", error_code=int(Code.INVALID_GROUP_ID))
        shard = self._shard(group_id)
        code = shard.unavailable_code()
        if code:
            return DescribedConsumerGroup(group_id=group_id, error_code=code)
        group = shard.committed.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return described(group, self._node.image, next(iter(self._node.config.server_assignors)))
        text = f"Group {group_id} not found." if group is None else WRONG_TYPE.format(group_id, CONSUMER)
        return DescribedConsumerGroup(group_id=group_id, error_code=int(Code.GROUP_ID_NOT_FOUND), error_message=text)

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> tuple[int, list[ListedGroup]]:
        """Return the groups that this broker coordinates, or an error code; an empty filter matches all groups."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.strip().lower() for kind in types}
        listed: list[ListedGroup] = []
        for shard in self.shards.values():
            code = shard.unavailable_code()
            if code == Code.NOT_COORDINATOR:
                continue
            if code:
                return code, []
            listed += [
                group
                for group in map(_listed, shard.committed.groups.values())
                if (not types or group.group_type in wanted_types)
                and (not states or group.group_state.lower() in wanted_states)
            ]
        return 0, listed

    def delete(self, group_ids: Sequence[str], reply: Callable[[list[DeletableGroupResult]], None]) -> None:
        """Delete the groups that are empty, with their offsets; ``reply`` gets an error code for each group."""
        by_shard: dict[int, list[str]] = {}
        for group_id in dict.fromkeys(group_ids):
            by_shard.setdefault(partition_of_group(self._node, group_id).partition, []).append(group_id)
        names = [name for found in by_shard.values() for name in found]
        codes: dict[str, int] = {}

        def finish(found: dict[str, int]) -> None:
            codes.update(found)
            if len(codes) == len(names):
                reply([DeletableGroupResult(group_id=name, error_code=codes[name]) for name in names])

        def delete_in_shard(found: list[str]) -> None:
            self._run(found[0], lambda shard, _: _delete(shard, found), lambda code: dict.fromkeys(found, code), finish)

        if not names:
            reply([])
        for found in by_shard.values():
            delete_in_shard(found)

    def _shard(self, group_id: str) -> GroupCoordinatorShard:
        index = partition_of_group(self._node, group_id).partition
        return self.shards.get(index) or GroupCoordinatorShard(self._node, index, self._event_processor)

    def _run(
        self,
        group_id: str,
        operation: Callable[[GroupCoordinatorShard, Callable[[T], None]], T | None],
        refuse: Callable[[int], T],
        reply: Callable[[T], None],
        *,
        needs_id: bool = False,
    ) -> None:
        """Run an operation on the group's shard, and reply with its result once its appends are committed.

        If the shard is not available or an append fails, the reply is ``refuse(code)``. An operation that cannot reply
        yet (a parked request) returns None, and later passes its result to the callback in its second argument. If an
        append has timed out before that, the client has already got the error, and the result is discarded. The event
        processor sends replies after the operation that it is running.
        """
        replies = [reply]
        results: list[T | None] = []

        def later(answer: T) -> None:
            if replies:
                first = replies.pop()
                self._event_processor.defer(lambda: first(answer))

        def done(code: int) -> None:
            answer = refuse(append_error(code)) if code else results[0]
            if answer is not None:
                later(answer)

        def operate() -> None:
            if needs_id and not group_id:
                done(int(Code.INVALID_GROUP_ID))
                return
            shard = self._shard(group_id)
            shard.run(lambda: results.append(operation(shard, later)), done)

        self._event_processor.run(operate)


def _listed(group: ClassicGroup | ConsumerGroup) -> ListedGroup:
    is_consumer = isinstance(group, ConsumerGroup)
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=CONSUMER_PROTOCOL if isinstance(group, ConsumerGroup) else group.protocol_type or "",
        group_state=group.state.value,
        group_type=CONSUMER if is_consumer else CLASSIC,
    )


def _join(shard: GroupCoordinatorShard, call: JoinGroupCall) -> JoinGroupResponse | None:
    """Let a member of the classic protocol join; return None if ``call`` gets the response, possibly later."""
    request = call.request
    group = shard.latest.groups.get(request.group_id)
    if isinstance(group, ClassicGroup):
        joining.join(group, call)
    elif group is not None and group.members:
        return classic_members.join(shard, group, call)
    elif request.member_id != UNKNOWN_MEMBER_ID:
        call.refuse(Code.UNKNOWN_MEMBER_ID, request.member_id)
    elif group is not None and not shard.append(consumer_records.removal_of_group(group)):
        return None  # the client gets the log's error
    else:
        group = shard.create_group(request.group_id)
        joining.join(group, call)
        shard.write_new_group(group)
    return None


def _sync(
    shard: GroupCoordinatorShard, request: SyncGroupRequest, reply: Callable[[SyncGroupResponse], None]
) -> SyncGroupResponse | None:
    consumer_group = shard.latest.consumer_group(request.group_id)
    if consumer_group is not None:
        return classic_members.sync(shard, consumer_group, request)
    membership.sync(shard.latest.classic_group(request.group_id), request, reply)
    return None


def _heartbeat(shard: GroupCoordinatorShard, request: HeartbeatRequest) -> int:
    consumer_group = shard.latest.consumer_group(request.group_id)
    if consumer_group is not None:
        return classic_members.heartbeat(shard, consumer_group, request)
    return membership.heartbeat(shard.latest.classic_group(request.group_id), request)


def _leave(shard: GroupCoordinatorShard, group_id: str, leaving: Sequence[MemberIdentity]) -> LeaveGroupResponse:
    consumer_group = shard.latest.consumer_group(group_id)
    if consumer_group is not None:
        return classic_members.leave(shard, consumer_group, leaving)
    return membership.leave(shard.latest.classic_group(group_id), leaving)


def _position_senders(
    group: ClassicGroup | ConsumerGroup | None, request: ConsumerGroupPositionsRequest
) -> tuple[int, dict[str, int]]:
    """Return the error code that rejects a member's positions, else 0; and the epoch or generation of each member."""
    if not isinstance(group, ConsumerGroup):
        code = membership.check_position_sender(group, request)
        return code, {} if group is None else dict.fromkeys(group.members, group.generation)
    try:
        group.check_fetch(request.member_id, request.generation_id_or_member_epoch)
    except GroupRequestError as error:
        return error.code, {}
    return 0, {member_id: member.member_epoch for member_id, member in group.members.items()}


def _described(group: ClassicGroup) -> DescribedGroup:
    name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=name or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(name) if name is not None else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def _delete(shard: GroupCoordinatorShard, group_ids: Iterable[str]) -> dict[str, int]:
    """Delete those of the groups that are empty, with their offsets; return an error code for each group."""
    codes = {group_id: _check_delete(shard, group_id) for group_id in group_ids}
    entries: list[CoordinatorRecord] = []
    for group_id, code in codes.items():
        if not code:
            entries += [offset_tombstone(group_id, *place) for place in shard.latest.offsets.places(group_id)]
            entries += retention.removal_if_empty(shard.latest.groups[group_id])
    if entries:
        shard.append(entries)
    return codes


def _check_delete(shard: GroupCoordinatorShard, group_id: str) -> int:
    group = shard.latest.groups.get(group_id)
    if group is None:
        return int(Code.GROUP_ID_NOT_FOUND)
    return 0 if group.state in (GroupState.EMPTY, ConsumerGroupState.EMPTY) else int(Code.NON_EMPTY_GROUP)
