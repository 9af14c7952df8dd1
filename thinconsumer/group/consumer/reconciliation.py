"""What an assignment revokes and adds.

The coordinator names topics by id, and an assignment may arrive before the metadata of a new topic. A topic that was
deleted and created again has another id: its partitions are revoked, and then added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...errors import KafkaProtocolError
from ...types import TopicPartition
from ...wire import ZERO_UUID
from ...wire.consumer_group_heartbeat import HeartbeatAssignment, TopicPartitions

#: Partitions as the coordinator names them: by topic id and number.
PartitionIds = frozenset[tuple[bytes, int]]
#: The owned partitions, each with the topic id under which it was assigned.
Owned = Mapping[TopicPartition, bytes]


class Difference(NamedTuple):
    """The partitions to revoke and to assign until the owned ones are those of the assignment."""

    revoke: frozenset[TopicPartition] = frozenset()
    add: Mapping[TopicPartition, bytes] = {}  #: Topic ids by partition; only of topics with a known name.
    unresolved: frozenset[bytes] = frozenset()  #: Ids of topics that no metadata has named yet.


def read_assignment(assignment: HeartbeatAssignment) -> PartitionIds:
    """Return the partitions of a response.

    Raises:
        KafkaProtocolError: a partition number is negative, or a topic has no id.
    """
    found = frozenset((topic.topic_id, number) for topic in assignment.topic_partitions for number in topic.partitions)
    for topic_id, number in found:
        if number < 0 or topic_id == ZERO_UUID:
            raise KafkaProtocolError(f"the coordinator assigned partition {number} of topic id {topic_id.hex()}")
    return found


def partition_ids(owned: Owned) -> PartitionIds:
    """Return the owned partitions as the coordinator names them."""
    return frozenset((topic_id, tp.partition) for tp, topic_id in owned.items())


def topic_partitions(ids: Iterable[tuple[bytes, int]]) -> list[TopicPartitions]:
    """Return partitions in the form of a heartbeat, sorted, so that equal sets give equal bytes."""
    found: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(ids):
        found.setdefault(topic_id, []).append(number)
    return [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in found.items()]


def difference(owned: Owned, target: PartitionIds, names: Mapping[bytes, str]) -> Difference:
    """Return what is to be revoked and added so that ``owned`` becomes ``target``; ``names`` has topics by id."""
    have = partition_ids(owned)
    add = {TopicPartition(names[topic_id], number): topic_id for topic_id, number in target - have if topic_id in names}
    revoke = frozenset(tp for tp, topic_id in owned.items() if (topic_id, tp.partition) not in target)
    return Difference(revoke, add, frozenset(topic_id for topic_id, _ in target - have if topic_id not in names))
