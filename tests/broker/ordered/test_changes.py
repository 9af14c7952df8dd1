"""The steps of a change of the partition count, and what each records; as pure functions of topic images."""

import pytest

from thinconsumer_testing.broker.image import PartitionImage, TopicImage
from thinconsumer_testing.broker.ordered.changes import (
    awaited_partitions,
    begin_expansion,
    begin_shrinking,
    complete_expansion,
    complete_shrinking,
    keeps_tombstones,
    may_have_leader,
    with_first_counts,
    without_emptied,
)
from thinconsumer_testing.broker.ordered.topic import CountChange, OrderedTopicCounts, RemovedPartition

ALIVE = {1: None, 2: None}


def new_topic(partitions=2):
    rows = tuple(PartitionImage("t", b"i" * 16, n, 1, n, (1, 2), (1,)) for n in range(partitions))
    return with_first_counts(TopicImage("t", b"i" * 16, rows, {}))


def elect(row, topic=None):
    return row._replace(leader=row.isr[0], leader_epoch=row.leader_epoch + 1)


def expand(topic, count):
    begun = begin_expansion(topic, [(1, 2)] * (count - len(topic.partitions)), ALIVE)
    return complete_expansion(begun, elect)


def shrink(topic, count):
    return complete_shrinking(begin_shrinking(topic, count))


def epochs(topic):
    return [row.leader_epoch for row in topic.partitions]


def counts(topic):
    """The count that each leader accepts, or None if it rejects all of them."""
    return [None if row.is_closed else row.undeleted_partition_count for row in topic.partitions]


def test_an_expansion_raises_existing_epochs_with_the_count_and_records_the_old_ones():
    topic = begin_expansion(new_topic(2), [(2, 1), (3,)], ALIVE)
    assert topic.ordered == OrderedTopicCounts(2, 4, CountChange.EXPANSION, 2, partition_count_epoch=1)
    assert epochs(topic) == [1, 2, -1, -1]
    assert counts(topic) == [4, 4, 4, 4]
    assert [row.leader for row in topic.partitions] == [1, 1, -1, -1]
    assert [row.isr for row in topic.partitions[2:]] == [(2, 1), ()]
    assert [row.leader_epochs_after_creation for row in topic.partitions] == [(), (), (0, 1), (0, 1)]


def test_new_partitions_get_leaders_in_the_second_step_of_an_expansion_only():
    topic = begin_expansion(new_topic(2), [(2, 1)], ALIVE)
    assert [may_have_leader(topic, row) for row in topic.partitions] == [True, True, False]
    assert [row.partition for row in awaited_partitions(topic)] == [0, 1]
    # An election between both steps belongs to the new count.
    moved = topic._replace(partitions=(elect(topic.partitions[0]), *topic.partitions[1:]))
    done = complete_expansion(moved, elect)
    assert done.ordered == OrderedTopicCounts(2, 3, partition_count_epoch=1)
    assert epochs(done) == [2, 2, 0]
    assert all(may_have_leader(done, row) for row in done.partitions)
    assert done.partitions[2].leader_epochs_after_creation == (0, 1)
    assert done.partitions[:2] == moved.partitions[:2]
    assert all(row is before for row, before in zip(done.partitions[:2], moved.partitions, strict=False))


def test_no_count_is_accepted_between_both_steps_of_a_shrinking():
    topic = expand(new_topic(1), 4)
    begun = begin_shrinking(topic, 2)
    assert counts(begun) == [None] * 4
    assert [row.undeleted_partition_count for row in begun.partitions] == [4] * 4  # for fetches
    assert begun.ordered.undeleted_partition_count == 4
    assert [row.partition for row in awaited_partitions(begun)] == [0, 1, 2, 3]
    assert not any(row.leader_epochs_before_deletion for row in begun.partitions)
    done = complete_shrinking(begun)
    assert done.ordered == OrderedTopicCounts(1, 2, partition_count_epoch=2)
    assert counts(done) == [2, 2, None, None]
    assert [row.undeleted_partition_count for row in done.partitions] == [2] * 4


def test_a_further_shrinking_keeps_what_the_first_has_recorded():
    first = shrink(expand(new_topic(1), 4), 3)
    second = shrink(first, 1)
    assert second.ordered == OrderedTopicCounts(1, 1, partition_count_epoch=3)
    assert second.partitions[3].leader_epochs_before_deletion == first.partitions[3].leader_epochs_before_deletion
    assert [len(row.leader_epochs_before_deletion) for row in second.partitions] == [0, 1, 1, 3]
    assert counts(second) == [1, None, None, None]


def test_emptied_partitions_are_removed_from_the_highest_number_down():
    topic = shrink(expand(new_topic(1), 4), 1)
    assert without_emptied(topic, lambda row: {1: 7, 2: 8}.get(row.partition)) is topic
    left = without_emptied(topic, lambda row: {1: 7, 3: 9}.get(row.partition))
    assert [row.partition for row in left.partitions] == [0, 1, 2]
    assert left.ordered.removed == {3: RemovedPartition(topic.partitions[3].leader_epoch, 9)}
    gone = without_emptied(left, lambda row: 5)
    assert len(gone.partitions) == 1
    assert sorted(gone.ordered.removed) == [1, 2, 3]
    assert without_emptied(gone, lambda row: 5) is gone


def test_nothing_is_removed_during_a_change_or_without_ordered_delivery():
    begun = begin_shrinking(shrink(expand(new_topic(1), 4), 3), 2)
    assert without_emptied(begun, lambda row: 0) is begun
    plain = new_topic(2)._replace(ordered=None)
    assert without_emptied(plain, lambda row: 0) is plain


@pytest.mark.parametrize("initial", [1, 2, 3, 5])
def test_epochs_never_go_back_whatever_the_changes_are(initial):
    topic, seen = new_topic(initial), {}
    for count in (initial + 3, initial + 1, initial, initial + 5, initial + 2, initial + 6):
        if count > topic.ordered.undeleted_partition_count:
            topic = without_emptied(topic, lambda row: 0)
            topic = expand(topic, count)
        else:
            topic = shrink(topic, count)
        for row in topic.partitions:
            assert row.leader_epoch > seen.get(row.partition, -1)
            seen[row.partition] = row.leader_epoch


def test_tombstones_are_kept_where_another_partition_may_have_an_older_value():
    def kept(topic):
        return [row.partition for row in topic.partitions if keeps_tombstones(topic, row.partition)]

    topic = new_topic(2)
    assert kept(topic._replace(ordered=None)) == kept(topic) == []
    assert kept(begin_expansion(topic, [(1,), (2,)], ALIVE)) == [2, 3]
    topic = expand(topic, 4)
    assert kept(topic) == [2, 3]
    shrunk = shrink(topic, 3)
    assert kept(shrunk) == [0, 1, 2, 3]
    assert kept(without_emptied(shrunk, lambda row: 0)) == [2]
