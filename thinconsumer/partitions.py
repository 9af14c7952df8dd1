"""Positions: one small state machine per assigned partition, and the cursor that tells fresh answers from stale ones.

Owns what is assigned, where each partition stands and why it may or may not be fetched. It does no I/O and knows no
broker: ``fetch`` and ``group`` read it and move it, and never see each other. After Java's ``SubscriptionState``.

Two things are kept apart. The **state** (:class:`PositionState`) says what a partition waits for. The **cursor** says
where it is, and its identity is its freshness: ``assign``, ``seek`` and every reset put a new object in its place, so
an answer that carries the old one is dropped by comparing identities, whatever it says.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .errors import IllegalStateError, KafkaError
from .types import OffsetAndMetadata, TopicPartition


class PositionState(enum.Enum):
    """What a partition waits for before it can be read."""

    AWAITING_CALLBACK = "awaiting callback"  #: ``on_partitions_assigned`` has not succeeded yet.
    AWAITING_COMMITTED = "awaiting committed"  #: The committed offset is fetched from the coordinator.
    AWAITING_RESET = "awaiting reset"  #: An offset is looked up: by auto_offset_reset, or for a seek.
    VALIDATING = "validating"  #: The leader changed; it is checked for truncation (KIP-320).
    FETCHING = "fetching"  #: Has a position: records are fetched and returned.


class PositionEvent(enum.Enum):
    """What happens to a partition, from the user, the group or a broker."""

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

#: Legal moves. Anything else is a bug of ours and raises.
TRANSITIONS: dict[PositionState, dict[PositionEvent, PositionState]] = {
    _S.AWAITING_CALLBACK: {
        _E.CALLBACK_DONE: _S.AWAITING_COMMITTED,
        # Seeking inside the callback is the documented way to start elsewhere; the callback's end then changes nothing.
        _E.SEEK: _S.FETCHING,
        _E.SEEK_VALIDATED: _S.VALIDATING,
        _E.RESET_ASKED: _S.AWAITING_RESET,
    },
    _S.AWAITING_COMMITTED: {
        _E.COMMITTED_FOUND: _S.VALIDATING,
        _E.COMMITTED_MISSING: _S.AWAITING_RESET,
        _E.SEEK: _S.FETCHING,
        _E.SEEK_VALIDATED: _S.VALIDATING,
        _E.RESET_ASKED: _S.AWAITING_RESET,
    },
    _S.AWAITING_RESET: {
        _E.RESET_FOUND: _S.FETCHING,
        # The position turned out to be inside the log, or past its end, with an epoch to ask about.
        _E.LEADER_CHANGED: _S.VALIDATING,
        _E.SEEK: _S.FETCHING,
        _E.SEEK_VALIDATED: _S.VALIDATING,
        _E.RESET_ASKED: _S.AWAITING_RESET,
    },
    _S.VALIDATING: {
        _E.VALIDATED: _S.FETCHING,
        _E.TRUNCATED: _S.FETCHING,
        _E.LEADER_CHANGED: _S.VALIDATING,
        _E.SEEK: _S.FETCHING,
        _E.SEEK_VALIDATED: _S.VALIDATING,
        _E.RESET_ASKED: _S.AWAITING_RESET,
    },
    _S.FETCHING: {
        _E.LEADER_CHANGED: _S.VALIDATING,
        _E.SEEK: _S.FETCHING,
        _E.SEEK_VALIDATED: _S.VALIDATING,
        _E.RESET_ASKED: _S.AWAITING_RESET,
    },
}


@dataclass(frozen=True, slots=True)
class Reset:
    """Where a partition shall go: to the log's start or end, or to the first record at or after a time.

    ``timestamp`` is milliseconds since the epoch, or one of the protocol's two marks.
    """

    timestamp: int
    reason: str  #: Logged once, when the offset is known.

    EARLIEST = -2
    LATEST = -1


class Cursor:
    """Where reading stands. Its identity is its freshness: see the module's docstring."""

    __slots__ = ("epoch", "fetch_epoch", "fetch_offset", "offset")

    def __init__(self, offset: int, epoch: int = -1) -> None:
        self.offset = offset  #: The position: next offset to hand out; -1 while unknown.
        self.epoch = epoch  #: Leader epoch of what was handed out last; -1 unknown.
        self.fetch_offset = offset  #: Next offset to ask for; ahead of ``offset`` by what is buffered.
        self.fetch_epoch = epoch  #: Leader epoch of what was received last.

    def __repr__(self) -> str:
        return f"Cursor({self.offset}, epoch={self.epoch}, fetch_offset={self.fetch_offset})"


class Partition:
    """One assigned partition."""

    __slots__ = (
        "blocked_until",
        "callback_pending",
        "committed",
        "confirmed_at",
        "cursor",
        "error",
        "failures",
        "fruitless_ranges",
        "high_watermark",
        "is_new",
        "last_error",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "out_of_range",
        "paused",
        "pending_revocation",
        "preferred_replica",
        "preferred_until",
        "reset",
        "state",
        "topic_id",
        "tp",
    )

    def __init__(self, tp: TopicPartition, state: PositionState) -> None:
        self.tp = tp
        self.state = state
        self.cursor = Cursor(-1)
        self.reset: Reset | None = None  #: What to look up while AWAITING_RESET; None: by policy.
        #: The position a broker called out of range: both ends are looked up before anything is decided.
        self.out_of_range: int | None = None
        # Three flags beside the machine. None changes which transitions are legal: a paused partition seeks, resets
        # and validates like any other, it only is not asked for and not handed out.
        self.paused = False
        self.pending_revocation = False  #: To be given up: nothing more is handed out, so the last commit covers all.
        #: ``on_partitions_assigned`` has not succeeded yet. A flag besides AWAITING_CALLBACK, since that callback may
        #: ask for the position, which has to be looked up then.
        self.callback_pending = False
        self.committed: OffsetAndMetadata | None = None  #: What the group has committed, as far as we know.
        #: What the latest answer says, if the application has to act. Polls raise each new object once.
        self.error: KafkaError | None = None
        #: The latest failure of any kind since the last success; health and calls that time out name it.
        self.last_error: KafkaError | None = None
        #: When a broker last said where the log ends, be it that nothing is new; monotonic seconds.
        self.confirmed_at: float | None = None
        #: The group has committed offsets of the topic, none of this partition: ``new_partition_offset_reset`` applies.
        self.is_new = False
        self.failures = 0  #: In a row; feeds the backoff.
        self.fruitless_ranges = 0  #: Times out of range with no successful fetch in between; feeds the backoff, too.
        self.blocked_until = 0.0  #: Not to be asked for before then, after an error of its own.
        self.leader_epoch = -1  #: Of the leader the position was last validated or fetched against.
        self.topic_id: bytes | None = None  #: None until metadata has named one.
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.preferred_replica = -1  #: Node to fetch from instead of the leader (KIP-392); -1 none.
        self.preferred_until = 0.0

    def __repr__(self) -> str:
        flags = " paused" if self.paused else ""
        return f"<Partition {self.tp.topic}-{self.tp.partition} {self.state.value}{flags} {self.cursor}>"

    def failed(self, error: KafkaError, *, is_raised: bool) -> None:
        """Note what the latest answer says; it replaces what earlier ones said."""
        self.last_error = error
        self.error = error if is_raised else None

    def worked(self) -> None:
        """Note that the latest answer was a good one."""
        self.failures = 0
        self.error = self.last_error = None

    def move(self, event: PositionEvent) -> None:
        """Make the transition of ``event``, or raise naming both."""
        self.state = self._after(event)

    def _after(self, event: PositionEvent) -> PositionState:
        try:
            return TRANSITIONS[self.state][event]
        except KeyError:
            raise IllegalStateError(f"{self.tp}: cannot take {event.value!r} while {self.state.value!r}") from None

    @property
    def has_position(self) -> bool:
        """Whether ``position`` can be answered."""
        return self.state in (PositionState.FETCHING, PositionState.VALIDATING)

    @property
    def may_hand_out(self) -> bool:
        """Whether buffered records may be given to the user now."""
        return (
            self.state is PositionState.FETCHING
            and not self.paused
            and not self.pending_revocation
            and not self.callback_pending
        )

    def may_fetch(self, now: float) -> bool:
        """Whether records may be asked for now."""
        return self.may_hand_out and now >= self.blocked_until

    def place(self, event: PositionEvent, offset: int, epoch: int = -1) -> None:
        """Go to ``offset`` with a new cursor: everything under way for the old one is stale from now on."""
        self._become(self._after(event), Cursor(offset, epoch), None, None)

    def ask_reset(self, reset: Reset | None, *, out_of_range: int | None = None) -> None:
        """Have the position looked up; ``None`` means by policy. The cursor is replaced at once."""
        kept = self.cursor.offset, self.cursor.epoch
        cursor = Cursor(*kept) if out_of_range is not None else Cursor(-1)
        self._become(self._after(PositionEvent.RESET_ASKED), cursor, reset, out_of_range)

    def missing_committed(self) -> None:
        """The group has no offset for this partition: go by policy."""
        cursor = Cursor(-1)
        self.move(PositionEvent.COMMITTED_MISSING)
        self.cursor = cursor

    def rewind(self) -> None:
        """Give up what is buffered and under way, to be fetched again from the position."""
        self.cursor = Cursor(self.cursor.offset, self.cursor.epoch)

    def _become(self, state: PositionState, cursor: Cursor, reset: Reset | None, out_of_range: int | None) -> None:
        # No call in here: KeyboardInterrupt strikes at calls only, and a new state must not meet the old cursor.
        self.state = state
        self.cursor = cursor
        self.reset = reset
        self.out_of_range = out_of_range
        self.failures = 0
        self.blocked_until = 0.0
        self.error = self.last_error = None


class RecordInHand(NamedTuple):
    """The record that an iteration returned last: the user may still be processing it."""

    partition: Partition
    position: int  #: Of the partition once the record counts as processed.
    before: OffsetAndMetadata  #: What to commit until then.


class Partitions:
    """What is assigned now, in the order it was assigned. ``generation`` counts changes of the set."""

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
        """Return the partition, or None when it is not assigned."""
        return self._partitions.get(tp)

    def require(self, tp: TopicPartition) -> Partition:
        """Return the partition, or raise: positions exist for assigned partitions only."""
        partition = self._partitions.get(tp)
        if partition is None:
            raise IllegalStateError(
                f"{tp.topic}-{tp.partition} is not assigned to this consumer; assigned: "
                f"{', '.join(f'{t.topic}-{t.partition}' for t in list(self._partitions)[:10]) or 'nothing'}"
            )
        return partition

    def tps(self) -> set[TopicPartition]:
        """Return what is assigned."""
        return set(self._partitions)

    def topics(self) -> set[str]:
        """Return the topics of what is assigned."""
        return {tp.topic for tp in self._partitions}

    def assign(self, tps: Iterable[TopicPartition], start: PositionState = PositionState.AWAITING_RESET) -> None:
        """Make ``tps`` the assignment; new ones begin in ``start``. What was assigned before stays as it is."""
        kept = self._partitions
        self._partitions = {tp: kept.get(tp) or Partition(tp, start) for tp in tps}
        self.generation += 1

    def processed(self, partition: Partition) -> OffsetAndMetadata:
        """Return the partition's position without the record in hand, and the epoch of the record before (KIP-320)."""
        hand, cursor = self.in_hand, partition.cursor
        if hand is not None and hand.partition is partition and hand.position == cursor.offset:
            return hand.before
        return OffsetAndMetadata(cursor.offset, "", cursor.epoch)

    def in_state(self, state: PositionState, now: float) -> list[Partition]:
        """Return those that wait in ``state`` and may be worked on now."""
        return [p for p in self._partitions.values() if p.state is state and now >= p.blocked_until]

    def wake_at(self, states: Callable[[Partition], bool], now: float) -> float:
        """Return when the next partition that ``states`` picks stops being blocked; never if none is."""
        times = [p.blocked_until for p in self._partitions.values() if p.blocked_until > now and states(p)]
        return min(times, default=float("inf"))
