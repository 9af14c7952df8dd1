"""The APIs that create and delete topics, and add partitions.

CreateTopics (key 19): create topics. The request goes to the controller or, in KRaft clusters, to any broker. Version 1
adds ``validate_only``. Version 4 accepts -1 for the number of partitions and the replication factor, which then take
the broker's defaults (KIP-464). Version 5 is flexible and returns the topic's configuration (KIP-525). From version 6
on the response may have THROTTLING_QUOTA_EXCEEDED (KIP-599). Version 7 returns the topic id (KIP-516). Brokers from 4.0
on support version 2 and above.

DeleteTopics (key 20): delete topics with all their records. Version 4 is flexible. Version 5 adds error messages, among
them for THROTTLING_QUOTA_EXCEEDED (KIP-599). Version 6 also takes topic ids (KIP-516). Brokers from 4.0 on support
version 1 and above.

CreatePartitions (key 37): increase the number of partitions of topics (KIP-195). Version 2 is flexible. From version 3
on the response may have THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

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


class CreateTopicsResponse(Message, key=19, versions=(0, 7), flexible=5):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+")


class CreatableReplicaAssignment(Struct):
    """The replicas of one partition; the first is the preferred leader."""

    partition_index: int = int32("0+")
    broker_ids: list[int] = array(int32, "0+")


class CreatableTopicConfig(Struct):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class CreatableTopic(Struct):
    """A topic to create. If it has ``assignments``, both ``num_partitions`` and ``replication_factor`` must be -1."""

    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")


class CreateTopicsRequest(Message, response=CreateTopicsResponse):
    """Create topics; the broker answers when the controller has created them, or after ``timeout_ms``."""

    topics: list[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")


class DeletableTopicResult(Struct):
    """The result for one topic: error code 0 if it was deleted. ``name`` is None if the requested id is unknown."""

    name: str | None = string("0+", nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message, key=20, versions=(0, 6), flexible=4):
    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")


class DeleteTopicState(Struct):
    """A topic to delete (version 6 and newer), given by ``name``, or by ``topic_id`` with ``name=None``."""

    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


class DeleteTopicsRequest(Message, response=DeleteTopicsResponse):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32("0+")


class CreatePartitionsTopicResult(Struct):
    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message, key=37, versions=(0, 3), flexible=2):
    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(int32, "0+")


class CreatePartitionsTopic(Struct):
    """A topic and its new total number of partitions; with ``assignments=None`` the broker places the replicas."""

    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, "0+", nullable="0+")


class CreatePartitionsRequest(Message, response=CreatePartitionsResponse):
    """Add partitions to topics or, with ``validate_only``, only check whether that would succeed."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")
