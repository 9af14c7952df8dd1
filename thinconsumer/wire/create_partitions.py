"""CreatePartitions (key 37): increase the number of partitions of topics (KIP-195).

Version 2 is flexible; version 3 requests may get THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, boolean, int16, int32, string


class CreatePartitionsTopicResult(Struct):
    """The result for one topic: error code 0 if its partitions were added."""

    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message):
    """The outcome for each topic."""

    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE = 2

    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")


class CreatePartitionsAssignment(Struct):
    """The replicas of one new partition."""

    broker_ids: list[int] = array(int32, "0+")


class CreatePartitionsTopic(Struct):
    """A topic and its new total number of partitions; with ``assignments=None`` the broker places the replicas."""

    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, "0+", nullable="0+")


class CreatePartitionsRequest(Message):
    """Add partitions to topics or, with ``validate_only``, only check whether that would succeed."""

    RESPONSE = CreatePartitionsResponse

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")
