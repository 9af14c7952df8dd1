"""Positions: every (state, event) pair, what replaces a cursor and what keeps it, and when a partition may be read."""

import itertools
import random

import pytest

from thinconsumer.errors import IllegalStateError, KafkaError
from thinconsumer.positions.partitions import Confirmation, Cursor, Partition, Partitions, Reset
from thinconsumer.positions.states import TRANSITIONS, PositionEvent, PositionState
from thinconsumer.support.agenda import ALL
from thinconsumer.types import OffsetAndMetadata, TopicPartition

S = PositionState
E = PositionEvent
A, B, C = (TopicPartition("t", n) for n in range(3))

#: The transitions of each event, keyed by event and not by state as in the code.
LEGAL: dict[PositionEvent, dict[PositionState, PositionState]] = {
    E.CALLBACK_DONE: {S.AWAITING_CALLBACK: S.AWAITING_COMMITTED},
    E.COMMITTED_FOUND: {S.AWAITING_COMMITTED: S.VALIDATING},
    E.COMMITTED_MISSING: {S.AWAITING_COMMITTED: S.AWAITING_RESET},
    E.SEEK: dict.fromkeys(S, S.FETCHING),
    E.SEEK_VALIDATED: dict.fromkeys(S, S.VALIDATING),
    E.RESET_ASKED: dict.fromkeys(S, S.AWAITING_RESET),
    E.RESET_FOUND: {S.AWAITING_RESET: S.FETCHING},
    E.LEADER_CHANGED: dict.fromkeys((S.AWAITING_RESET, S.VALIDATING, S.FETCHING), S.VALIDATING),
    E.VALIDATED: {S.VALIDATING: S.FETCHING},
    E.TRUNCATED: {S.VALIDATING: S.FETCHING},
}
PAIRS = list(itertools.product(S, E))
FLAGS = ("paused", "pending_revocation", "callback_pending")


def fetching(tp: TopicPartition = A, offset: int = 10, epoch: int = 3) -> Partition:
    partitions = Partitions()
    partitions.assign([tp])
    partition = partitions.require(tp)
    partition.place(E.RESET_FOUND, offset, epoch)
    return partition


# -- the machine


@pytest.mark.parametrize("flag", [None, *FLAGS])
@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda member: member.name)
def test_every_pair_of_state_and_event_moves_as_listed_or_raises_naming_both(state, event, flag):
    """Whatever flag is set; and a move changes no flag."""
    partition = Partition(A, state)
    if flag:
        setattr(partition, flag, True)
    target = LEGAL[event].get(state)
    if target is not None:
        partition.move(event)
        assert partition.state is target
    else:
        with pytest.raises(IllegalStateError) as caught:
            partition.move(event)
        assert repr(state.value) in str(caught.value) and repr(event.value) in str(caught.value)
        assert partition.state is state, "an illegal move must leave things as they are"
    assert flag is None or getattr(partition, flag) is True, "moving must not resume a paused partition"


def test_every_state_can_be_reached_and_left_for_reading():
    """No dead end: from any state there is a way to FETCHING, and from the beginning to any state."""
    reach = {S.AWAITING_CALLBACK}
    while True:
        more = reach | {target for state in reach for target in TRANSITIONS[state].values()}
        if more == reach:
            break
        reach = more
    assert reach == set(S)
    for state in S:
        assert S.FETCHING in TRANSITIONS[state].values() or any(
            S.FETCHING in TRANSITIONS[target].values() for target in TRANSITIONS[state].values()
        )


# -- cursors


@pytest.mark.parametrize("event", [E.SEEK, E.SEEK_VALIDATED])
def test_place_puts_a_new_cursor_even_for_the_same_offset(event):
    """An answer for the time before the seek is stale although it carries the very offset sought."""
    partition = fetching(offset=10)
    old = partition.cursor
    partition.place(event, 10, 3)
    assert partition.cursor is not old
    assert (partition.cursor.offset, partition.cursor.fetch_offset) == (10, 10)
    assert (partition.cursor.epoch, partition.cursor.fetch_epoch) == (3, 3)


def test_place_clears_what_the_old_position_had_gathered():
    partition = fetching()
    partition.ask_reset(Reset(Reset.LATEST, "x"), out_of_range=10)
    partition.error, partition.failures = KafkaError("m"), 4
    partition.back_off(100.0)
    partition.place(E.SEEK, 20)
    assert partition.error is None and partition.reset is None and partition.out_of_range is None
    assert partition.may_fetch(0.0)
    assert partition.failures == 0


def test_a_place_that_is_illegal_changes_nothing():
    partition = Partition(A, S.AWAITING_COMMITTED)
    before = partition.cursor
    with pytest.raises(IllegalStateError):
        partition.place(E.VALIDATED, 5)
    assert partition.cursor is before and partition.state is S.AWAITING_COMMITTED


def test_ask_reset_forgets_the_position():
    partition = fetching(offset=10)
    old = partition.cursor
    reset = Reset(Reset.EARLIEST, "seek_to_beginning")
    partition.ask_reset(reset)
    assert partition.cursor is not old and partition.cursor.offset == -1
    assert partition.reset is reset and partition.out_of_range is None
    assert not partition.has_position


def test_out_of_range_keeps_the_position_but_not_the_cursor():
    """Whether the log expired or was truncated is decided by comparing the position with both ends."""
    partition = fetching(offset=10, epoch=3)
    old = partition.cursor
    partition.ask_reset(None, out_of_range=10)
    assert partition.cursor is not old
    assert (partition.cursor.offset, partition.cursor.epoch) == (10, 3)
    assert partition.out_of_range == 10


def test_a_second_reset_replaces_the_first_with_its_cursor():
    partition = fetching()
    partition.ask_reset(Reset(Reset.EARLIEST, "first"))
    first = partition.cursor
    partition.ask_reset(Reset(Reset.LATEST, "second"))
    assert partition.cursor is not first
    assert partition.reset is not None and partition.reset.reason == "second"


def test_a_missing_committed_offset_goes_by_policy():
    partition = Partition(A, S.AWAITING_COMMITTED)
    old = partition.cursor
    partition.missing_committed()
    assert partition.state is S.AWAITING_RESET and partition.reset is None and partition.cursor is not old


def test_validation_that_succeeds_keeps_the_cursor():
    """Nothing has moved: what is buffered and under way stays good."""
    partition = fetching()
    cursor = partition.cursor
    partition.move(E.LEADER_CHANGED)
    partition.move(E.VALIDATED)
    assert partition.cursor is cursor


def test_rewinding_fetches_again_what_was_not_handed_out():
    """Fetches in flight and buffered records are dropped; position, epoch and reasons to hold back remain."""
    partition = fetching(offset=10, epoch=3)
    old = partition.cursor
    old.fetch_offset, old.fetch_epoch = 500, 4
    partition.back_off(7.0)
    partition.rewind()
    assert partition.cursor is not old and partition.state is S.FETCHING
    cursor = partition.cursor
    assert (cursor.offset, cursor.epoch, cursor.fetch_offset, cursor.fetch_epoch) == (10, 3, 10, 3)
    assert partition.is_backing_off(6.9) and not partition.is_backing_off(7.0)


# -- flags


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("flag", [None, *FLAGS])
def test_only_a_fetching_partition_without_flags_is_handed_out_and_fetched(state, flag):
    partition = Partition(A, state)
    if flag:
        setattr(partition, flag, True)
    assert partition.may_hand_out is (state is S.FETCHING and flag is None)
    assert partition.may_fetch(0.0) is partition.may_hand_out
    assert partition.has_position is (state in (S.FETCHING, S.VALIDATING))


def test_a_blocked_partition_is_handed_out_but_not_asked_for():
    partition = fetching()
    partition.back_off(5.0)
    assert partition.may_hand_out
    assert not partition.may_fetch(4.999) and partition.may_fetch(5.0)


def test_reprs_say_where_and_what():
    partition = fetching(offset=10)
    partition.paused = True
    assert repr(partition) == "<Partition t-0 fetching paused Cursor(10, epoch=3, fetch_offset=10)>"
    assert repr(Cursor(-1)) == "Cursor(-1, epoch=-1, fetch_offset=-1)"


# -- the set of them


def test_assign_keeps_those_that_stay_position_flags_and_cursor():
    """Pause is kept for what is retained, cleared for what was gone in between."""
    partitions = Partitions()
    partitions.assign([A, B])
    kept = partitions.require(A)
    kept.place(E.RESET_FOUND, 5)
    kept.paused = True
    cursor = kept.cursor
    partitions.require(B).paused = True
    partitions.assign([C, A])
    assert partitions.require(A) is kept and kept.cursor is cursor and kept.paused
    assert partitions.get(B) is None
    assert [p.tp for p in partitions] == [C, A]
    partitions.assign([B])
    assert not partitions.require(B).paused
    partitions.assign([A])
    assert partitions.require(A) is not kept and partitions.require(A).cursor is not cursor, (
        "a late answer must not fit"
    )


def test_assign_takes_each_partition_once_and_counts_changes():
    partitions = Partitions()
    partitions.assign([A, A, B])
    assert len(partitions) == 2 and partitions.generation == 1
    partitions.assign(iter([A, B]))
    assert partitions.generation == 2
    assert partitions.tps() == {A, B} and partitions.topics() == {"t"}
    assert A in partitions and C not in partitions


@pytest.mark.parametrize("state", [S.AWAITING_RESET, S.AWAITING_COMMITTED, S.AWAITING_CALLBACK])
def test_new_partitions_begin_where_they_are_told_to_and_kept_ones_stay(state):
    partitions = Partitions()
    partitions.assign([B])
    partitions.require(B).place(E.SEEK, 5)
    partitions.assign([A, B], start=state)
    assert (partitions.require(A).state, partitions.require(B).state) == (state, S.FETCHING)


def test_require_says_what_is_assigned_but_no_novel():
    partitions = Partitions()
    with pytest.raises(IllegalStateError, match=r"t-0 is not assigned.*nothing"):
        partitions.require(A)
    partitions.assign(TopicPartition("many", n) for n in range(1000))
    with pytest.raises(IllegalStateError) as caught:
        partitions.require(A)
    assert "many-0" in str(caught.value) and len(str(caught.value)) < 300


def test_in_state_leaves_out_the_blocked_and_the_agenda_has_them_when_they_come_back():
    partitions = Partitions()
    partitions.assign([A, B, C])
    a, b, c = partitions
    agenda = partitions.agenda
    assert agenda.take(0.0) == {ALL: None}, "of the assignment"
    a.back_off(3.0)
    b.back_off(2.0)
    assert partitions.in_state(S.AWAITING_RESET, 0.0) == [c] and agenda.next() == 2.0
    assert partitions.in_state(S.AWAITING_RESET, 2.0) == [b, c] and agenda.take(2.0) == {b: None}
    a.place(E.RESET_FOUND, 1)
    assert a.may_fetch(2.0) and agenda.take(2.0) == {ALL: None}, "a new position ends the backoff"
    b.back_off(5.0)
    b.backoff = None
    assert partitions.in_state(S.AWAITING_RESET, 2.0) == [b, c]


# -- lists that follow changes


@pytest.mark.parametrize("seed", range(20))
def test_lists_of_partitions_are_what_a_look_at_all_of_them_finds(seed):
    draw = random.Random(seed)
    partitions, now = Partitions(), 0.0
    tps = [TopicPartition("t", number) for number in range(8)]
    partitions.assign(tps)
    tokens = [Confirmation(1.0) for _ in range(2)]
    for _ in range(200):
        one = draw.choice(list(partitions))
        match draw.randrange(9):
            case 0:
                one.place(E.SEEK, 1)
            case 1:
                one.ask_reset(None)
            case 2:
                one.back_off(now + draw.choice([0.0, 1.0, 2.0]))
            case 3:
                one.failed(KafkaError("x"), is_raised=True)
            case 4:
                one.worked()
            case 5:
                partitions.confirm([one], draw.choice(tokens))
            case 6:
                one.confirmation = tokens[0].ended()
            case 7:
                partitions.assign(draw.sample(tps, draw.randrange(1, 9)))
            case 8:
                now += draw.choice([0.5, 1.0])
        everyone = list(partitions)
        for state in S:
            found = [p for p in everyone if p.state is state and not p.is_backing_off(now)]
            assert partitions.in_state(state, now) == found
        assert partitions.with_error() == [p for p in everyone if p.error is not None]
        assert set(partitions.without_position()) == {p for p in everyone if not p.has_position}
        assert set(partitions.unconfirmed()) == {
            p for p in everyone if p.confirmation is None or not p.confirmation.is_current
        }
        if draw.random() < 0.1:
            partitions.reindex()


def test_changed_partitions_are_handed_to_the_planner_once():
    partitions = Partitions()
    partitions.assign([A, B], PositionState.FETCHING)
    a, b = partitions
    assert list(partitions.take_unplanned()) == [a, b] and not partitions.take_unplanned()
    b.paused = True
    partitions.confirm([a], Confirmation(1.0))
    assert list(partitions.take_unplanned()) == [b]
    partitions.assign([B])
    assert list(partitions.take_unplanned()) == [a], "it is not fetched any more"
    assert partitions.topics() == {"t"}


def test_the_planner_gets_no_partition_that_was_and_is_not_to_be_fetched():
    """All partitions of a new assignment await a reset: the planner would look at each of thousands for nothing."""
    partitions = Partitions()
    partitions.assign([A, B])
    a, b = partitions
    b.paused = True
    assert not partitions.take_unplanned()
    a.place(PositionEvent.RESET_FOUND, 0)
    assert list(partitions.take_unplanned()) == [a]
    a.ask_reset(None)
    assert list(partitions.take_unplanned()) == [a], "it is not fetched any more"
    a.back_off(1.0)
    assert not partitions.take_unplanned()


def test_a_change_is_reported_before_it_is_made():
    """Ctrl-C between the two must not leave a changed partition unnoticed."""
    partitions = Partitions()
    partitions.assign([A])
    [a] = partitions
    partitions.take_unplanned()
    seen = []
    partitions.changed = type("Changes", (dict,), {"__setitem__": lambda self, p, value: seen.append(p.paused)})()
    a.paused = True
    assert seen == [False]


@pytest.mark.parametrize(("end", "may_fetch"), [(None, True), (12, True), (11, True), (10, False), (-1, False)])
def test_a_partition_is_held_from_its_delivery_end_on(end, may_fetch):
    partition = Partition(A, S.AWAITING_RESET)
    partition.place(E.SEEK, 10)
    partition.delivery_end = end
    assert partition.may_hand_out is partition.may_fetch(0.0) is may_fetch
    partition.cursor.fetch_offset = 12
    assert partition.may_hand_out is may_fetch and partition.may_fetch(0.0) is (end is None)


def test_new_partitions_of_a_held_topic_begin_held():
    """A Fetch that waits for its connection may be written before the step that finds out what they wait for."""
    partitions = Partitions()
    partitions.assign([TopicPartition("t", 0)])
    partitions.held_topics.add("t")
    partitions.assign([TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)])
    assert [p.delivery_end for p in partitions] == [None, -1, None]


def test_the_event_that_has_set_the_position_is_kept_while_another_one_is_looked_up():
    partition = Partition(A, S.AWAITING_RESET)
    assert partition.placed_by is None
    partition.place(E.RESET_FOUND, 10)
    partition.ask_reset(None)
    assert partition.placed_by is E.RESET_FOUND
    partition.place(E.SEEK, 3)
    assert partition.placed_by is E.SEEK


def test_a_follower_named_in_each_response_fills_no_agenda():
    partition = fetching()
    agenda = partition._owner.agenda
    agenda.take(0.0)
    for at in range(1, 100):
        partition.prefer(2, 300.0 + at)
    assert len(agenda.entries) == 1 and agenda.next() == 399.0


@pytest.mark.parametrize(
    ("committed", "offset", "read"),
    [(None, 12, None), (11, 12, 11), (12, 12, 12), (13, 12, 10), (40, 10, 10)],
    ids=["unknown", "behind the position", "at the position", "moved back", "moved back, nothing read"],
)
def test_records_count_as_read_with_the_next_call_or_once_they_are_committed(committed, offset, read):
    """Of a position that was moved back, what was read again since does not count before it is committed again."""
    partitions = Partitions()
    partitions.assign([A])
    partition = partitions.require(A)
    partition.place(E.SEEK, 10, 3)
    partition.cursor.offset = offset
    if committed is not None:
        partitions.note_committed(A, OffsetAndMetadata(committed, "map", 2))
    assert partitions.read_up_to(partition) == OffsetAndMetadata(offset, "", 3)
    partitions.awaits_commits = True
    found = partitions.read_up_to(partition)
    assert (None if found is None else found.offset) == read
