"""DeleteTopics (key 20): delete topics with all their records.

Version 4 is flexible. Version 5 adds error messages, among them for THROTTLING_QUOTA_EXCEEDED (KIP-599). Version 6 also
takes topic ids (KIP-516). Brokers from 4.0 on support version 1 and above.
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, int16, int32, string, uuid


class DeletableTopicResult(Struct):
    """The result for one topic: error code 0 if it was deleted. ``name`` is None if the requested id is unknown."""

    name: str | None = string("0+", nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message):
    """The outcome for each topic."""

    API_KEY = 20
    VERSIONS = (0, 6)
    FLEXIBLE = 4

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")


class DeleteTopicState(Struct):
    """A topic named by ``name``, or by ``topic_id`` with ``name=None``; from version 6 on."""

    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


class DeleteTopicsRequest(Message):
    """Delete topics: those in ``topics`` from version 6 on, those in ``topic_names`` before."""

    RESPONSE = DeleteTopicsResponse

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32("0+")
