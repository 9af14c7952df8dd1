"""Validation of positions after leader changes (KIP-320), and recreated topics."""

import logging

import pytest

from thinconsumer.errors import LogTruncationError, SaslAuthenticationFailedError, UnsupportedVersionError
from thinconsumer.failures import Action, Scope, rule
from thinconsumer.positions.partitions import Reset
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.support.timers import NEVER
from thinconsumer.types import OffsetAndMetadata
from thinconsumer.wire.error_codes import Code

CODES = [c for c in Code if c]


@pytest.fixture
def in_doubt(make, kit):
    """Return a function that makes a world with a partition at offset 100, epoch 5, and a new leader: node 2, 6."""

    def build(*, buffered: int = 0, **options):
        world = make(**options)
        [a] = world.simple(100, leader=1, epoch=5)
        if buffered:
            world.receive({a.tp: kit.batch(100, buffered)})
        world.cluster({a.tp: (2, 6)})
        return world, a

    return build


# -- entering


def test_a_new_leader_validates_before_more_records_are_returned(in_doubt, kit):
    world, a = in_doubt(buffered=10)
    [sent] = world.validations()
    assert a.state is PositionState.VALIDATING and not a.may_hand_out
    assert sent.node_id == 2 and sent.epochs() == {a.tp: (6, 5)}
    assert sent.message.replica_id == -1 and sent.request.min_version == 3
    assert sent.request.deadline == world.now + 30
    assert world.fetches() == {} and world.validations() == []
    sent.epoch_ends({a.tp: (5, 110)})
    assert a.state is PositionState.FETCHING
    assert world.collector.gather(99).count == 10, "the buffered records are valid"
    assert world.fetch().asked()[a.tp].fetch_offset == 110


@pytest.mark.parametrize("epoch", [-1, 6, 7])
def test_positions_without_an_older_epoch_are_not_validated(world, kit, epoch):
    """The position has no epoch, or one that is not older than the leader's."""
    world.cluster({kit.tp(0): (1, 5)})
    [a] = world.assign({kit.tp(0): 10}, epoch=epoch)
    world.cluster({kit.tp(0): (2, 6)})
    assert world.validations() == [] and a.state is PositionState.FETCHING


@pytest.mark.parametrize("lacking", ["position", "leader"])
def test_a_position_without_epochs_is_accepted(world, kit, lacking):
    [a] = world.simple(0) if lacking == "position" else world.simple(0, version=8)
    a.place(PositionEvent.SEEK_VALIDATED, 50, -1 if lacking == "position" else 4)
    assert world.validations() == [] and a.state is PositionState.FETCHING


def test_a_new_leader_ends_the_backoff_of_the_previous_one(world, kit):
    [a] = world.simple(0, leader=1, epoch=-1)
    world.cluster({a.tp: (1, 5)})
    world.validations()
    world.receive({a.tp: {"error_code": Code.NOT_LEADER_OR_FOLLOWER}})
    assert world.fetches() == {}
    world.cluster({a.tp: (2, 6)})
    world.validations()
    assert world.fetch().node_id == 2


def test_without_a_leader_only_metadata_is_requested(in_doubt):
    world, a = in_doubt()
    world.cluster({a.tp: (-1, 7)})
    assert world.validations() == []
    assert world.refresh_at() < world.now + 1
    world.cluster({a.tp: (3, 8)})
    [sent] = world.validations()
    assert sent.node_id == 3


# -- the answer


@pytest.mark.parametrize("end", [100, 105, 10**9])
def test_a_log_that_reaches_the_position_confirms_it(in_doubt, end):
    world, a = in_doubt()
    cursor = a.cursor
    world.validations()[0].epoch_ends({a.tp: (5, end)})
    assert a.state is PositionState.FETCHING and a.cursor is cursor


def test_truncation_above_the_position_drops_only_the_buffer(in_doubt, kit):
    world, a = in_doubt(buffered=10)
    world.validations()[0].epoch_ends({a.tp: (5, 105)})
    assert (a.state, a.cursor.offset, a.cursor.fetch_offset, a.cursor.epoch) == (PositionState.FETCHING, 100, 100, 5)
    assert world.collector.gather(99).count == 0 and world.buffer.pinned == 0
    assert world.fetch().asked()[a.tp].fetch_offset == 100


@pytest.mark.parametrize("first", [(4, 120), (4, 90)])
@pytest.mark.parametrize(("end", "position"), [((3, 80), 80), ((3, 100), 100)])
def test_a_position_of_an_older_epoch_than_the_buffer_is_validated_by_its_own_epoch(world, kit, end, position, first):
    """The first answer is about the buffer's epoch; the logs may have diverged below the position in an older epoch.

    If the first answer is below the position, records before it may not have been returned yet.
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


@pytest.mark.parametrize("epoch", [6, 7, 100])
def test_the_end_of_a_newer_epoch_says_nothing(in_doubt, epoch, caplog):
    """Taken for a truncation, it would be followed by the same request at once, a thousand times a second."""
    world, a = in_doubt()
    began = world.now
    for _ in range(20):
        [sent] = world.validations()
        sent.epoch_ends({a.tp: (epoch, 80)})
        assert a.state is PositionState.VALIDATING and a.cursor.offset == 100
        assert world.validations() == [] and str(epoch) in str(a.last_error)
        world.now = world.wake_at()
    assert world.now - began > 15
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    world.validations()[0].epoch_ends({a.tp: (5, 80)})
    assert (a.state, a.cursor.offset, a.last_error) == (PositionState.FETCHING, 80, None)


@pytest.mark.parametrize(("end", "divergent"), [((4, 80), 80), ((-1, -1), None)])
def test_under_policy_none_truncation_is_raised_until_a_seek(in_doubt, end, divergent):
    world, a = in_doubt(auto_offset_reset="none")
    world.validations()[0].epoch_ends({a.tp: end})
    error = a.error
    assert isinstance(error, LogTruncationError)
    assert (error.partition, error.position, error.divergent_offset) == (a.tp, 100, divergent)
    assert world.validations() == [] and world.wake_at() == NEVER
    world.cluster({a.tp: (3, 7)})
    assert world.validations() == [] and a.error is error, "another leader does not clear the error"
    a.place(PositionEvent.SEEK, 80)
    assert a.error is None and a.may_fetch(world.now)


@pytest.mark.parametrize("end", [(-1, -1), (5, -1), (-1, 80)])
def test_a_position_outside_the_log_is_reset_if_its_epoch_is_unknown(in_doubt, end):
    world, a = in_doubt(auto_offset_reset="earliest")
    world.validations()[0].epoch_ends({a.tp: end})
    assert a.state is PositionState.AWAITING_RESET and a.reset is None
    world.reset_all({a.tp: (3, 90)})
    assert a.cursor.offset == 3


@pytest.mark.parametrize("policy", ["earliest", "latest", "by_duration:PT1H"])
@pytest.mark.parametrize("ends", [(3, 104), (100, 101), (0, 100)])
def test_a_position_inside_the_log_is_kept_though_its_epoch_is_unknown(in_doubt, policy, ends, caplog):
    """Its records may be of an older cluster, but a reset would skip or repeat others (KAFKA-19902)."""
    caplog.set_level(logging.WARNING)
    world, a = in_doubt(auto_offset_reset=policy, buffered=4)
    world.validations()[0].epoch_ends({a.tp: (-1, -1)})
    world.reset_all({a.tp: ends})
    assert (a.state, a.cursor.offset, a.cursor.fetch_offset) == (PositionState.FETCHING, 100, 100)
    assert world.collector.gather(99).count == 0, "buffered records are fetched again"
    [record] = caplog.records
    assert "t-0" in record.getMessage() and "position 100" in record.getMessage()
    world.cluster({a.tp: (3, 7)})
    assert world.validations() == [], "without an epoch there is nothing to validate until records have come"


def test_an_unsupported_api_skips_validation(in_doubt):
    """As clients before KIP-320 did."""
    world, a = in_doubt()
    world.validations()[0].fail(UnsupportedVersionError("old", code=35, name="UNSUPPORTED_VERSION"))
    assert a.state is PositionState.FETCHING


def test_a_rejected_login_is_recorded_and_the_position_stays_in_doubt(in_doubt):
    world, a = in_doubt()
    error = SaslAuthenticationFailedError("no", code=58, name="SASL_AUTHENTICATION_FAILED")
    world.validations()[0].fail(error)
    assert a.error is error and a.state is PositionState.VALIDATING


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_errors_back_off_and_final_ones_are_recorded(in_doubt, code):
    world, a = in_doubt()
    waits = []
    for _ in range(5):
        [sent] = world.validations()
        world.metadata.refresh_reason = None
        sent.epoch_ends({a.tp: int(code)})
        assert a.state is PositionState.VALIDATING
        action = rule("OffsetForLeaderEpoch", code, Scope.PARTITION).action
        assert (a.error is not None) is (action is Action.RAISE)
        assert (world.metadata.refresh_reason is not None) is (action is Action.REFRESH_METADATA)
        waits.append(world.wake_at() - world.now)
        assert world.validations() == []
        world.now += waits[-1]
    assert 0.08 <= waits[0] <= 0.12 and 0.8 <= waits[-1] <= 1.0
    world.validations()[0].epoch_ends({a.tp: (5, 200)})
    assert a.state is PositionState.FETCHING and a.error is None and a.failures == 0


# -- stale answers


@pytest.mark.parametrize("moved", ["seek", "validated seek", "reset"])
def test_a_response_for_a_replaced_cursor_is_dropped(in_doubt, moved):
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


def test_a_response_of_a_replaced_leader_is_dropped(in_doubt):
    """Its response describes its own log, not the new leader's."""
    world, a = in_doubt()
    [old] = world.validations()
    world.cluster({a.tp: (3, 7)})
    [new] = world.validations()
    assert new.node_id == 3 and new.epochs() == {a.tp: (7, 5)}
    old.epoch_ends({a.tp: (5, 100)})
    assert a.state is PositionState.VALIDATING
    assert world.validations() == [], "the new request is still in flight"
    new.epoch_ends({a.tp: (5, 60)})
    assert (a.cursor.offset, a.cursor.epoch) == (60, 5)


# -- topics created again


def test_a_recreated_topic_is_reset(world, kit, caplog):
    caplog.set_level(logging.WARNING)
    [a] = world.simple(100, epoch=5)
    a.committed = OffsetAndMetadata(100)
    world.receive({a.tp: {"high_watermark": 110, "preferred_read_replica": 2, "records": kit.batch(100, 5)}})
    world.cluster({a.tp: (1, 0)}, ids={"t": b"2" * 16})
    assert world.validations() == []
    assert a.state is PositionState.AWAITING_RESET and a.cursor.offset == -1
    assert a.high_watermark is None and a.preferred_replica == -1
    assert sum("t-0" in r.getMessage() and "100" in r.getMessage() for r in caplog.records) == 1
    assert a.committed is None, "brokers delete committed offsets with the topic"
    world.reset_all({a.tp: (0, 7)})
    assert a.cursor.offset == 0, "records written before the client notices are not skipped, not even under latest"
    assert a.leader_epoch == 0, "epochs of the old topic must not be compared with the new one's"
    world.cluster({a.tp: (2, 1)}, ids={"t": b"2" * 16})
    assert len(world.validations()) <= 1


def test_a_requested_reset_survives_the_recreation_of_the_topic(world):
    """A lookup in flight may return an offset of the old topic, so it is repeated."""
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
def test_a_partition_waiting_for_its_group_keeps_waiting_when_the_topic_is_recreated(world, state):
    [a] = world.simple(100)
    a.state = state
    world.cluster({a.tp: (1, 0)}, ids={"t": b"2" * 16})
    world.validations()
    assert a.state is state


def test_metadata_from_before_the_assignment_reveals_a_recreated_topic(world, kit):
    """The topic is in metadata before its assignment, and is recreated between two refreshes."""
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


def test_results_for_partitions_not_requested_are_ignored(in_doubt, kit):
    world, a = in_doubt()
    world.validations()[0].epoch_ends({kit.tp(9): (1, 1), kit.tp(0, "other"): (1, 1), a.tp: (5, 200)})
    assert a.state is PositionState.FETCHING


# -- late records of the previous leader


@pytest.mark.parametrize("epoch", [-1, 5])
def test_late_records_of_the_previous_leader_are_validated(world, kit, epoch):
    """The new leader has validated only the position before them, or nothing after a seek without an epoch."""
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
    assert world.collector.gather(99).count == 0, "the new leader's log has other records at these offsets"


@pytest.mark.parametrize("arrives_first", [True, False])
def test_records_of_a_former_leader_that_follows_now_are_validated(world, kit, arrives_first):
    """A broker that lags behind had named it as the leader. It has the epoch, but has yet to truncate its log."""
    world.cluster({kit.tp(0): (2, 6)})
    [a] = world.assign({kit.tp(0): 100})
    fetch = world.fetch()
    if arrives_first:
        fetch.answer({a.tp: kit.batch(100, 10, epoch=5)})
        assert a.state is PositionState.FETCHING, "it may be the leader"
    world.cluster({a.tp: (3, 6)})
    early = world.validations()
    if not arrives_first:
        fetch.answer({a.tp: kit.batch(100, 10, epoch=5)})
    assert a.state is PositionState.VALIDATING and world.collector.gather(99).count == 0
    [sent] = early or world.validations()
    assert sent.epochs() == {a.tp: (6, 5)}
    sent.epoch_ends({a.tp: (5, 100)})
    assert (a.state, a.cursor.offset, a.cursor.fetch_offset) == (PositionState.FETCHING, 100, 100)


def test_records_of_the_current_leader_are_not_validated(world, kit):
    world.cluster({kit.tp(0): (1, 9)})
    [a] = world.assign({kit.tp(0): 100})
    world.receive({a.tp: kit.batch(100, 10, epoch=5)})
    assert a.state is PositionState.FETCHING and world.validations() == []


def test_a_response_about_an_outdated_epoch_is_dropped(world, kit):
    """While the request was in flight, the old leader returned records of a newer epoch."""
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
def test_a_seek_position_stays_when_only_the_buffer_is_truncated(make, kit, answer):
    """No record was returned since the seek, so no returned record is truncated."""
    world = make(auto_offset_reset="none")
    world.cluster({kit.tp(0): (1, 5)})
    [a] = world.assign({kit.tp(0): 100})
    world.receive({a.tp: kit.batch(100, 10)})
    world.cluster({a.tp: (2, 6)})
    world.validations()[0].epoch_ends({a.tp: answer})
    assert (a.state, a.cursor.offset, a.cursor.fetch_offset, a.error) == (PositionState.FETCHING, 100, 100, None)
    assert world.collector.gather(99).count == 0 and world.buffer.pinned == 0


# -- leaders older than the records read


@pytest.fixture
def behind(make, kit):
    """Return a function that makes a world with a position at 100, epoch 7, while metadata has leader epoch 5."""

    def do(**options):
        world = make(**options)
        world.cluster({kit.tp(0): (1, 5)})
        [a] = world.assign({kit.tp(0): 0})
        a.place(PositionEvent.SEEK_VALIDATED, 100, 7)
        return world, a

    return do


def pass_time(world, until):
    """Advance the time over backoffs until requests are due; return them."""
    while not (asked := world.validations()) and world.now < until:
        world.now = min(until, max(world.now + 0.001, world.wake_at()))
    return asked


def test_a_leader_older_than_the_records_read_is_not_asked(behind):
    """A partitioned broker may name itself; its answer would make the policy discard a valid position."""
    world, a = behind(auto_offset_reset="latest")
    assert pass_time(world, world.now + 5) == []
    assert a.state is PositionState.VALIDATING and a.cursor.offset == 100 and a.error is None
    assert world.refresh_at() <= world.now, "metadata is requested"
    world.cluster({a.tp: (2, 8)})
    [sent] = world.validations()
    assert (sent.node_id, sent.epochs()) == (2, {a.tp: (8, 7)}), "at once, without a backoff"
    sent.epoch_ends({a.tp: (7, 120)})
    assert a.state is PositionState.FETCHING and a.cursor.offset == 100


def test_the_leader_of_the_epoch_read_is_asked_at_once(behind):
    world, a = behind()
    assert world.validations() == []
    world.cluster({a.tp: (2, 7)})
    assert world.validations()[0].epochs() == {a.tp: (7, 7)}


def test_an_epoch_that_metadata_never_reaches_is_validated_after_a_delay(behind):
    """The epoch may belong to a deleted topic or to another cluster."""
    world, a = behind(auto_offset_reset="earliest")
    began = world.now
    [sent] = pass_time(world, world.now + 60)
    assert began + 10 <= world.now < began + 12
    sent.epoch_ends({a.tp: (-1, -1)})
    world.reset_all({a.tp: (0, 100)})
    assert (a.state, a.cursor.offset) == (PositionState.FETCHING, 100)


def test_the_wait_for_newer_metadata_starts_anew_for_each_position(behind):
    world, a = behind()
    pass_time(world, world.now + 9)
    a.place(PositionEvent.SEEK_VALIDATED, 50, 6)
    assert pass_time(world, world.now + 9) == []
    a.place(PositionEvent.SEEK, 50)
    world.partitions.assign([])
    assert world.validations() == []


# -- Fetch responses during validation


@pytest.fixture
def fetched_late(make, kit):
    """Return a function that makes a world with a new leader, and a Fetch in flight to the old one."""

    def do(policy: str = "earliest"):
        world = make(auto_offset_reset=policy)
        [a] = world.simple(100, leader=1, epoch=5)
        late = world.fetch()
        world.cluster({a.tp: (2, 6)})
        return world, a, late

    return do


@pytest.mark.parametrize("records", [True, False])
def test_a_late_response_of_the_old_leader_does_not_clear_a_truncation_error(fetched_late, kit, records):
    """Otherwise the partition would stall without an error."""
    world, a, late = fetched_late("none")
    world.validations()[0].epoch_ends({a.tp: (5, 80)})
    late.answer({a.tp: kit.batch(100, 10) if records else {}})
    assert isinstance(a.error, LogTruncationError) and a.error.divergent_offset == 80
    a.place(PositionEvent.SEEK, 80)
    assert a.error is None and a.may_fetch(world.now)


@pytest.mark.parametrize("code", CODES)
def test_late_errors_of_the_old_leader_do_not_delay_validation(fetched_late, code):
    world, a, late = fetched_late()
    [sent] = world.validations()
    late.answer({a.tp: {"error_code": int(code)}})
    assert (a.state, a.error, a.backoff) == (PositionState.VALIDATING, None, None)
    sent.epoch_ends({a.tp: (5, 80)})
    assert (a.state, a.cursor.offset) == (PositionState.FETCHING, 80)


def test_out_of_range_during_validation_waits_for_its_response(make):
    """Log start and end alone cannot tell whether the log has other records at the position."""
    world = make()
    [a] = world.simple(100, leader=1, epoch=5)
    late = world.fetch()
    world.cluster({a.tp: (1, 6)})
    [sent] = world.validations()
    late.answer({a.tp: {"error_code": int(Code.OFFSET_OUT_OF_RANGE)}})
    assert a.state is PositionState.VALIDATING and not world.look_ups()
    sent.epoch_ends({a.tp: (5, 80)})
    assert (a.state, a.cursor.offset) == (PositionState.FETCHING, 80)
