"""The part of the broker's metadata that a consumer group reads: topic ids, partition counts, and a hash of both.

The hash is kept in the log with the group's epoch: a new coordinator sees whether a topic has changed since. Follows
``ModernGroup.computeMetadataHash`` (KIP-1101) with another hash function. In place of racks, replicas are hashed, and
only for assignors of the user: the built-in ones, here as in Kafka, use no racks.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from ...image import ClusterImage, TopicImage


def metadata_hash(topics: Iterable[str], image: ClusterImage, *, has_replicas: bool = False) -> int:
    """Return the hash as a signed number of 64 bits; 0 if none of the topics exists.

    With ``has_replicas`` the hash also changes when replicas are moved to other brokers, which may be in other racks.
    """
    found = [image.topics[name] for name in sorted(topics) if name in image.topics]
    if not found:
        return 0
    state = blake2b(digest_size=8)
    for topic in found:
        marked = len(topic.partitions) - _undeleted(topic)
        lists = f"{len(topic.partitions)}" if not marked else f"{len(topic.partitions)}-{marked}"
        replicas = [sorted(row.replicas) for row in topic.partitions] if has_replicas else ""
        state.update(f"{topic.name}/{topic.topic_id.hex()}/{lists}{replicas}\n".encode())
    return int.from_bytes(state.digest(), "big", signed=True)


def topic_ids(names: Iterable[str], image: ClusterImage) -> frozenset[bytes]:
    """Return the ids of those topics that exist."""
    return frozenset(image.topics[name].topic_id for name in names if name in image.topics)


class CountsByTopic(NamedTuple):
    """The number of partitions of each topic, by topic id."""

    #: The number of partitions that are not marked for deletion (KIP-253): those with the lowest numbers.
    undeleted: dict[bytes, int]
    marked: dict[bytes, int]  #: The number of partitions that are marked for deletion.


def partition_counts(ids: Iterable[bytes], image: ClusterImage) -> CountsByTopic:
    topics = {topic_id: image.topics[image.names_by_id[topic_id]] for topic_id in sorted(ids)}
    undeleted = {topic_id: _undeleted(topic) for topic_id, topic in topics.items()}
    return CountsByTopic(undeleted, {one: len(topic.partitions) - undeleted[one] for one, topic in topics.items()})


def _undeleted(topic: TopicImage) -> int:
    ordered = topic.ordered
    return len(topic.partitions) if ordered is None else ordered.undeleted_partition_count
