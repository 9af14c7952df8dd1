"""The values users hold: partitions, offsets, records, and the read-only picture of the cluster.

Owns no behaviour and imports nothing that does. Attribute names are kafka-python's where it has the thing.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Node", "OffsetAndMetadata", "OffsetAndTimestamp", "PartitionInfo", "TopicPartition"]


class TopicPartition(NamedTuple):
    """A topic's name and a partition's number."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """An offset to commit, or one that was: the *next* offset to read, a note, and the leader epoch of the record
    before it (-1 when unknown; KIP-320)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """What ``offsets_for_times`` found: the first record at or after the time asked for.

    ``timestamp`` is that record's, in milliseconds since the epoch.
    """

    offset: int
    timestamp: int
    leader_epoch: int = -1


class Node(NamedTuple):
    """One broker as the cluster's metadata names it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """One partition as the cluster's metadata shows it; node ids, ``leader`` -1 while there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
