"""The transaction coordinator as producers see it, with every kind of failure."""

import dataclasses
from types import SimpleNamespace

import pytest

from thinconsumer.records.builder import NewRecord
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.group.coordinator import partition_of_group
from thinconsumer_testing.broker.group.hashing import partition_for
from thinconsumer_testing.broker.naming import OFFSETS_TOPIC
from thinconsumer_testing.broker.txn.log_format import encode_key, encode_value
from thinconsumer_testing.broker.txn.offsets import add_or_verify_offsets
from thinconsumer_testing.broker.txn.states import TransactionState
from thinconsumer_testing.broker.txn.transaction import EPOCH_MAX, TransactionMetadata
from thinconsumer_testing.broker.txn.transitions import ProducerIdAndEpoch

S = TransactionState
O0, O1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
NO_PRODUCER = (-1, -1)


def seed(world, metadata, transactional_id="t"):
    """Append a transaction from an earlier coordinator; the next one loads it."""
    record = NewRecord(encode_value(metadata), encode_key(transactional_id))
    world.replica.append_records([record], lambda code: None)
    world.fail_over()


# -- errors of requests


def test_init_without_transactional_id_returns_a_new_producer_id(world):
    assert world.init(None) == [("NONE", 1, 0)]
    assert world.init(None) == [("NONE", 2, 0)]
    assert world.timeline == []


def test_other_coordinator_returns_not_coordinator(world):
    who = world.producer()
    world.resign()
    assert world.init() == [("NOT_COORDINATOR", *NO_PRODUCER)]
    assert world.add(who) == ["NOT_COORDINATOR"]
    assert world.end(who) == [("NOT_COORDINATOR", *NO_PRODUCER)]


def test_loading_coordinator_returns_load_in_progress(new_world):
    world = new_world(coordinator_load_s=2.0)
    assert world.init() == [("COORDINATOR_LOAD_IN_PROGRESS", *NO_PRODUCER)]
    world.run(1.9)
    assert world.end(ProducerIdAndEpoch(1, 0)) == [("COORDINATOR_LOAD_IN_PROGRESS", *NO_PRODUCER)]
    world.run(0.2)
    assert world.init() == [("NONE", 1, 0)]


def test_load_is_cancelled_by_a_leadership_change(new_world):
    world = new_world(coordinator_load_s=2.0)
    world.resign()
    world.run(3)
    assert world.init() == [("NOT_COORDINATOR", *NO_PRODUCER)]


# -- transactions


def test_transactions_since_kip_890(world):
    """Every transaction has its own epoch."""
    who = world.producer()
    assert who == (1, 0)
    for epoch, commit in enumerate((True, False, True), start=1):
        assert world.add(who, [O0, O1]) == ["NONE"]
        assert world.end(who, commit=commit) == [("NONE", 1, epoch)]
        assert [m[1:] for m in world.markers[-2:]] == [(1, epoch, commit, 1)] * 2
        assert world.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
        who = ProducerIdAndEpoch(1, epoch)
    assert set(world.marker_versions) == {2}, "leaders recognise late markers by their epoch"


def test_transactions_before_kip_890(world):
    """The epoch stays the same, and the EndTxn response has none."""
    who = world.producer()
    for commit in (True, False):
        assert world.add(who, [O0], version=0) == ["NONE"]
        assert world.end(who, commit=commit, version=0) == [("NONE", *NO_PRODUCER)]
        assert world.markers[-1] == (O0, 1, 0, commit, 1)
    assert world.marker_versions == [0, 0]


def test_end_is_answered_before_the_markers_are_written(world):
    world.away.add(O0)
    who = world.ongoing()
    assert world.end(who) == [("NONE", 1, 1)]
    assert world.state() is S.PREPARE_COMMIT
    assert world.add(ProducerIdAndEpoch(1, 1)) == ["CONCURRENT_TRANSACTIONS"]
    world.away.clear()
    world.run(2)
    assert world.add(ProducerIdAndEpoch(1, 1)) == ["NONE"]


def test_requests_are_answered_once_logged(world):
    world.replica.hold = True
    answers = world.init()
    assert answers == []
    assert world.init() == [("CONCURRENT_TRANSACTIONS", *NO_PRODUCER)]
    world.replica.replicate()
    assert answers == [("NONE", 1, 0)]


# -- fencing


@pytest.mark.parametrize("version", [0, 2])
def test_zombies_transaction_is_aborted_before_init_succeeds(world, version):
    zombie = world.producer()
    world.add(zombie, [O0, O1], version=version)
    world.away.add(O1)
    assert world.init() == [("CONCURRENT_TRANSACTIONS", *NO_PRODUCER)]
    assert world.init() == [("CONCURRENT_TRANSACTIONS", *NO_PRODUCER)]
    assert world.end(zombie, version=version)[0][0] in ("PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS")
    world.away.clear()
    world.run(2)
    assert [m[1:4] for m in world.markers] == [(1, 1, False)] * 2
    assert world.init() == [("NONE", 1, 2)]


def test_unlogged_fence_has_no_effect(world):
    zombie = world.ongoing()
    world.append_codes = [Code.NOT_ENOUGH_REPLICAS]
    assert world.init() == [("COORDINATOR_NOT_AVAILABLE", *NO_PRODUCER)]
    assert world.end(zombie) == [("NONE", 1, 1)]


# -- time


def test_timed_out_transaction_is_aborted_and_its_producer_fenced(world):
    who = world.ongoing(timeout_ms=10_000)
    world.run(10)
    assert world.state() is S.ONGOING
    world.run(1.1)
    assert world.state() is S.COMPLETE_ABORT
    assert world.markers == [(O0, 1, 1, False, 1)]
    assert world.add(who) == ["PRODUCER_FENCED"]
    assert world.end(who, commit=True, version=0) == [("PRODUCER_FENCED", *NO_PRODUCER)]


def test_end_after_a_timeout_abort(world):
    """An abort with the old epoch looks like a retry, which is valid: the producer continues with the new epoch."""
    who = world.ongoing(timeout_ms=10_000)
    world.run(12)
    assert world.end(who, commit=True) == [("INVALID_TXN_STATE", *NO_PRODUCER)]
    assert world.end(who, commit=False) == [("NONE", 1, 1)]
    assert world.add(ProducerIdAndEpoch(1, 1)) == ["NONE"]


def test_timeout_starts_with_the_first_partition(world):
    who = world.producer(timeout_ms=10_000)
    world.run(30)
    world.add(who)
    world.run(9)
    world.add(who, [O1])
    world.run(2.2)
    assert world.state() is S.COMPLETE_ABORT


def test_timeout_continues_after_a_coordinator_change(world):
    world.ongoing(timeout_ms=10_000)
    world.run(6)
    world.fail_over()
    world.run(6)
    assert world.state() is S.COMPLETE_ABORT


def test_pending_transition_delays_the_timeout_abort(world):
    who = world.ongoing(timeout_ms=10_000)
    world.run(9.5)
    world.replica.hold = True
    answers = world.end(who)
    world.run(5)
    world.replica.hold = False
    world.replica.replicate()
    assert (answers, world.state()) == ([("NONE", 1, 1)], S.COMPLETE_COMMIT)


def test_timeout_applies_to_a_transaction_with_a_slow_first_append(world):
    who = world.producer(timeout_ms=10_000)
    world.replica.hold = True
    answers = world.add(who)
    world.run(3)
    world.replica.hold = False
    world.replica.replicate()
    assert answers == ["NONE"]
    world.run(9)
    assert world.state() is S.COMPLETE_ABORT


def test_unlogged_timeout_abort_is_retried(world):
    world.ongoing(timeout_ms=10_000)
    world.append_codes = [Code.NOT_ENOUGH_REPLICAS]
    world.run(13)
    assert world.state() is S.COMPLETE_ABORT


def test_periodic_tasks_stop_without_transactional_ids(world):
    who = world.ongoing()
    world.end(who)
    world.run(5)
    week = 604_800
    world.run(week + 2 * 3600)
    assert world.schedule.wake_at() == float("inf")
    assert world.timeline[-1] == (world.timeline[-1].offset, "t", None)


def test_unused_transactional_id_expires_after_a_week(world):
    who = world.producer()
    world.run(604_800 - 3600)
    assert world.add(ProducerIdAndEpoch(who.id, who.epoch - 1)) == ["PRODUCER_FENCED"]
    world.run(2 * 3600 + 1)
    assert world.add(who) == ["INVALID_PRODUCER_ID_MAPPING"]
    assert world.producer() == (2, 0)


def test_ongoing_transaction_times_out_but_its_id_does_not_expire(world):
    who = world.producer()
    for _ in range(8):
        world.add(who)
        world.end(who)
        who = ProducerIdAndEpoch(who.id, who.epoch + 1)
        world.run(86_400)
    assert world.add(who) == ["NONE"]


# -- coordinator changes


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_logged_end_is_completed_by_the_next_coordinator(world, commit, version):
    who = world.producer()
    world.add(who, [O0, O1], version=version)
    world.away.add(O1)
    world.end(who, commit=commit, version=version)
    world.away.clear()
    world.fail_over()
    assert world.init() == [("CONCURRENT_TRANSACTIONS", *NO_PRODUCER)]
    world.run(0.1)
    epoch = 1 if version else 0
    assert world.markers == [(O0, 1, epoch, commit, 1), (O0, 1, epoch, commit, 2), (O1, 1, epoch, commit, 2)]
    assert world.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)


def test_unreplicated_end_is_lost_with_the_coordinator(world):
    who = world.ongoing()
    world.replica.hold = True
    answers = world.end(who)
    world.fail_over(lose_uncommitted=True)
    assert answers == [("NOT_COORDINATOR", *NO_PRODUCER)]
    assert (world.state(), world.markers) == (S.ONGOING, [])
    assert world.end(who, commit=False) == [("NONE", 1, 1)]


def test_logged_end_with_a_lost_response_stands(world):
    who = world.ongoing()
    world.replica.hold = True
    answers = world.end(who)
    world.fail_over()
    assert answers == [("NOT_COORDINATOR", *NO_PRODUCER)]
    assert world.end(who, commit=True)[0][0] == "CONCURRENT_TRANSACTIONS"
    world.run(0.1)
    assert world.end(who, commit=True) == [("NONE", 1, 1)]
    assert world.end(who, commit=False) == [("INVALID_TXN_STATE", *NO_PRODUCER)]


def test_former_coordinator_cannot_end_transactions(world):
    who = world.ongoing()
    world.hold_markers = True
    world.end(who)
    world.hold_markers = False
    world.fail_over()
    world.run(0.1)
    world.release_markers()
    assert world.markers == [(O0, 1, 1, True, 2)]


def test_reelected_coordinator_reloads_the_log(world):
    who = world.producer()
    world.replica.leader_epoch = 5
    world.coordinator.elected(0, 5, world.replica)
    assert world.add(who) == ["NONE"]
    world.end(who)
    assert world.markers == [(O0, 1, 1, True, 5)]


def test_paused_coordinator_defers_requests_and_timeouts(world):
    world.ongoing(timeout_ms=10_000)
    world.pause()
    world.run(60)
    assert world.state() is S.ONGOING
    world.resume()
    assert world.state() is S.COMPLETE_ABORT


# -- exhausted epochs


LAST = TransactionMetadata(1000, EPOCH_MAX - 2, 60_000, 1_700_000_000_000, previous_producer_id=1000, client_version=2)


def test_exhausted_epochs_lead_to_a_new_producer_id(world):
    seed(world, dataclasses.replace(LAST, producer_epoch=EPOCH_MAX - 3))
    who = world.producer()
    assert who == (1000, EPOCH_MAX - 2)
    world.add(who)
    assert world.end(who) == [("NONE", 1000, EPOCH_MAX - 1)]
    who = ProducerIdAndEpoch(1000, EPOCH_MAX - 1)
    world.add(who)
    assert world.end(who) == [("NONE", 1, 0)]
    assert world.markers[-1] == (O0, 1000, EPOCH_MAX, True, 2)
    assert world.end(who) == [("NONE", 1, 0)], "a retry after the producer id has changed"
    assert world.add(ProducerIdAndEpoch(1, 0)) == ["NONE"]


def test_next_producer_id_gets_concurrent_transactions_until_completion(world):
    seed(world, dataclasses.replace(LAST, producer_epoch=EPOCH_MAX - 2))
    who = world.ongoing()
    world.away.add(O0)
    assert world.end(who) == [("NONE", 1, 0)]
    assert world.add(ProducerIdAndEpoch(1, 0)) == ["CONCURRENT_TRANSACTIONS"]
    assert world.end(ProducerIdAndEpoch(1, 0)) == [("CONCURRENT_TRANSACTIONS", *NO_PRODUCER)]
    world.away.clear()
    world.run(2)
    assert world.add(ProducerIdAndEpoch(1, 0)) == ["NONE"]


def test_next_producer_id_survives_a_coordinator_change(world):
    seed(world, dataclasses.replace(LAST, producer_epoch=EPOCH_MAX - 2))
    who = world.ongoing()
    world.away.add(O0)
    assert world.end(who) == [("NONE", 1, 0)]
    world.fail_over()
    world.away.clear()
    world.run(2)
    assert world.add(ProducerIdAndEpoch(1, 0)) == ["NONE"]


# -- partitions


# -- the partition of a group


def test_partition_of_a_group_with_an_existing_topic(world):
    assert partition_of_group(world, "billing") == TopicPartition(OFFSETS_TOPIC, partition_for("billing", 2))


def test_partition_of_a_group_before_the_topic_exists(new_world):
    world = new_world(offsets_topic_num_partitions=50)
    world.image.remove_topic(OFFSETS_TOPIC)
    assert partition_of_group(world, "billing").partition == partition_for("billing", 50)


def test_missing_coordinator_returns_a_retriable_code():
    """The transaction topic is being created; clients must retry."""
    codes = []
    log = SimpleNamespace(producers=SimpleNamespace(would_begin_transaction=lambda producer_id, epoch: True))
    node = SimpleNamespace(
        config=BrokerConfig(),
        image=SimpleNamespace(topics={}),
        leader_replica=lambda tp: (SimpleNamespace(log=log), 0),
        coordinator_for=lambda kind, key: (int(Code.COORDINATOR_NOT_AVAILABLE), None),
    )
    writer = SimpleNamespace(transactional_id="t", producer_id=7, producer_epoch=0)
    add_or_verify_offsets(node, writer, "g", 5, codes.append)
    assert codes == [Code.COORDINATOR_NOT_AVAILABLE]
