"""Unclean leader elections on a topic with ordered delivery: awaited records are lost, and with them thresholds."""

import pytest

from thinconsumer import LogTruncationError, TopicPartition
from thinconsumer.ordered.delivery import STALLED_INTERVALS

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
BEFORE, AFTER = 10, 5
THRESHOLD = 2 * BEFORE


def lose(w, number, end):
    """Elect a replica as leader of a partition that has only the records before ``end``."""
    tp = TopicPartition("t", number)
    row = w.cluster.controller.image.partition(*tp)
    node = next(one for one in row.replicas if one != row.leader)
    w.cluster.nodes[node].partitions[tp].truncate_to(end)
    w.cluster.controller.elect_unclean(tp, node)
    w.run(1)


@pytest.mark.parametrize("end", [0, 4, THRESHOLD - 1, THRESHOLD, THRESHOLD + 1])
@pytest.mark.parametrize("read", [False, True])
def test_a_partition_is_held_only_for_the_awaited_records_that_are_left(world, end, read):
    w = world(1).expanded(BEFORE, AFTER)
    parent, child = w.owners(enable_auto_commit=False)
    assert w.take(child.poll(250)) == []
    if read:
        w.take(parent.poll(1000))
        assert parent.position(P0) > THRESHOLD
    lose(w, 0, end)
    w.write(0, times=3)
    w.poll(parent, child, seconds=STALLED_INTERVALS + 4)  # only the parent's owner learns of the election at once
    assert [n for key, n in w.read if key == 1][-AFTER:] == list(range(BEFORE + 1, BEFORE + AFTER + 1))
    assert [n for key, n in w.read if key == 0][-3:] == list(range(BEFORE + AFTER + 1, BEFORE + AFTER + 4))
    assert w.wrong() == []


def test_a_position_behind_the_log_end_goes_back_to_where_the_logs_diverge(world):
    w = world(1).expanded(BEFORE, AFTER)
    both = w.consumer(enable_auto_commit=False)
    assert len(w.poll(both, seconds=10)) == 2 * (BEFORE + AFTER)
    lose(w, 0, 4)
    w.write(0, times=2)
    assert w.poll(both, seconds=10) == [(0, BEFORE + AFTER + 1), (0, BEFORE + AFTER + 2)]
    assert both.position(P0) == 6


def test_with_reset_policy_none_the_application_learns_of_the_loss_and_the_child_is_read(world):
    w = world(1).expanded(BEFORE, AFTER)
    both = w.consumer(0, 1, group_id=None, auto_offset_reset="none", max_poll_records=1)
    both.seek(P0, 0)
    both.seek(P1, 0)
    while len(w.read) < 10:
        w.take(both.poll(250))
    both.pause(P0)
    lose(w, 0, 4)
    both.resume(P0)
    with pytest.raises(LogTruncationError) as caught:
        w.poll(both, seconds=10)
    assert (caught.value.partition, caught.value.divergent_offset) == (P0, 4)
    both.seek(P0, 4)
    w.poll(both, seconds=20)
    assert [n for key, n in w.read if key == 1][-AFTER:] == list(range(BEFORE + 1, BEFORE + AFTER + 1))


def test_an_heir_without_the_records_behind_its_gate_is_read(world):
    """Retention keeps the deleted partition, which the heir waits for; the heir's threshold is lost."""
    w = world(1)
    w.resize(2)
    w.write(0, 1, times=BEFORE)
    w.resize(1)
    w.write(0, 1, times=AFTER)
    heir = w.consumer(0, enable_auto_commit=False)
    assert w.poll(heir, seconds=5) == [(0, n) for n in range(1, BEFORE + 1)]
    lose(w, 0, 4)
    w.write(1, times=AFTER)
    assert w.poll(heir, seconds=5) == []
    assert "t-0 is held until t-1 is read up to 10" in heir.health().reason
    w.consumer(1, enable_auto_commit=False).commit({P1: BEFORE})
    found = w.poll(heir, seconds=30)
    assert found == [(1, n) for n in range(BEFORE + AFTER + 1, BEFORE + 2 * AFTER + 1)]
