"""CreatePartitions (key 37): give topics more partitions; they never get fewer (KIP-195).

Version 2 is flexible, version 3 may be throttled (KIP-599).
"""

from __future__ import annotations

from dataclasses import dataclass

from .message import Message
from .schema import Struct, array, boolean, int16, int32, string


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopicResult(Struct):
    """What became of one topic."""

    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@dataclass(slots=True, kw_only=True)
class CreatePartitionsResponse(Message):
    """One answer for each topic."""

    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE = 2

    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")


@dataclass(slots=True, kw_only=True)
class CreatePartitionsAssignment(Struct):
    """The brokers that are to hold one new partition."""

    broker_ids: list[int] = array(int32, "0+")


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopic(Struct):
    """A topic and its new total number of partitions; ``assignments=None`` leaves the placing to the broker."""

    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, "0+", nullable="0+")


@dataclass(slots=True, kw_only=True)
class CreatePartitionsRequest(Message):
    """Add partitions, or, with ``validate_only``, merely check whether that would work."""

    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE = 2
    RESPONSE = CreatePartitionsResponse

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")
