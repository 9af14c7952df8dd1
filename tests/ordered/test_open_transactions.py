"""Under ``read_committed``, a partition is held until transactions that are open before the threshold have ended."""

import pytest

from thinconsumer import TopicPartition
from thinconsumer.ordered.delivery import STALLED_INTERVALS
from thinconsumer.records.builder import ControlType, NewRecord, build_batch, build_marker

P0, P1 = (TopicPartition("t", number) for number in range(2))
PRODUCER = {"producer_id": 5, "producer_epoch": 0}
#: The heartbeat interval of the members, and the seconds of one exchange of positions, see test_liveness.py.
INTERVAL, EXCHANGE = 1.0, 4.0


def begin(w, tp, key):
    """Write a record in a transaction that stays open."""
    w.sequences[key] += 1
    record = NewRecord(b"%d:%d" % (key, w.sequences[key]), b"%d" % key)
    w.cluster.append_batch(tp, build_batch([record], base_sequence=0, transactional=True, **PRODUCER))


def end(w, tp, kind):
    w.cluster.append_batch(tp, build_marker(kind, **PRODUCER))


def members(w, number, **options):
    """Return this many members, which own both partitions and have read nothing."""
    made = [w.consumer(isolation_level="read_committed", enable_auto_commit=False, **options) for _ in range(number)]
    w.settle(*made, partitions=2)
    return made


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_child_is_held_until_the_open_transaction_before_the_threshold_has_ended(world, number, kind):
    w = world(1)
    w.write(0, 1, times=10)
    begin(w, P0, 1)
    w.resize(2)
    w.write(0, 1, times=5)
    group = members(w, number)
    before = [(key, n) for n in range(1, 11) for key in (0, 1)]
    assert w.poll(*group, seconds=3 * STALLED_INTERVALS * INTERVAL) == before
    assert "t-1 is held until t-0 is read up to 21 (the position is 20)" in w.owner(1).health().reason
    end(w, P0, kind)
    found = w.poll(*group, seconds=EXCHANGE * INTERVAL)
    of_transaction = [(1, 11)] if kind is ControlType.COMMIT else []
    assert [one for one in found if one[0] == 1] == [*of_transaction, *((1, n) for n in range(12, 17))]
    assert [one for one in found if one[0] == 0] == [(0, n) for n in range(11, 16)]
    assert w.owner(1).health().reason == ""


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_an_heir_is_held_until_the_open_transaction_in_the_marked_partition_has_ended(world, number, kind):
    w = world(1)
    w.resize(2)
    w.write(0, 1, times=10)
    begin(w, P1, 1)
    w.resize(1)
    w.write(0, 1, times=5)
    group = members(w, number)
    found = w.poll(*group, seconds=3 * STALLED_INTERVALS * INTERVAL)
    assert sorted(found) == [(key, n) for key in (0, 1) for n in range(1, 11)]
    assert "t-0 is held until t-1 is read up to 11 (the position is 10)" in w.owner(0).health().reason
    end(w, P1, kind)
    found = w.poll(*group, seconds=EXCHANGE * INTERVAL)
    of_transaction = [(1, 11)] if kind is ControlType.COMMIT else []
    assert [one for one in found if one[0] == 1] == [*of_transaction, *((1, n) for n in range(12, 17))]
    assert w.owner(0).health().reason == ""


def test_a_transaction_behind_the_threshold_holds_nothing(world):
    w = world(1).expanded(10)
    begin(w, P0, 0)
    w.write(0, 1, times=5)
    found = w.poll(*members(w, 2), seconds=2 * EXCHANGE * INTERVAL)
    assert [one for one in found if one[0] == 1] == [(1, n) for n in range(1, 16)]
    assert (0, 11) not in found
