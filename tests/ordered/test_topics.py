"""One changed topic, as far as brokers have reported its changes."""

import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.linear_hashing import PartitionCounts
from thinconsumer.network.metadata import Metadata, TopicMetadata
from thinconsumer.ordered.gates import START, Gate, Requirement
from thinconsumer.ordered.holds import Hold, HoldState
from thinconsumer.ordered.topics import GatedTopic, Shape, Threshold, shapes
from thinconsumer.positions.partitions import Partition
from thinconsumer.positions.states import PositionState
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import PartitionInfo, TopicPartition
from thinconsumer.wire.partition_leader_epochs import PartitionLeaderEpochs

ID = b"t" * 16


def shape(initial, undeleted, existing):
    return Shape(ID, PartitionCounts(initial, undeleted), frozenset(range(existing)))


@pytest.mark.parametrize(
    ("initial", "undeleted", "existing", "has_changed"),
    [(2, 2, 2, False), (2, 4, 4, True), (2, 2, 4, True), (2, 4, 2, True), (1, 1, 1, False)],
)
def test_a_topic_has_changed_while_added_partitions_exist(initial, undeleted, existing, has_changed):
    assert shape(initial, undeleted, existing).has_changed == has_changed


@pytest.mark.parametrize(
    ("undeleted", "changes", "later", "existing", "may_be_removed"),
    [
        (2, 0, 2, 2, True),
        (2, 0, 2, 3, False),
        (2, 1, 3, 3, True),  # added again
        (3, 1, 2, 3, False),
        (3, 1, 4, 4, False),
        (3, 2, 3, 3, True),  # two changes were missed
    ],
)
def test_a_partition_may_be_removed_between_two_shapes(undeleted, changes, later, existing, may_be_removed):
    before, after = shape(1, undeleted, 3), shape(1, later, existing)._replace(partition_count_epoch=changes - 1)
    assert [before.may_be_removed_by(n, after) for n in (0, 2)] == [False, may_be_removed]


def test_the_shape_is_that_of_the_metadata():
    metadata = Metadata(ConsumerConfig.from_options(), random.Random(1), Agenda())
    topic = metadata.topics["t"] = TopicMetadata("t", ID)
    assert shapes(metadata) == {}
    topic.counts = PartitionCounts(1, 2)
    assert shapes(metadata) == {}, "its partitions are not known"
    topic.partitions = {n: PartitionInfo("t", n, 1, 0, (1,), (1,), ()) for n in range(2)}
    assert shapes(metadata) == {"t": shape(1, 2, 2)}


def epochs(number, created=(), deleted=(), error=0):
    return PartitionLeaderEpochs(
        partition_index=number,
        error_code=error,
        leader_epochs_after_creation=list(created),
        leader_epochs_before_deletion=list(deleted),
    )


def test_only_usable_leader_epochs_are_taken():
    topic = GatedTopic("t", shape(1, 2, 2))
    assert not topic.take_epochs([epochs(1, [5], error=3), epochs(7, [5])])
    assert topic.missing_epochs(1) == {1}
    # Numbers beyond the partition's own are of no use, and a broker could send any number of them.
    assert topic.take_epochs([epochs(1, [5] * 1000, [9])])
    assert topic.gates(1) == [Gate(START, (Requirement(0, 5),))]
    assert topic.gates(0) == [], "partition 1 is not marked for deletion"
    assert not topic.take_epochs([epochs(1, [5])]), "nothing new"


def test_a_change_makes_everything_known_outdated():
    topic = GatedTopic("t", shape(1, 2, 2))
    topic.take_epochs([epochs(1, [5])])
    topic.thresholds[Requirement(0, 5)] = Threshold(8, 6)
    topic.asked[Requirement(1, 5)] = object()
    partition = Partition(TopicPartition("t", 1), PositionState.AWAITING_RESET)
    hold = topic.holds[partition] = Hold(partition, Agenda())
    hold.epochs_found([])
    topic.changed(shape(1, 3, 3))
    assert topic.missing_epochs(1) == {1}
    assert not topic.thresholds and not topic.asked
    assert hold.state is HoldState.AWAITING_EPOCHS
