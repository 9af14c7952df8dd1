"""Fetch sessions (KIP-227): the partitions that a client registered, so that incremental requests name only changes.

Owns the session cache of one broker, its size limit and evictions, and which partitions an incremental response omits.
Must not know logs: ``reading`` reads them. Follows ``FetchSession.scala``, with one cache shard where Kafka has
eight. Sessions are not bound to connections: a client may continue its session over a new one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, PartitionData

if TYPE_CHECKING:
    from .image import ClusterImage
    from .node import BrokerNode

#: A new session in a full cache evicts the least recently used session if that has been unused for longer than this
#: time. Otherwise it may evict a smaller session with more than this time between its creation and its last use; a
#: follower's session may also evict any session of a consumer.
EVICTION_S = 120.0
NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = SESSION_ID_MAX = 2**31 - 1
FIRST_VERSION_WITH_IDS = 13
NO_ID = bytes(16)

#: A partition in a session: its topic id (from Fetch version 13 on) or topic name (before), and its number.
Key = tuple[bytes | str, int]


def next_epoch(epoch: int) -> int:
    """Return the session epoch that follows ``epoch``."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


@dataclass(slots=True, eq=False)
class CachedPartition:
    """A partition of a session: the client's last request for it, and the high watermark and log start offset that the
    client has; -1 if it has none.
    """

    key: Key
    topic: str | None  #: The topic's name; None while this broker's metadata does not contain the topic id.
    topic_id: bytes
    request: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    @property
    def partition(self) -> int:
        return self.key[1]

    def has_sent(self, high_watermark: int, log_start_offset: int) -> bool:
        """Return whether the client has this high watermark and log start offset from an earlier response."""
        return self.high_watermark == high_watermark and self.log_start_offset == log_start_offset

    def remember_sent(self, data: PartitionData) -> None:
        """Record the high watermark and log start offset of a response as sent to the client."""
        self.high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset

    def update_sent(self, data: PartitionData) -> bool:
        """Return whether the partition's new data differs from what the client has; record the data as sent."""
        is_changed = (
            bool(data.records or data.error_code)
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.epoch >= 0
            or not self.has_sent(data.high_watermark, data.log_start_offset)
        )
        self.remember_sent(data)
        if data.error_code:
            # -1 differs from every high watermark, so the next response without this error contains the partition even
            # if its offsets have not changed. Otherwise the client could not see that the error has ended.
            self.high_watermark = -1
        return is_changed


@dataclass(slots=True, eq=False)
class ServedFetchSession:
    """One client's fetch session; its partitions are in the order in which they are read next."""

    session_id: int
    partitions: dict[Key, CachedPartition]
    by_id: bool
    is_follower: bool
    created: float
    last_used: float
    size: int
    epoch: int = next_epoch(INITIAL_EPOCH)

    def __repr__(self) -> str:
        return f"<ServedFetchSession {self.session_id} epoch {self.epoch}, {len(self.partitions)} partitions>"

    @property
    def eviction_key(self) -> tuple[bool, int, int]:
        """Sort key for eviction, lowest first: consumers before followers, then sessions with few partitions."""
        return self.is_follower, self.size, self.session_id


class FetchContextKind(enum.Enum):
    """How a fetch request uses sessions."""

    SESSIONLESS = enum.auto()  #: The request names all partitions and opens no session.
    FULL = enum.auto()  #: The request names all partitions and opens a session, if the cache has room.
    INCREMENTAL = enum.auto()  #: The request names only changes to its session.
    ERROR = enum.auto()  #: The request's session id, session epoch or version does not fit a session.


@dataclass(slots=True, eq=False)
class FetchContext:
    """How a Fetch request uses its session: the handler reads :meth:`partitions_to_read`, then calls :meth:`finish`."""

    kind: FetchContextKind
    sessions: FetchSessionCache
    partitions: dict[Key, CachedPartition]
    by_id: bool = False
    is_follower: bool = False
    session: ServedFetchSession | None = None
    epoch: int = FINAL_EPOCH
    error_code: int = 0

    def partitions_to_read(self, names_by_id: Mapping[bytes, str]) -> list[CachedPartition]:
        """Return the partitions to read, in order; look up topic ids again that were unknown in earlier requests."""
        partitions = list(self.partitions.values())
        if self.by_id:
            for one in partitions:
                if one.topic is None:
                    one.topic = names_by_id.get(one.topic_id)
        return partitions

    def finish(
        self, answers: list[tuple[CachedPartition, PartitionData]]
    ) -> tuple[int, int, list[tuple[CachedPartition, PartitionData]]]:
        """Return the response's error code, session id and partitions; the session records these as sent.
        ``answers`` has the data read from each partition; an incremental response omits unchanged partitions.
        """
        if self.kind is FetchContextKind.ERROR:
            return self.error_code, NO_SESSION, []
        if self.kind is FetchContextKind.SESSIONLESS:
            return 0, NO_SESSION, answers
        if self.kind is FetchContextKind.FULL:
            for one, data in answers:
                one.remember_sent(data)
            partitions = {one.key: one for one, _ in answers}
            return 0, self.sessions.create(partitions, self.by_id, self.is_follower), answers
        session = self.session
        assert session is not None
        if session.epoch != self.epoch:
            # While this request waited for data, another connection sent the next request of the same session, which
            # has incremented the epoch. A response with records would be out of order, so the request fails.
            return int(Code.INVALID_FETCH_SESSION_EPOCH), session.session_id, []
        changed = []
        for one, data in answers:
            if one.update_sent(data):
                changed.append((one, data))
                if data.records:
                    # Partitions that returned records move to the end; otherwise a busy one would use up the byte limit
                    # of every response.
                    session.partitions.pop(one.key, None)
                    session.partitions[one.key] = one
        return 0, session.session_id, changed


class FetchSessionCache:
    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._sessions: dict[int, ServedFetchSession] = {}  #: Sessions by id, the least recently used first.

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, request: FetchRequest, version: int, image: ClusterImage) -> FetchContext:
        """Return the context of a request. An incremental request updates its session, and closes the session if no
        partitions are left in it. A request with session epoch 0 or -1 closes the session that it names, if any.
        """
        by_id = version >= FIRST_VERSION_WITH_IDS
        is_follower = replica_id_of(request, version) >= 0
        kind = FetchContextKind.SESSIONLESS
        if request.session_epoch == INITIAL_EPOCH:
            kind = FetchContextKind.FULL
        elif request.session_epoch != FINAL_EPOCH:
            session = self._sessions.get(request.session_id)
            if session is None:
                return self._session_error(Code.FETCH_SESSION_ID_NOT_FOUND)
            if session.epoch != request.session_epoch:
                return self._session_error(Code.INVALID_FETCH_SESSION_EPOCH)
            if session.by_id != by_id:
                return self._session_error(Code.FETCH_SESSION_TOPIC_ID_ERROR)
            self._update_session(session, request, image)
            if session.partitions:
                self._touch(session)
                kind, partitions = FetchContextKind.INCREMENTAL, session.partitions
                return FetchContext(kind, self, partitions, by_id, is_follower, session, session.epoch)
        self._sessions.pop(request.session_id, None)
        partitions = {one.key: one for one in _requested_partitions(request, by_id, image)}
        return FetchContext(kind, self, partitions, by_id, is_follower)

    def create(self, partitions: dict[Key, CachedPartition], by_id: bool, is_follower: bool) -> int:
        """Open a session; return its id, or 0 if the cache is full and no session can be evicted."""
        limit = self._node.config.max_incremental_fetch_session_cache_slots
        if len(self._sessions) >= limit and not self._try_evict(len(partitions), is_follower):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = 1 + self._node.random.randrange(SESSION_ID_MAX)
        now = self._node.schedule.now
        self._sessions[session_id] = ServedFetchSession(
            session_id, partitions, by_id, is_follower, now, now, len(partitions)
        )
        return session_id

    def _session_error(self, code: Code) -> FetchContext:
        return FetchContext(FetchContextKind.ERROR, self, {}, error_code=int(code))

    @staticmethod
    def _update_session(session: ServedFetchSession, request: FetchRequest, image: ClusterImage) -> None:
        partitions = session.partitions
        for one in _requested_partitions(request, session.by_id, image):
            known = partitions.get(one.key)
            if known is None:
                partitions[one.key] = one
            else:
                known.request = one.request
        for topic in request.forgotten_topics_data:
            name: bytes | str = topic.topic_id if session.by_id else topic.topic
            for number in topic.partitions:
                partitions.pop((name, number), None)

    def _touch(self, session: ServedFetchSession) -> None:
        session.last_used = self._node.schedule.now
        session.size = len(session.partitions)
        session.epoch = next_epoch(session.epoch)
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _try_evict(self, size: int, is_follower: bool) -> bool:
        """Make room for a new session with ``size`` partitions; return whether a session was evicted.

        Evicts the least recently used session if it has been unused for EVICTION_S. Otherwise evicts the session with
        the lowest eviction key among those that ``_evictable`` yields, unless the new session's key would be lower.
        """
        now = self._node.schedule.now
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now - oldest.last_used > EVICTION_S:
            del self._sessions[oldest.session_id]
            return True
        least = min(self._evictable(is_follower), key=lambda session: session.eviction_key, default=None)
        if least is None or (is_follower, size, 0) < least.eviction_key:
            return False
        del self._sessions[least.session_id]
        return True

    def _evictable(self, by_follower: bool) -> Iterable[ServedFetchSession]:
        """Yield the sessions that a new session may evict although they are in use.

        These are sessions with more than EVICTION_S between their creation and last use. If younger sessions could be
        evicted, too, many clients would evict each other's sessions all the time. A follower's new session may also
        evict any session of a consumer.
        """
        for session in self._sessions.values():
            if session.last_used - session.created > EVICTION_S or (by_follower and not session.is_follower):
                yield session


def replica_id_of(request: Any, version: int) -> int:
    """Return the follower's broker id, or a negative number for consumers."""
    return int(request.replica_id if version < 15 else request.replica_state.replica_id)


def _requested_partitions(request: FetchRequest, by_id: bool, image: ClusterImage) -> Iterable[CachedPartition]:
    for topic in request.topics:
        name = image.names_by_id.get(topic.topic_id) if by_id else topic.topic
        topic_id = topic.topic_id if by_id else NO_ID
        for one in topic.partitions:
            yield CachedPartition((topic_id if by_id else topic.topic, one.partition), name, topic_id, one)
