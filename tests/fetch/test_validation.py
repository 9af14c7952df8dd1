"""After a change of leader: is what was read still in the log? (KIP-320) And topics that were created again."""

from __future__ import annotations

import logging

import pytest

from thinconsumer.errors import KafkaConnectionError, LogTruncationError, UnsupportedVersionError
from thinconsumer.failures import Action, Scope, rule
from thinconsumer.partitions import PositionEvent, PositionState, Reset
from thinconsumer.timers import NEVER
from thinconsumer.types import OffsetAndMetadata
from thinconsumer.wire.error_codes import Code

CODES = [c for c in Code if c]


@pytest.fixture
def in_doubt(make, kit):
    """Return what makes a world with a partition that is read at 100, epoch 5, and whose leader is new: node 2, 6."""

    def build(*, buffered: int = 0, **options):
        world = make(**options)
        [a] = world.simple(100, leader=1, epoch=5)
        if buffered:
            world.receive({a.tp: kit.batch(100, buffered)})
        world.cluster({a.tp: (2, 6)})
        return world, a

    return build


# -- entering


def test_a_new_leader_is_asked_before_anything_more_is_handed_out(in_doubt, kit):
    world, a = in_doubt(buffered=10)
    [sent] = world.validations()
    assert a.state is PositionState.VALIDATING and not a.may_hand_out
    assert sent.node_id == 2 and sent.epochs() == {a.tp: (6, 5)}
    assert sent.message.replica_id == -1 and sent.request.min_version == 3
    assert sent.request.deadline == world.now + 30
    assert world.fetches() == {} and world.validations() == []
    sent.epoch_ends({a.tp: (5, 110)})
    assert a.state is PositionState.FETCHING
    assert world.collector.gather(99).count == 10, "what was buffered is good"
    assert world.fetch().asked()[a.tp].fetch_offset == 110


def test_one_request_per_leader(world, kit):
    world.cluster({kit.tp(n): (1, 5) for n in range(4)})
    world.assign({kit.tp(n): 10 for n in range(4)}, epoch=5)
    world.cluster({kit.tp(0): (2, 6), kit.tp(1): (3, 6), kit.tp(2): (2, 6), kit.tp(3): (1, 5)})
    assert {s.node_id: set(s.epochs()) for s in world.validations()} == {2: {kit.tp(0), kit.tp(2)}, 3: {kit.tp(1)}}


@pytest.mark.parametrize("epoch", [-1, 6, 7])
def test_nothing_is_asked_where_there_is_nothing_to_doubt(world, kit, epoch):
    """No epoch known, or what was read came from this leader already."""
    world.cluster({kit.tp(0): (1, 5)})
    [a] = world.assign({kit.tp(0): 10}, epoch=epoch)
    world.cluster({kit.tp(0): (2, 6)})
    assert world.validations() == [] and a.state is PositionState.FETCHING


def test_a_seek_with_an_epoch_is_validated_even_if_the_leader_is_old(world):
    [a] = world.simple(0)
    a.place(PositionEvent.SEEK_VALIDATED, 50, 4)
    [sent] = world.validations()
    assert sent.epochs() == {a.tp: (5, 4)}


@pytest.mark.parametrize("lacking", ["position", "leader"])
def test_without_epochs_a_position_is_taken_as_it_is(world, kit, lacking):
    [a] = world.simple(0) if lacking == "position" else world.simple(0, version=8)
    a.place(PositionEvent.SEEK_VALIDATED, 50, -1 if lacking == "position" else 4)
    assert world.validations() == [] and a.state is PositionState.FETCHING


def test_a_new_leader_is_not_kept_waiting_by_the_old_ones_errors(world, kit):
    [a] = world.simple(0, leader=1, epoch=-1)
    world.cluster({a.tp: (1, 5)})
    world.validations()
    world.receive({a.tp: {"error_code": Code.NOT_LEADER_OR_FOLLOWER}})
    assert world.fetches() == {}
    world.cluster({a.tp: (2, 6)})
    world.validations()
    assert world.fetch().node_id == 2


def test_pain_B6_without_a_leader_nothing_is_asked_but_metadata(in_doubt):
    world, a = in_doubt()
    world.cluster({a.tp: (-1, 7)})
    assert world.validations() == []
    assert world.metadata.wake_at(world.now) < world.now + 1
    world.cluster({a.tp: (3, 8)})
    [sent] = world.validations()
    assert sent.node_id == 3


# -- the answer


@pytest.mark.parametrize("end", [100, 105, 10**9])
def test_a_log_that_reaches_the_position_is_good(in_doubt, end):
    world, a = in_doubt()
    cursor = a.cursor
    world.validations()[0].epoch_ends({a.tp: (5, end)})
    assert a.state is PositionState.FETCHING and a.cursor is cursor


def test_truncated_above_the_position_gives_up_only_what_was_buffered(in_doubt, kit):
    world, a = in_doubt(buffered=10)
    world.validations()[0].epoch_ends({a.tp: (5, 105)})
    assert (a.state, a.cursor.offset, a.cursor.fetch_offset, a.cursor.epoch) == (PositionState.FETCHING, 100, 100, 5)
    assert world.collector.gather(99).count == 0 and world.buffer.pinned == 0
    assert world.fetch().asked()[a.tp].fetch_offset == 100


@pytest.mark.parametrize("first", [(4, 120), (4, 90)])
@pytest.mark.parametrize(("end", "position"), [((3, 80), 80), ((3, 100), 100)])
def test_a_position_older_than_what_was_buffered_is_asked_about_by_its_own_epoch(world, kit, end, position, first):
    """The logs part where the epoch of what is buffered can tell; they may have parted below the position before that.

    Where the first answer is below the position, too, there may be records before it that nobody was given.
    """
    [a] = world.simple(100, leader=1, epoch=3)
    world.cluster({a.tp: (1, 5)})
    world.validations()[0].epoch_ends({a.tp: (3, 100)})
    world.receive({a.tp: kit.batch(100, 50, epoch=5)})
    world.cluster({a.tp: (2, 8)})
    [sent] = world.validations()
    assert sent.epochs() == {a.tp: (8, 5)}
    sent.epoch_ends({a.tp: first})
    assert a.state is PositionState.VALIDATING and world.collector.gather(99).count == 0
    [sent] = world.validations()
    assert sent.epochs() == {a.tp: (8, 3)}
    sent.epoch_ends({a.tp: end})
    assert (a.state, a.cursor.offset) == (PositionState.FETCHING, position)


def test_truncated_below_the_position_goes_back_to_where_the_logs_part(in_doubt, caplog):
    caplog.set_level(logging.WARNING)
    world, a = in_doubt(auto_offset_reset="latest")
    world.validations()[0].epoch_ends({a.tp: (4, 80)})
    assert (a.state, a.cursor.offset, a.cursor.epoch) == (PositionState.FETCHING, 80, 4)
    [record] = caplog.records
    assert "100 -> 80" in record.getMessage()


@pytest.mark.parametrize(("end", "divergent"), [((4, 80), 80), ((-1, -1), None)])
def test_pain_F4_under_policy_none_truncation_is_raised_until_the_user_seeks(in_doubt, end, divergent):
    world, a = in_doubt(auto_offset_reset="none")
    world.validations()[0].epoch_ends({a.tp: end})
    error = a.error
    assert isinstance(error, LogTruncationError)
    assert (error.partition, error.position, error.divergent_offset) == (a.tp, 100, divergent)
    assert world.validations() == [] and world.validation.wake_at(world.now) == NEVER
    world.cluster({a.tp: (3, 7)})
    assert world.validations() == [] and a.error is error, "another leader does not cure it"
    a.place(PositionEvent.SEEK, 80)
    assert a.error is None and a.may_fetch(world.now)


@pytest.mark.parametrize("end", [(-1, -1), (5, -1), (-1, 80)])
def test_an_epoch_the_broker_does_not_know_goes_by_policy(in_doubt, end):
    world, a = in_doubt(auto_offset_reset="earliest")
    world.validations()[0].epoch_ends({a.tp: end})
    assert a.state is PositionState.AWAITING_RESET and a.reset is None
    world.reset_all({a.tp: (3, 90)})
    assert a.cursor.offset == 3


def test_a_broker_too_old_to_be_asked_is_believed(in_doubt):
    """As every client did before KIP-320."""
    world, a = in_doubt()
    world.validations()[0].fail(UnsupportedVersionError("old", code=35, name="UNSUPPORTED_VERSION"))
    assert a.state is PositionState.FETCHING


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_errors_wait_and_ask_again_and_final_ones_are_shown_meanwhile(in_doubt, code):
    world, a = in_doubt()
    waits = []
    for _ in range(5):
        [sent] = world.validations()
        world.metadata._reason = None
        sent.epoch_ends({a.tp: int(code)})
        assert a.state is PositionState.VALIDATING
        action = rule("OffsetForLeaderEpoch", code, Scope.PARTITION).action
        assert (a.error is not None) is (action is Action.RAISE)
        assert (world.metadata._reason is not None) is (action is Action.REFRESH_METADATA)
        waits.append(world.validation.wake_at(world.now) - world.now)
        assert world.validations() == []
        world.now += waits[-1]
    assert 0.08 <= waits[0] <= 0.12 and 0.8 <= waits[-1] <= 1.0
    world.validations()[0].epoch_ends({a.tp: (5, 200)})
    assert a.state is PositionState.FETCHING and a.error is None and a.failures == 0


def test_a_lost_connection_asks_again(in_doubt):
    world, a = in_doubt()
    world.validations()[0].fail(KafkaConnectionError("lost"))
    assert a.error is None and world.validations() == []
    world.now = world.validation.wake_at(world.now)
    assert len(world.validations()) == 1


def test_a_partition_left_out_of_the_answer_is_asked_for_again(in_doubt):
    world, a = in_doubt()
    world.validations()[0].epoch_ends({})
    world.now = world.validation.wake_at(world.now)
    assert set(world.validations()[0].epochs()) == {a.tp}


# -- stale answers


@pytest.mark.parametrize("moved", ["seek", "validated seek", "reset"])
def test_an_answer_for_a_position_that_is_no_more_is_dropped(in_doubt, moved):
    world, a = in_doubt()
    [sent] = world.validations()
    if moved == "seek":
        a.place(PositionEvent.SEEK, 500)
    elif moved == "validated seek":
        a.place(PositionEvent.SEEK_VALIDATED, 500, 5)
    else:
        a.ask_reset(Reset(Reset.LATEST, "x"))
    state = a.state
    sent.epoch_ends({a.tp: (4, 80)})
    assert a.state is state and a.cursor.offset in (500, -1)


def test_the_word_of_a_leader_that_was_replaced_meanwhile_does_not_count(in_doubt):
    """It says what its log was, not what the new leader's is."""
    world, a = in_doubt()
    [old] = world.validations()
    world.cluster({a.tp: (3, 7)})
    [new] = world.validations()
    assert new.node_id == 3 and new.epochs() == {a.tp: (7, 5)}
    old.epoch_ends({a.tp: (5, 100)})
    assert a.state is PositionState.VALIDATING
    assert world.validations() == [], "the new question is still under way"
    new.epoch_ends({a.tp: (5, 60)})
    assert a.cursor.offset == 60


# -- topics created again


def test_a_topic_that_was_created_again_starts_anew(world, kit, caplog):
    caplog.set_level(logging.WARNING)
    [a] = world.simple(100, epoch=5)
    a.committed = OffsetAndMetadata(100)
    world.receive({a.tp: {"high_watermark": 110, "preferred_read_replica": 2, "records": kit.batch(100, 5)}})
    world.cluster({a.tp: (1, 0)}, ids={"t": b"2" * 16})
    assert world.validations() == []
    assert a.state is PositionState.AWAITING_RESET and a.cursor.offset == -1
    assert a.high_watermark is None and a.preferred_replica == -1
    assert sum("t-0" in r.getMessage() and "100" in r.getMessage() for r in caplog.records) == 1
    assert a.committed is None, "brokers forget a group's offsets with the topic"
    world.reset_all({a.tp: (0, 7)})
    assert a.cursor.offset == 0, "what was written to it before we noticed is not skipped, under latest either"
    assert a.leader_epoch == 0, "old epochs must not count against new leaders"
    world.cluster({a.tp: (2, 1)}, ids={"t": b"2" * 16})
    assert len(world.validations()) <= 1


def test_a_wish_of_the_user_survives_the_topic_being_created_again(world):
    """But what is under way for it may be an offset of the old topic."""
    [a] = world.simple(100)
    a.ask_reset(Reset(Reset.EARLIEST, "seek_to_beginning"))
    [old] = world.look_ups()
    world.cluster({a.tp: (1, 0)}, ids={"t": b"2" * 16})
    world.validations()
    old.offsets({a.tp: 55})
    assert a.state is PositionState.AWAITING_RESET
    [new] = world.look_ups()
    assert new.timestamps() == [(a.tp, -2)]


@pytest.mark.parametrize("state", [PositionState.AWAITING_CALLBACK, PositionState.AWAITING_COMMITTED])
def test_a_partition_that_waits_for_the_group_goes_on_waiting(world, state):
    [a] = world.simple(100)
    a.state = state
    world.cluster({a.tp: (1, 0)}, ids={"t": b"2" * 16})
    world.validations()
    assert a.state is state


def test_what_was_known_before_the_assignment_counts_for_it(world, kit):
    """A topic looked at earlier, assigned later, created again in between two refreshes."""
    world.cluster({kit.tp(0): (1, 5)})
    world.validations()
    world.partitions.assign([kit.tp(0)])
    [a] = world.partitions
    a.place(PositionEvent.SEEK, 100)
    world.validations()
    assert (a.topic_id, a.leader_epoch) == (world.metadata.topic_id("t"), 5)
    world.cluster({kit.tp(0): (1, 0)}, ids={"t": b"2" * 16})
    world.validations()
    assert a.state is PositionState.AWAITING_RESET


def test_answers_for_what_was_not_asked_are_ignored(in_doubt, kit):
    world, a = in_doubt()
    world.validations()[0].epoch_ends({kit.tp(9): (1, 1), kit.tp(0, "other"): (1, 1), a.tp: (5, 200)})
    assert a.state is PositionState.FETCHING


# -- records that were under way while the leader changed


@pytest.mark.parametrize("epoch", [-1, 5])
def test_records_of_a_leader_of_before_that_come_late_are_asked_about(world, kit, epoch):
    """The new leader was asked about what there was before them, or about nothing after a seek by number."""
    world.cluster({kit.tp(0): (1, 5)})
    [a] = world.assign({kit.tp(0): 100}, epoch=epoch)
    late = world.fetch()
    world.cluster({a.tp: (2, 6)})
    for sent in world.validations():
        sent.epoch_ends({a.tp: (5, 100)})
    assert a.state is PositionState.FETCHING
    late.answer({a.tp: kit.batch(100, 10)})
    assert a.state is PositionState.VALIDATING and world.collector.gather(99).count == 0
    [sent] = world.validations()
    assert sent.epochs() == {a.tp: (6, 5)}
    sent.epoch_ends({a.tp: (5, 100)})
    assert (a.state, a.cursor.offset, a.cursor.fetch_offset) == (PositionState.FETCHING, 100, 100)
    assert world.collector.gather(99).count == 0, "the new leader has others in their place"


def test_records_of_the_present_leader_are_not_asked_about_whatever_their_epoch(world, kit):
    world.cluster({kit.tp(0): (1, 9)})
    [a] = world.assign({kit.tp(0): 100})
    world.receive({a.tp: kit.batch(100, 10, epoch=5)})
    assert a.state is PositionState.FETCHING and world.validations() == []


def test_an_answer_about_an_epoch_that_is_not_the_last_one_any_more_does_not_count(world, kit):
    """While it was asked about, records of a newer epoch came from the old leader."""
    [a] = world.simple(100, leader=1, epoch=3)
    world.cluster({a.tp: (1, 5)})
    world.validations()[0].epoch_ends({a.tp: (3, 100)})
    late = world.fetch()
    world.cluster({a.tp: (2, 8)})
    [sent] = world.validations()
    late.answer({a.tp: kit.batch(100, 10, epoch=5)})
    sent.epoch_ends({a.tp: (3, 150)})
    assert a.state is PositionState.VALIDATING
    [sent] = world.validations()
    assert sent.epochs() == {a.tp: (8, 5)}


@pytest.mark.parametrize("answer", [(5, 90), (5, 105), (-1, -1)])
def test_where_the_user_said_to_begin_stays_when_only_what_was_buffered_is_lost(make, kit, answer):
    """Nothing was handed out since: there is nothing to go back for, and no truncation to tell of."""
    world = make(auto_offset_reset="none")
    world.cluster({kit.tp(0): (1, 5)})
    [a] = world.assign({kit.tp(0): 100})
    world.receive({a.tp: kit.batch(100, 10)})
    world.cluster({a.tp: (2, 6)})
    world.validations()[0].epoch_ends({a.tp: answer})
    assert (a.state, a.cursor.offset, a.cursor.fetch_offset, a.error) == (PositionState.FETCHING, 100, 100, None)
    assert world.collector.gather(99).count == 0 and world.buffer.pinned == 0


# -- leaders older than what was read


@pytest.fixture
def behind(make, kit):
    """Return what makes a world where 100 is read with epoch 7, but brokers name the leader of epoch 5."""

    def do(**options):
        world = make(**options)
        world.cluster({kit.tp(0): (1, 5)})
        [a] = world.assign({kit.tp(0): 0})
        a.place(PositionEvent.SEEK_VALIDATED, 100, 7)
        return world, a

    return do


def pass_time(world, until):
    """Let backoffs pass; return all that was asked."""
    while not (asked := world.validations()) and world.now < until:
        world.now = min(until, max(world.now + 0.001, world.validation.wake_at(world.now)))
    return asked


def test_a_leader_older_than_what_was_read_is_not_asked_for_it_would_not_know(behind):
    """A broker that was cut off names itself: the policy would have thrown a good position away."""
    world, a = behind(auto_offset_reset="latest")
    assert pass_time(world, world.now + 5) == []
    assert a.state is PositionState.VALIDATING and a.cursor.offset == 100 and a.error is None
    assert world.metadata.wake_at(world.now) <= world.now, "who leads now is asked for"
    world.cluster({a.tp: (2, 8)})
    [sent] = world.validations()
    assert (sent.node_id, sent.epochs()) == (2, {a.tp: (8, 7)}), "at once, without the pause"
    sent.epoch_ends({a.tp: (7, 120)})
    assert a.state is PositionState.FETCHING and a.cursor.offset == 100


def test_the_leader_who_wrote_what_was_read_is_asked_at_once(behind):
    world, a = behind()
    assert world.validations() == []
    world.cluster({a.tp: (2, 7)})
    assert world.validations()[0].epochs() == {a.tp: (7, 7)}


def test_an_epoch_that_nobody_ever_hears_of_goes_by_policy_in_the_end(behind):
    """The topic may be another one, or the offset of another cluster."""
    world, a = behind(auto_offset_reset="earliest")
    began = world.now
    [sent] = pass_time(world, world.now + 60)
    assert began + 10 <= world.now < began + 12
    sent.epoch_ends({a.tp: (-1, -1)})
    assert a.state is PositionState.AWAITING_RESET and a.reset is None


def test_each_position_is_waited_for_anew_and_none_that_is_gone(behind):
    world, a = behind()
    pass_time(world, world.now + 9)
    a.place(PositionEvent.SEEK_VALIDATED, 50, 6)
    assert pass_time(world, world.now + 9) == []
    a.place(PositionEvent.SEEK, 50)
    world.partitions.assign([])
    assert world.validations() == [] and world.validation.wake_at(world.now) == NEVER


# -- answers to a Fetch that come while a new leader is asked


@pytest.fixture
def fetched_late(make, kit):
    """Return what makes a world in doubt: it, its partition, and a Fetch that the old leader has yet to answer."""

    def do(policy: str = "earliest"):
        world = make(auto_offset_reset=policy)
        [a] = world.simple(100, leader=1, epoch=5)
        late = world.fetch()
        world.cluster({a.tp: (2, 6)})
        return world, a, late

    return do


@pytest.mark.parametrize("records", [True, False])
def test_pain_F4_a_late_answer_of_the_old_leader_does_not_silence_a_truncation(fetched_late, kit, records):
    """The partition would stand still for ever, and nobody would be told why."""
    world, a, late = fetched_late("none")
    world.validations()[0].epoch_ends({a.tp: (5, 80)})
    late.answer({a.tp: kit.batch(100, 10) if records else {}})
    assert isinstance(a.error, LogTruncationError) and a.error.divergent_offset == 80
    a.place(PositionEvent.SEEK, 80)
    assert a.error is None and a.may_fetch(world.now)


@pytest.mark.parametrize("code", CODES)
def test_late_errors_of_the_old_leader_keep_nobody_from_asking_the_new_one(fetched_late, code):
    world, a, late = fetched_late()
    [sent] = world.validations()
    late.answer({a.tp: {"error_code": int(code)}})
    assert (a.state, a.error, a.blocked_until) == (PositionState.VALIDATING, None, 0.0)
    sent.epoch_ends({a.tp: (5, 80)})
    assert (a.state, a.cursor.offset) == (PositionState.FETCHING, 80)


def test_out_of_range_at_a_leader_that_leads_anew_waits_for_the_answer_about_the_epoch(make):
    """By its ends alone the log may look as if it held the position, with other records."""
    world = make()
    [a] = world.simple(100, leader=1, epoch=5)
    late = world.fetch()
    world.cluster({a.tp: (1, 6)})
    [sent] = world.validations()
    late.answer({a.tp: {"error_code": int(Code.OFFSET_OUT_OF_RANGE)}})
    assert a.state is PositionState.VALIDATING and not world.look_ups()
    sent.epoch_ends({a.tp: (5, 80)})
    assert (a.state, a.cursor.offset) == (PositionState.FETCHING, 80)
