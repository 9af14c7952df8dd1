"""Metadata (key 3): the cluster's brokers, topics, partitions and leaders.

In version 0 an empty list of topics requests all topics; from version 1 on None does, and an empty list requests none.
Version 4 lets the client forbid automatic topic creation, version 5 adds offline replicas, version 7 leader epochs
(KIP-320), version 10 topic ids, which requests may use from version 12 on (KIP-516). Versions 8 to 10 can also report
the client's authorized operations on the cluster; later versions leave that to DescribeCluster (KIP-700). Version 13
adds an error code for the whole response (KIP-1102: REBOOTSTRAP_REQUIRED). The tagged fields are the project's own
(:mod:`.extensions`).
"""

from .message import Message
from .schema import Struct, array, boolean, int16, int32, string, uuid


class MetadataResponseBroker(Struct):
    """A live broker, with its address on the listener that received the request."""

    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32, "0+")
    isr_nodes: list[int] = array(int32, "0+")
    offline_replicas: list[int] = array(int32, "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """A topic and its partitions, or an error. ``name`` is None if the request named an unknown topic id.

    The last three fields are -1 unless the topic is a counted one, see :mod:`.extensions`.
    """

    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="12+")
    topic_id: bytes = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition, "0+")
    topic_authorized_operations: int = int32("8+", default=-(2**31))
    initial_partition_count: int = int32("9+", default=-1, tag=25_300, ignorable=True)
    undeleted_partition_count: int = int32("9+", default=-1, tag=25_301, ignorable=True)
    partition_count_epoch: int = int32("9+", default=-1, tag=25_302, ignorable=True)


class MetadataResponse(Message, key=3, versions=(0, 13), flexible=9):
    """The cluster according to one broker, which may lag behind other brokers."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker, "0+")
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int = int32("8-10", default=-(2**31))
    error_code: int = int16("13+", ignorable=True)


class MetadataRequestTopic(Struct):
    """A requested topic, by name or, from version 12 on, by id with ``name=None``."""

    topic_id: bytes = uuid("10+", ignorable=True)
    name: str | None = string("0+", nullable="10+")


class MetadataRequest(Message, response=MetadataResponse):
    """Request some topics, all topics (None), or brokers only (an empty list, from version 1 on)."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")
