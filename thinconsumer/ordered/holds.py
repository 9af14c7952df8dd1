"""The hold of one assigned partition: its next gate (:mod:`.gates`), and the offset from which on records are held.

A state machine without requests: the gatekeepers ask brokers for what a hold needs.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from ..positions.partitions import NOTHING, Cursor, Partition
from ..positions.states import PositionEvent
from ..support.agenda import Agenda
from ..support.state_machine import next_state
from .gates import START, Epochs, Gate, Requirement


class HoldState(enum.Enum):
    """The event that a partition waits for before records behind its next gate may be returned."""

    AWAITING_EPOCHS = "awaiting leader epochs"  #: Leader epochs (in a barrier: committed offsets) are not known yet.
    AWAITING_START = "awaiting start"  #: The position or the log start is not known yet.
    AWAITING_THRESHOLDS = "awaiting thresholds"  #: Ends of leader epochs are not known, or a barrier's grace time runs.
    AWAITING_POSITIONS = "awaiting positions"  #: The group has not consumed all that the gate requires.
    AWAITING_CALLBACK = "awaiting key callback"  #: ``on_partition_keys_assigned`` has not succeeded yet.
    FREE = "free"  #: No gate is left.


class HoldEvent(enum.Enum):
    TOPIC_CHANGED = "topic changed"
    EPOCHS_FOUND = "epochs found"
    GATE_LEFT = "gate left"
    NO_GATE_LEFT = "no gate left"
    THRESHOLDS_FOUND = "thresholds found"
    THRESHOLDS_OUTDATED = "thresholds outdated"
    POSITION_CHANGED = "position changed"
    PASSED = "passed"
    POSITIONS_LOST = "positions lost"
    CALLED = "called"


_S = HoldState
_E = HoldEvent
_ALWAYS = {_E.TOPIC_CHANGED: _S.AWAITING_EPOCHS}

#: Legal transitions. Any other is a bug in this package and raises ``IllegalStateError``.
TRANSITIONS: Mapping[HoldState, Mapping[HoldEvent, HoldState]] = {
    _S.AWAITING_EPOCHS: {_E.EPOCHS_FOUND: _S.AWAITING_START, **_ALWAYS},
    _S.AWAITING_START: {
        _E.GATE_LEFT: _S.AWAITING_THRESHOLDS,
        _E.NO_GATE_LEFT: _S.FREE,
        # No gate is left, though the partition has waited at one: the awaited partition was removed after retention had
        # emptied it, or a seek went beyond the log start.
        _E.PASSED: _S.AWAITING_CALLBACK,
        **_ALWAYS,
    },
    _S.AWAITING_THRESHOLDS: {
        _E.THRESHOLDS_FOUND: _S.AWAITING_POSITIONS,
        _E.POSITION_CHANGED: _S.AWAITING_START,
        **_ALWAYS,
    },
    _S.AWAITING_POSITIONS: {
        _E.PASSED: _S.AWAITING_CALLBACK,
        # A new leader of an awaited partition may have a shorter log: its epochs may end at lower offsets.
        _E.THRESHOLDS_OUTDATED: _S.AWAITING_THRESHOLDS,
        # After a seek or a reset, the gate before the first record is decided anew: a seek may choose a later start.
        _E.POSITION_CHANGED: _S.AWAITING_START,
        **_ALWAYS,
    },
    _S.AWAITING_CALLBACK: {
        _E.CALLED: _S.AWAITING_START,
        # An awaited partition was given up, or gets another owner, which begins at the committed offset.
        _E.POSITIONS_LOST: _S.AWAITING_POSITIONS,
        **_ALWAYS,
    },
    _S.FREE: _ALWAYS,
}


class Hold:
    """The gates of one assigned partition, and the state of the next gate."""

    def __init__(self, partition: Partition, agenda: Agenda, state: HoldState = HoldState.AWAITING_EPOCHS) -> None:
        """``state`` is FREE for a partition that was read before its topic changed for the first time."""
        self.partition = partition
        self.state = state
        self.gates: list[Gate] = []  #: The gates that are not open, the next one first.
        #: The epochs (``Gate.after``) of gates that have opened. They stay open while the partition is assigned, unless
        #: a later change makes a new gate at the same place.
        self.opened: set[int] = set()
        self.patience = agenda.alarm()  #: When thresholds that were not reached are determined anew.
        self._creation: Epochs = ()
        #: Whether the partition has waited at a gate since the last :meth:`called`: then that call is due even if no
        #: gate is left.
        self._is_closed = False
        self._decided_for: Cursor | None = None  #: The cursor for which :meth:`decide_start` has decided.
        if state is not HoldState.FREE:
            partition.delivery_end = NOTHING

    def __repr__(self) -> str:
        return f"<Hold of {self.partition.tp.topic}-{self.partition.tp.partition} {self.state.value} {self.gates[:1]}>"

    @property
    def gate(self) -> Gate:
        """The next gate to open."""
        return self.gates[0]

    @property
    def thresholds(self) -> list[Requirement]:
        """The ends of leader epochs that decide about the next gate."""
        return self.gate.thresholds(self.partition.tp.partition)

    @property
    def awaits_log_start(self) -> bool:
        """Whether the log start is needed, to decide if the position is past the gate before the first record."""
        partition = self.partition
        is_first = self.state is HoldState.AWAITING_START and bool(self.gates) and self.gate.after == START
        # After a reset, the position does not show what the group has read.
        starts_anew = partition.placed_by is PositionEvent.RESET_FOUND
        return is_first and partition.has_position and not starts_anew and partition.cursor.offset > 0

    @property
    def awaits_thresholds(self) -> bool:
        """Whether offsets at which leader epochs end are needed."""
        return self.state in (HoldState.AWAITING_THRESHOLDS, HoldState.AWAITING_POSITIONS)

    def topic_changed(self) -> None:
        """Hold all records that are not fetched yet."""
        # Fetched ones need no hold: with ordered delivery, brokers sent them for a Fetch with the old partition count;
        # in a barrier, they precede the log ends that are looked up from now on.
        self.move(HoldEvent.TOPIC_CHANGED)
        self.hold_unfetched()

    def hold_unfetched(self) -> None:
        partition = self.partition
        if partition.delivery_end is None or partition.delivery_end > partition.cursor.fetch_offset:
            partition.delivery_end = partition.cursor.fetch_offset

    def epochs_found(self, gates: Sequence[Gate], creation: Epochs = ()) -> None:
        """Take the gates of the partition, and the leader epochs with which it was added (``creation``).

        If ``creation`` differs from before, the partition was removed and added again: it has a new gate before its
        first record, even if the earlier one has opened.
        """
        if creation != self._creation:
            self.opened.discard(START)
        self._creation = creation
        self.gates = [gate for gate in gates if gate.after not in self.opened]
        self.move(HoldEvent.EPOCHS_FOUND)

    def decide_start(self, log_start: int | None) -> bool:
        """Drop the gate before the first record if the group has passed that gate; return False if that is undecided.

        The group has passed the gate if the position is beyond the log start, and not from a reset: records were
        returned, or the application has chosen a later start (KIP-253). ``log_start`` is None if it is not known.
        """
        partition = self.partition
        self._decided_for = partition.cursor
        if self.gates and self.gate.after == START:
            if not partition.has_position or (self.awaits_log_start and log_start is None):
                return False
            if self.awaits_log_start and log_start is not None and partition.cursor.offset > log_start:
                self._open()
        if self.gates:
            self.move(HoldEvent.GATE_LEFT)
            self._is_closed = True
        elif self._is_closed:
            self.move(HoldEvent.PASSED)
        else:
            self.move(HoldEvent.NO_GATE_LEFT)
            partition.delivery_end = None
        return True

    def thresholds_found(self, own: int) -> None:
        """Release the records up to the gate. ``own`` is its offset, not used if the gate is before the first record.

        If ``own`` is higher than the offset known so far, retention may have removed the records before the gate: the
        end of an epoch that is no longer in the log is the log start. Buffered records before ``own`` may then be from
        behind the gate: they are dropped and fetched again.
        """
        if self.gate.after != START:
            partition = self.partition
            before = partition.delivery_end
            if before is not None and before < own and before < partition.cursor.fetch_offset:
                partition.rewind()
            partition.delivery_end = own
        self.move(HoldEvent.THRESHOLDS_FOUND)

    def thresholds_outdated(self) -> None:
        self.move(HoldEvent.THRESHOLDS_OUTDATED)
        self.hold_unfetched()

    def follow_position(self) -> None:
        """Decide anew whether the gate before the first record counts, after a seek or a reset."""
        if self.awaits_thresholds and self.gate.after == START and self.partition.cursor is not self._decided_for:
            self.move(HoldEvent.POSITION_CHANGED)

    def called(self) -> None:
        """Open the gate, if one is left, after the listener was called or if it has no method for that."""
        if self.gates:
            self._open()
        self._is_closed = False
        self.move(HoldEvent.CALLED)

    def _open(self) -> None:
        self.opened.add(self.gates.pop(0).after)

    def move(self, event: HoldEvent) -> None:
        self.state = next_state(TRANSITIONS, self.state, event, self)
