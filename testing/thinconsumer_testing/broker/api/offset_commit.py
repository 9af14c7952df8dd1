"""OffsetCommit versions 2 to 10: commit offsets of a group.

Versions 2 to 4 have a retention time. A commit with a generation for a missing group gets GROUP_ID_NOT_FOUND from
version 9 on, ILLEGAL_GENERATION in older versions. Version 10 uses topic ids. Follows
``KafkaApis.handleOffsetCommitRequest``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import repeat
from typing import TypeVar

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from thinconsumer.wire.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteResponseTopic

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized
from ..call import Api, ApiCall
from ..image import TopicImage
from ..wire.transactions import TxnOffsetCommitRequestPartition, TxnOffsetCommitResponseTopic

TOPIC_IDS_FROM = 10

_PartitionT = TypeVar(
    "_PartitionT", OffsetCommitRequestPartition, TxnOffsetCommitRequestPartition, OffsetDeleteRequestPartition
)
_TopicT = TypeVar("_TopicT", OffsetCommitResponseTopic, TxnOffsetCommitResponseTopic, OffsetDeleteResponseTopic)


def _handle(call: ApiCall) -> Message | None:
    """Reject partitions that do not exist, or that the client may not read; let the group coordinator commit the
    offsets of the others.
    """
    request: OffsetCommitRequest = call.request
    by_id = call.version >= TOPIC_IDS_FROM
    image = call.node.image
    if not is_authorized(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return _refuse(request, call.version, int(Code.GROUP_AUTHORIZATION_FAILED))
    named_topics = (image.names_by_id.get(t.topic_id, "") if by_id else t.name for t in request.topics)
    denied = denied_names(call, AclOperation.READ, ResourceType.TOPIC, named_topics)
    refused: list[OffsetCommitResponseTopic] = []
    existing: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        found = image.topics.get(image.names_by_id.get(topic.topic_id, "") if by_id else topic.name)
        if (topic.name if found is None else found.name) in denied:
            refused += _answers([topic], repeat(Code.TOPIC_AUTHORIZATION_FAILED))
            continue
        if found is None:
            code = Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
            refused += _answers([topic], repeat(code))
            continue
        named = replace(topic, name=found.name, topic_id=found.topic_id)
        known, unknown = split_by_existence(topic.partitions, found)
        if unknown:
            refused += _answers([replace(named, partitions=unknown)], repeat(Code.UNKNOWN_TOPIC_OR_PARTITION))
        if known:
            existing.append(replace(named, partitions=known))

    def response(codes: Iterator[int]) -> OffsetCommitResponse:
        topics = [*refused, *_answers(existing, codes)]
        return OffsetCommitResponse(topics=merged_topics(topics, "topic_id" if by_id else "name"))

    if not existing:
        return response(iter(()))
    call.node.group_coordinator.commit(
        replace(request, topics=existing), call.version, lambda codes: call.reply(response(codes))
    )
    return None


def _refuse(request: OffsetCommitRequest, version: int, code: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=_answers(request.topics, repeat(code)))


API = Api(OffsetCommitRequest, 2, 10, _handle, _refuse)


def _answers(topics: Iterable[OffsetCommitRequestTopic], codes: Iterator[int]) -> list[OffsetCommitResponseTopic]:
    return [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=int(next(codes)))
                for one in topic.partitions
            ],
        )
        for topic in topics
    ]


def split_by_existence(
    partitions: Iterable[_PartitionT], topic: TopicImage | None
) -> tuple[list[_PartitionT], list[_PartitionT]]:
    """Return the partitions that exist in the topic, and those that do not."""
    count = 0 if topic is None else len(topic.partitions)
    known: list[_PartitionT] = []
    unknown: list[_PartitionT] = []
    for one in partitions:
        (known if 0 <= one.partition_index < count else unknown).append(one)
    return known, unknown


def merged_topics(topics: Iterable[_TopicT], key: str) -> list[_TopicT]:
    """Merge each topic's response entries, as Kafka does; ``key`` is the identifying field: "name" or "topic_id"."""
    merged: dict[str | bytes, _TopicT] = {}
    for topic in topics:
        first = merged.setdefault(getattr(topic, key), topic)
        if first is not topic:
            first.partitions.extend(topic.partitions)
    return list(merged.values())
