"""The hold of one partition: its states, and where returning its records stops."""

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer.ordered.gates import END, START, Gate, Requirement
from thinconsumer.ordered.holds import NOTHING, Hold, HoldEvent, HoldState
from thinconsumer.positions.partitions import Partition
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import TopicPartition

S = HoldState
BEFORE_FIRST = Gate(START, (Requirement(0, 5),))
AT_EPOCH_7 = Gate(7, (Requirement(3, END),))


@pytest.fixture
def partition():
    return Partition(TopicPartition("t", 1), PositionState.AWAITING_RESET)


def placed(partition, offset, event=PositionEvent.SEEK):
    partition.place(event, offset)
    return Hold(partition, Agenda())


def test_an_event_that_a_state_does_not_allow_raises(partition):
    with pytest.raises(IllegalStateError, match="'passed' is impossible"):
        placed(partition, 0).move(HoldEvent.PASSED)


@pytest.mark.parametrize(
    ("case", "event", "offset", "log_start", "is_held"),
    [
        ("no committed offset, earliest", PositionEvent.RESET_FOUND, 0, None, True),
        ("no committed offset, latest", PositionEvent.RESET_FOUND, 90, None, True),
        ("committed at the log start", PositionEvent.SEEK, 0, None, True),
        ("committed at the log start, which retention has moved", PositionEvent.SEEK, 30, 30, True),
        ("committed below the log start", PositionEvent.SEEK, 20, 30, True),
        ("committed in the middle", PositionEvent.SEEK, 31, 30, False),
    ],
)
def test_the_gate_before_the_first_record_counts_unless_the_group_continues_behind_the_log_start(
    partition, case, event, offset, log_start, is_held
):
    hold = placed(partition, offset, event)
    hold.epochs_found([BEFORE_FIRST])
    assert hold.awaits_log_start == (log_start is not None), case
    assert hold.decide_start(log_start), case
    assert hold.state is (S.AWAITING_THRESHOLDS if is_held else S.FREE), case
    assert partition.may_hand_out != is_held, case


def test_the_start_is_not_decided_before_position_and_log_start_are_known(partition):
    hold = Hold(partition, Agenda())
    hold.epochs_found([BEFORE_FIRST])
    assert not hold.decide_start(0)
    partition.place(PositionEvent.SEEK, 5)
    assert not hold.decide_start(None)
    assert hold.decide_start(0)


@pytest.mark.parametrize("are_thresholds_known", [False, True])
def test_a_seek_behind_the_log_start_frees_a_partition_that_is_held_before_its_first_record(
    partition, are_thresholds_known
):
    hold = placed(partition, 0)
    hold.epochs_found([BEFORE_FIRST])
    assert hold.decide_start(0)
    if are_thresholds_known:
        hold.thresholds_found(-1)
    hold.follow_position()
    assert hold.awaits_thresholds, "the position is the one that was decided about"
    partition.place(PositionEvent.SEEK, 5)
    hold.follow_position()
    assert hold.state is S.AWAITING_START
    assert hold.decide_start(0)
    assert hold.state is S.AWAITING_CALLBACK, "the listener loads the state of keys first"
    hold.called()
    assert hold.decide_start(0)
    assert (hold.state, partition.may_hand_out) == (S.FREE, True)


def test_an_open_gate_is_followed_by_the_next_one_and_freedom_by_the_last(partition):
    hold = placed(partition, 0)
    hold.epochs_found([BEFORE_FIRST, AT_EPOCH_7])
    for own, end in ((0, NOTHING), (25, 25)):
        assert hold.decide_start(None)
        hold.thresholds_found(own)
        assert partition.delivery_end == end
        hold.move(HoldEvent.PASSED)
        assert (hold.state, partition.delivery_end) == (S.AWAITING_CALLBACK, end)
        hold.called()
    assert hold.decide_start(None)
    assert (hold.state, partition.delivery_end, hold.opened) == (S.FREE, None, {START, 7})


def test_a_topic_that_changes_again_keeps_records_that_were_fetched_and_open_gates(partition):
    hold = placed(partition, 0)
    hold.epochs_found([])
    assert hold.decide_start(None)
    partition.cursor.fetch_offset = 8
    hold.opened.add(START)
    hold.topic_changed()
    assert (hold.state, partition.delivery_end, partition.may_hand_out) == (S.AWAITING_EPOCHS, 8, True)
    assert not partition.may_fetch(0.0)
    hold.epochs_found([BEFORE_FIRST, AT_EPOCH_7])
    assert hold.gates == [AT_EPOCH_7]


def test_a_topic_that_changes_while_a_partition_is_held_opens_nothing(partition):
    hold = placed(partition, 0)
    hold.topic_changed()
    assert partition.delivery_end == NOTHING
    hold.epochs_found([AT_EPOCH_7])
    assert hold.decide_start(None)
    hold.thresholds_found(3)
    partition.cursor.fetch_offset = 9
    hold.topic_changed()
    assert partition.delivery_end == 3


def test_a_gate_that_vanishes_with_the_removed_partition_is_reported_like_one_that_opens(partition):
    hold = placed(partition, 0)
    hold.epochs_found([AT_EPOCH_7])
    assert hold.decide_start(None)
    hold.topic_changed()
    hold.epochs_found([])
    assert hold.decide_start(None)
    assert hold.state is S.AWAITING_CALLBACK
    hold.called()
    assert hold.decide_start(None)
    assert (hold.state, partition.delivery_end) == (S.FREE, None)


@pytest.mark.parametrize(
    ("case", "fetched", "own", "is_fetched_again"),
    [
        ("retention has passed the gate", 67, 101, True),
        ("the gate is where it was", 67, 65, False),
        ("the log was truncated", 67, 60, False),
        ("nothing is buffered from behind the gate", 65, 101, False),
    ],
)
def test_records_behind_a_gate_that_moves_up_are_fetched_again(partition, case, fetched, own, is_fetched_again):
    hold = placed(partition, 60)
    hold.epochs_found([AT_EPOCH_7])
    assert hold.decide_start(None)
    hold.thresholds_found(65)
    cursor = partition.cursor
    cursor.fetch_offset = fetched
    hold.thresholds_outdated()
    hold.thresholds_found(own)
    assert partition.delivery_end == own
    assert (partition.cursor is not cursor) is is_fetched_again, case
    assert partition.cursor.fetch_offset == (60 if is_fetched_again else fetched)


def test_an_unread_position_of_a_held_partition_is_not_committed(partition):
    hold = placed(partition, 90, PositionEvent.RESET_FOUND)
    assert (partition.has_position, partition.may_commit) == (True, False)
    hold.epochs_found([])
    hold.decide_start(None)
    assert partition.may_commit
