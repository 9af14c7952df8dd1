"""Loading of a coordinator shard: replay of the records in its log.

Classic groups are loaded in the state of their last written generation, without pending member ids and parked requests.
A member with a later member id or generation gets UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION, and joins again. Follows
Kafka's ``CoordinatorLoaderImpl`` and ``GroupMetadataManager.replay``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from thinconsumer.errors import IllegalStateError, KafkaError
from thinconsumer.records.batch import ControlType, RecordBatch

from . import records
from .consumer import records as consumer_records
from .group import ClassicGroup
from .log_format import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)
from .member import ClassicGroupMember
from .offsets import NO_PRODUCER_ID
from .records import Replay
from .states import GroupState

if TYPE_CHECKING:
    from .shard import GroupCoordinatorShard

log = logging.getLogger(__name__)


def changes(batches: Iterable[RecordBatch], shard: GroupCoordinatorShard) -> Iterator[tuple[Replay, int]]:
    """Yield a change of the coordinator's state, and its offset, for each record and each transaction marker.

    Records of unknown types are skipped. Invalid records are logged and skipped; otherwise one of them would make all
    groups of the partition unavailable.
    """
    for batch in batches:
        try:
            if batch.is_control:
                marker = batch.control_type(check_crcs=False)
                if marker in (ControlType.COMMIT, ControlType.ABORT):
                    yield records.end_transaction(batch.producer_id, marker is ControlType.COMMIT), batch.base_offset
                continue
            rows = batch.decode("", -1, check_crcs=False)
        except KafkaError as error:
            log.warning("%r: skipping invalid batch %r: %s", shard, batch, error)
            continue
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
        for row in rows:
            try:
                change = _change(row.key, row.value, producer_id, shard)
            except (KafkaError, IllegalStateError) as error:
                log.warning("%r: skipping invalid record at offset %d: %s", shard, row.offset, error)
                continue
            if change is not None:
                yield change, row.offset


def _change(key: bytes | None, value: bytes | None, producer_id: int, shard: GroupCoordinatorShard) -> Replay | None:
    about = decode_key(key)
    if isinstance(about, OffsetCommitKey):
        if value is None:
            return records.remove_offset(about.group, about.topic, about.partition)
        group = shard.latest.groups.get(about.group) or shard.new_group(about.group)
        return records.put_offset(
            group, about.topic, about.partition, decode_value(OffsetCommitValue, value), producer_id
        )
    if isinstance(about, GroupMetadataKey):
        if value is None:
            return records.remove_group(about.group)
        return records.put_group(load_group(about.group, decode_value(GroupMetadataValue, value), shard))
    return None if about is None else consumer_records.replayed(about, value)


def load_group(group_id: str, value: GroupMetadataValue, shard: GroupCoordinatorShard) -> ClassicGroup:
    """Return a group as its record describes it. Raises: IllegalStateError: Two members have the same instance id."""
    group = ClassicGroup(
        group_id,
        shard,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader_id=value.leader,
        state_timestamp_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
    )
    for row in value.members:
        group.add(
            ClassicGroupMember(
                row.member_id,
                row.group_instance_id,
                row.client_id,
                row.client_host,
                row.session_timeout if row.rebalance_timeout == -1 else row.rebalance_timeout,
                row.session_timeout,
                value.protocol_type,
                ((value.protocol or "", bytes(row.subscription)),),
                bytes(row.assignment),
            )
        )
    group.compute_subscribed_topics()
    return group
