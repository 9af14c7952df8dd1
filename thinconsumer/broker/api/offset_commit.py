"""OffsetCommit 2 to 10: commit offsets of a group.

Versions 2 to 4 have a retention time. Version 9 distinguishes a missing group from a wrong generation; version 10 uses
topic ids. Follows ``KafkaApis.handleOffsetCommitRequest``.
"""

from __future__ import annotations

from dataclasses import replace

from ...wire import Message
from ...wire.error_codes import Code
from ...wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from ..call import Api, ApiCall
from ..group.coordinator import refuse_commit
from ..image import ClusterImage

TOPIC_IDS_FROM = 10


def handle(call: ApiCall) -> Message | None:
    """Reject unknown partitions; pass the others to the coordinator."""
    request: OffsetCommitRequest = call.request
    by_id = call.version >= TOPIC_IDS_FROM
    refused: list[OffsetCommitResponseTopic] = []
    existing: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        known, code, unknown = _split_by_existence(call.node.image, topic, by_id)
        if unknown.partitions or code:
            refused += refuse_commit([unknown], code).topics
        if known is not None:
            existing.append(known)
    if not existing:
        return OffsetCommitResponse(topics=_merge(refused, [], by_id))

    def reply(response: OffsetCommitResponse) -> None:
        call.reply(OffsetCommitResponse(topics=_merge(refused, response.topics, by_id)))

    call.node.group_coordinator.commit(replace(request, topics=existing), call.version, reply)
    return None


def refuse(request: OffsetCommitRequest, version: int, code: int) -> OffsetCommitResponse:
    """Return the response with an error code for every partition."""
    return refuse_commit(request.topics, code)


API = Api(OffsetCommitRequest, 2, 10, handle, refuse)


def _split_by_existence(
    image: ClusterImage, topic: OffsetCommitRequestTopic, by_id: bool
) -> tuple[OffsetCommitRequestTopic | None, int, OffsetCommitRequestTopic]:
    """Return the existing partitions of a topic, and the error code with the partitions that are rejected."""
    found = image.topic(None, topic.topic_id) if by_id else image.topics.get(topic.name)
    if found is None:
        return None, int(Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC_OR_PARTITION), topic
    named = replace(topic, name=found.name, topic_id=found.topic_id)
    good = [p for p in topic.partitions if 0 <= p.partition_index < len(found.partitions)]
    bad = [p for p in topic.partitions if not 0 <= p.partition_index < len(found.partitions)]
    known = replace(named, partitions=good) if good else None
    return known, int(Code.UNKNOWN_TOPIC_OR_PARTITION) if bad else 0, replace(named, partitions=bad)


def _merge(
    first: list[OffsetCommitResponseTopic], second: list[OffsetCommitResponseTopic], by_id: bool
) -> list[OffsetCommitResponseTopic]:
    """Return one entry per topic, like Kafka's response builder."""
    topics: dict[str | bytes, OffsetCommitResponseTopic] = {}
    for topic in (*first, *second):
        key: str | bytes = topic.topic_id if by_id else topic.name
        if key in topics:
            topics[key].partitions.extend(topic.partitions)
        else:
            topics[key] = topic
    return list(topics.values())
