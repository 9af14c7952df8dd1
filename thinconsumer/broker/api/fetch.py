"""Fetch 4 to 18: record batches from the partitions that this node leads or follows.

Sessions are ``..sessions``, reading is ``..reading``, waiting is ``..waiting``: here they come together, and the answer
is put into the request's version. Follows ``KafkaApis.handleFetchRequest`` and ``ReplicaManager.fetchMessages``. From
version 7 on there are sessions, 11 finds nearer replicas, 12 tells of a diverging log, 13 names topics by id, 16 tells
of newer leaders. A partition that this node has never heard of does not end a wait for the others, as in Kafka.
"""

from __future__ import annotations

from typing import Any

from ...types import TopicPartition
from ...wire import Message
from ...wire.current_leader import LeaderIdAndEpoch, NodeEndpoint
from ...wire.error_codes import Code
from ...wire.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ..call import Api, Call
from ..reading import Isolation, Result, Terms, failed, read_all, told
from ..sessions import Context, Kind, Wanted, replica_of
from ..waiting import ParkedFetch

READ_COMMITTED = 1
FIRST_WITH_FOLLOWERS = 11
FIRST_WITH_IDS = 13
FIRST_WITH_LEADERS = 16

_LEADER_CHANGED = (int(Code.NOT_LEADER_OR_FOLLOWER), int(Code.FENCED_LEADER_EPOCH))


def handle(call: Call) -> Message | None:
    """Answer, or wait until there is enough to answer with."""
    node, request = call.node, call.request
    context = node.sessions.context(request, call.version, node.image)
    known: list[Wanted] = []
    unknown: list[tuple[Wanted, PartitionData]] = []
    for one in context.wanted(node.image.names_by_id):
        code = _unknown(call, one)
        if code:
            unknown.append((one, failed(one.partition, code, is_known=False)))
        else:
            known.append(one)
    if not known:
        return _answer(call, context, unknown)
    terms = _terms(call)
    result = read_all(node, known, terms)
    if request.max_wait_ms <= 0 or result.size >= terms.min_bytes or result.is_final:
        return _answer(call, context, _told(call, context, terms, result) + unknown)
    _park(call, context, terms, result, unknown)
    return None


def refuse(request: FetchRequest, version: int, code: int) -> FetchResponse:
    """Refuse it all; below version 13 in every partition too, as clients of the first versions look only there."""
    topics = []
    if version < FIRST_WITH_IDS:
        topics = [
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[failed(one.partition, code, is_known=False) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    return FetchResponse(error_code=code, session_id=request.session_id, responses=topics)


API = Api(FetchRequest, 4, 18, handle, refuse)


def _terms(call: Call) -> Terms:
    request: FetchRequest = call.request
    replica_id = replica_of(request, call.version)
    max_bytes = min(request.max_bytes, call.node.config.fetch_max_bytes)
    isolation = Isolation.HIGH_WATERMARK
    if replica_id >= 0:
        isolation = Isolation.LOG_END
    elif request.isolation_level == READ_COMMITTED:
        isolation = Isolation.LAST_STABLE
    return Terms(
        isolation=isolation,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        leader_only=replica_id >= 0 or call.version < FIRST_WITH_FOLLOWERS,
        rack=request.rack_id,
        replica_id=replica_id,
    )


def _unknown(call: Call, one: Wanted) -> Code | None:
    image = call.node.image
    if one.topic is None:
        return Code.UNKNOWN_TOPIC_ID
    if image.partition(one.topic, one.partition) is None:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    return None


def _park(
    call: Call, context: Context, terms: Terms, result: Result, unknown: list[tuple[Wanted, PartitionData]]
) -> None:
    known = [one for one, _ in result.rows]

    def finish() -> None:
        call.on_drop = None
        result = read_all(call.node, known, terms)
        call.reply(_answer(call, context, _told(call, context, terms, result) + unknown))

    parked = ParkedFetch(call.node, terms, result, call.request.max_wait_ms / 1000, finish)
    call.on_drop = parked.cancel


def _told(call: Call, context: Context, terms: Terms, result: Result) -> list[tuple[Wanted, PartitionData]]:
    return told(call.node, result, terms, only_news=context.kind is Kind.INCREMENTAL)


def _answer(call: Call, context: Context, rows: list[tuple[Wanted, PartitionData]]) -> FetchResponse:
    leaders: dict[int, NodeEndpoint] = {}
    for one, row in rows:
        if row.error_code and call.version >= FIRST_WITH_LEADERS and row.error_code in _LEADER_CHANGED:
            _tell_leader(call, one, row, leaders)
    error_code, session_id, to_send = context.conclude(rows)
    topics: list[FetchableTopicResponse] = []
    last: Any = None
    for one, row in to_send:
        name = one.key[0]
        # Only neighbours share a topic: the order of partitions says who is read first next time.
        if name != last:
            topics.append(FetchableTopicResponse(topic=one.topic or "", topic_id=one.topic_id))
            last = name
        topics[-1].partitions.append(row)
    return FetchResponse(
        error_code=error_code, session_id=session_id, responses=topics, node_endpoints=list(leaders.values())
    )


def _tell_leader(call: Call, one: Wanted, row: PartitionData, leaders: dict[int, NodeEndpoint]) -> None:
    """Say who leads instead and where that is, so that the client need not ask (KIP-951)."""
    assert one.topic is not None
    leader, epoch = current_leader(call, TopicPartition(one.topic, one.partition))
    row.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    broker = call.node.image.brokers.get(leader)
    if broker is not None:
        leaders[leader] = NodeEndpoint(node_id=leader, host=broker.host, port=broker.port, rack=broker.rack)


def current_leader(call: Call, tp: TopicPartition) -> tuple[int, int]:
    """Return (leader, its epoch) as far as this node knows: its replica knows best, else the image."""
    partition = call.node.partitions.get(tp)
    if partition is not None:
        return partition.image.leader, partition.leader_epoch
    row = call.node.image.partition(tp.topic, tp.partition)
    return (-1, -1) if row is None else (row.leader, row.leader_epoch)
