"""What a node knows of the cluster: immutable rows, replaced one by one as news from the controller arrives.

Every node has an :class:`Image` of its own, and news reaches each at its own time: that is how real clusters come to
give contradicting answers, which clients have to bear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..types import TopicPartition


class BrokerImage(NamedTuple):
    """A broker that is alive as far as the controller knows."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionImage(NamedTuple):
    """Who has a partition and who leads it; ``leader`` is -1 while nobody can.

    ``partition_epoch`` counts the controller's changes, so that nobody decides on, or goes back to, an older picture.
    """

    topic: str
    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0

    @property
    def tp(self) -> TopicPartition:
        """Its name and number."""
        return TopicPartition(self.topic, self.partition)


class TopicImage(NamedTuple):
    """One topic; ``partitions`` are in order, from 0 on without holes. ``configs`` are Kafka's dotted names."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str]
    internal: bool = False


@dataclass(slots=True)
class ClusterImage:
    """The cluster as one node knows it. Only news from the controller changes it."""

    cluster_id: str
    brokers: dict[int, BrokerImage] = field(default_factory=dict)
    topics: dict[str, TopicImage] = field(default_factory=dict)
    names_by_id: dict[bytes, str] = field(default_factory=dict)

    def topic(self, name: str | None, topic_id: bytes = bytes(16)) -> TopicImage | None:
        """Return a topic by its id, if that is not zero, else by its name."""
        if any(topic_id):
            name = self.names_by_id.get(topic_id)
        return self.topics.get(name) if name is not None else None

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """Return one partition."""
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def put_topic(self, topic: TopicImage) -> None:
        """Learn of a topic, or of what changed in it."""
        old = self.topics.get(topic.name)
        if old is not None and old.topic_id != topic.topic_id:
            self.names_by_id.pop(old.topic_id, None)
        self.topics[topic.name] = topic
        self.names_by_id[topic.topic_id] = topic.name

    def remove_topic(self, name: str) -> None:
        """Learn that a topic is no more."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.names_by_id.pop(topic.topic_id, None)
