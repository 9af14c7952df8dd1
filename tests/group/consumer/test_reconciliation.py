"""The partitions that an assignment revokes and adds, by topic ids."""

import random

import pytest

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.group.consumer.reconciliation import (
    Difference,
    difference,
    partition_ids,
    read_assignment,
    topic_partitions,
)
from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import HeartbeatAssignment, TopicPartitions

T, U, NEW = b"t" * 16, b"u" * 16, b"n" * 16
T0 = TopicPartition("t", 0)


def test_a_topic_that_was_created_again_is_revoked_and_added():
    found = difference({T0: T}, frozenset({(NEW, 0)}), {NEW: "t"})
    assert found == Difference(frozenset({T0}), {T0: NEW}, frozenset())


def test_revoking_and_adding_leads_to_the_target_whatever_it_is():
    rng, names = random.Random(5), {bytes([n]) * 16: f"topic{n}" for n in range(1, 5)}
    every = [(topic_id, number) for topic_id in names for number in range(3)]
    for _ in range(300):
        owned = {TopicPartition(names[i], n): i for i, n in rng.sample(every, rng.randrange(len(every)))}
        target = frozenset(rng.sample(every, rng.randrange(len(every))))
        known = dict(rng.sample(sorted(names.items()), rng.randrange(len(names) + 1)))
        found = difference(owned, target, known)
        kept = {tp: topic_id for tp, topic_id in owned.items() if tp not in found.revoke}
        after = partition_ids({**kept, **found.add})
        assert after == {(i, n) for i, n in target if i in known or (i, n) in partition_ids(owned)}
        assert not found.revoke & found.add.keys()
        assert {i for i, _ in target - after} == found.unresolved


def test_partitions_are_grouped_by_topic_in_order():
    rows = topic_partitions({(U, 0), (T, 2), (T, 0)})
    assert [(row.topic_id, row.partitions) for row in rows] == [(T, [0, 2]), (U, [0])]
    assert read_assignment(HeartbeatAssignment(topic_partitions=rows)) == {(U, 0), (T, 2), (T, 0)}


@pytest.mark.parametrize("row", [TopicPartitions(topic_id=T, partitions=[-1]), TopicPartitions(partitions=[0])])
def test_impossible_partitions_are_rejected(row):
    with pytest.raises(KafkaProtocolError):
        read_assignment(HeartbeatAssignment(topic_partitions=[row]))
