"""Completion of a transaction: markers in every partition with retries, then the log record."""

from itertools import pairwise

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.txn.markers import BACKOFF, TransactionCompletion
from thinconsumer_testing.broker.txn.shard import TransactionCoordinatorShard
from thinconsumer_testing.broker.txn.states import TransactionState
from thinconsumer_testing.broker.txn.transaction import Transaction, TransactionMetadata

S = TransactionState
O0, O1, B0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0)


@pytest.fixture
def decided(world):
    """Return a function that logs an end and starts its completion."""
    shard = TransactionCoordinatorShard(world, 0, world.replica.leader_epoch, world.replica)
    shard.load()

    def decide(*partitions, state=S.PREPARE_COMMIT):
        metadata = TransactionMetadata(
            7, 3, 60_000, 100, state, partitions=frozenset(partitions), started_ms=50, client_version=2
        )
        txn = shard.transactions["t"] = Transaction("t", metadata)
        TransactionCompletion(world, shard, txn, txn.prepare_complete(200)).write()
        return txn

    decide.shard = shard
    return decide


def test_completion_without_partitions_is_logged_immediately(world, decided):
    assert decided().state is S.COMPLETE_COMMIT
    assert world.markers == []


def test_completion_waits_for_the_last_marker(world, decided):
    world.away.add(O1)
    txn = decided(O0, O1)
    world.run(30)
    assert (txn.state, txn.pending, [m.tp for m in world.markers]) == (S.PREPARE_COMMIT, S.COMPLETE_COMMIT, [O0])
    world.away.clear()
    world.run(2 * BACKOFF.maximum)
    assert (txn.state, [m.tp for m in world.markers]) == (S.COMPLETE_COMMIT, [O0, O1])


def test_missing_leader_is_retried_with_backoff(world, decided):
    asked = []
    write = world.write_transaction_marker
    world.write_transaction_marker = lambda *args, **more: (asked.append(world.schedule.now), write(*args, **more))
    world.away.add(O0)
    decided(O0)
    world.run(60)
    waits = [after - before for before, after in pairwise(asked)]
    assert waits[0] <= 0.03
    assert max(waits) <= BACKOFF.maximum
    assert 55 <= len(asked) <= 100


@pytest.mark.parametrize(
    "code",
    [
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.REQUEST_TIMED_OUT,
        Code.KAFKA_STORAGE_ERROR,
    ],
)
def test_markers_are_retried_after(world, decided, code):
    world.marker_codes[O0] = [code, code]
    txn = decided(O0, O1)
    world.run(1)
    assert (txn.state, sorted(m.tp for m in world.markers)) == (S.COMPLETE_COMMIT, [O0, O1])


def test_unexpected_code_is_logged_and_retried(world, decided, caplog):
    world.marker_codes[O0] = [Code.POLICY_VIOLATION]
    txn = decided(O0)
    assert "unexpected code 44" in caplog.text
    world.run(1)
    assert txn.state is S.COMPLETE_COMMIT


@pytest.mark.parametrize("code", [Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_COORDINATOR_FENCED])
def test_fenced_marker_stops_the_completion(world, decided, code):
    """As in Kafka: this coordinator is outdated, and the current one has logged the end."""
    world.marker_codes[O0] = [code]
    txn = decided(O0, O1)
    world.run(60)
    assert (txn.state, txn.pending) == (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)
    assert [m.tp for m in world.markers] == [O1]


@pytest.mark.parametrize("code", [Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, Code.UNSUPPORTED_VERSION])
def test_partition_without_marker_support_is_skipped(world, decided, code):
    world.marker_codes[O0] = [code]
    assert decided(O0, O1).state is S.COMPLETE_COMMIT


def test_deleted_topic_needs_no_markers(world, decided):
    world.image.remove_topic("orders")
    assert decided(O0, B0).state is S.COMPLETE_COMMIT
    assert [m.tp for m in world.markers] == [B0]


def test_topic_deleted_during_retries_needs_no_markers(world, decided):
    world.away.add(O0)
    txn = decided(O0)
    world.image.remove_topic("orders")
    world.run(2)
    assert (txn.state, world.markers) == (S.COMPLETE_COMMIT, [])


@pytest.mark.parametrize("code", [Code.NOT_ENOUGH_REPLICAS, Code.REQUEST_TIMED_OUT])
def test_unavailable_log_is_retried(world, decided, code):
    world.append_codes = [code, code]
    txn = decided(O0)
    assert (txn.state, txn.pending) == (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)
    world.run(1)
    assert (txn.state, len(world.markers)) == (S.COMPLETE_COMMIT, 1)


def test_rejected_completion_is_logged_as_error(world, decided, caplog):
    world.append_codes = [Code.MESSAGE_TOO_LARGE]
    decided(O0)
    assert "cannot log the completion" in caplog.text
    assert "UNKNOWN_SERVER_ERROR" in caplog.text


def test_stale_shard_stops_the_completion(world, decided):
    world.away.add(O0)
    decided(O0, O1)
    decided.shard.unload()
    world.away.clear()
    world.run(60)
    assert [m.tp for m in world.markers] == [O1]
    assert not [one for one in world.timeline if one not in world.markers]


def test_marker_response_for_a_stale_shard_is_ignored(world, decided):
    world.hold_markers = True
    txn = decided(O0)
    decided.shard.unload()
    world.release_markers()
    assert txn.state is S.PREPARE_COMMIT


def test_paused_coordinator_handles_marker_responses_after_it_resumes(world, decided):
    world.hold_markers = True
    txn = decided(O0)
    world.pause()
    world.release_markers()
    world.run(60)
    assert (txn.state, len(world.markers)) == (S.PREPARE_COMMIT, 1)
    world.resume()
    assert txn.state is S.COMPLETE_COMMIT


def test_a_paused_coordinator_sends_no_markers(world, decided):
    world.away.add(O0)
    txn = decided(O0)
    world.pause()
    world.away.clear()
    world.run(60)
    assert world.markers == []
    world.resume()
    assert txn.state is S.COMPLETE_COMMIT
