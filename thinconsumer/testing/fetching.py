"""Fetch as a scripted broker answers it: sessions (KIP-227), long polls, limits, topic ids, hints to new leaders.

Owns one broker's sessions. After ``FetchSession`` and ``ReplicaManager.fetchMessages``, as far as a consumer can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..wire import Message
from ..wire.current_leader import LeaderIdAndEpoch, NodeEndpoint
from ..wire.error_codes import Code
from ..wire.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchEpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from .broker import BrokerConnection, Delay, Reply, ScriptedBroker
from .topics import PartitionLog, Topics

FINAL_EPOCH, INITIAL_EPOCH = -1, 0
#: First version that names topics by id, and first that tells where new leaders live.
IDS_SINCE, ENDPOINTS_SINCE = 13, 16
DIVERGING_SINCE = 12

#: A topic's name, or its id from version 13 on, and a partition.
Key = tuple[str, bytes, int]


@dataclass(slots=True)
class FetchSession:
    """What one client has told this broker to keep in mind."""

    session_id: int
    epoch: int = 1  #: The next one expected.
    partitions: dict[Key, FetchPartition] = field(default_factory=dict)
    told: dict[Key, tuple[int, int]] = field(default_factory=dict)  #: High watermark and log start last sent.


class Fetching:
    """The Fetch handler of one broker."""

    def __init__(self, topics: Topics, broker: ScriptedBroker, brokers: Callable[[], Iterable[ScriptedBroker]]) -> None:
        self.sessions: dict[int, FetchSession] = {}
        self._topics = topics
        self._broker = broker
        self._brokers = brokers
        self._last_id = 1000 * (broker.node_id + 1)

    def fetch(self, request: FetchRequest, version: int, connection: BrokerConnection) -> Reply:
        """Answer Fetch: at once with data, news or errors, else when there is some or the time is up."""
        if request.session_epoch > INITIAL_EPOCH:
            session = self.sessions.get(request.session_id)
            if session is None:
                return FetchResponse(error_code=int(Code.FETCH_SESSION_ID_NOT_FOUND))
            if session.epoch != request.session_epoch:
                return FetchResponse(error_code=int(Code.INVALID_FETCH_SESSION_EPOCH))
            session.epoch += 1
            self._update(session, request)
        else:
            self.sessions.pop(request.session_id, None)
            session = self._new_session(request, version)
        full = request.session_epoch <= INITIAL_EPOCH

        def worth_telling() -> bool:
            return self._is_worth_telling(session, request, version)

        def answer() -> Message:
            return self._answer(session, request, version, full=full)

        if request.max_wait_ms <= 0 or worth_telling():
            return answer()
        return Delay(request.max_wait_ms / 1000, answer, worth_telling)

    # -- sessions

    def _new_session(self, request: FetchRequest, version: int) -> FetchSession:
        wanted = request.session_epoch == INITIAL_EPOCH and version >= 7
        if wanted:
            self._last_id += 1
        session = FetchSession(self._last_id if wanted else 0)
        self._update(session, request)
        if wanted:
            self.sessions[session.session_id] = session
        return session

    def _update(self, session: FetchSession, request: FetchRequest) -> None:
        for topic in request.topics:
            for partition in topic.partitions:
                session.partitions[topic.topic, topic.topic_id, partition.partition] = partition
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                session.partitions.pop((forgotten.topic, forgotten.topic_id, number), None)

    # -- answers

    def _is_worth_telling(self, session: FetchSession, request: FetchRequest, version: int) -> bool:
        size = 0
        for key, asked in session.partitions.items():
            data = self._read(key, asked, request, version, asked.partition_max_bytes, at_least_one=True)
            if data.error_code or data.diverging_epoch.end_offset >= 0 or data.preferred_read_replica >= 0:
                return True
            size += len(data.records or b"")
        return size >= max(1, request.min_bytes)

    def _answer(self, session: FetchSession, request: FetchRequest, version: int, *, full: bool) -> FetchResponse:
        topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        endpoints: dict[int, NodeEndpoint] = {}
        left = request.max_bytes
        served: list[Key] = []
        for key, asked in session.partitions.items():
            limit = min(left, asked.partition_max_bytes)
            data = self._read(key, asked, request, version, limit, at_least_one=not served)
            records = data.records or b""
            left -= len(records)
            if records:
                served.append(key)
            news = (data.high_watermark, data.log_start_offset)
            quiet = not records and not data.error_code and data.diverging_epoch.end_offset < 0
            if not full and quiet and session.told.get(key) == news and data.preferred_read_replica < 0:
                continue
            session.told[key] = news
            name, topic_id, _ = key
            topic = topics.setdefault((name, topic_id), FetchableTopicResponse(topic=name, topic_id=topic_id))
            topic.partitions.append(data)
            if data.current_leader.leader_id >= 0 and version >= ENDPOINTS_SINCE:
                endpoints.update(self._endpoint(data.current_leader.leader_id))
        for key in served:
            # What was served goes last, so that the limits starve nobody (KIP-74).
            session.partitions[key] = session.partitions.pop(key)
        return FetchResponse(
            session_id=session.session_id, responses=list(topics.values()), node_endpoints=list(endpoints.values())
        )

    def _read(
        self, key: Key, asked: FetchPartition, request: FetchRequest, version: int, limit: int, *, at_least_one: bool
    ) -> PartitionData:
        name, topic_id, number = key
        topic = self._topics.find(name, topic_id)
        log = None if topic is None else topic.partitions.get(number)
        if log is None:
            code = Code.UNKNOWN_TOPIC_ID if version >= IDS_SINCE and topic is None else Code.UNKNOWN_TOPIC_OR_PARTITION
            return PartitionData(partition_index=number, error_code=int(code), high_watermark=-1)
        code_or_none = self._error(log, asked)
        if code_or_none:
            return self._refusal(log, code_or_none, version)
        diverging = self._diverging(log, asked, version)
        if diverging is not None:
            return PartitionData(partition_index=number, high_watermark=-1, diverging_epoch=diverging)
        if not log.start_offset <= asked.fetch_offset <= log.end_offset:
            return PartitionData(partition_index=number, error_code=int(Code.OFFSET_OUT_OF_RANGE), high_watermark=-1)
        committed = request.isolation_level == 1
        end = log.stable_end if committed else log.visible_end
        preferred = self._preferred(log, request)
        records = b"" if preferred >= 0 else log.read(asked.fetch_offset, end, limit, at_least_one=at_least_one)
        aborted = [AbortedTransaction(producer_id=p, first_offset=o) for p, o in log.aborted]
        return PartitionData(
            partition_index=number,
            high_watermark=log.visible_end,
            last_stable_offset=log.stable_end,
            log_start_offset=log.start_offset,
            aborted_transactions=aborted if committed else None,
            preferred_read_replica=preferred,
            records=records,
        )

    def _error(self, log: PartitionLog, asked: FetchPartition) -> int:
        if log.error_code:
            return log.error_code
        epoch = asked.current_leader_epoch
        if epoch >= 0 and epoch != log.epoch:
            return int(Code.FENCED_LEADER_EPOCH if epoch < log.epoch else Code.UNKNOWN_LEADER_EPOCH)
        follower = log.preferred_replica == self._broker.node_id
        return 0 if log.leader == self._broker.node_id or follower else int(Code.NOT_LEADER_OR_FOLLOWER)

    def _refusal(self, log: PartitionLog, code: int, version: int) -> PartitionData:
        data = PartitionData(partition_index=log.partition, error_code=code, high_watermark=-1)
        if version >= DIVERGING_SINCE and code in (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH):
            data.current_leader = LeaderIdAndEpoch(leader_id=log.leader, leader_epoch=log.epoch)
        return data

    def _diverging(self, log: PartitionLog, asked: FetchPartition, version: int) -> FetchEpochEndOffset | None:
        if version < DIVERGING_SINCE or asked.last_fetched_epoch < 0:
            return None
        epoch, end = log.end_of_epoch(asked.last_fetched_epoch)
        if epoch == asked.last_fetched_epoch and end >= asked.fetch_offset:
            return None
        return FetchEpochEndOffset(epoch=epoch, end_offset=end)

    def _preferred(self, log: PartitionLog, request: FetchRequest) -> int:
        leads = log.leader == self._broker.node_id
        return log.preferred_replica if leads and request.rack_id and log.preferred_replica != log.leader else -1

    def _endpoint(self, node_id: int) -> dict[int, NodeEndpoint]:
        return {
            b.node_id: NodeEndpoint(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack)
            for b in self._brokers()
            if b.node_id == node_id
        }
