"""The part of the broker's metadata that a consumer group reads: topic ids, partition counts, and a hash of both.

The hash is kept in the log with the group's epoch: a new coordinator sees whether a topic has changed since. Follows
``ModernGroup.computeMetadataHash`` (KIP-1101), but the hash function is another one, and racks are left out, because
no assignor uses them.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from ...image import ClusterImage


def metadata_hash(topics: Iterable[str], image: ClusterImage) -> int:
    """Return a signed number of 64 bits; 0 if none of the topics exists."""
    found = [image.topics[name] for name in sorted(topics) if name in image.topics]
    if not found:
        return 0
    state = blake2b(digest_size=8)
    for topic in found:
        state.update(f"{topic.name}/{topic.topic_id.hex()}/{len(topic.partitions)}\n".encode())
    return int.from_bytes(state.digest(), "big", signed=True)


def topic_ids(names: Iterable[str], image: ClusterImage) -> frozenset[bytes]:
    """Return the ids of those topics that exist."""
    return frozenset(image.topics[name].topic_id for name in names if name in image.topics)


def partition_counts(ids: Iterable[bytes], image: ClusterImage) -> dict[bytes, int]:
    """Return the number of partitions of each topic."""
    return {topic_id: len(image.topics[image.names_by_id[topic_id]].partitions) for topic_id in sorted(ids)}
