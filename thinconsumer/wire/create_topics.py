"""CreateTopics (key 19): create topics; to be sent to the controller (any broker, in KRaft clusters).

Version 1 can merely check, version 4 lets the broker choose the number of partitions and replicas (-1, KIP-464),
version 5 is flexible and answers with the resulting configuration (KIP-525), version 6 may be throttled (KIP-599),
version 7 answers with the topic's id (KIP-516). 4.0 brokers begin at version 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from .message import Message
from .schema import Struct, array, boolean, int8, int16, int32, string, uuid


@dataclass(slots=True, kw_only=True)
class CreatableTopicConfigs(Struct):
    """One setting of a topic that was created; not of interest where ``config_source`` is the default."""

    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+")


@dataclass(slots=True, kw_only=True)
class CreatableTopicResult(Struct):
    """What became of one topic."""

    name: str = string("0+")
    topic_id: bytes = uuid("7+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = int16("5+", tag=0, ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+", ignorable=True)


@dataclass(slots=True, kw_only=True)
class CreateTopicsResponse(Message):
    """One answer for each topic."""

    API_KEY = 19
    VERSIONS = (0, 7)
    FLEXIBLE = 5

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+")


@dataclass(slots=True, kw_only=True)
class CreatableReplicaAssignment(Struct):
    """The brokers that are to hold one partition; the first one is the preferred leader."""

    partition_index: int = int32("0+")
    broker_ids: list[int] = array(int32, "0+")


@dataclass(slots=True, kw_only=True)
class CreatableTopicConfig(Struct):
    """One setting to give to a topic."""

    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


@dataclass(slots=True, kw_only=True)
class CreatableTopic(Struct):
    """A topic to create: by numbers, or by an explicit assignment and -1 for both numbers."""

    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")


@dataclass(slots=True, kw_only=True)
class CreateTopicsRequest(Message):
    """Create topics, and wait up to ``timeout_ms`` until the controller has done so."""

    API_KEY = 19
    VERSIONS = (0, 7)
    FLEXIBLE = 5
    RESPONSE = CreateTopicsResponse

    topics: list[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")
