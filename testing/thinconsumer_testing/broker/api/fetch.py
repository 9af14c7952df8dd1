"""Fetch versions 4 to 18: record batches from the partitions that this broker leads or follows.

``fetch_sessions`` lists the partitions of a request, ``reading`` reads them, ``delayed_fetch`` waits until there is
enough data, and this module builds the response. Follows ``KafkaApis.handleFetchRequest`` and
``ReplicaManager.fetchMessages``. Version 7 adds fetch sessions, 11 the preferred read replica, 12 diverging epochs, 13
topic ids, 16 the current leader (KIP-951). As in Kafka, a request with existing and missing partitions waits until the
existing ones have enough data; the errors of the missing ones are sent with that response, not earlier.
"""

from collections.abc import Collection, Iterable
from typing import Any

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from thinconsumer.wire.produce import PartitionProduceResponse

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized_on_cluster
from ..call import Api, ApiCall
from ..delayed_fetch import DelayedFetch
from ..fetch_sessions import CachedPartition, FetchContext, FetchContextKind, replica_id_of
from ..reading import FetchIsolation, FetchParams, FetchReadResult, error_row, read_all, response_rows

READ_COMMITTED = 1
FIRST_WITH_FOLLOWERS = 11
FIRST_WITH_IDS = 13
FIRST_WITH_LEADERS = 16

_LEADER_CHANGED = (int(Code.NOT_LEADER_OR_FOLLOWER), int(Code.FENCED_LEADER_EPOCH))


def _handle(call: ApiCall) -> Message | None:
    """Respond once there is enough data, or something to report at once (such as an error of an existing partition); at
    the latest after ``max_wait_ms``.
    """
    node, request = call.node, call.request
    context = node.fetch_sessions.context(request, call.version, node.image)
    known: list[CachedPartition] = []
    unknown: list[tuple[CachedPartition, PartitionData]] = []
    to_read = context.partitions_to_read(node.image.names_by_id)
    denied = _denied_topics(call, to_read)
    for one in to_read:
        code = _refusal_code(call, one, denied)
        if code:
            unknown.append((one, error_row(one.partition, code, is_known=False)))
        else:
            known.append(one)
    if not known:
        return _answer(call, context, unknown)
    params = _fetch_params(call)
    result = read_all(node, known, params)

    def answer(result: FetchReadResult) -> FetchResponse:
        is_incremental = context.kind is FetchContextKind.INCREMENTAL
        return _answer(call, context, response_rows(result, params, only_changed=is_incremental) + unknown)

    if request.max_wait_ms <= 0 or result.size >= params.min_bytes or result.must_respond:
        return answer(result)

    def finish() -> None:
        call.on_cancel = None
        call.reply(answer(read_all(node, known, params)))

    call.on_cancel = DelayedFetch(node, params, result, request.max_wait_ms / 1000, finish).cancel
    return None


def _refuse(request: FetchRequest, version: int, code: int) -> FetchResponse:
    """Return a response with a top-level error code (from version 7 on) and, below version 13, for every partition."""
    topics = []
    if version < FIRST_WITH_IDS:
        topics = [
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[error_row(one.partition, code, is_known=False) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    return FetchResponse(error_code=code, session_id=request.session_id, responses=topics)


API = Api(FetchRequest, 4, 18, _handle, _refuse)


def _fetch_params(call: ApiCall) -> FetchParams:
    request: FetchRequest = call.request
    replica_id = replica_id_of(request, call.version)
    max_bytes = min(request.max_bytes, call.node.config.fetch_max_bytes)
    isolation = FetchIsolation.HIGH_WATERMARK
    if replica_id >= 0:
        isolation = FetchIsolation.LOG_END
    elif request.isolation_level == READ_COMMITTED:
        isolation = FetchIsolation.LAST_STABLE
    return FetchParams(
        isolation=isolation,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        leader_only=replica_id >= 0 or call.version < FIRST_WITH_FOLLOWERS,
        rack=request.rack_id,
        replica_id=replica_id,
    )


def _denied_topics(call: ApiCall, to_read: Iterable[CachedPartition]) -> Collection[str | None]:
    """Return the topics that the client may not read. A follower without authorization may read none of the requested
    topics; the result then also has None, for topics with an unknown id.
    """
    if replica_id_of(call.request, call.version) < 0:
        names = (one.topic for one in to_read if one.topic is not None)
        return denied_names(call, AclOperation.READ, ResourceType.TOPIC, names)
    if is_authorized_on_cluster(call, AclOperation.CLUSTER_ACTION):
        return ()
    return {one.topic for one in to_read}


def _refusal_code(call: ApiCall, one: CachedPartition, denied: Collection[str | None]) -> Code | None:
    image = call.node.image
    if one.topic in denied:
        return Code.TOPIC_AUTHORIZATION_FAILED
    if one.topic is None:
        return Code.UNKNOWN_TOPIC_ID
    if image.partition(one.topic, one.partition) is None:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    return None


def _answer(call: ApiCall, context: FetchContext, rows: list[tuple[CachedPartition, PartitionData]]) -> FetchResponse:
    leaders: dict[int, NodeEndpoint] = {}
    for one, row in rows:
        if row.error_code and call.version >= FIRST_WITH_LEADERS and row.error_code in _LEADER_CHANGED:
            assert one.topic is not None
            add_current_leader(call, TopicPartition(one.topic, one.partition), row, leaders)
    error_code, session_id, to_send = context.finish(rows)
    topics: list[FetchableTopicResponse] = []
    last: Any = None
    for one, row in to_send:
        name = one.key[0]
        # As in Kafka, only adjacent partitions of a topic share a topic entry of the response: with one entry for each
        # topic, the response would list the partitions in another order than they were read in.
        if name != last:
            topics.append(FetchableTopicResponse(topic=one.topic or "", topic_id=one.topic_id))
            last = name
        topics[-1].partitions.append(row)
    # Followers get no addresses, because they learn those of other brokers from the controller.
    endpoints = [] if replica_id_of(call.request, call.version) >= 0 else list(leaders.values())
    return FetchResponse(error_code=error_code, session_id=session_id, responses=topics, node_endpoints=endpoints)


def add_current_leader(
    call: ApiCall, tp: TopicPartition, row: PartitionData | PartitionProduceResponse, leaders: dict[int, NodeEndpoint]
) -> None:
    """Set the current leader in ``row``, the partition's response entry; add the leader's address to ``leaders``.

    With leader and address, the client need not refresh its metadata (KIP-951). The leader is taken from this broker's
    replica of the partition if it has one, else from its copy of the cluster metadata.

    Does nothing if the partition count of a topic with ordered delivery was ever changed: the client then has to
    refresh its metadata. A leader epoch alone could be from after a change of the count that the client does not know.
    """
    topic = call.node.image.topics.get(tp.topic)
    if topic is not None and topic.ordered is not None and topic.ordered.partition_count_epoch > 0:
        return
    partition = call.node.partitions.get(tp)
    image = call.node.image.partition(*tp) if partition is None else partition.image
    epoch = partition.leader_epoch if partition is not None else -1 if image is None else image.leader_epoch
    leader = -1 if image is None else image.leader
    row.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    broker = call.node.image.brokers.get(leader)
    if broker is not None:
        leaders[leader] = NodeEndpoint(node_id=leader, host=broker.host, port=broker.port, rack=broker.rack)
