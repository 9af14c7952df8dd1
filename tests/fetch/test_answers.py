"""Fetch answers: errors into what follows from them, records into the buffer, whatever a broker says."""

from __future__ import annotations

import logging
import random

import pytest

from thinconsumer.errors import (
    CorruptRecordError,
    KafkaConnectionError,
    LogTruncationError,
    RecordError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from thinconsumer.failures import Action, Scope, rule
from thinconsumer.partitions import PositionEvent, PositionState
from thinconsumer.timers import NEVER
from thinconsumer.wire.error_codes import BY_CODE, Code
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchResponse, PartitionData

#: Errors of one partition that pass by themselves.
PASSING = [c for c in Code if c and rule("Fetch", c, Scope.PARTITION).action in (Action.RETRY, Action.REFRESH_METADATA)]
RAISED = [c for c in Code if c and rule("Fetch", c, Scope.PARTITION).action is Action.RAISE]


def take_all(world) -> list[int]:
    """Hand everything over; return the offsets."""
    got: list[int] = []
    while (poll_result := world.collector.gather(10**6)).moves:
        got += [record.offset for records in poll_result.records.values() for record in records]
        world.collector.settle(poll_result)
    return got


# -- records


def test_the_fetch_offset_goes_ahead_of_the_position(world, kit):
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 5, epoch=4) + kit.batch(5, 5, epoch=5)})
    assert (a.cursor.offset, a.cursor.fetch_offset, a.cursor.fetch_epoch) == (0, 10, 5)
    sent = world.fetch()
    assert sent.asked()[a.tp].fetch_offset == 10
    assert world.answers.completed == 1


@pytest.mark.parametrize("moved", ["seek", "unassigned", "assigned anew", "reset"])
def test_what_was_asked_for_a_position_that_is_no_more_is_dropped(world, kit, moved):
    """The answer to before a seek must not count after it, whatever it says."""
    [a] = world.simple(0)
    sent = world.fetch()
    if moved == "seek":
        a.place(PositionEvent.SEEK, 0)
    elif moved == "reset":
        a.ask_reset(None)
    else:
        world.partitions.assign([])
        if moved == "assigned anew":
            world.assign({a.tp: 0})
    state = [(p.state, p.cursor.fetch_offset) for p in world.partitions]
    sent.answer({a.tp: kit.batch(0, 5)})
    assert not world.buffer and world.buffer.pinned == 0
    assert state == [(p.state, p.cursor.fetch_offset) for p in world.partitions]
    assert sent.request.context.session.session_id == 77, "its effect on the session applies all the same"


@pytest.mark.parametrize("code", [c for c in Code if c])
def test_errors_for_a_position_that_is_no_more_are_dropped(world, code):
    [a] = world.simple(0)
    sent = world.fetch()
    a.place(PositionEvent.SEEK, 10)
    sent.answer({a.tp: {"error_code": code}})
    assert a.state is PositionState.FETCHING and a.error is None and a.may_fetch(world.now)


@pytest.mark.parametrize(("first", "behind"), [("new", 8), ("old", 20)])
def test_of_two_leaders_that_were_asked_for_the_same_offset_only_the_first_answer_counts(world, kit, first, behind):
    """What a deposed leader wrote alone does not continue what the new one has there, nor the other way round."""
    [a] = world.simple(0, leader=1)
    old = world.fetch()
    world.cluster({a.tp: (2, 6)})
    new = world.fetch()
    assert new.node_id == 2
    # Whoever is second has more than the first: it could go on from there.
    answers = [(new, kit.batch(0, 8, epoch=6)), (old, kit.batch(0, 20))]
    for sent, data in answers if first == "new" else [(old, kit.batch(0, 20)), (new, kit.batch(0, 30, epoch=6))]:
        sent.answer({a.tp: data})
    assert take_all(world) == list(range(behind))
    assert a.cursor.fetch_offset == behind and a.error is None
    asked = [sent.asked()[a.tp].fetch_offset for sent in world.fetches().values() if a.tp in sent.asked()]
    assert asked == [behind], "what was dropped is asked for again"


def test_numbers_of_the_log_are_not_taken_from_whoever_comes_second(world, kit):
    [a] = world.simple(0, leader=1)
    old = world.fetch()
    world.cluster({a.tp: (2, 6)})
    world.fetch().answer({a.tp: {"records": kit.batch(0, 8), "high_watermark": 8}})
    old.answer({a.tp: {"records": kit.batch(0, 20), "high_watermark": 20}})
    assert a.high_watermark == 8


def test_batches_out_of_order_are_corrupt_and_none_of_them_is_believed(world, kit):
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(5, 5) + kit.batch(0, 5)})
    with pytest.raises(CorruptRecordError, match="order"):
        take_all(world)
    assert a.cursor.offset == 0
    assert world.fetches() == {}, "asking again would bring the same"


def test_bytes_without_a_whole_batch_are_raised_and_asked_for_again_slowly(world, kit):
    """Pain F6: silently asking for them for ever is how partitions stall."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 5)[:80]})
    assert isinstance(a.error, RecordError) and a.error.offset == 0
    assert world.fetches() == {} and world.now < world.planner.wake_at(world.now) < NEVER
    world.now = world.planner.wake_at(world.now)
    world.receive({a.tp: kit.batch(0, 5)})
    assert a.error is None and take_all(world) == [0, 1, 2, 3, 4]


def test_a_batch_cut_off_at_the_end_is_asked_for_again(world, kit):
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 2) + kit.batch(2, 2)[:-1]})
    assert take_all(world) == [0, 1]
    assert world.fetch().asked()[a.tp].fetch_offset == 2


def test_numbers_of_the_log_are_kept(world):
    [a] = world.simple(0)
    world.receive({a.tp: {"high_watermark": 50, "last_stable_offset": 40, "log_start_offset": 10}})
    assert (a.high_watermark, a.last_stable_offset, a.log_start_offset) == (50, 40, 10)


def test_pain_K1_unknown_numbers_stay_unknown(world):
    [a] = world.simple(0)
    world.receive({a.tp: {"high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1}})
    assert (a.high_watermark, a.last_stable_offset, a.log_start_offset) == (None, None, None)


# -- errors of partitions


@pytest.mark.parametrize("code", PASSING, ids=lambda code: code.name)
def test_passing_errors_wait_and_ask_again_without_the_user_noticing(world, kit, code):
    a, b = world.simple(0, 0)
    waits = []
    for _ in range(5):
        world.receive({a.tp: {"error_code": code}, b.tp: kit.batch(b.cursor.fetch_offset, 1)})
        assert a.error is None and a.state is PositionState.FETCHING
        waits.append(a.blocked_until - world.now)
        sent = world.fetch()
        assert set(sent.request.context.cursors) == {b.tp}, "the other partition goes on"
        assert a.tp in sent.forgotten(), "or the broker would answer the error again at once, in a busy loop"
        sent.answer({b.tp: kit.batch(b.cursor.fetch_offset, 1)})
        world.now = a.blocked_until
    assert 0.08 <= waits[0] <= 0.12 and 0.8 <= waits[-1] <= 1.0
    refresh = world.metadata.step(world.now + 10)
    assert bool(refresh) is (rule("Fetch", code, Scope.PARTITION).action is Action.REFRESH_METADATA)
    world.receive({a.tp: kit.batch(0, 1)})
    assert a.failures == 0


def test_pain_C6_an_authorization_error_stays_until_it_is_cured(world, kit):
    [a] = world.simple(0)
    for _ in range(3):
        world.receive({a.tp: {"error_code": Code.TOPIC_AUTHORIZATION_FAILED}})
        assert isinstance(a.error, TopicAuthorizationFailedError)
        assert a.error.topics == ("t",) and a.error.partition == a.tp and a.error.node_id == 1
        world.now = a.blocked_until
    world.receive({a.tp: kit.batch(0, 1)})
    assert a.error is None and take_all(world) == [0]


@pytest.mark.parametrize("code", [*RAISED, 9999, -77])
def test_errors_only_the_user_can_help_with_are_shown(world, code):
    [a] = world.simple(0)
    world.receive({a.tp: {"error_code": code}})
    assert a.error is not None and BY_CODE[code].name in str(a.error)
    assert a.blocked_until > world.now


@pytest.mark.parametrize("code", [Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH])
def test_pain_B6_a_hint_of_the_new_leader_leaves_nothing_to_wait_for(world, kit, code):
    """KIP-951: the answer that says "not me" says who."""
    [a] = world.simple(0, leader=1)
    world.receive({a.tp: {"error_code": code, "leader": (9, 6)}}, endpoints={9: "b9"})
    assert world.metadata.nodes[9].host == "b9"
    [question] = world.validations()
    assert question.node_id == 9, "what was read has to be in the new leader's log"
    question.epoch_ends({a.tp: (5, 100)})
    sent = world.fetch()
    assert sent.node_id == 9 and sent.asked()[a.tp].current_leader_epoch == 6


def test_a_hint_without_an_address_waits_for_metadata(world):
    [a] = world.simple(0)
    world.receive({a.tp: {"error_code": Code.NOT_LEADER_OR_FOLLOWER, "leader": (9, 6)}})
    assert a.blocked_until > world.now and world.metadata.wake_at(world.now) < world.now + 1


def test_an_error_drops_the_preferred_replica(world):
    [a] = world.simple(0, leader=1)
    world.receive({a.tp: {"preferred_read_replica": 2}})
    world.receive({a.tp: {"error_code": Code.NOT_LEADER_OR_FOLLOWER}})
    assert a.preferred_replica == -1


def test_a_late_answer_does_not_take_back_the_error_of_a_truncated_log(world, kit):
    [a] = world.simple(0)
    sent = world.fetch()
    a.move(PositionEvent.LEADER_CHANGED)
    a.failed(LogTruncationError(a.tp, 0, None), is_raised=True)
    sent.answer({a.tp: kit.batch(0, 1)})
    assert isinstance(a.error, LogTruncationError)


# -- out of range


def test_out_of_range_at_the_leader_asks_for_both_ends(world):
    [a] = world.simple(100)
    world.receive({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
    assert a.state is PositionState.AWAITING_RESET and a.out_of_range == 100
    assert sorted(t for sent in world.look_ups() for _, t in sent.timestamps()) == [-2, -1]


def test_out_of_range_at_a_follower_asks_the_leader_first(world):
    [a] = world.simple(100, leader=1)
    world.receive({a.tp: {"preferred_read_replica": 2}})
    world.receive({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
    assert a.state is PositionState.FETCHING and a.preferred_replica == -1
    assert world.fetch().node_id == 1


def test_out_of_range_at_who_was_the_leader_asks_the_new_one(world):
    [a] = world.simple(100, leader=1, epoch=-1)
    sent = world.fetch()
    world.cluster({a.tp: (2, 6)})
    sent.answer({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
    assert a.state is PositionState.FETCHING and world.fetch().node_id == 2


def test_out_of_range_behind_what_is_buffered_does_not_jump_over_it(world, kit):
    """What was received before is delivered first; only then is there something to decide."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 10)})
    world.receive({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
    assert take_all(world) == list(range(10)) and a.cursor.offset == 10
    assert world.fetches() == {}
    world.now = world.planner.wake_at(world.now)
    world.receive({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
    assert a.out_of_range == 10


# -- errors of whole answers


@pytest.mark.parametrize(
    ("code", "session_id", "at_once"),
    [
        (Code.FETCH_SESSION_ID_NOT_FOUND, 0, True),
        (Code.INVALID_FETCH_SESSION_EPOCH, 77, True),
        (Code.FETCH_SESSION_TOPIC_ID_ERROR, 77, False),
        (Code.UNKNOWN_TOPIC_ID, 77, False),
        (Code.UNKNOWN_SERVER_ERROR, 77, False),
        (Code.KAFKA_STORAGE_ERROR, 77, False),
    ],
)
def test_after_an_error_of_the_session_a_new_one_says_everything(world, kit, code, session_id, at_once):
    a, b = world.simple(0, 0)
    world.receive({a.tp: kit.batch(0, 1), b.tp: kit.batch(0, 1)})
    world.receive({})
    world.receive({}, error_code=code)
    if not at_once:
        assert world.fetches() == {}
        world.now = world.planner.wake_at(world.now)
    sent = world.fetch()
    assert (sent.message.session_id, sent.message.session_epoch) == (session_id, 0)
    assert {tp: p.fetch_offset for tp, p in sent.asked().items()} == {a.tp: 1, b.tp: 1}
    sent.answer({})
    assert take_all(world) == [0, 0] and a.error is None


def test_a_new_session_that_is_refused_is_not_opened_again_at_once(world):
    world.simple(0)
    world.receive({}, error_code=Code.FETCH_SESSION_ID_NOT_FOUND)
    assert world.fetches() == {} and world.planner.wake_at(world.now) > world.now


def test_a_session_lost_by_its_first_incremental_fetch_is_not_opened_again_at_once(world):
    """A broker, or what stands before it, that forgets each session at once must not be asked at its own pace."""
    world.simple(0)
    world.receive({})
    world.receive({}, error_code=Code.FETCH_SESSION_ID_NOT_FOUND)
    assert world.fetches() == {} and world.planner.wake_at(world.now) > world.now


def test_a_broker_that_brings_nothing_and_does_not_wait_is_not_asked_at_its_own_pace(world, kit):
    [a] = world.simple(0)
    began = world.now
    for _ in range(100):
        if not (sent := world.fetches()):
            world.now = world.planner.wake_at(world.now)
            sent = world.fetches()
        sent[1].answer({})
    assert 8 < world.now - began < 10  # a tenth of a second each, but for the first few
    world.now += 0.1
    world.receive({a.tp: kit.batch(0, 1)})
    world.fetch()  # what brings something is asked on at once


def test_a_broker_that_waits_before_it_brings_nothing_is_asked_on_at_once(world):
    world.simple(0)
    for _ in range(100):
        sent = world.fetch()
        world.now += 0.5
        sent.answer({})


def test_out_of_range_again_and_again_is_looked_into_ever_more_slowly(world, kit):
    """The broker's own ends say that the position is inside: the loop through all this must not spin and fill logs."""
    [a] = world.simple(7)
    waits = []
    for _ in range(6):
        world.receive({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
        assert a.state is PositionState.AWAITING_RESET
        waits.append(a.blocked_until - world.now)
        assert world.resets.wake_at(world.now) == (a.blocked_until if waits[-1] > 0 else NEVER)
        a.place(PositionEvent.RESET_FOUND, 7, 5)
        world.now += 1
    assert waits[0] <= 0 < waits[1] < waits[2] < waits[4] <= 1
    world.receive({a.tp: kit.batch(7, 1)})
    assert a.fruitless_ranges == 0


def test_a_broker_without_a_fetch_we_speak_is_told_by_every_poll(world):
    [a] = world.simple(0)
    error = UnsupportedVersionError("Fetch is not spoken", code=35, name="UNSUPPORTED_VERSION")
    world.fetch().fail(error)
    assert a.error is error
    world.now = world.planner.wake_at(world.now)
    world.receive({a.tp: {}})
    assert a.error is None


def test_an_error_only_the_user_can_help_with_stays_until_an_answer_is_good(world):
    a, b = world.simple(0, 0)
    world.receive({}, error_code=Code.CLUSTER_AUTHORIZATION_FAILED)
    assert a.error is not None and b.error is a.error
    world.now = world.planner.wake_at(world.now)
    world.receive({a.tp: {}, b.tp: {}})
    assert a.error is None and b.error is None


def test_after_a_lost_connection_the_old_session_is_closed_with_the_next_request(world, kit):
    """Otherwise each reconnect leaves one behind, until the broker has no room for any."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 1)})
    world.fetch().fail(KafkaConnectionError("lost"))
    assert world.metadata.wake_at(world.now) < world.now + 1
    world.now = world.planner.wake_at(world.now)
    sent = world.fetch()
    assert (sent.message.session_id, sent.message.session_epoch) == (77, 0)
    assert sent.asked()[a.tp].fetch_offset == 1
    assert world.answers.completed == 1


# -- hostile answers


def test_what_was_not_asked_for_is_ignored(world, kit):
    [a] = world.simple(0)
    world.cluster({a.tp: (1, 5), kit.tp(0, "other"): (1, 5)})
    data = {kit.tp(5): kit.batch(0, 1), kit.tp(0, "other"): kit.batch(0, 1), kit.tp(-7): {"error_code": 29}}
    world.receive({**data, a.tp: kit.batch(0, 2)})
    assert take_all(world) == [0, 1] and world.buffer.pinned == 0


def test_an_answer_that_repeats_a_partition_repeats_no_record(world, kit):
    [a] = world.simple(0)
    sent = world.fetch()
    part = PartitionData(partition_index=0, high_watermark=9, records=kit.batch(0, 3))
    bad = PartitionData(partition_index=0, error_code=Code.OFFSET_OUT_OF_RANGE)
    topic = FetchableTopicResponse(topic_id=world.metadata.topic_id("t"), partitions=[part, part, bad])
    sent._reply(FetchResponse(session_id=77, responses=[topic, topic]))
    assert take_all(world) == [0, 1, 2]
    assert a.cursor.fetch_offset == 3


@pytest.mark.parametrize("seed", range(40))
def test_no_bytes_whatever_raise_anything_but_record_errors_or_lose_the_memory(world, kit, seed):
    rng = random.Random(seed)
    a, b = world.simple(0, 0)
    data = bytearray(kit.batch(0, 3) + kit.batch(3, 3) + kit.batch(6, 3))
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    world.receive({a.tp: bytes(data), b.tp: kit.batch(0, 2)})
    got = []
    for _ in range(12):
        try:
            poll_result = world.collector.gather(4)
            got += [r for records in poll_result.records.values() for r in records]
            world.collector.settle(poll_result)
        except RecordError as error:
            assert error.partition == a.tp and error.next_offset > error.offset >= 0
    assert [r.offset for r in got if r.partition == 1] == [0, 1]
    good = [r.offset for r in got if r.partition == 0]
    assert good == sorted(set(good))
    a.place(PositionEvent.SEEK, 0)
    take_all(world)
    assert world.buffer.pinned == 0


def test_nothing_of_normal_life_is_logged_above_info(world, kit, caplog):
    caplog.set_level(logging.WARNING)
    a, b = world.simple(0, 0)
    for code in (6, 74, 75, 78):
        world.receive({a.tp: {"error_code": code}, b.tp: kit.batch(b.cursor.fetch_offset, 1)})
        world.now = a.blocked_until
    world.receive({}, error_code=Code.FETCH_SESSION_ID_NOT_FOUND)
    world.fetch().fail(KafkaConnectionError("lost"))
    assert caplog.records == []


def test_partitions_that_failed_together_are_fetched_again_together(world):
    """With a jitter for each, thousands would each have a moment, and a look through all of them."""
    parts = world.simple(*[0] * 50)
    world.receive({p.tp: {"error_code": Code.KAFKA_STORAGE_ERROR} for p in parts})
    assert len({p.blocked_until for p in parts}) == 1
    world.now = world.planner.wake_at(world.now)
    assert len(world.planner.wanted(1, world.now)) == 50
