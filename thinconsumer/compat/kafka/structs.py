"""The values of kafka-python's consumer, under the names of its module ``kafka.structs``.

They are of kafka-python's own classes where it is installed, and named tuples with the same fields elsewhere. Some of
version 2's classes have fewer fields: no leader epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import types
from ..peer_types import KAFKA_PYTHON

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "MemberState",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]


class _MemberState:
    """Whether a member has its assignment, in :class:`ConsumerGroupMetadata`."""

    UNJOINED = "<unjoined>"  #: The member is in no group, or has not begun to join it.
    REBALANCING = "<rebalancing>"
    STABLE = "<stable>"  #: The member has its assignment.


class _ConsumerGroupMetadata(NamedTuple):
    """The member's identity in its group, for ``send_offsets_to_transaction`` of kafka-python's producer (KIP-447)."""

    group_id: str | None = None
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    state: str = _MemberState.UNJOINED


class _ConsumerRecord(NamedTuple):
    """A record read from a partition. ``headers`` is a list of pairs of name and value."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


if TYPE_CHECKING:
    from ...types import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

    ConsumerGroupMetadata = _ConsumerGroupMetadata
    ConsumerRecord = _ConsumerRecord
    MemberState = _MemberState
else:
    _find = KAFKA_PYTHON.find
    ConsumerGroupMetadata = _find("structs.ConsumerGroupMetadata", _ConsumerGroupMetadata)
    ConsumerRecord = _find("consumer.fetcher.ConsumerRecord", _ConsumerRecord)
    MemberState = _find("structs.MemberState", _MemberState)
    OffsetAndMetadata = _find("structs.OffsetAndMetadata", types.OffsetAndMetadata)
    OffsetAndTimestamp = _find("structs.OffsetAndTimestamp", types.OffsetAndTimestamp)
    TopicPartition = _find("structs.TopicPartition", types.TopicPartition)


def _made_from(own: Any, peer: Any) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function from an item of ``own`` to one of ``peer``, which may lack fields of it."""
    if peer._fields == own._fields:
        return peer._make  # type: ignore[no-any-return]
    chosen = itemgetter(*map(own._fields.index, peer._fields))
    return lambda items: peer._make(chosen(items))


_record_from = _made_from(_ConsumerRecord, ConsumerRecord)
offset_of: Callable[[tuple[Any, ...]], Any] = _made_from(types.OffsetAndMetadata, OffsetAndMetadata)
time_of: Callable[[tuple[Any, ...]], Any] = _made_from(types.OffsetAndTimestamp, OffsetAndTimestamp)


def partition_of(tp: types.TopicPartition) -> TopicPartition:
    """Return a partition of this package as kafka-python's class."""
    return TopicPartition(tp.topic, tp.partition)


def record_of(record: types.ConsumerRecord[Any, Any]) -> ConsumerRecord:
    """Return a record of this package as kafka-python's class."""
    items = record[:]
    return _record_from((*items[:8], list(items[8]), *items[9:]))  # type: ignore[no-any-return]
