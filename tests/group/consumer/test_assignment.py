"""A reconciliation: what it revokes and adds, its steps in their order, and topics that are known by id only."""

import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import KafkaProtocolError
from thinconsumer.group.consumer.assignment import (
    Difference,
    MemberAssignment,
    difference,
    partition_ids,
    read_assignment,
    topic_partitions,
)
from thinconsumer.network.metadata import Metadata, TopicMetadata
from thinconsumer.positions.partitions import Partitions
from thinconsumer.positions.states import PositionState
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import HeartbeatAssignment, TopicPartitions

T, U, NEW = b"t" * 16, b"u" * 16, b"n" * 16
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class FakeRevocation:
    """Records the calls; a revocation takes ``delay`` calls."""

    def __init__(self, partitions):
        self.partitions = partitions
        self.calls = []
        self.delay = 0
        self.failure = None
        self.covered = ()

    def covers(self, tp):
        return tp in self.covered

    def advance(self, tps, now):
        self.calls.append(("revoke", sorted(tps)))
        if self.delay:
            self.delay -= 1
            return False
        self.partitions.assign([p.tp for p in self.partitions if p.tp not in tps])
        return True

    def assign(self, tps):
        self.partitions.assign(tps, start=PositionState.AWAITING_CALLBACK)

    def call_assigned(self):
        self.calls.append(("assigned", sorted(self.partitions.tps())))
        if self.failure is not None:
            raise self.failure

    def lose(self, now):
        self.calls.append(("lost", sorted(self.partitions.tps())))
        self.partitions.assign(())


class World:
    """An assignment with topic t known, and u unknown."""

    def __init__(self):
        self.partitions = Partitions()
        self.agenda = Agenda()
        self.metadata = Metadata(ConsumerConfig(), random.Random(1), self.agenda)
        self.revocation = FakeRevocation(self.partitions)
        self.assignment = MemberAssignment(
            self.partitions, self.metadata, self.revocation, random.Random(2), self.agenda
        )
        self.name(T, "t")

    def name(self, topic_id, name):
        self.metadata.topics[name] = TopicMetadata(name, topic_id)
        self.metadata.version += 1

    def target(self, *ids):
        self.assignment.target = frozenset(ids)

    def finish(self, epoch=5):
        found = []
        while self.assignment.is_due:
            found.append(self.assignment.advance(epoch, 1.0))
        return found


@pytest.fixture
def world():
    return World()


def test_revoking_comes_first_and_is_acknowledged_before_more_is_assigned(world):
    world.target((T, 0))
    world.finish(5)
    world.target((T, 1))
    assert world.assignment.advance(6, 1.0) is True
    assert world.assignment.owned() == frozenset() and not world.assignment.is_complete
    assert world.finish(7) == [True] and world.assignment.owned() == {(T, 1)}
    assert world.revocation.calls[1:] == [("revoke", [T0]), ("assigned", [T1])]
    assert (world.assignment.owned_since(T0), world.assignment.owned_since(T1)) == (-1, 7)


def test_a_revocation_that_has_begun_is_completed_although_the_partition_comes_back(world):
    """The listener may have been told already: the partition is assigned anew, from its committed offset."""
    world.target((T, 0), (T, 1))
    world.finish(5)
    world.target((T, 1))
    world.revocation.delay = 1
    assert world.assignment.advance(6, 1.0) is False
    world.target((T, 0), (T, 1))
    assert world.finish(7) == [True, True]
    assert (world.assignment.owned_since(T0), world.assignment.owned_since(T1)) == (7, 5)


def test_partitions_that_a_newer_assignment_revokes_in_addition_follow_at_once(world):
    """Before, their next owners waited until the first revocation was acknowledged."""
    world.target((T, 0), (T, 1))
    world.finish(5)
    world.target((T, 1))
    world.revocation.delay = 1
    assert world.assignment.advance(6, 1.0) is False
    world.target()
    assert world.assignment.advance(6, 1.0) is True
    assert world.revocation.calls[1:] == [("revoke", [T0]), ("revoke", [T0]), ("revoke", [T1])]
    assert world.assignment.owned() == frozenset()


def test_partitions_to_be_revoked_are_held_back_until_a_newer_assignment_has_them_again(world):
    """A revocation that waits for commits would otherwise let their records through, after the last commit for them."""
    world.target((T, 0), (T, 1))
    world.finish(5)
    held = []
    for target, covered in (({(T, 1)}, ()), (set(), (T0,)), ({(T, 0), (T, 1)}, (T0,)), ({(T, 0)}, (T0,))):
        world.revocation.covered = covered
        world.assignment.receive(frozenset(target))
        held.append([p.tp for p in sorted(world.partitions, key=lambda p: p.tp) if p.pending_revocation])
    assert held == [[T0], [T0, T1], [T0], [T0, T1]]


def test_topics_without_a_name_wait_for_metadata_and_the_others_do_not(world):
    world.target((T, 0), (U, 0))
    assert world.finish() == [True] and world.partitions.tps() == {T0}
    assert not world.assignment.is_complete and not world.assignment.is_due
    world.assignment.look_up(1.0)
    world.assignment.look_up(9.0)  # the request is still in flight
    (request,) = world.metadata.step(1.0)
    assert [topic.topic_id for topic in request.build(12).topics] == [U] and request.min_version == 12
    world.assignment._lookup_call.succeed({})  # no broker knows the topic yet
    world.agenda.take(1.0)
    assert 1.0 < world.agenda.next() < 2.0
    world.name(U, "u")
    assert world.finish() == [True] and world.assignment.is_complete
    assert world.partitions.tps() == {T0, U0} and world.assignment.topics() == {"t", "u"}
    world.assignment.look_up(9.0)
    assert world.assignment._lookup_call.over, "nothing is left to ask for"


def test_a_lost_membership_owns_nothing(world):
    world.target((T, 0))
    world.finish()
    world.assignment.lose(2.0)
    assert world.assignment.target is None and world.assignment.owned() == frozenset()
    assert world.assignment.owned_since(T0) == -1 and world.revocation.calls[-1] == ("lost", [T0])
    assert not world.assignment.is_due


def test_partitions_that_the_consumer_has_given_up_are_not_owned(world):
    """``close()`` drops them by itself before the member leaves."""
    world.target((T, 0))
    world.finish()
    world.partitions.assign(())
    assert world.assignment.owned() == frozenset()


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
