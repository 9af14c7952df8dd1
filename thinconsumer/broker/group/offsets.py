"""Committed offsets of many groups, and those that wait for the end of a transaction.

A plain store: records go in, in the order of the log, offsets come out. A transaction's offsets count from its commit
marker on; until then they make a partition *unstable*. Follows Kafka's ``OffsetMetadataManager`` (``replay``,
``replayEndTransactionMarker``) and ``OffsetAndMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...wire.schema import ZERO_UUID
from .log_format import OffsetCommitValue

NO_PRODUCER_ID = -1


class CommittedOffset(NamedTuple):
    """How far a group has read in one partition. Times are milliseconds since the epoch, -1 where there is none."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: bytes = ZERO_UUID
    record_offset: int = -1  #: Where it stands in the log: of two for the same partition the later counts.

    @classmethod
    def from_value(cls, value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
        """Return what a record says."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )

    def to_value(self) -> OffsetCommitValue:
        """Return the record that says this."""
        return OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp=self.commit_timestamp_ms,
            expire_timestamp=self.expire_timestamp_ms,
            topic_id=self.topic_id,
        )


#: Topic and partition.
Place = tuple[str, int]


class OffsetStore:
    """See the module."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[Place, CommittedOffset]] = {}
        self._pending: dict[int, dict[tuple[str, Place], CommittedOffset]] = {}  #: By producer id.
        self._unstable: dict[str, dict[Place, set[int]]] = {}  #: Producer ids with pending offsets.

    # -- what the log says

    def put(
        self, group: str, topic: str, partition: int, offset: CommittedOffset, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Take an offset, as part of a transaction if a producer id is given."""
        place = topic, partition
        if producer_id == NO_PRODUCER_ID:
            self._offsets.setdefault(group, {})[place] = offset
            return
        self._pending.setdefault(producer_id, {})[group, place] = offset
        self._unstable.setdefault(group, {}).setdefault(place, set()).add(producer_id)

    def remove(self, group: str, topic: str, partition: int) -> None:
        """Forget an offset, and what open transactions have for the partition."""
        place = topic, partition
        self._drop(self._offsets, group, place)
        for producer_id in self._unstable.get(group, {}).get(place, ()):
            self._pending.get(producer_id, {}).pop((group, place), None)
        self._drop(self._unstable, group, place)

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """Take what a transaction has brought, or forget it."""
        for (group, place), offset in self._pending.pop(producer_id, {}).items():
            producers = self._unstable.get(group, {}).get(place, set())
            producers.discard(producer_id)
            if not producers:
                self._drop(self._unstable, group, place)
            existing = self._offsets.get(group, {}).get(place)
            # Somebody may have committed beside the transaction, later than it.
            if commit and (existing is None or offset.record_offset > existing.record_offset):
                self._offsets.setdefault(group, {})[place] = offset

    # -- questions

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return one offset."""
        return self._offsets.get(group, {}).get((topic, partition))

    def of_group(self, group: str) -> dict[Place, CommittedOffset]:
        """Return all offsets of a group; not to be changed."""
        return self._offsets.get(group, {})

    def groups(self) -> list[str]:
        """Return the groups that have any."""
        return list(self._offsets)

    def is_unstable(self, group: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction may change a partition's offset."""
        return (topic, partition) in self._unstable.get(group, {})

    def has_open_transactions(self, group: str) -> bool:
        """Return whether any transaction has offsets for the group."""
        return group in self._unstable

    def places(self, group: str) -> list[Place]:
        """Return the partitions that a group has offsets for, pending ones too."""
        return list(dict.fromkeys([*self._offsets.get(group, {}), *self._unstable.get(group, {})]))

    def pending(self) -> Iterator[tuple[str, Place, CommittedOffset]]:
        """Yield what open transactions have."""
        for offsets in self._pending.values():
            for (group, place), offset in offsets.items():
                yield group, place, offset

    @staticmethod
    def _drop(
        table: dict[str, dict[Place, CommittedOffset]] | dict[str, dict[Place, set[int]]], group: str, place: Place
    ) -> None:
        places = table.get(group)
        if places is not None:
            places.pop(place, None)
            if not places:
                del table[group]
