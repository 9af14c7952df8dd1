"""CreateTopics (key 19): create topics. The request goes to the controller or, in KRaft clusters, to any broker.

Version 1 adds ``validate_only``. Version 4 accepts -1 for the number of partitions and the replication factor, which
then take the broker's defaults (KIP-464). Version 5 is flexible and returns the topic's configuration (KIP-525).
Version 6 requests may get THROTTLING_QUOTA_EXCEEDED (KIP-599). Version 7 returns the topic id (KIP-516). Brokers from
4.0 on support version 2 and above.
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, boolean, int8, int16, int32, string, uuid


class CreatableTopicConfigs(Struct):
    """One setting of a created topic; ``config_source`` tells whether it is a default."""

    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+")


class CreatableTopicResult(Struct):
    """The result for one topic: its id and configuration, or the error because of which it was not created."""

    name: str = string("0+")
    topic_id: bytes = uuid("7+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = int16("5+", tag=0, ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+", ignorable=True)


class CreateTopicsResponse(Message):
    """The outcome for each topic."""

    API_KEY = 19
    VERSIONS = (0, 7)
    FLEXIBLE = 5

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+")


class CreatableReplicaAssignment(Struct):
    """The replicas of one partition; the first is the preferred leader."""

    partition_index: int = int32("0+")
    broker_ids: list[int] = array(int32, "0+")


class CreatableTopicConfig(Struct):
    """One setting of a topic to create."""

    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class CreatableTopic(Struct):
    """A topic to create. With ``assignments``, ``num_partitions`` and ``replication_factor`` must be -1."""

    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")


class CreateTopicsRequest(Message):
    """Create topics; the broker answers when the controller has created them, or after ``timeout_ms``."""

    RESPONSE = CreateTopicsResponse

    topics: list[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")
