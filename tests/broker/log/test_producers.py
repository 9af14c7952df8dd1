"""Producer state: sequence numbers, epochs, transactions, markers."""

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.log.log import AppendRefused


def sent(write, first, count=1, *, epoch=0, producer=1, **more):
    """Append a batch of ``count`` records; return its base offset, its rejection code, or 'again N' for a duplicate."""
    try:
        appended = write(
            *[b"v"] * count, producer_id=producer, producer_epoch=epoch, base_sequence=first, **more
        )  # fmt: skip
    except AppendRefused as refused:
        return Code(refused.code).name
    return f"again {appended.base_offset}" if appended.duplicate else appended.base_offset


OUT_OF_ORDER, OLD_EPOCH = "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"


def test_epochs_and_producers_have_their_own_sequence_numbers(write):
    steps = [(0, 0, 0), (1, 1, OUT_OF_ORDER), (0, 1, 1), (0, 1, "again 1"), (1, 0, OLD_EPOCH), (0, 0, OLD_EPOCH)]
    assert [sent(write, first, epoch=epoch) for first, epoch, _ in steps] == [result for _, _, result in steps]
    assert [sent(write, 0, producer=3), sent(write, 0, producer=2), sent(write, 1, producer=3)] == [2, 3, 4]
    assert [sent(write, 5, epoch=-1, producer=4), sent(write, 9, epoch=-1, producer=4)] == [5, 6]


def test_no_later_batch_is_accepted_before_the_one_in_verification(write):
    """Retries of several in-flight batches may arrive in any order, even if the first was rejected."""
    asked = {"is_strict": False, "now_ms": 0}
    write.log.producers.start_verification(1, 0, 4, **asked)
    write.log.producers.start_verification(1, 0, 2, **asked)
    write.log.producers.start_verification(1, 0, 3, **asked)
    assert sent(write, 3) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(write, 3, transactional=True) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(write, 9, producer=2) == 0
    assert sent(write, 2, transactional=True) == 1
    assert sent(write, 3, transactional=True) == 2


def test_new_epoch_resets_the_verification(write):
    write.log.producers.start_verification(1, 0, 2, is_strict=False, now_ms=0)
    write.log.producers.start_verification(1, 1, 7, is_strict=False, now_ms=0)
    write.log.producers.start_verification(1, 0, 1, is_strict=False, now_ms=0)
    assert sent(write, 8, epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(write, 7, epoch=1) == 0


def test_unknown_strict_producer_must_start_at_sequence_0(write):
    """An unknown producer must start at 0; a known one continues."""
    write.log.producers.start_verification(1, 0, 5, is_strict=True, now_ms=0)
    assert sent(write, 5, transactional=True) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(write, 0, transactional=True) == 0
    write.log.producers.start_verification(1, 0, 1, is_strict=True, now_ms=0)
    assert sent(write, 1, transactional=True) == 1


def test_verifications_expire_with_the_producer(write):
    write.log.producers.start_verification(1, 0, 5, is_strict=True, now_ms=1000)
    write.log.producers.expire(2999, 2000)
    assert sent(write, 5) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    write.log.producers.expire(3000, 2000)
    assert sent(write, 5) == 0


@pytest.mark.parametrize(
    ("history", "epoch", "is_first"),
    [
        ((), 0, True),
        (("batch",), 3, False),  # the partition is in the transaction already
        (("batch",), 2, True),  # Kafka's leader lets the coordinator reject it
        (("batch",), 4, True),  # another transaction is ongoing
        (("batch", "marker"), 3, True),
        (("batch", "marker"), 4, True),
        (("batch", "marker"), 2, True),
    ],
)
def test_only_the_first_batch_of_a_transaction_is_verified(write, history, epoch, is_first):
    if "batch" in history:
        write.transactional(7, b"v", epoch=3)
    if "marker" in history:
        write.end(7, commit=False, epoch=3)
    assert write.log.producers.would_begin_transaction(7, epoch) is is_first


def test_non_transactional_batch_in_a_transaction_is_rejected(write):
    assert sent(write, 0, transactional=True) == 0
    assert sent(write, 1) == "INVALID_TXN_STATE"
    assert sent(write, 1, transactional=True) == 1
    write.end(1)
    assert sent(write, 2) == 3
    assert write.log.open_transactions() == {}


def refusal_of_marker(write, **marker):
    try:
        write.end(1, **marker)
    except AppendRefused as refused:
        return Code(refused.code).name
    return None


def test_sequence_numbers_restart_only_after_a_marker_of_a_new_epoch(write):
    sent(write, 0, transactional=True)
    write.end(1)
    assert sent(write, 1, transactional=True) == 2
    write.end(1, epoch=1)
    assert sent(write, 2, epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(write, 1, epoch=0) == "INVALID_PRODUCER_EPOCH"
    assert sent(write, 0, epoch=1) == 4


@pytest.mark.parametrize(
    "markers",
    [
        [({"epoch": 2}, OLD_EPOCH), ({"epoch": 3, "transaction_version": 1}, None)],
        [({"epoch": 3, "transaction_version": 2}, OLD_EPOCH), *[({"epoch": 4, "transaction_version": 2}, None)] * 2],
        [({"epoch": 3, "coordinator_epoch": 5}, None), ({"epoch": 3}, "TRANSACTION_COORDINATOR_FENCED")],
    ],
    ids=["older than the transaction", "version 2 needs a new epoch, and repeats", "of an older coordinator"],
)
def test_outdated_markers_are_rejected(write, markers):
    sent(write, 0, epoch=3, transactional=True)
    assert [refusal_of_marker(write, **marker) for marker, _ in markers] == [refusal for _, refusal in markers]
    assert write.log.end_offset == 1 + sum(refusal is None for _, refusal in markers)
    assert write.log.aborted(0, 99) == []


def test_marker_without_transaction_is_appended(write):
    assert refusal_of_marker(write) is None
    assert (write.log.end_offset, write.log.last_stable_offset(1)) == (1, 1)
    assert sent(write, 5) == "OUT_OF_ORDER_SEQUENCE_NUMBER"  # the producer is known by it
    assert sent(write, 0) == 1


def test_only_idle_producers_expire(write, tools):
    sent(write, 0, producer=1)
    sent(write, 0, producer=2, transactional=True)
    write.log.producers.expire(tools.NOW + 9, 10)
    assert sent(write, 7, producer=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    write.log.producers.expire(tools.NOW + 10, 10)
    assert sent(write, 7, producer=1) == 2
    assert sent(write, 7, producer=2, transactional=True) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_followers_and_restarts_have_the_same_producer_state(write, new_log, tools):
    sent(write, 0, 3)
    sent(write, 0, producer=2, transactional=True)
    write.end(2, commit=False, coordinator_epoch=4)
    follower = new_log()
    for batch in write.log.batches_from(0):
        follower.append_stored(batch)
    twin = tools.LogWriter(follower)
    assert sent(twin, 0, 3) == "again 0"
    assert sent(twin, 4) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    with pytest.raises(AppendRefused) as refused:
        twin.end(2, coordinator_epoch=3)
    assert refused.value.code == Code.TRANSACTION_COORDINATOR_FENCED
    assert follower.aborted(0, 99) == [(2, 3)]


def test_followers_accept_every_batch_of_the_leader(write, new_log):
    """The leader has checked it once, and the logs must be equal, even if the follower's state would reject it."""
    sent(write, 0, epoch=1)
    later = new_log()
    for batch in write.log.batches_from(0):
        later.append_stored(batch)
    old = write.batch(b"v", producer_id=1, producer_epoch=0, base_sequence=9, base_offset=1)
    later.append_stored(type(next(later.batches_from(0))).of(old))
    assert later.end_offset == 2
