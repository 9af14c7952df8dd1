"""DeleteTopics (key 20): delete topics and everything in them.

Version 4 is flexible, version 5 explains errors and may be throttled (KIP-599), version 6 takes topic ids, too
(KIP-516). 4.0 brokers begin at version 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from .message import Message
from .schema import Struct, array, int16, int32, string, uuid


@dataclass(slots=True, kw_only=True)
class DeletableTopicResult(Struct):
    """What became of one topic; ``name`` is None where an unknown id was given."""

    name: str | None = string("0+", nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@dataclass(slots=True, kw_only=True)
class DeleteTopicsResponse(Message):
    """One answer for each topic."""

    API_KEY = 20
    VERSIONS = (0, 6)
    FLEXIBLE = 4

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")


@dataclass(slots=True, kw_only=True)
class DeleteTopicState(Struct):
    """A topic by its name, or by its id with ``name=None``; from version 6 on."""

    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


@dataclass(slots=True, kw_only=True)
class DeleteTopicsRequest(Message):
    """Delete ``topics`` from version 6 on, ``topic_names`` before."""

    API_KEY = 20
    VERSIONS = (0, 6)
    FLEXIBLE = 4
    RESPONSE = DeleteTopicsResponse

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32("0+")
