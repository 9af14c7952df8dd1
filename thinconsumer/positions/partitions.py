"""The assigned partitions, each with its position and state machine. After Java's ``SubscriptionState``.

``fetch`` and ``group`` read and change the partitions and do not import each other.

The **state** (:class:`PositionState`) of a partition tells whether it can be fetched. The **cursor** is its position.
Every event that sets another position, such as a ``seek`` or a reset, replaces the cursor object. A request keeps the
cursor it was built with, and its response is dropped if the partition has another cursor object by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from ..errors import IllegalStateError, KafkaError
from ..support.agenda import Agenda, Alarm, ReportingKey
from ..support.garbage_collection import garbage_collection_paused
from ..support.lazy_dataclass import dataclass
from ..support.state_machine import next_state
from ..types import OffsetAndMetadata, TopicPartition
from .states import TRANSITIONS, PositionEvent, PositionState


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
    """A partition's position; see the module's docstring."""

    __slots__ = ("begin", "epoch", "fetch_epoch", "fetch_offset", "offset")

    def __init__(self, offset: int, epoch: int = -1) -> None:
        self.begin = offset  #: The position when this cursor was set.
        self.offset = offset  #: The position: offset of the next record to return; -1 if unknown.
        self.epoch = epoch  #: Leader epoch of the last record returned, or set with the position; -1 if unknown.
        self.fetch_offset = offset  #: Next offset to fetch; ahead of ``offset`` by the buffered records.
        self.fetch_epoch = epoch  #: Leader epoch of the last batch received; ``epoch`` before the first.

    def __repr__(self) -> str:
        return f"Cursor({self.offset}, epoch={self.epoch}, fetch_offset={self.fetch_offset})"


class Confirmation:
    """When a Fetch response last confirmed the log ends of partitions, with or without new records.

    The partitions of one fetch session share one object: a response without records, which confirms the log ends of
    all of them, changes one attribute.
    """

    __slots__ = ("at", "excused_at", "is_current")

    def __init__(self, at: float | None = None, excused_at: float | None = None, *, is_current: bool = True) -> None:
        self.at = at  #: Monotonic seconds; None before the first response.
        self.excused_at = excused_at  #: When health last found that the session was not expected to fetch, or None.
        self.is_current = is_current  #: Whether responses of the session still change ``at``.

    def ended(self) -> Confirmation:
        """Return a copy that later responses do not change, for a partition that leaves the session."""
        return Confirmation(self.at, self.excused_at, is_current=False)


#: The states in which the position of a partition is known.
HAS_POSITION = (PositionState.FETCHING, PositionState.VALIDATING)
#: ``Partition.delivery_end`` of a partition of which no record may be returned.
NOTHING = -1

#: The attributes of a partition that decide how managers act on it, or in which lists of :class:`Partitions` it is.
#: Setting one of them reports a change.
WATCHED = (
    "state",
    "cursor",
    "paused",
    "pending_revocation",
    "unsubscribed",
    "callback_pending",
    "error",
    "backoff",
    "delivery_end",
    "preferred_replica",
    "confirmation",
)


def _watched(slot: str) -> Any:
    """Return an attribute that is stored in ``slot``; assigning it reports a change of the partition."""

    def assign(partition: Partition, value: object) -> None:
        partition.report_change()
        setattr(partition, slot, value)

    return property(attrgetter(slot), assign)


by_number = attrgetter("number")  #: The key that sorts partitions in the order of assignment.


class Partition(ReportingKey):
    """One assigned partition.

    Setting one of the :data:`WATCHED` attributes is reported to :class:`Partitions`, so that no poll needs to look at
    all partitions. A partition is the key of its alarms, which report a change, too.
    """

    __slots__ = (
        *(f"_{name}" for name in WATCHED), "_owner", "committed", "failures", "fruitless_ranges", "high_watermark",
        "indexed_state", "is_new", "last_error", "last_stable_offset", "leader", "leader_epoch",
        "least_refresh", "log_start_offset", "number", "out_of_range", "placed_by", "preference", "reset",
        "topic_id", "tp",
    )  # fmt: skip

    state: PositionState = _watched("_state")
    cursor: Cursor = _watched("_cursor")
    #: Whether records are neither fetched nor returned. The position can still be reset and validated.
    paused: bool = _watched("_paused")
    #: Whether the partition is being revoked. Polls return no more of its records: they would come after this member's
    #: last commit, and the next owner would read them again.
    pending_revocation: bool = _watched("_pending_revocation")
    #: Whether the subscription lacks the topic, and the group has yet to revoke the partition.
    unsubscribed: bool = _watched("_unsubscribed")
    #: Whether ``on_partitions_assigned`` has not succeeded yet. The state may be another than AWAITING_CALLBACK: a call
    #: of ``position()`` inside that callback ends this state, to look up the offset.
    callback_pending: bool = _watched("_callback_pending")
    #: The error of this partition for polls to raise; None if there is none. Each error object is raised once. An error
    #: after which the partition is not read until the application acts, such as LogTruncationError, is raised by every
    #: poll that finds no records.
    error: KafkaError | None = _watched("_error")
    #: The end of this partition's backoff; None if it has none. Setting None ends the backoff.
    backoff: Alarm | None = _watched("_backoff")
    #: The offset from which on a gatekeeper holds the records: they are neither fetched nor returned. NOTHING: all are
    #: held; None: none.
    delivery_end: int | None = _watched("_delivery_end")
    #: The follower to fetch from instead of the leader (KIP-392); -1: the leader.
    preferred_replica: int = _watched("_preferred_replica")
    #: When a Fetch response last confirmed the log end; None if none has.
    confirmation: Confirmation | None = _watched("_confirmation")

    def __init__(self, tp: TopicPartition, state: PositionState) -> None:
        self.tp = tp
        self.number = 0  #: The index in the assignment.
        self._owner: Partitions | None = None  #: None if the partition was never assigned.
        #: The state under which :class:`Partitions` lists the partition; None if it is in no list.
        self.indexed_state: PositionState | None = None
        self._state = state
        self._cursor = Cursor(-1)
        self._paused = self._pending_revocation = self._unsubscribed = self._callback_pending = False
        self._error: KafkaError | None = None
        self._backoff: Alarm | None = None
        self._delivery_end: int | None = None
        self._preferred_replica = -1
        self._confirmation: Confirmation | None = None
        self.placed_by: PositionEvent | None = None  #: The event that has set the position last; None before the first.
        #: Target of the reset in state AWAITING_RESET; None: that of the option, such as ``auto_offset_reset``.
        self.reset: Reset | None = None
        #: The position that the leader rejected as out of range, or cannot validate; None if the reset has another
        #: cause.
        self.out_of_range: int | None = None
        #: The number of the metadata refresh that must have succeeded before an out-of-range position is compared with
        #: the ends of the log.
        self.least_refresh = 0
        #: The committed offset that this consumer has read at the assignment, or written since; None if there is none.
        self.committed: OffsetAndMetadata | None = None
        #: The latest failure since the last success; named by health reports and timeout errors.
        self.last_error: KafkaError | None = None
        #: Whether the group has committed offsets for the topic but none for this partition: then
        #: ``new_partition_offset_reset`` may apply in place of ``auto_offset_reset``.
        self.is_new = False
        self.failures = 0  #: Number of consecutive failed requests.
        #: Number of resets after OFFSET_OUT_OF_RANGE since a Fetch last succeeded.
        self.fruitless_ranges = 0
        self.leader = -1  #: The id of the leader that metadata named last; -1 before the first.
        self.leader_epoch = -1  #: Latest leader epoch seen in metadata; -1 if unknown.
        #: The id of the topic that the position belongs to; None until metadata has it.
        self.topic_id: bytes | None = None
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.preference: Alarm | None = None  #: The end of the time for which ``preferred_replica`` counts.

    def report_change(self) -> None:
        """Make the managers look at this partition again.

        Called before the change: if Ctrl-C struck between a change and its later report, the partition could be left
        out of Fetch requests.
        """
        owner = self._owner
        if owner is not None:
            owner.changed[self] = None

    def _report_state(self) -> None:
        """Report a change of the state, and make all managers step: in each state another manager acts."""
        self.report_change()
        if self._owner is not None:
            self._owner.agenda.touch()

    def back_off(self, until: float) -> None:
        """Send no request for this partition before ``until``, in monotonic seconds."""
        self.backoff = self._alarm(until)

    def is_backing_off(self, now: float) -> bool:
        return self._backoff is not None and self._backoff.is_ahead(now)

    def prefer(self, node_id: int, until: float) -> None:
        self.preference = self._alarm(until, self.preference)
        self.preferred_replica = node_id

    def _alarm(self, at: float, alarm: Alarm | None = None) -> Alarm:
        assert self._owner is not None, "only assigned partitions have times"
        alarm = alarm or self._owner.agenda.alarm(self)
        alarm.set(at)
        return alarm

    @property
    def confirmed_at(self) -> float | None:
        confirmation = self._confirmation
        return None if confirmation is None else confirmation.at

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
        self.last_error = None
        if self._error is not None:
            self.error = None

    def move(self, event: PositionEvent) -> None:
        """Make the transition of ``event``, or raise ``IllegalStateError``."""
        state = next_state(TRANSITIONS, self.state, event, self.tp)
        self._report_state()
        self._state = state

    @property
    def has_position(self) -> bool:
        return self.state in HAS_POSITION

    @property
    def may_hand_out(self) -> bool:
        """Whether buffered records may be returned now."""
        return (
            self._state is PositionState.FETCHING
            and not self._paused
            and not self._pending_revocation
            and not self._unsubscribed
            and not self._callback_pending
            and (self._delivery_end is None or self._cursor.offset < self._delivery_end)
        )

    @property
    def is_stopped(self) -> bool:
        """Whether no record may be fetched until the partition is resumed, or its gatekeeper releases it."""
        return self.paused or (self.is_held and self.state is PositionState.FETCHING)

    @property
    def is_held(self) -> bool:
        """Whether a gatekeeper holds the record that would be fetched next."""
        return self._delivery_end is not None and self._cursor.fetch_offset >= self._delivery_end

    def may_fetch(self, now: float) -> bool:
        is_held = self._delivery_end is not None and self._cursor.fetch_offset >= self._delivery_end
        return self.may_hand_out and not is_held and (self._backoff is None or not self._backoff.is_ahead(now))

    @property
    def may_commit(self) -> bool:
        """Whether there is a position, and the group has reached it.

        The group has not reached the position if all records are held, and the position is from a reset or no offset
        was committed before. If such a position were committed, the next owner would not hold the partition.
        """
        is_unread = self.placed_by is PositionEvent.RESET_FOUND or self.committed is None
        return self.state in HAS_POSITION and not (self._delivery_end == NOTHING and is_unread)

    def place(self, event: PositionEvent, offset: int, epoch: int = -1) -> None:
        """Set the position to ``offset`` with a new cursor."""
        self._become(event, Cursor(offset, epoch), None, None, event)

    def ask_reset(self, reset: Reset | None, *, out_of_range: int | None = None, forget_epoch: bool = False) -> None:
        """Start to look up another position: by ``reset``, or by the options if ``reset`` is None.

        ``out_of_range`` is the position if the leader has rejected it as out of range, or cannot validate it; None if
        the reset has another cause. If it is given, the new cursor keeps the position until the lookup has a result,
        but with ``forget_epoch`` not its leader epoch: the leader does not have that epoch, so cannot validate it.
        """
        kept = self.cursor.offset, -1 if forget_epoch else self.cursor.epoch
        cursor = Cursor(*kept) if out_of_range is not None else Cursor(-1)
        self._become(PositionEvent.RESET_ASKED, cursor, reset, out_of_range, self.placed_by)

    def missing_committed(self) -> None:
        """Start a reset by the options, since the group has no committed offset for this partition."""
        cursor = Cursor(-1)
        self.move(PositionEvent.COMMITTED_MISSING)
        self.cursor = cursor

    def rewind(self) -> None:
        """Fetch again from the position: drop buffered batches, and the responses to Fetches in flight."""
        self.cursor = Cursor(self.cursor.offset, self.cursor.epoch)

    def _become(
        self,
        event: PositionEvent,
        cursor: Cursor,
        reset: Reset | None,
        out_of_range: int | None,
        placed_by: PositionEvent | None,
    ) -> None:
        state = next_state(TRANSITIONS, self.state, event, self.tp)
        self._report_state()
        # Only assignments and no call: Python raises KeyboardInterrupt at calls, and Ctrl-C between two of these
        # statements would leave the new state with the old cursor.
        self._state = state
        self._cursor = cursor
        self.reset = reset
        self.out_of_range = out_of_range
        self.placed_by = placed_by
        self.failures = 0
        self._backoff = None
        self._error = self.last_error = None


class RecordInHand(NamedTuple):
    """The record that iteration returned last. Automatic commits exclude it: the application may be processing it."""

    partition: Partition
    position: int  #: The partition's position after the record.
    before: OffsetAndMetadata  #: The offset to commit until the record is processed: the position before the record.


class Partitions:
    """The assigned partitions, in the order of assignment. ``generation`` counts the calls of :meth:`assign`.

    Partitions are also listed by state, and by other properties that only few of them have at a time. These lists
    follow the changes that partitions report: a look at each of 10,000 partitions takes 19 ms where a poll of one
    record takes 0.4 ms.
    """

    def __init__(self, agenda: Agenda | None = None) -> None:
        self.agenda = Agenda() if agenda is None else agenda
        self.assigned: dict[TopicPartition, Partition] = {}  #: Replaced by each assignment, and not changed in place.
        self.generation = 0
        self.in_hand: RecordInHand | None = None
        #: Partitions that have changed since :meth:`_follow_changes` listed them.
        self.changed: dict[Partition, None] = {}
        #: The partitions that the next :meth:`take_unplanned` returns.
        self.unplanned: dict[Partition, None] = {}
        self._by_state: dict[PositionState, dict[Partition, None]] = {state: {} for state in PositionState}
        self._with_error: dict[Partition, None] = {}
        self._unconfirmed: dict[Partition, None] = {}
        self._changes = 0
        #: The topics of which newly assigned partitions begin with all records held: otherwise a queued Fetch, written
        #: before the gatekeeper's next step, would fetch their records.
        self.held_topics: set[str] = set()
        #: Whether a record counts as read once it is committed: workers go on with it when later polls are made.
        self.awaits_commits = False
        #: Whether partitions of a topic may be read; False if the group's subscription no longer has it.
        self.has_topic: Callable[[str], bool] = lambda topic: True
        #: By topic: the partition count that its Fetch requests carry, see :meth:`set_count`.
        self.counts: dict[str, int] = {}
        self._topics: tuple[int, frozenset[str]] = 0, frozenset()  #: Generation, and the topics of that assignment.

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.assigned.values())

    def __len__(self) -> int:
        return len(self.assigned)

    def __contains__(self, tp: object) -> bool:
        return tp in self.assigned

    def get(self, tp: TopicPartition) -> Partition | None:
        return self.assigned.get(tp)

    def note_committed(self, tp: TopicPartition, value: OffsetAndMetadata) -> None:
        """Note an offset that was committed, if the partition is assigned."""
        partition = self.assigned.get(tp)
        if partition is not None:
            partition.committed = value

    def require(self, tp: TopicPartition) -> Partition:
        """Return the partition, or raise ``IllegalStateError`` if it is not assigned."""
        partition = self.assigned.get(tp)
        if partition is None:
            raise IllegalStateError(
                f"{tp.topic}-{tp.partition} is not assigned to this consumer; assigned: "
                f"{', '.join(f'{t.topic}-{t.partition}' for t in list(self.assigned)[:10]) or 'nothing'}"
            )
        return partition

    def tps(self) -> set[TopicPartition]:
        return set(self.assigned)

    def topics(self) -> frozenset[str]:
        if self._topics[0] != self.generation:
            self._topics = self.generation, frozenset({tp.topic for tp in self.assigned})
        return self._topics[1]

    @garbage_collection_paused
    def assign(self, tps: Iterable[TopicPartition], start: PositionState = PositionState.AWAITING_RESET) -> None:
        """Make ``tps`` the assignment. Partitions that stay assigned are unchanged; new ones begin in ``start``."""
        kept = self.assigned
        assigned = {tp: kept.get(tp) or Partition(tp, start) for tp in tps}
        for number, partition in enumerate(assigned.values()):
            partition.number = number
            if partition.tp not in kept:
                if partition.tp.topic in self.held_topics:
                    partition.delivery_end = NOTHING
                if not self.has_topic(partition.tp.topic):
                    partition.unsubscribed = True
                partition._owner = self
                partition.report_change()
        for tp, partition in kept.items():
            if tp not in assigned:
                partition.report_change()
        self.assigned = assigned
        self.generation += 1
        self.agenda.touch()

    def mark_unsubscribed(self) -> None:
        """Withhold the records of partitions whose topic the subscription has dropped, until it has the topic again.

        Called when the subscription has changed: the group revokes such partitions only some round trips later.
        """
        for partition in self.assigned.values():
            if partition.unsubscribed == self.has_topic(partition.tp.topic):
                partition.unsubscribed = not partition.unsubscribed

    def set_count(self, topic: str, count: int | None) -> None:
        """Let the topic's Fetch requests carry this partition count from now on; with None, no count."""
        if self.counts.get(topic) != count:
            if count is None:
                del self.counts[topic]
            else:
                self.counts[topic] = count
            for partition in self.assigned.values():
                if partition.tp.topic == topic:
                    partition.report_change()

    def reindex(self) -> None:
        """Report all partitions as changed."""
        for partition in self.assigned.values():
            partition.report_change()

    def processed(self, partition: Partition) -> OffsetAndMetadata:
        """Return the offset to commit for a partition, with its leader epoch (KIP-320): see :class:`RecordInHand`."""
        hand, cursor = self.in_hand, partition.cursor
        if hand is not None and hand.partition is partition and hand.position == cursor.offset:
            return hand.before
        return OffsetAndMetadata(cursor.offset, "", cursor.epoch)

    def read_up_to(self, partition: Partition) -> OffsetAndMetadata | None:
        """Return up to where the application has read a partition with a position, as gatekeepers count it; None if
        that is not known.

        A record that a poll has returned counts as read with the next call, or once it is committed
        (:attr:`awaits_commits`). If the position was moved back before the committed offset, all before it is read.
        """
        cursor, committed = partition.cursor, partition.committed
        if not self.awaits_commits:
            return OffsetAndMetadata(cursor.offset, "", cursor.epoch)
        if committed is not None and committed.offset > cursor.offset:
            return OffsetAndMetadata(cursor.begin)
        return committed

    def changes(self) -> int:
        """Return a number that is different whenever partitions have changed since the last call."""
        if self.changed:
            self._follow_changes()
        return self._changes

    def in_state(self, state: PositionState, now: float) -> list[Partition]:
        """Return the partitions in ``state`` that are not backing off."""
        if self.changed:
            self._follow_changes()
        return sorted([p for p in self._by_state[state] if not p.is_backing_off(now)], key=by_number)

    def without_position(self) -> list[Partition]:
        if self.changed:
            self._follow_changes()
        states = (PositionState.AWAITING_CALLBACK, PositionState.AWAITING_COMMITTED, PositionState.AWAITING_RESET)
        return sorted([p for state in states for p in self._by_state[state]], key=by_number)

    def with_error(self) -> list[Partition]:
        """Return the partitions with an error that polls raise (``Partition.error``)."""
        if self.changed:
            self._follow_changes()
        return sorted(self._with_error, key=by_number)

    def unconfirmed(self) -> list[Partition]:
        """Return the partitions whose log ends no response of a current fetch session has confirmed."""
        if self.changed:
            self._follow_changes()
        return list(self._unconfirmed)

    def confirm(self, partitions: Iterable[Partition], confirmation: Confirmation) -> None:
        """Give ``partitions`` this confirmation of their log ends, which later responses of the session update."""
        for partition in partitions:
            # Not set through the property, which reports a change: managers need not act on a confirmation.
            partition._confirmation = confirmation
            if confirmation.is_current:
                self._unconfirmed.pop(partition, None)

    def take_unplanned(self) -> dict[Partition, None]:
        """Return the partitions that the planner must look at: those whose state was FETCHING before or after a change.

        Only changes since the last call of this method count, assignments and unassignments included.
        """
        if self.changed:
            self._follow_changes()
        found, self.unplanned = self.unplanned, {}
        return found

    def _follow_changes(self) -> None:
        """Bring the lists up to date with the changes that partitions have reported."""
        self._changes += 1
        # A partition leaves ``changed`` last: if Ctrl-C strikes before, it is listed again.
        for partition in list(self.changed):
            # The planner needs only partitions that are fetched before or after the change.
            if partition._state is PositionState.FETCHING or partition.indexed_state is PositionState.FETCHING:
                self.unplanned[partition] = None
            self._list(partition)
            del self.changed[partition]

    def _list(self, partition: Partition) -> None:
        before = partition.indexed_state
        if self.assigned.get(partition.tp) is not partition:
            if before is not None:
                self._by_state[before].pop(partition, None)
            self._with_error.pop(partition, None)
            self._unconfirmed.pop(partition, None)
            partition.indexed_state = None
            return
        state = partition._state
        if before is not state:
            if before is not None:
                self._by_state[before].pop(partition, None)
            self._by_state[state][partition] = None
            partition.indexed_state = state
        if partition._error is None:
            self._with_error.pop(partition, None)
        else:
            self._with_error[partition] = None
        confirmation = partition._confirmation
        if confirmation is None or not confirmation.is_current:
            self._unconfirmed[partition] = None
        else:
            self._unconfirmed.pop(partition, None)
