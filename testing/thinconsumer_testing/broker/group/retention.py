"""Expired offsets, and offsets of deleted topics.

In an empty classic group with a protocol type, the retention time of an offset begins when the group has become empty
(KIP-211). The retention time begins with the commit in a classic group without a protocol type, in a stable classic
group with the protocol type "consumer" whose subscriptions are known, and in a consumer group of KIP-848. In all other
classic groups no offset expires. While a group subscribes to a topic, its offsets of this topic do not expire. An old
client may have committed an offset with a retention time of its own.

Follows ``OffsetMetadataManager.cleanupExpiredOffsets`` and ``onTopicsDeleted``,
``ClassicGroup.offsetExpirationCondition`` and ``GroupCoordinatorShard.cleanupGroupMetadata``.
"""

from collections.abc import Mapping

from .consumer import records as consumer_records
from .consumer.group import ConsumerGroup
from .group import ClassicGroup
from .log_format import OffsetCommitValue
from .offsets import Place
from .records import CoordinatorRecord, ReplayedState, group_tombstone, offset_tombstone
from .states import GroupState


def expired(state: ReplayedState, now_ms: int, retention_ms: int) -> list[CoordinatorRecord]:
    """Return the tombstones of all expired offsets, and of empty groups without any offset left."""
    entries: list[CoordinatorRecord] = []
    for group in state.groups.values():
        offsets = state.offsets.of_group(group.group_id)
        old = [
            place
            for place, offset in offsets.items()
            if _is_expired(group, place, offset.value, now_ms, retention_ms)
            and not state.offsets.is_unstable(group.group_id, *place)
        ]
        entries += [offset_tombstone(group.group_id, *place) for place in old]
        nothing_left = len(old) == len(offsets) and not state.offsets.has_open_transactions(group.group_id)
        if nothing_left:
            entries += removal_if_empty(group)
    return entries


def removal_if_empty(group: ClassicGroup | ConsumerGroup) -> list[CoordinatorRecord]:
    """Return the tombstones of a group, none if it has members."""
    if isinstance(group, ConsumerGroup):
        return [] if group.members else consumer_records.removal_of_group(group)
    return [group_tombstone(group.group_id)] if group.state is GroupState.EMPTY else []


def _is_expired(
    group: ClassicGroup | ConsumerGroup, place: Place, offset: OffsetCommitValue, now_ms: int, retention_ms: int
) -> bool:
    since = offset.commit_timestamp
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            since = since if group.state_timestamp_ms is None else group.state_timestamp_ms
        elif not (group.is_consumer_group and group.subscribed_topics is not None and group.state is GroupState.STABLE):
            return False
    if group.is_subscribed_to(place[0]):
        return False
    if offset.expire_timestamp != -1:
        return now_ms >= offset.expire_timestamp
    return now_ms - since >= retention_ms


def of_deleted_topics(state: ReplayedState, topics: Mapping[str, bytes | None]) -> list[CoordinatorRecord]:
    """Return the tombstones of the committed offsets of deleted topics.

    ``topics`` maps the name of each deleted topic to the id of a new topic of this name, or to None. Offsets that were
    committed with the id of the new topic are kept.
    """
    outdated = dict.fromkeys(
        (group, place)
        for group, place, offset in state.offsets.everything()
        if place[0] in topics and offset.value.topic_id != topics[place[0]]
    )
    return [offset_tombstone(group, *place) for group, place in outdated]
