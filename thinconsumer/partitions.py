"""The assigned partitions, each with its position and state machine.

This module does no I/O. ``fetch`` and ``group`` read and change the partitions and do not import each other. After
Java's ``SubscriptionState``.

The **state** (:class:`PositionState`) of a partition tells whether it can be fetched. The **cursor** is its position.
``assign``, ``seek`` and every reset replace the cursor object. A request keeps the cursor it was built with, and its
response is dropped if the partition has another cursor object by then.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .errors import IllegalStateError, KafkaError
from .lazy_dataclass import dataclass, field
from .types import OffsetAndMetadata, TopicPartition


class PositionState(enum.Enum):
    """The step that a partition waits for before it has a valid position, or FETCHING."""

    AWAITING_CALLBACK = "awaiting callback"  #: ``on_partitions_assigned`` has not succeeded yet.
    AWAITING_COMMITTED = "awaiting committed"  #: The committed offset is fetched from the coordinator.
    AWAITING_RESET = "awaiting reset"  #: An offset is looked up: by auto_offset_reset, or for a seek.
    VALIDATING = "validating"  #: The leader changed; its log is checked for truncation (KIP-320).
    FETCHING = "fetching"  #: Has a position: records are fetched and returned.


class PositionEvent(enum.Enum):
    """An event of a partition, caused by the user, the group or a broker."""

    CALLBACK_DONE = "callback done"
    COMMITTED_FOUND = "committed found"
    COMMITTED_MISSING = "committed missing"
    SEEK = "seek"
    SEEK_VALIDATED = "seek with a leader epoch"
    RESET_ASKED = "reset asked"
    RESET_FOUND = "reset found"
    LEADER_CHANGED = "leader changed"
    VALIDATED = "validated"
    TRUNCATED = "truncated"


_S = PositionState
_E = PositionEvent

#: The transitions by which the user sets or looks up another position; possible in every state.
_BY_USER = {_E.SEEK: _S.FETCHING, _E.SEEK_VALIDATED: _S.VALIDATING, _E.RESET_ASKED: _S.AWAITING_RESET}

#: Legal transitions. Any other is a bug in this client and raises ``IllegalStateError``.
TRANSITIONS: dict[PositionState, dict[PositionEvent, PositionState]] = {
    _S.AWAITING_CALLBACK: {
        _E.CALLBACK_DONE: _S.AWAITING_COMMITTED,
        # A seek inside ``on_partitions_assigned`` sets the start position, so the committed offset is not fetched
        # after the callback.
        **_BY_USER,
    },
    _S.AWAITING_COMMITTED: {_E.COMMITTED_FOUND: _S.VALIDATING, _E.COMMITTED_MISSING: _S.AWAITING_RESET, **_BY_USER},
    _S.AWAITING_RESET: {
        _E.RESET_FOUND: _S.FETCHING,
        # The lookup for an out-of-range position has shown that it is past the log end. If its leader epoch is known,
        # OffsetForLeaderEpoch finds the offset at which the log was truncated, in place of a reset.
        _E.LEADER_CHANGED: _S.VALIDATING,
        **_BY_USER,
    },
    _S.VALIDATING: {_E.VALIDATED: _S.FETCHING, _E.TRUNCATED: _S.FETCHING, _E.LEADER_CHANGED: _S.VALIDATING, **_BY_USER},
    _S.FETCHING: {_E.LEADER_CHANGED: _S.VALIDATING, **_BY_USER},
}


@dataclass(frozen=True, slots=True)
class Reset:
    """Target of a reset: the log's start or end, or the first record at or after a time.

    ``timestamp`` is milliseconds since the epoch, ``EARLIEST`` or ``LATEST``, as in ListOffsets.
    """

    timestamp: int
    reason: str  #: Why the offset is looked up; logged with the offset found.

    EARLIEST = -2
    LATEST = -1


class Cursor:
    """A partition's position. A new object marks responses for the old one as stale: see the module's docstring."""

    __slots__ = ("epoch", "fetch_epoch", "fetch_offset", "offset")

    def __init__(self, offset: int, epoch: int = -1) -> None:
        self.offset = offset  #: The position: offset of the next record to return; -1 if unknown.
        self.epoch = epoch  #: Leader epoch of the last record returned; -1 if unknown.
        self.fetch_offset = offset  #: Next offset to fetch; ahead of ``offset`` by the buffered records.
        self.fetch_epoch = epoch  #: Leader epoch of the last batch received.

    def __repr__(self) -> str:
        return f"Cursor({self.offset}, epoch={self.epoch}, fetch_offset={self.fetch_offset})"


@dataclass(slots=True, eq=False, repr=False)
class Partition:
    """One assigned partition."""

    tp: TopicPartition
    state: PositionState
    cursor: Cursor = field(default_factory=lambda: Cursor(-1))
    reset: Reset | None = None  #: Target of the reset in state AWAITING_RESET; None: that of ``auto_offset_reset``.
    #: The position that the leader rejected as out of range; None if the reset has another cause. The reset looks up
    #: both ends of the log first, to tell a position before the log start from one past the log end.
    out_of_range: int | None = None
    # Three flags that do not affect transitions: a paused partition can seek, reset and validate, but it is not
    # fetched and its records are not returned.
    paused: bool = False
    #: Whether the partition is being revoked. Polls return no more of its records, as they would come after this
    #: member's last commit for it, and the next owner would read them again.
    pending_revocation: bool = False
    #: ``on_partitions_assigned`` has not succeeded yet. Not the same as the state AWAITING_CALLBACK: a call of
    #: ``position()`` inside that callback changes the state, to look up the offset.
    callback_pending: bool = False
    committed: OffsetAndMetadata | None = None  #: The last known committed offset.
    #: The error of the latest response about this partition, if the application must act on it; else None. A poll
    #: raises each error object once.
    error: KafkaError | None = None
    #: The latest failure since the last success; named by health reports and timeout errors.
    last_error: KafkaError | None = None
    #: When a Fetch response last confirmed the log end, with or without new records; monotonic seconds.
    confirmed_at: float | None = None
    #: Whether the group has committed offsets for the topic but none for this partition. If so, its first
    #: position is set by ``new_partition_offset_reset``.
    is_new: bool = False
    failures: int = 0  #: Number of consecutive failed requests; the backoff grows with it.
    #: Number of OFFSET_OUT_OF_RANGE errors since a Fetch last succeeded; the backoff before a reset grows with it.
    fruitless_ranges: int = 0
    blocked_until: float = 0.0  #: End of this partition's backoff, in monotonic seconds; no request for it before.
    leader_epoch: int = -1  #: Latest leader epoch seen in metadata; -1 if unknown.
    topic_id: bytes | None = None  #: The id of the topic that the position belongs to; None until metadata has one.
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    preferred_replica: int = -1  #: The follower to fetch from instead of the leader (KIP-392); -1: the leader.
    preferred_until: float = 0.0

    def __repr__(self) -> str:
        flags = " paused" if self.paused else ""
        return f"<Partition {self.tp.topic}-{self.tp.partition} {self.state.value}{flags} {self.cursor}>"

    def failed(self, error: KafkaError, *, is_raised: bool) -> None:
        """Record an error; with ``is_raised``, the next poll raises it."""
        self.last_error = error
        self.error = error if is_raised else None

    def worked(self) -> None:
        """Record a successful response: clear the errors and the failure count."""
        self.failures = 0
        self.error = self.last_error = None

    def move(self, event: PositionEvent) -> None:
        """Make the transition of ``event``, or raise ``IllegalStateError`` if the state does not allow it."""
        self.state = self._after(event)

    def _after(self, event: PositionEvent) -> PositionState:
        try:
            return TRANSITIONS[self.state][event]
        except KeyError:
            raise IllegalStateError(f"{self.tp}: {event.value!r} is illegal in state {self.state.value!r}") from None

    @property
    def has_position(self) -> bool:
        """Whether the position is known."""
        return self.state in (PositionState.FETCHING, PositionState.VALIDATING)

    @property
    def may_hand_out(self) -> bool:
        """Whether buffered records may be returned now."""
        return (
            self.state is PositionState.FETCHING
            and not self.paused
            and not self.pending_revocation
            and not self.callback_pending
        )

    def may_fetch(self, now: float) -> bool:
        """Whether records may be fetched now."""
        return self.may_hand_out and now >= self.blocked_until

    def place(self, event: PositionEvent, offset: int, epoch: int = -1) -> None:
        """Set the position to ``offset`` with a new cursor: responses to requests with the old cursor are dropped."""
        self._become(self._after(event), Cursor(offset, epoch), None, None)

    def ask_reset(self, reset: Reset | None, *, out_of_range: int | None = None) -> None:
        """Start to look up another position: by ``reset``, or by ``auto_offset_reset`` if ``reset`` is None.

        The cursor is replaced at once, so that responses to earlier requests are dropped. After an ``out_of_range``
        error the new cursor keeps the old position until the lookup has a result.
        """
        kept = self.cursor.offset, self.cursor.epoch
        cursor = Cursor(*kept) if out_of_range is not None else Cursor(-1)
        self._become(self._after(PositionEvent.RESET_ASKED), cursor, reset, out_of_range)

    def missing_committed(self) -> None:
        """Start a reset by ``auto_offset_reset``, since the group has no committed offset for this partition."""
        cursor = Cursor(-1)
        self.move(PositionEvent.COMMITTED_MISSING)
        self.cursor = cursor

    def rewind(self) -> None:
        """Drop the buffered batches and the responses to Fetches in flight; fetching restarts at the position."""
        self.cursor = Cursor(self.cursor.offset, self.cursor.epoch)

    def _become(self, state: PositionState, cursor: Cursor, reset: Reset | None, out_of_range: int | None) -> None:
        # Only assignments and no call: Python raises KeyboardInterrupt at calls, and Ctrl-C between two of these
        # statements would leave the new state with the old cursor.
        self.state = state
        self.cursor = cursor
        self.reset = reset
        self.out_of_range = out_of_range
        self.failures = 0
        self.blocked_until = 0.0
        self.error = self.last_error = None


class RecordInHand(NamedTuple):
    """The record that iteration returned last. Commits exclude it until the next one is requested: it may be in use."""

    partition: Partition
    position: int  #: The partition's position after the record.
    before: OffsetAndMetadata  #: The offset to commit until the record is processed: the position before the record.


class Partitions:
    """The assigned partitions, in the order of assignment. ``generation`` counts the calls of :meth:`assign`."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, Partition] = {}
        self.generation = 0
        self.in_hand: RecordInHand | None = None

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, tp: object) -> bool:
        return tp in self._partitions

    def get(self, tp: TopicPartition) -> Partition | None:
        """Return the partition, or None if it is not assigned."""
        return self._partitions.get(tp)

    def require(self, tp: TopicPartition) -> Partition:
        """Return the partition, or raise ``IllegalStateError`` if it is not assigned."""
        partition = self._partitions.get(tp)
        if partition is None:
            raise IllegalStateError(
                f"{tp.topic}-{tp.partition} is not assigned to this consumer; assigned: "
                f"{', '.join(f'{t.topic}-{t.partition}' for t in list(self._partitions)[:10]) or 'nothing'}"
            )
        return partition

    def tps(self) -> set[TopicPartition]:
        """Return the assigned topic-partitions."""
        return set(self._partitions)

    def topics(self) -> set[str]:
        """Return the topics of the assigned partitions."""
        return {tp.topic for tp in self._partitions}

    def assign(self, tps: Iterable[TopicPartition], start: PositionState = PositionState.AWAITING_RESET) -> None:
        """Make ``tps`` the assignment. Partitions that stay assigned are unchanged; new ones begin in ``start``."""
        kept = self._partitions
        self._partitions = {tp: kept.get(tp) or Partition(tp, start) for tp in tps}
        self.generation += 1

    def processed(self, partition: Partition) -> OffsetAndMetadata:
        """Return the offset to commit for a partition, with its leader epoch (KIP-320).

        The offset is the partition's position or, if the user may still be processing the last record of an iteration
        (:class:`RecordInHand`), the position before that record.
        """
        hand, cursor = self.in_hand, partition.cursor
        if hand is not None and hand.partition is partition and hand.position == cursor.offset:
            return hand.before
        return OffsetAndMetadata(cursor.offset, "", cursor.epoch)

    def in_state(self, state: PositionState, now: float) -> list[Partition]:
        """Return the partitions in ``state`` that are not backing off."""
        return [p for p in self._partitions.values() if p.state is state and now >= p.blocked_until]

    def wake_at(self, states: Callable[[Partition], bool], now: float) -> float:
        """Return when the next backoff of a partition accepted by ``states`` ends; infinity if there is none."""
        times = [p.blocked_until for p in self._partitions.values() if p.blocked_until > now and states(p)]
        return min(times, default=float("inf"))
