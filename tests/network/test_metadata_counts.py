"""Metadata: the partition counts of topics with ordered delivery."""

import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import Answer
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import Node, TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID_A, ID_B = b"A" * 16, b"B" * 16


def topic(epochs=(5,), counts=(-1, -1), changes=-1, topic_id=ID_A):
    """Return a topic of a response; ``epochs`` are the leader epochs of its partitions, after so many ``changes``."""
    partitions = [
        MetadataResponsePartition(partition_index=number, leader_id=1, leader_epoch=epoch)
        for number, epoch in enumerate(epochs)
    ]
    initial, undeleted = counts
    return MetadataResponseTopic(
        name="t", topic_id=topic_id, partitions=partitions,
        initial_partition_count=initial, undeleted_partition_count=undeleted, partition_count_epoch=changes,
    )  # fmt: skip


@pytest.fixture
def metadata():
    metadata = Metadata(ConsumerConfig.from_options(), random.Random(1), Agenda())
    metadata.want({"t"})
    return metadata


@pytest.fixture
def take(metadata):
    """``take(topic)`` answers a refresh, and returns the topic's metadata."""
    now = 0.0

    def take(raw, version=12):
        nonlocal now
        now += 1000.0
        (request,) = metadata.step(now)
        response = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="b", port=1)], topics=[raw])
        decoded = MetadataResponse.decode(response.encode(version), version)
        metadata.handle(Answer(request, 1, version, decoded), now)
        return metadata.topics["t"]

    return take


def test_partition_counts_are_those_of_the_newest_epochs(take):
    """Each change of the counts raises the epochs of all partitions, so that a lagging broker shows by its epochs."""
    assert take(topic((5, 5), (1, 2), 1)).counts == (1, 2)
    take(topic((6, 6, 0), (1, 3), 2))
    lagging = take(topic((5, 5), (1, 2), 1))
    assert (lagging.counts, sorted(lagging.partitions)) == ((1, 3), [0, 1, 2])
    assert take(topic((7, 6, 0), (1, 2), 1)).counts == (1, 2)


def test_lower_epochs_of_partitions_that_are_not_read_do_not_outdate_the_counts(take):
    """Only a leader could prove that they have gone back, and no request goes to it."""
    take(topic((5, 9), (1, 2), 1))
    assert take(topic((6, 7, 0), (1, 3), 2)).counts == (1, 3)
    assert take(topic((6, 7, 0), (1, 3), 2)).counts == (1, 3)


def test_counts_go_back_with_the_epoch_of_a_partition_that_is_read(metadata, take):
    """A broker's disk was replaced by a copy of before the last change; the second partition is not read."""
    take(topic((6, 9, 0), (1, 3), 2))
    restored = topic((5, 5), (1, 2), 1)
    for at in range(4):
        metadata.leader_refused(TopicPartition("t", 0), 1, Code.UNKNOWN_LEADER_EPOCH, 5000.0 + at)
        found = take(restored)
        assert (found.counts == (1, 2)) == (found.epochs[0] == 5)
    assert (found.counts, found.partition_count_epoch, sorted(found.partitions)) == ((1, 2), 1, [0, 1])
    take(topic((6, 6, 0), (1, 3), 2))
    assert take(restored).counts == (1, 3), "a lagging broker, after a change that has raised the epoch again"


@pytest.mark.parametrize("version", [8, 12])
def test_other_topics_and_impossible_counts_have_none(take, version):
    assert take(topic(), version).counts is None
    assert take(topic((6,), (0, 4)), version).counts is None


def test_a_new_topic_of_the_same_name_has_its_own_counts(take):
    take(topic((9,), (1, 4)))
    assert take(topic((0,), topic_id=ID_B)).counts is None


def test_counts_that_return_are_a_change(metadata, take):
    before = topic((5, 5), (1, 2), 1)
    take(before)
    take(before)
    version = metadata.version
    assert take(topic((5, 5), (1, 2), 3)).partition_count_epoch == 3
    assert metadata.version == version + 1


@pytest.mark.parametrize(("changes", "epoch"), [(0, 6), (1, 5)])
def test_a_hint_of_a_new_leader_counts_until_the_first_change_since_it_lacks_the_counts(metadata, take, changes, epoch):
    """The new epoch may be that of another count; with it, a Fetch is answered once the old count returns."""
    take(topic((5, 5), (1, 2), changes))
    metadata.hint_leader(TopicPartition("t", 0), Node(1, "b", 1), 1, 6)
    assert metadata.leader(TopicPartition("t", 0)).leader_epoch == epoch
