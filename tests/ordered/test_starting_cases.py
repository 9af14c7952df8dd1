"""Where a group starts: each row of the table in docs/ordered-delivery.md."""

import pytest

from thinconsumer import NoOffsetForPartitionError, TopicPartition
from thinconsumer.records.builder import NewRecord

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
BEFORE, AFTER = 5, 3  #: Records of each key before and after the expansion.
THRESHOLD = 2 * BEFORE


def commits(w, **offsets):
    """Let the group have committed these offsets: ``p0=10``."""
    consumer = w.consumer(0, auto_offset_reset="latest", enable_auto_commit=False)
    consumer.commit({TopicPartition("t", int(name[1:])): offset for name, offset in offsets.items()})
    consumer.close()


def child_alone(w, **options):
    """Return a consumer of partition 1. The group's positions in partition 0 are the committed offsets."""
    return w.consumer(1, enable_auto_commit=False, **options)


def is_held(w, consumer):
    assert w.poll(consumer, seconds=5) == []
    assert "is held until" in consumer.health().reason
    return True


def opens(w, consumer, first=BEFORE + 1):
    found = w.poll(consumer, seconds=5)
    assert found == [(1, n) for n in range(first, BEFORE + AFTER + 1)]
    return True


@pytest.mark.parametrize("committed", [None, 0, THRESHOLD - 1])
def test_no_committed_offset_and_the_parent_is_not_read(world, committed):
    w = world(1).expanded(BEFORE, AFTER)
    if committed is not None:
        commits(w, p0=committed)
    child = child_alone(w)
    assert is_held(w, child)
    commits(w, p0=THRESHOLD)
    assert opens(w, child)


@pytest.mark.parametrize("committed", [THRESHOLD, THRESHOLD + AFTER])
def test_no_committed_offset_and_the_parent_is_read(world, committed):
    w = world(1).expanded(BEFORE, AFTER)
    commits(w, p0=committed)
    assert opens(w, child_alone(w))


def test_a_new_group_with_latest_starts_at_the_end_of_both(world):
    w = world(1).expanded(BEFORE, AFTER)
    both = w.consumer(auto_offset_reset="latest")
    assert w.poll(both, seconds=10) == [] and both.health().reason == ""
    w.write(0, 1)
    assert sorted(w.poll(both, seconds=2)) == [(0, 9), (1, 9)]


def test_with_latest_a_partition_added_later_starts_at_its_beginning_after_its_parent(world):
    w = world(1)
    w.write(0, 1, times=BEFORE)
    commits(w, p0=2)
    w.resize(2)
    w.write(0, 1, times=AFTER)
    both = w.consumer(auto_offset_reset="latest", max_poll_records=1)
    w.poll(both, seconds=20)
    assert len(w.read) == 2 * (BEFORE + AFTER) - 2 and w.wrong() == []


def test_without_a_reset_the_application_chooses_the_start(world):
    w = world(1).expanded(BEFORE, AFTER)
    child = child_alone(w, auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError):
        w.poll(child, seconds=5)
    child.seek(P1, 0)
    assert is_held(w, child)
    child.seek(P1, 1)
    assert opens(w, child, first=BEFORE + 2)


def test_committed_behind_the_log_start(world):
    w = world(1).expanded(BEFORE, AFTER)
    commits(w, p1=1)
    assert opens(w, child_alone(w), first=BEFORE + 2)


@pytest.mark.parametrize(("committed", "log_start"), [(0, 0), (2, 2), (1, 2)])
def test_committed_at_the_log_start_or_before(world, committed, log_start):
    w = world(1).expanded(BEFORE, AFTER)
    w.cluster.delete_records(P1, log_start)
    commits(w, p1=committed)
    child = child_alone(w)
    assert is_held(w, child)
    commits(w, p0=THRESHOLD)
    assert opens(w, child, first=BEFORE + 1 + log_start)


@pytest.mark.parametrize("log_start", [THRESHOLD, THRESHOLD + 1, THRESHOLD + AFTER])
def test_retention_of_the_parent_has_passed_the_threshold(world, log_start):
    w = world(1).expanded(BEFORE, AFTER)
    w.cluster.delete_records(P0, log_start)
    both = w.consumer()
    w.poll(both, seconds=10)
    assert [n for key, n in w.read if key == 1] == [6, 7, 8] and w.wrong() == []


def test_retention_of_the_parent_below_the_committed_offset(world):
    w = world(1).expanded(BEFORE, AFTER)
    commits(w, p0=2)
    w.cluster.delete_records(P0, 6)
    both = w.consumer(max_poll_records=1)
    w.poll(both, seconds=20)
    assert len(w.read) == 4 + 2 * AFTER and w.wrong() == []


def test_a_parent_that_never_had_a_record(world):
    w = world(1)
    w.resize(2)
    w.write(1, times=3)
    both = w.consumer()
    assert w.poll(both, seconds=10) == [(1, 1), (1, 2), (1, 3)]


def test_an_empty_parent_that_is_held_itself(world):
    """Key 3 was in partition 0, would be in partition 1 now, and is in partition 3: partition 1 stayed empty."""
    w = world(1)
    w.write(3, times=BEFORE)
    w.resize(2)
    w.resize(4)
    w.write(3, times=AFTER)
    one, other = w.consumer(max_poll_records=1), w.consumer(max_poll_records=1)
    w.settle(one, other, partitions=4)
    grandparent = w.owner(0)
    if grandparent is w.owner(3):
        grandparent.pause(P0)
        w.poll(one, other, seconds=20)
        before = list(w.read)
        grandparent.resume(P0)
    else:
        for _ in range(100):
            grandparent.drive()
            w.take(w.owner(3).poll(100))
        before = list(w.read)
    assert all(n <= BEFORE for _, n in before)
    w.poll(one, other, seconds=30)
    assert [n for _, n in w.read] == list(range(1, BEFORE + AFTER + 1))


def test_a_compacted_parent(world):
    w = world(1, cleanup_policy="compact", segment_bytes=100, min_cleanable_dirty_ratio=0)
    w.write(0, 1, times=20)
    w.resize(2)
    w.cluster.compact(P0)
    w.write(0, 1, times=AFTER)
    w.cluster.compact(P0)
    both = w.consumer(max_poll_records=1)
    w.poll(both, seconds=20)
    assert [n for key, n in w.read if key == 1][-AFTER:] == [21, 22, 23] and w.wrong() == []


def test_a_parent_of_which_compaction_has_removed_the_end(world):
    """All records up to the threshold are deleted by tombstones, which are deleted, too."""
    w = world(1, cleanup_policy="compact", segment_bytes=100, min_cleanable_dirty_ratio=0, delete_retention_ms=0)
    w.write(0, 1, times=BEFORE)
    for key in (1, 0):
        w.cluster.produce("t", [NewRecord(None, b"%d" % key)], 0)
    w.resize(2)
    w.write(1, times=AFTER)
    for _ in range(3):
        w.run(60)
        w.cluster.compact(P0)
    both = w.consumer()
    w.poll(both, seconds=30)
    assert [n for key, n in w.read if key == 1][-AFTER:] == [BEFORE + 1 + n for n in range(AFTER)]


def test_a_topic_that_was_deleted_and_made_anew(world):
    w = world(1).expanded(BEFORE, AFTER)
    one, other = w.consumer(enable_auto_commit=False), w.consumer(enable_auto_commit=False)
    w.settle(one, other, partitions=2)
    w.cluster.delete_topic("t")
    w.poll(one, other, seconds=5)
    w.cluster.create_topic("t", 1, 3, w.configs)
    w.count, w.sequences = 1, {}
    w.read.clear()
    w.write(0, 1, times=BEFORE)
    w.resize(2)
    w.write(0, 1, times=AFTER)
    w.poll(one, other, seconds=60)
    assert sorted(w.read) == [(key, n) for key in (0, 1) for n in range(1, BEFORE + AFTER + 1)] and w.wrong() == []


@pytest.fixture
def shrunk(world):
    """Return a world in which key 1 was in partition 1, and is in partition 0 now, from offset 5 on."""
    w = world(1)
    w.resize(2)
    w.write(0, 1, times=BEFORE)
    w.resize(1)
    w.write(0, 1, times=AFTER)
    return w


def heir_alone(w, **options):
    return w.consumer(0, enable_auto_commit=False, **options)


@pytest.mark.parametrize("committed", [0, 3])
def test_the_deleted_partition_is_not_read(shrunk, committed):
    commits(shrunk, p0=committed)
    heir = heir_alone(shrunk)
    assert shrunk.poll(heir, seconds=5) == [(0, n) for n in range(committed + 1, BEFORE + 1)]
    assert "t-0 is held until t-1 is read up to 5" in heir.health().reason
    commits(shrunk, p1=BEFORE)
    assert len(shrunk.poll(heir, seconds=5)) == 2 * AFTER


def test_the_heir_is_committed_behind_its_threshold(shrunk):
    commits(shrunk, p0=BEFORE + 1)
    heir = heir_alone(shrunk)
    assert is_held(shrunk, heir)
    commits(shrunk, p1=BEFORE)
    assert len(shrunk.poll(heir, seconds=5)) == 2 * AFTER - 1


def test_the_deleted_partition_is_read_already(shrunk):
    commits(shrunk, p1=BEFORE)
    assert len(shrunk.poll(heir_alone(shrunk), seconds=5)) == BEFORE + 2 * AFTER


def test_retention_has_emptied_the_deleted_partition(shrunk):
    shrunk.cluster.delete_records(P1, BEFORE)
    both = shrunk.consumer()
    assert len(shrunk.poll(both, seconds=10)) == BEFORE + 2 * AFTER and shrunk.wrong() == []


def test_the_deleted_partition_is_removed_while_its_heir_is_held(shrunk):
    heir = heir_alone(shrunk, metadata_max_age_ms=5000)
    assert len(shrunk.poll(heir, seconds=5)) == BEFORE
    shrunk.cluster.delete_records(P1, BEFORE)
    shrunk.remove_emptied()
    assert len(shrunk.poll(heir, seconds=20)) == 2 * AFTER


@pytest.mark.parametrize("count", [1, 2])
def test_buffered_records_of_a_removed_partition_do_not_follow_those_of_its_heir(shrunk, count):
    """Nor do they if the partition is added again."""
    both = shrunk.consumer(0, 1)
    while not any(key == 1 for key, _ in shrunk.read):
        shrunk.take(both.poll(100, max_records=1))
    both.pause(P1)
    shrunk.cluster.delete_records(P1, BEFORE)
    shrunk.remove_emptied()
    if count == 2:
        shrunk.resize(2)
    assert (1, BEFORE + AFTER) in shrunk.poll(both, seconds=5)
    both.resume(P1)
    shrunk.write(1)
    assert shrunk.poll(both, seconds=5) == [(1, BEFORE + AFTER + 1)]


def test_with_latest_the_heir_starts_at_its_end(shrunk):
    both = shrunk.consumer(auto_offset_reset="latest")
    assert shrunk.poll(both, seconds=10) == []
    shrunk.write(1)
    assert shrunk.poll(both, seconds=5) == [(1, BEFORE + AFTER + 1)]
