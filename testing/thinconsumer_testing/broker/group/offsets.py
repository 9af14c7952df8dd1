"""Committed offsets by group, and pending offsets of ongoing transactions.

Records are applied in log order. The offsets of a transaction are pending until its marker is applied, which commits or
discards them; until then their partitions are *unstable* (KIP-447). Follows Kafka's ``OffsetMetadataManager``
(``replay``, ``replayEndTransactionMarker``) and ``OffsetAndMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .log_format import OffsetCommitValue

NO_PRODUCER_ID = -1


class CommittedOffset(NamedTuple):
    """A committed or pending offset, and the log offset of its record: the latest record of a partition counts."""

    value: OffsetCommitValue
    record_offset: int


#: A partition as (topic, partition number).
Place = tuple[str, int]


class OffsetStore:
    """Committed and pending offsets of the groups of one shard."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[Place, CommittedOffset]] = {}
        self._pending: dict[int, dict[tuple[str, Place], CommittedOffset]] = {}  #: Pending offsets by producer id.
        #: For each group and partition, the producer ids of ongoing transactions with an offset of the partition.
        self._unstable: dict[str, dict[Place, set[int]]] = {}

    def put(
        self, group: str, topic: str, partition: int, offset: CommittedOffset, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Commit an offset; with a producer id the offset stays pending until the producer's transaction ends."""
        place = topic, partition
        if producer_id == NO_PRODUCER_ID:
            self._offsets.setdefault(group, {})[place] = offset
            return
        self._pending.setdefault(producer_id, {})[group, place] = offset
        self._unstable.setdefault(group, {}).setdefault(place, set()).add(producer_id)

    def remove(self, group: str, topic: str, partition: int) -> None:
        """Remove a group's committed offset of a partition, and the group's pending offsets of this partition."""
        place = topic, partition
        self._drop(self._offsets, group, place)
        for producer_id in self._unstable.get(group, {}).get(place, ()):
            self._pending.get(producer_id, {}).pop((group, place), None)
        self._drop(self._unstable, group, place)

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """Commit or discard the pending offsets of the producer's transaction."""
        for (group, place), offset in self._pending.pop(producer_id, {}).items():
            producers = self._unstable.get(group, {}).get(place, set())
            producers.discard(producer_id)
            if not producers:
                self._drop(self._unstable, group, place)
            existing = self._offsets.get(group, {}).get(place)
            # A commit outside the transaction takes precedence if its record is later than that of the pending offset.
            if commit and (existing is None or offset.record_offset > existing.record_offset):
                self._offsets.setdefault(group, {})[place] = offset

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._offsets.get(group, {}).get((topic, partition))

    def of_group(self, group: str) -> dict[Place, CommittedOffset]:
        """Return all committed offsets of a group, by partition; the caller must not change the result."""
        return self._offsets.get(group, {})

    def is_unstable(self, group: str, topic: str, partition: int) -> bool:
        """Return whether an ongoing transaction has a pending offset of the partition."""
        return (topic, partition) in self._unstable.get(group, {})

    def has_open_transactions(self, group: str) -> bool:
        return group in self._unstable

    def places(self, group: str) -> list[Place]:
        return list(dict.fromkeys([*self._offsets.get(group, {}), *self._unstable.get(group, {})]))

    def everything(self) -> Iterator[tuple[str, Place, CommittedOffset]]:
        for group, offsets in self._offsets.items():
            for place, offset in offsets.items():
                yield group, place, offset
        for pending in self._pending.values():
            for (group, place), offset in pending.items():
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
