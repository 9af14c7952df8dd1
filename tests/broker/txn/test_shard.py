"""The transactions of one partition: loading, appends, expiration."""

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.log.stored import StoredBatch
from thinconsumer_testing.broker.txn.log_format import encode_key
from thinconsumer_testing.broker.txn.shard import TOMBSTONES_MAX, TransactionCoordinatorShard
from thinconsumer_testing.broker.txn.states import TransactionState
from thinconsumer_testing.broker.txn.transaction import Transaction, TransactionMetadata

S = TransactionState


@pytest.fixture
def shard(world):
    shard = TransactionCoordinatorShard(world, 0, world.replica.leader_epoch, world.replica)
    shard.load()
    return shard


@pytest.fixture
def txn(shard):
    txn = shard.transactions["t"] = Transaction("t", TransactionMetadata(7, -1, 60_000, 100))
    return txn


def append(shard, txn, **options):
    codes = []
    shard.append(txn, txn.prepare_init(60_000, None, 200), codes.append, **options)
    return codes


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (Code.NOT_ENOUGH_REPLICAS, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.REQUEST_TIMED_OUT, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_COORDINATOR),
        (Code.KAFKA_STORAGE_ERROR, Code.NOT_COORDINATOR),
        (Code.MESSAGE_TOO_LARGE, Code.UNKNOWN_SERVER_ERROR),
        (Code.CORRUPT_MESSAGE, Code.CORRUPT_MESSAGE),
    ],
)
@pytest.mark.parametrize("keep", [False, True])
def test_unlogged_transition_is_cancelled_unless_kept_pending(world, shard, txn, code, answer, keep):
    world.append_codes = [code]
    assert append(shard, txn, keep_pending=keep) == [answer]
    assert txn.metadata.producer_epoch == -1
    kept = keep and answer is Code.COORDINATOR_NOT_AVAILABLE
    assert txn.pending is (S.EMPTY if kept else None)


def test_append_longer_than_the_transaction_timeout_fails(world, shard, txn):
    world.replica.hold = True
    codes = append(shard, txn)
    world.run(59.9)
    assert codes == []
    world.run(0.2)
    assert (codes, txn.pending) == ([Code.COORDINATOR_NOT_AVAILABLE], None)
    world.replica.replicate()
    assert (codes, txn.metadata.producer_epoch) == ([Code.COORDINATOR_NOT_AVAILABLE], -1)


@pytest.mark.parametrize("gone", ["dropped", "not leading", "in another epoch"])
def test_stale_shard_appends_nothing(world, shard, txn, gone):
    if gone == "dropped":
        shard.unload()
    elif gone == "not leading":
        world.replica.is_leader = False
    else:
        world.replica.leader_epoch += 1
    assert shard.is_stale
    assert append(shard, txn) == [Code.NOT_COORDINATOR]
    assert world.timeline == []


def test_transition_logged_late_does_not_count_for_a_stale_shard(world, shard, txn):
    world.replica.hold = True
    codes = append(shard, txn)
    shard.unload()
    world.replica.replicate()
    assert (codes, txn.metadata.producer_epoch) == ([Code.NOT_COORDINATOR], -1)


def test_tombstones_and_unknown_records_are_skipped_when_loading(world, shard, txn, caplog):
    append(shard, txn)
    keys = [encode_key("t"), b"\0\x05later", b"\0"]
    for key, value in zip(keys, [None, b"\0\1", b"\0\1"], strict=True):
        data = build_batch([NewRecord(value, key, timestamp=1)], base_offset=world.log.end_offset)
        world.log.append_stored(StoredBatch.of(data))
    other = TransactionCoordinatorShard(world, 0, 2, world.replica)
    assert repr(other) == "<TransactionCoordinatorShard 0 epoch 2 stale, 0 transactional ids>"
    other.load()
    assert other.transactions == {}
    assert "skipping invalid record at offset 3" in caplog.text


# -- expiration


@pytest.mark.parametrize("state", [S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_ongoing_transactions_do_not_expire(world, shard, state):
    shard.transactions["t"] = Transaction("t", TransactionMetadata(7, 0, 60_000, 100, state))
    shard.expire(10_000)
    assert (list(shard.transactions), world.timeline) == (["t"], [])


def test_pending_transitions_do_not_expire(world, shard, txn):
    txn.prepare_init(60_000, None, 200)
    shard.expire(10_000)
    assert list(shard.transactions) == ["t"]


def test_unlogged_tombstone_removes_nothing(world, shard, txn):
    world.append_codes = [Code.NOT_ENOUGH_REPLICAS]
    shard.expire(10_000)
    assert (list(shard.transactions), txn.pending) == (["t"], None)


def test_expiring_id_has_a_pending_transition(world, shard, txn):
    world.replica.hold = True
    shard.expire(10_000)
    assert txn.pending is S.DEAD
    world.replica.replicate()
    assert shard.transactions == {}


def test_tombstones_are_batched(world, shard):
    for number in range(TOMBSTONES_MAX + 1):
        shard.transactions[str(number)] = Transaction(str(number), TransactionMetadata(number, 0, 60_000, 100))
    shard.expire(10_000)
    assert shard.transactions == {}
    assert [batch.next_offset - batch.base_offset for batch in world.log.batches_from(0)] == [TOMBSTONES_MAX, 1]
