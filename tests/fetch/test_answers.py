"""Fetch responses: the action for each error, records in the buffer, and hostile bytes."""

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
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.support.timers import NEVER
from thinconsumer.wire.error_codes import BY_CODE, Code
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchResponse, PartitionData

#: Retriable errors of one partition.
PASSING = [c for c in Code if c and rule("Fetch", c, Scope.PARTITION).action in (Action.RETRY, Action.REFRESH_METADATA)]
RAISED = [c for c in Code if c and rule("Fetch", c, Scope.PARTITION).action is Action.RAISE]


def take_all(world) -> list[int]:
    """Return all buffered records' offsets, and settle."""
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
def test_responses_for_a_replaced_cursor_are_dropped(world, kit, moved):
    """A response to a request sent before a seek must not change the new position."""
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
    assert not world.buffer.queues and world.buffer.pinned == 0
    assert state == [(p.state, p.cursor.fetch_offset) for p in world.partitions]
    assert sent.request.context.session_id == 77, "the response still updates the session"


@pytest.mark.parametrize("code", [c for c in Code if c])
def test_partition_errors_for_a_replaced_cursor_are_dropped(world, code):
    [a] = world.simple(0)
    sent = world.fetch()
    a.place(PositionEvent.SEEK, 10)
    sent.answer({a.tp: {"error_code": code}})
    assert a.state is PositionState.FETCHING and a.error is None and a.may_fetch(world.now)


@pytest.mark.parametrize(("first", "behind"), [("new", 8), ("old", 20)])
def test_only_the_first_of_two_leaders_responses_for_one_offset_is_used(world, kit, first, behind):
    """A deposed leader's log may have diverged: its records must not be appended to the new leader's."""
    [a] = world.simple(0, leader=1)
    old = world.fetch()
    world.cluster({a.tp: (2, 6)})
    new = world.fetch()
    assert new.node_id == 2
    # The second response has more records than the first, so its rest would seem to continue the first.
    answers = [(old, kit.batch(0, 20)), (new, kit.batch(0, 8 if first == "new" else 30, epoch=6))]
    for sent, data in sorted(answers, key=lambda one: one[0] is (old if first == "new" else new)):
        sent.answer({a.tp: data})
    assert take_all(world) == list(range(behind))
    assert a.cursor.fetch_offset == behind and a.error is None
    asked = [sent.asked()[a.tp].fetch_offset for sent in world.fetches().values() if a.tp in sent.asked()]
    assert asked == [behind], "dropped records are fetched again"


def test_high_watermark_is_not_taken_from_the_second_response_for_an_offset(world, kit):
    [a] = world.simple(0, leader=1)
    old = world.fetch()
    world.cluster({a.tp: (2, 6)})
    world.fetch().answer({a.tp: {"records": kit.batch(0, 8), "high_watermark": 8}})
    old.answer({a.tp: {"records": kit.batch(0, 20), "high_watermark": 20}})
    assert a.high_watermark == 8


@pytest.mark.parametrize("parts", [[(0, 3), (4, 2), (10, 3)], [(4, 2), (0, 3), (10, 3)], [(4, 2), (10, 1), (11, 2)]])
def test_batches_below_the_fetch_offset_are_dropped_before_others(world, kit, parts):
    [a] = world.simple(10)
    world.receive({a.tp: b"".join(kit.batch(*part) for part in parts)})
    assert take_all(world) == [10, 11, 12] and a.cursor.fetch_epoch == 5


DISORDERED = {
    "too low": ([(10, 2), (3, 2), (14, 1)], [10, 11], (12, 14)),
    "too low, the last one": ([(10, 2), (3, 2)], [10, 11], (12, 14)),
    "too low, among holes": ([(10, 2), (20, 2), (12, 3), (40, 1)], [10, 11, 20, 21], (22, 40)),
    "too high": ([(10, 1), (50, 2), (13, 1), (14, 1)], [10], (11, 13)),
    "too high, the first one": ([(50, 2), (12, 1)], [], (10, 12)),
    "too high, among holes": ([(10, 1), (50, 2), (30, 1), (40, 1)], [10], (11, 30)),
    "below the fetch offset": ([(2, 3), (13, 1)], [], (10, 13)),
    "two that end at the same offset": ([(10, 2), (11, 1), (13, 1)], [10, 11], (12, 13)),
}


@pytest.mark.parametrize("name", DISORDERED)
def test_valid_batches_come_before_one_with_wrong_offsets_and_the_error_leads_behind_it(world, kit, name):
    """Not back to records that were returned before, and not past the next valid batch."""
    parts, offsets, (offset, behind) = DISORDERED[name]
    [a] = world.simple(10)
    world.receive({a.tp: b"".join(kit.batch(*part) for part in parts)})
    found = []
    for _ in range(3):
        try:
            poll_result = world.collector.gather(500)
        except CorruptRecordError as error:
            assert "out of order" in str(error) or "below" in str(error)
            assert (error.offset, error.next_offset) == (offset, behind)
            break
        polled = [record.offset for records in poll_result.records.values() for record in records]
        found += polled
        world.collector.settle(poll_result)
    else:
        raise AssertionError("no error")
    assert found == offsets
    assert world.fetches() == {}, "another Fetch would return the same bytes"


def test_a_response_with_batches_below_the_fetch_offset_only_is_no_error(world, kit):
    [a] = world.simple(20)
    world.receive({a.tp: kit.batch(5, 3) + kit.batch(3, 2)})
    assert take_all(world) == [] and a.cursor.fetch_offset == 20 and a.error is None


def test_responses_with_batches_below_the_fetch_offset_only_are_an_error_if_they_repeat(world, kit, caplog):
    """A base offset that was changed on the way to the broker's disk: the same batches come for ever."""
    [a] = world.simple(20)
    waits, errors = [], []
    for _ in range(8):
        world.receive({a.tp: kit.batch(5, 3)})
        errors.append(a.error)
        assert "below this offset" in str(a.last_error) and a.cursor.fetch_offset == 20
        assert world.fetches() == {}
        waits.append(world.wake_at() - world.now)
        world.now += waits[-1]
    assert [error is not None for error in errors] == [False] * 3 + [True] * 5
    assert isinstance(errors[-1], CorruptRecordError) and (errors[-1].offset, errors[-1].next_offset) == (20, 21)
    assert 0.08 <= waits[0] <= 0.12 and 0.8 <= waits[-1] <= 1.0, "other answers do not end the backoff"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    world.receive({a.tp: kit.batch(20, 1)})
    assert a.error is None and a.failures == 0 and take_all(world) == [20]


def test_bytes_without_a_whole_batch_raise_an_error_and_are_fetched_again_with_backoff(world, kit):
    """Fetching them again for ever without an error would stall the partition silently."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 5)[:80]})
    assert isinstance(a.error, RecordError) and a.error.offset == 0
    assert world.fetches() == {} and world.now < world.wake_at() < NEVER
    for _ in range(5):
        world.now = world.wake_at()
        world.receive({a.tp: kit.batch(0, 5)[:80]})
    assert 0.8 <= world.wake_at() - world.now <= 1.0
    world.now = world.wake_at()
    world.receive({a.tp: kit.batch(0, 5)})
    assert a.error is None and take_all(world) == [0, 1, 2, 3, 4]


def test_a_truncated_batch_at_the_end_is_fetched_again(world, kit):
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 2) + kit.batch(2, 2)[:-1]})
    assert take_all(world) == [0, 1]
    assert world.fetch().asked()[a.tp].fetch_offset == 2


@pytest.mark.parametrize(("sent", "stored"), [((50, 40, 10), (50, 40, 10)), ((-1, -1, -1), (None, None, None))])
def test_high_watermark_stable_offset_and_log_start_are_stored_unless_unknown(world, sent, stored):
    [a] = world.simple(0)
    world.receive({a.tp: dict(zip(("high_watermark", "last_stable_offset", "log_start_offset"), sent))})
    assert (a.high_watermark, a.last_stable_offset, a.log_start_offset) == stored


# -- errors of partitions


@pytest.mark.parametrize("code", PASSING, ids=lambda code: code.name)
def test_retriable_errors_back_off_and_are_not_raised(world, kit, code):
    a, b = world.simple(0, 0)
    waits = []
    for _ in range(5):
        world.receive({a.tp: {"error_code": code}, b.tp: kit.batch(b.cursor.fetch_offset, 1)})
        assert a.error is None and a.state is PositionState.FETCHING
        waits.append(a.backoff.at - world.now)
        sent = world.fetch()
        assert set(sent.request.context.listed.cursors) == {b.tp}, "the other partition is still fetched"
        assert a.tp in sent.forgotten(), "or the broker would return the error again at once, in a busy loop"
        sent.answer({b.tp: kit.batch(b.cursor.fetch_offset, 1)})
        world.now = a.backoff.at
    assert 0.08 <= waits[0] <= 0.12 and 0.8 <= waits[-1] <= 1.0
    refresh = world.metadata.step(world.now + 10)
    assert bool(refresh) is (rule("Fetch", code, Scope.PARTITION).action is Action.REFRESH_METADATA)
    world.receive({a.tp: kit.batch(0, 1)})
    assert a.failures == 0


def test_an_authorization_error_is_cleared_by_the_next_good_response(world, kit):
    [a] = world.simple(0)
    for _ in range(3):
        world.receive({a.tp: {"error_code": Code.TOPIC_AUTHORIZATION_FAILED}})
        assert isinstance(a.error, TopicAuthorizationFailedError)
        assert a.error.topics == ("t",) and a.error.partition == a.tp and a.error.node_id == 1
        world.now = a.backoff.at
    world.receive({a.tp: kit.batch(0, 1)})
    assert a.error is None and take_all(world) == [0]


@pytest.mark.parametrize("code", [*RAISED, 9999, -77])
def test_final_errors_are_recorded_and_back_off(world, code):
    [a] = world.simple(0)
    world.receive({a.tp: {"error_code": code}})
    assert a.error is not None and BY_CODE[code].name in str(a.error)
    assert a.is_backing_off(world.now)


@pytest.mark.parametrize("code", [Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH])
def test_a_leader_named_in_the_response_is_used_without_backoff(world, kit, code):
    """KIP-951: the response names the new leader and its address."""
    [a] = world.simple(0, leader=1)
    world.receive({a.tp: {"error_code": code, "leader": (9, 6)}}, endpoints={9: "b9"})
    assert world.metadata.nodes[9].host == "b9"
    [question] = world.validations()
    assert question.node_id == 9, "the position is validated with the new leader"
    question.epoch_ends({a.tp: (5, 100)})
    sent = world.fetch()
    assert sent.node_id == 9 and sent.asked()[a.tp].current_leader_epoch == 6


def test_a_leader_named_after_a_success_is_used_without_backoff_again(world, kit):
    """The first position has no leader epoch, so that no validation ends the failure before the success."""
    world.cluster({kit.tp(0): (1, 5)})
    [a] = world.assign({kit.tp(0): 0})
    for leader, epoch in ((2, 6), (3, 7)):
        moved = {"error_code": Code.NOT_LEADER_OR_FOLLOWER, "leader": (leader, epoch)}
        world.receive({a.tp: moved}, endpoints={leader: f"b{leader}"})
        for question in world.validations():
            question.epoch_ends({a.tp: (epoch - 1, 100)})
        sent = world.fetch()
        assert sent.node_id == leader
        sent.answer({a.tp: kit.batch(a.cursor.fetch_offset, 1, epoch=epoch)})


def test_a_named_leader_without_an_address_needs_a_metadata_refresh(world):
    [a] = world.simple(0)
    world.receive({a.tp: {"error_code": Code.NOT_LEADER_OR_FOLLOWER, "leader": (9, 6)}})
    assert a.is_backing_off(world.now) and world.refresh_at() < world.now + 1


def test_an_error_drops_the_preferred_replica(world):
    [a] = world.simple(0, leader=1)
    world.receive({a.tp: {"preferred_read_replica": 2}})
    world.receive({a.tp: {"error_code": Code.NOT_LEADER_OR_FOLLOWER}})
    assert a.preferred_replica == -1


def test_a_late_response_does_not_clear_a_log_truncation_error(world, kit):
    [a] = world.simple(0)
    sent = world.fetch()
    a.move(PositionEvent.LEADER_CHANGED)
    a.failed(LogTruncationError(a.tp, 0, None), is_raised=True)
    sent.answer({a.tp: kit.batch(0, 1)})
    assert isinstance(a.error, LogTruncationError)


# -- out of range


def test_out_of_range_at_a_follower_fetches_from_the_leader(world):
    [a] = world.simple(100, leader=1)
    world.receive({a.tp: {"preferred_read_replica": 2}})
    world.receive({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
    assert a.state is PositionState.FETCHING and a.preferred_replica == -1
    assert world.fetch().node_id == 1


def test_out_of_range_at_the_previous_leader_fetches_from_the_new_leader(world):
    [a] = world.simple(100, leader=1, epoch=-1)
    sent = world.fetch()
    world.cluster({a.tp: (2, 6)})
    sent.answer({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
    assert a.state is PositionState.FETCHING and world.fetch().node_id == 2


def test_out_of_range_returns_buffered_records_before_the_reset(world, kit):
    """A reset before buffered records are returned would drop them or skip over them."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 10)})
    world.receive({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
    assert take_all(world) == list(range(10)) and a.cursor.offset == 10
    assert world.fetches() == {}
    world.now = world.wake_at()
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
def test_a_session_error_is_followed_by_a_full_fetch_request(world, kit, code, session_id, at_once):
    a, b = world.simple(0, 0)
    world.receive({a.tp: kit.batch(0, 1), b.tp: kit.batch(0, 1)})
    world.receive({})
    world.receive({}, error_code=code)
    if not at_once:
        assert world.fetches() == {}
        world.now = world.wake_at()
    sent = world.fetch()
    assert (sent.message.session_id, sent.message.session_epoch) == (session_id, 0)
    assert {tp: p.fetch_offset for tp, p in sent.asked().items()} == {a.tp: 1, b.tp: 1}
    sent.answer({})
    assert take_all(world) == [0, 0] and a.error is None


@pytest.mark.parametrize("opened", [False, True])
def test_a_session_lost_at_its_first_full_or_incremental_fetch_backs_off(world, opened):
    """A broker or proxy that drops each session at once would cause a busy loop."""
    world.simple(0)
    if opened:
        world.receive({})
    world.receive({}, error_code=Code.FETCH_SESSION_ID_NOT_FOUND)
    assert world.fetches() == {} and world.wake_at() > world.now


def test_immediate_responses_without_records_are_paced(world, kit):
    [a] = world.simple(0)
    began = world.now
    for _ in range(100):
        if not (sent := world.fetches()):
            world.now = world.wake_at()
            sent = world.fetches()
        sent[1].answer({})
    assert 18 < world.now - began < 20  # a fifth of a second each, except for the first few
    world.now += 0.2
    world.receive({a.tp: kit.batch(0, 1)})
    world.fetch()  # the next Fetch after records is sent at once


@pytest.mark.parametrize("fetch_max_wait_ms", [10, 0])
def test_immediate_responses_are_paced_by_the_wait_of_the_broker_if_that_is_shorter(make, fetch_max_wait_ms):
    """Without a wait, a hundred are sent in a second: the pace is the client's."""
    world = make(fetch_max_wait_ms=fetch_max_wait_ms)
    world.simple(0)
    began = world.now
    for _ in range(100):
        if not (sent := world.fetches()):
            world.now = world.wake_at()
            sent = world.fetches()
        sent[1].answer({})
    assert 0.9 < world.now - began < 1


def test_responses_after_a_long_poll_are_not_paced(world):
    world.simple(0)
    for _ in range(100):
        sent = world.fetch()
        world.now += 0.5
        sent.answer({})


def test_repeated_out_of_range_errors_back_off(world, kit):
    """ListOffsets says that the position is inside the log: the loop of both errors must not spin and fill logs."""
    [a] = world.simple(7)
    waits = []
    for _ in range(6):
        world.receive({a.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})
        assert a.state is PositionState.AWAITING_RESET
        waits.append(a.backoff.at - world.now)
        assert bool(world.look_ups()) is (waits[-1] <= 0)
        a.place(PositionEvent.RESET_FOUND, 7, 5)
        world.now += 1
    assert waits[0] <= 0 < waits[1] < waits[2] < waits[4] <= 1
    world.receive({a.tp: kit.batch(7, 1)})
    assert a.fruitless_ranges == 0


def test_an_unsupported_fetch_version_is_recorded_as_error(world):
    [a] = world.simple(0)
    error = UnsupportedVersionError("Fetch is not spoken", code=35, name="UNSUPPORTED_VERSION")
    world.fetch().fail(error)
    assert a.error is error
    world.now = world.wake_at()
    world.receive({a.tp: {}})
    assert a.error is None


def test_a_final_error_of_the_response_is_cleared_by_a_good_response(world):
    a, b = world.simple(0, 0)
    world.receive({}, error_code=Code.CLUSTER_AUTHORIZATION_FAILED)
    assert a.error is not None and b.error is a.error
    world.now = world.wake_at()
    world.receive({a.tp: {}, b.tp: {}})
    assert a.error is None and b.error is None


def test_the_next_request_after_a_lost_connection_closes_the_old_session(world, kit):
    """Otherwise each reconnect leaves a session behind, until the broker's session cache is full."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 1)})
    world.fetch().fail(KafkaConnectionError("lost"))
    assert world.refresh_at() < world.now + 1
    world.now = world.wake_at()
    sent = world.fetch()
    assert (sent.message.session_id, sent.message.session_epoch) == (77, 0)
    assert sent.asked()[a.tp].fetch_offset == 1
    assert world.answers.completed == 1


# -- hostile answers


def test_partitions_that_were_not_requested_are_ignored(world, kit):
    [a] = world.simple(0)
    world.cluster({a.tp: (1, 5), kit.tp(0, "other"): (1, 5)})
    data = {kit.tp(5): kit.batch(0, 1), kit.tp(0, "other"): kit.batch(0, 1), kit.tp(-7): {"error_code": 29}}
    world.receive({**data, a.tp: kit.batch(0, 2)})
    assert take_all(world) == [0, 1] and world.buffer.pinned == 0


def test_a_partition_repeated_in_a_response_is_used_once(world, kit):
    [a] = world.simple(0)
    sent = world.fetch()
    part = PartitionData(partition_index=0, high_watermark=9, records=kit.batch(0, 3))
    bad = PartitionData(partition_index=0, error_code=Code.OFFSET_OUT_OF_RANGE)
    topic = FetchableTopicResponse(topic_id=world.metadata.topic_id("t"), partitions=[part, part, bad])
    sent._reply(FetchResponse(session_id=77, responses=[topic, topic]))
    assert take_all(world) == [0, 1, 2]
    assert a.cursor.fetch_offset == 3


@pytest.mark.parametrize("seed", range(40))
def test_corrupt_bytes_raise_record_errors_only_and_release_memory(world, kit, seed):
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


def test_the_end_of_an_error_that_was_logged_is_logged(world, kit, caplog):
    caplog.set_level(logging.INFO, logger="thinconsumer")
    [a] = world.simple(0)
    for _ in range(20):
        world.receive({a.tp: {"error_code": Code.KAFKA_STORAGE_ERROR}})
        world.now += 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    world.receive({a.tp: kit.batch(0, 1)})
    assert "t-0 can be read again" in caplog.records[-1].getMessage()


def test_short_failures_are_not_logged_as_warnings(world, kit, caplog):
    caplog.set_level(logging.WARNING)
    a, b = world.simple(0, 0)
    for code in (6, 74, 75, 78):
        world.receive({a.tp: {"error_code": code}, b.tp: kit.batch(b.cursor.fetch_offset, 1)})
        world.now = a.backoff.at
    world.receive({}, error_code=Code.FETCH_SESSION_ID_NOT_FOUND)
    world.fetch().fail(KafkaConnectionError("lost"))
    assert caplog.records == []


def test_partitions_that_failed_together_are_fetched_again_together(world):
    """With a jitter each, thousands of partitions would each be retried in a request of their own."""
    parts = world.simple(*[0] * 50)
    world.receive({p.tp: {"error_code": Code.KAFKA_STORAGE_ERROR} for p in parts})
    assert len({p.backoff.at for p in parts}) == 1
    world.now = world.wake_at()
    assert len(world.planner.wanted(1, world.now)) == 50


def test_a_partition_that_is_assigned_anew_is_confirmed_by_the_same_session(world, kit):
    """Otherwise health() would call it stuck: its log end would count as never confirmed."""
    [a] = world.simple(0)
    world.receive({a.tp: {"high_watermark": 0}})
    world.partitions.assign([])
    [again] = world.assign({a.tp: 0}, epoch=5)
    for _ in range(3):
        world.now += 10
        world.fetch().answer({})
        assert again is not a and again.confirmed_at == world.now
