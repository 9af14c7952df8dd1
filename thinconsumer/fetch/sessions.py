"""Fetch sessions (KIP-227): send only what changed since the last Fetch to a node.

If an incremental request omits a partition, the broker reads it from the offset last sent. So each changed offset must
be sent, and a partition no longer wanted must be listed as forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..network.request import Target
from ..positions.partitions import Confirmation, Cursor, Partition
from ..support.lazy_dataclass import dataclass, field
from ..support.timers import Retry
from ..types import TopicPartition
from ..wire import ZERO_UUID

#: Session epochs: 0 opens a session, -1 requests none; both close the session with the id in the request.
INITIAL_EPOCH = 0
FIRST_INCREMENTAL_EPOCH = 1
FINAL_EPOCH = -1
NO_SESSION = 0
#: How many responses without records may come quickly before Fetches are spaced out: a new session or a leader change
#: causes a few.
FRUITLESS = 5


class WantedPartition(NamedTuple):
    """The fields of one partition that a fetch session keeps from one Fetch to the next."""

    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    topic_id: bytes
    partition_count: int = -1  #: See ``Partitions.set_count``; -1 for topics without one.


class Plan(NamedTuple):
    """The session fields of one request: partitions to add or update, and to forget."""

    session_id: int
    epoch: int
    send: Mapping[TopicPartition, WantedPartition]
    forget: Mapping[TopicPartition, WantedPartition]


class SessionPartitions:
    """The partitions that a broker's session has after the last request, or those of a second Fetch (no session)."""

    __slots__ = ("_ids", "confirmation", "cursors", "names", "unconfirmed", "wanted")

    def __init__(self) -> None:
        self.wanted: dict[TopicPartition, WantedPartition] = {}
        #: The partitions with their cursors at the time of the request.
        self.cursors: dict[TopicPartition, tuple[Partition, Cursor]] = {}
        self.names: dict[bytes, str] = {}  #: Topic names by topic id.
        self._ids: dict[bytes, int] = {}  #: Number of partitions by topic id.
        #: When the last response confirmed log ends; shared by all partitions except those in ``unconfirmed``.
        self.confirmation = Confirmation()
        #: The partitions whose log end the last response did not confirm: new ones, and those rejected with an error.
        self.unconfirmed: dict[TopicPartition, Partition] = {}

    def set(self, tp: TopicPartition, want: WantedPartition) -> None:
        """Add a partition, or replace its fields."""
        old = self.wanted.get(tp)
        self.wanted[tp] = want
        if old is None or old.topic_id != want.topic_id:
            if old is not None:
                self._drop_id(old.topic_id)
            if want.topic_id != ZERO_UUID:
                self._ids[want.topic_id] = self._ids.get(want.topic_id, 0) + 1
                self.names[want.topic_id] = tp.topic

    def remove(self, tp: TopicPartition) -> None:
        self._drop_id(self.wanted.pop(tp).topic_id)
        self.unconfirmed.pop(tp, None)
        partition, _ = self.cursors.pop(tp, (None, None))
        if partition is not None:
            self.end_confirmation(partition)

    def expect(self, partition: Partition) -> None:
        known = self.cursors.get(partition.tp)
        if known is None or known[0] is not partition:
            self.unconfirmed[partition.tp] = partition
        self.cursors[partition.tp] = partition, partition.cursor

    def has_position_of(self, partition: Partition) -> bool:
        """Whether the last request has the partition with its current cursor and fetch offset."""
        known = self.cursors.get(partition.tp)
        if known is None or known[1] is not partition.cursor:
            return False
        return self.wanted[partition.tp].fetch_offset == partition.cursor.fetch_offset

    def end_confirmation(self, partition: Partition) -> None:
        """Keep the time at which the partition's log end was confirmed; later responses do not change it."""
        if partition.confirmation is self.confirmation:
            partition.confirmation = self.confirmation.ended()

    def end(self) -> None:
        """Keep the times at which the log ends of all partitions were confirmed, since the session has ended."""
        self.confirmation.is_current = False
        for partition, _ in self.cursors.values():
            partition.report_change()

    def _drop_id(self, topic_id: bytes) -> None:
        left = self._ids.get(topic_id, 0) - 1
        if left > 0:
            self._ids[topic_id] = left
        elif left == 0:
            del self._ids[topic_id], self.names[topic_id]


@dataclass(slots=True)
class FetchSession:
    """The fetch session with one node. It is the context of its requests, of which one is in flight at a time."""

    target: Target
    retry: Retry  #: Whether a request is in flight, and the backoff after failures.
    incremental: bool  #: The option ``enable_incremental_fetch_sessions``.
    pause: float  #: Seconds between Fetches that follow from responses without records; see :meth:`pace`.
    reserved: int = 0  #: Maximum response bytes of the request in flight.
    session_id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH
    uses_ids: bool = False  #: Whether the last request names topics by their ids (Kafka 3.1 or newer).
    #: From this time on, :data:`FRUITLESS` responses without records may come quickly again, see :meth:`pace`.
    recovers_at: float = 0.0
    turn: int = 0  #: Number of requests built so far; selects the first partition of the next one.
    written_at: float | None = None  #: When the request in flight was written; None if it was not yet.
    partition_bytes: int = 0  #: ``partition_max_bytes`` of the last request.
    #: The partitions of the broker's session, with their cursors when the last request was written. A seek or reset
    #: replaces a partition's cursor, so that data for the old cursor is recognized as stale and dropped.
    listed: SessionPartitions = field(default_factory=SessionPartitions)

    @property
    def is_asking(self) -> bool:
        """Whether a Fetch is in flight, or the last one has failed, so that another follows after a backoff."""
        return self.retry.in_flight or self.retry.attempts > 0

    def is_incremental(self, *, sessions: bool, uses_ids: bool) -> bool:
        return sessions and self.incremental and uses_ids == self.uses_ids and self.epoch != INITIAL_EPOCH

    def plan(
        self,
        wanted: Mapping[TopicPartition, WantedPartition],
        *,
        sessions: bool,
        uses_ids: bool,
        unwanted: Collection[TopicPartition] | None = None,
    ) -> Plan:
        """Return the session fields with which the node fetches exactly the wanted partitions; record them as sent.

        ``wanted`` has all partitions, and those missing in it are forgotten. If the request is incremental, the caller
        may name the partitions to forget as ``unwanted``; then ``wanted`` needs only those that may have changed.
        """
        if unwanted is None and not self.is_incremental(sessions=sessions, uses_ids=uses_ids):
            return self._full(wanted, sessions=sessions, uses_ids=uses_ids)
        listed = self.listed.wanted
        if unwanted is None:
            unwanted = [tp for tp in listed if tp not in wanted]
        forget = {tp: listed[tp] for tp in unwanted if tp in listed} if unwanted else {}
        for tp in forget:
            self.listed.remove(tp)
        send: dict[TopicPartition, WantedPartition] = {}
        for tp, new in wanted.items():
            old = listed.get(tp)
            if old == new:
                continue
            send[tp] = new
            if old is not None and old.topic_id == new.topic_id:
                listed[tp] = new
                continue
            # A recreated topic has a new id, and the deleted topic is forgotten by its old id. Brokers add partitions,
            # then forget others, so forgetting by name would remove the new topic.
            if uses_ids and old is not None:
                forget[tp] = old
            self.listed.set(tp, new)
        return Plan(self.session_id, self.epoch, send, forget)

    def _full(self, wanted: Mapping[TopicPartition, WantedPartition], *, sessions: bool, uses_ids: bool) -> Plan:
        self._drop_held()
        for tp, new in wanted.items():
            self.listed.set(tp, new)
        # A session uses either topic names or topic ids. Epoch 0 with an old session id closes that session, and opens
        # another one.
        self.epoch = INITIAL_EPOCH
        self.uses_ids = uses_ids
        if not (sessions and self.incremental):
            return Plan(NO_SESSION, FINAL_EPOCH, wanted, {})
        return Plan(self.session_id, INITIAL_EPOCH, wanted, {})

    def answered(self, session_id: int) -> None:
        """Note a successful response, so that the next Fetch may be sent at once.

        A session id of 0 means that there is no session: the broker's cache is full, or the request asked for none.
        """
        self.retry.in_flight = False  # there is no pause to clear: it was over before the request was sent
        self.retry.attempts = self.reserved = 0
        if session_id == NO_SESSION:
            self.reset()
        else:
            # The epoch wraps from 2^31 - 1 to 1, since 0 and -1 are reserved.
            self.epoch = 1 if self.epoch >= 0x7FFFFFFF or session_id != self.session_id else self.epoch + 1
        self.session_id = session_id

    def renew(self, *, keep_id: bool) -> None:
        """Note that the broker has dropped the session, or expects another session epoch.

        The next Fetch, which may be sent at once, begins another session. ``keep_id`` is that of :meth:`reset`.
        """
        self.reserved = 0
        self.reset(keep_id=keep_id)
        self.retry.succeeded()

    def failed(self, now: float, *, keep_id: bool = True) -> None:
        """Note a failure: after a backoff, the next Fetch is a full one, and with ``keep_id`` closes the old session.

        The broker may still hold that session: abandoned sessions would fill its cache.
        """
        self.reserved = 0
        self.reset(keep_id=keep_id)
        self.retry.failed(now)

    def pace(self, now: float) -> None:
        """Count a failure or response without records: after :data:`FRUITLESS` quick ones, space Fetches by ``pause``.

        The count is not of responses in a row. If a response with records, or a late one, began a new count, a broker
        could cause any number of Fetches.
        """
        written_at = now if self.written_at is None else self.written_at
        self.recovers_at = max(self.recovers_at, written_at) + self.pause
        due, pause = self.recovers_at - (FRUITLESS - 1) * self.pause, self.retry.pause
        if due > (pause.at if pause.is_ahead(now) else now):
            pause.set(due)

    def is_paced(self, now: float) -> bool:
        return self.recovers_at - (FRUITLESS - 2) * self.pause > now

    def reset(self, *, keep_id: bool = False) -> None:
        """Make the next Fetch a full one; with ``keep_id``, that Fetch also closes the old session on the broker."""
        self.epoch = INITIAL_EPOCH
        self._drop_held()
        if not keep_id:
            self.session_id = NO_SESSION

    def _drop_held(self) -> None:
        self.listed.end()
        self.listed = SessionPartitions()
