"""A node's metadata image: immutable rows, replaced one by one as metadata deltas arrive from the controller.

Every node has a :class:`ClusterImage` of its own, and each delta reaches each node at its own time. As in real
clusters, brokers can therefore give contradictory responses for a while, which clients must tolerate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from thinconsumer.types import TopicPartition

from .acl.bindings import AclBinding
from .acl.index import AclIndex
from .login.scram_credentials import ScramCredentials
from .ordered.topic import OrderedTopicCounts


class BrokerImage(NamedTuple):
    """A broker that is registered with the controller and not fenced."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionImage(NamedTuple):
    """The replicas, ISR and leader of a partition; ``leader`` is -1 without a leader. ``partition_epoch`` counts the
    changes of these data: the controller rejects an ISR change that is based on older ones (KIP-497).

    The fields after ``partition_epoch`` are for topics with ordered delivery, with KIP-253's names. Element p of
    ``leader_epochs_after_creation`` is the last leader epoch that partition p had before the creation of this
    partition; element p of ``leader_epochs_before_deletion`` is the last one that partition p had before this partition
    was marked for deletion.
    """

    topic: str
    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    #: The topic's number of partitions without those marked for deletion; -1 without ordered delivery. This count is
    #: repeated in each partition because a leader must apply it together with its leader epoch.
    undeleted_partition_count: int = -1
    #: Whether the leader rejects records of producers that choose partitions by a count: while the count is being
    #: decreased, and once the partition is marked for deletion.
    is_closed: bool = False
    leader_epochs_after_creation: tuple[int, ...] = ()
    leader_epochs_before_deletion: tuple[int, ...] = ()
    #: The offset at which the log begins: the end offset of a removed partition with the same number, or 0.
    first_offset: int = 0

    @property
    def tp(self) -> TopicPartition:
        """The topic name and partition number."""
        return TopicPartition(self.topic, self.partition)


class TopicImage(NamedTuple):
    """One topic; ``partitions[n]`` is partition n. ``configs`` have Kafka's dotted names."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str]
    internal: bool = False
    ordered: OrderedTopicCounts | None = None  #: The partition counts if the topic has ordered delivery.


@dataclass(slots=True)
class ClusterImage:
    """The cluster metadata of one node or of the controller."""

    cluster_id: str
    brokers: dict[int, BrokerImage] = field(default_factory=dict)
    topics: dict[str, TopicImage] = field(default_factory=dict)
    names_by_id: dict[bytes, str] = field(default_factory=dict)
    scram_credentials: ScramCredentials = field(default_factory=dict)
    acls: AclIndex = field(default_factory=AclIndex)
    version: int = field(default=0, compare=False)  #: The number of changes of topics.
    created_version: int = field(default=0, compare=False)  #: The version in which a topic was last created.

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """Return the metadata of one partition, or None if this image has no such partition."""
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def put_topic(self, topic: TopicImage) -> None:
        """Add a topic, or replace the metadata of the topic with this name."""
        old = self.topics.get(topic.name)
        if old is not None and old.topic_id != topic.topic_id:
            self.names_by_id.pop(old.topic_id, None)
        self.version += 1
        if old is None or old.topic_id != topic.topic_id:
            self.created_version = self.version
        self.topics[topic.name] = topic
        self.names_by_id[topic.topic_id] = topic.name

    def remove_topic(self, name: str) -> None:
        """Remove a topic, if the image has it."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.names_by_id.pop(topic.topic_id, None)
            self.version += 1


@dataclass(frozen=True, slots=True)
class StoredCluster:
    """The stored metadata of a cluster, empty for a new directory."""

    cluster_id: str = ""
    next_producer_id: int = 0  #: Producer ids from this one on were never assigned.
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    scram_credentials: ScramCredentials = field(default_factory=dict)
    acls: tuple[AclBinding, ...] = ()
