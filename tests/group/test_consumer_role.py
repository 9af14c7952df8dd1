"""The consumer's role: eager or cooperative, its subscription, the leader's assignment, and reasons to rejoin."""

import logging
import random

import pytest

from thinconsumer.assignors import Assignment, PartitionAssignor, RebalanceProtocol
from thinconsumer.assignors.registry import create
from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import KafkaProtocolError
from thinconsumer.group.consumer_role import ConsumerRole
from thinconsumer.group.identity import Identity
from thinconsumer.group.rejoin_triggers import OLD_NOTE
from thinconsumer.group.revocation import PartitionRevocation
from thinconsumer.group.role import JoinedMember
from thinconsumer.group.subscription import UserSubscription
from thinconsumer.linear_hashing import PartitionCounts
from thinconsumer.network.metadata import Metadata, TopicMetadata
from thinconsumer.positions.partitions import Partitions
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import Node, PartitionInfo, TopicPartition
from thinconsumer.wire.consumer_protocol import decode_assignment, decode_subscription, encode_assignment

ME = Identity("g").joined(3, "me")


class Commits:
    """Commits without unsettled calls."""

    @property
    def queue(self):
        return self

    last_number = 0

    def has_settled(self, number):
        return True

    def release(self, tps):
        """Offsets of partitions that are given up may still be committed; none are here."""


class Mine(PartitionAssignor):
    """A user's assignor that adds user data, and records its calls."""

    name = "mine"
    supported_protocols = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def __init__(self):
        self.told = []

    def subscription_user_data(self, topics):
        return ",".join(topics).encode()

    def assign(self, cluster, subscriptions):
        self.seen = cluster, subscriptions
        first = max(subscriptions)
        every = [TopicPartition(t, p.partition) for t, ps in cluster.partitions.items() for p in ps]
        return {first: Assignment(tuple(every), b"yours")}

    def on_assignment(self, assignment, metadata):
        self.told.append((assignment, metadata))


class World:
    """A consumer's role with metadata and partitions, without a member."""

    def __init__(self, *strategy, topics=("t",), **options):
        self.config = ConsumerConfig.from_options(group_id="g", **options)
        agenda = Agenda()
        self.metadata = Metadata(self.config, random.Random(1), agenda)
        self.partitions = Partitions()
        self.subscription = UserSubscription()
        self.heard = []
        self.subscription.subscribe(topics, None, self)
        self.assignors = create(strategy)
        revocation = PartitionRevocation(self.partitions, Commits(), None, self.subscription, agenda)
        self.role = ConsumerRole(
            self.config, self.assignors, self.subscription, self.partitions, self.metadata, revocation, agenda
        )
        self.metadata.nodes = {1: Node(1, "h", 9092, "r1"), 2: Node(2, "h", 9093, "r2")}
        self.topic("t", 2)

    def topic(self, name, partitions, leader=1):
        found = TopicMetadata(name)
        found.partitions = {n: PartitionInfo(name, n, leader, 0, (leader,), (leader,), ()) for n in range(partitions)}
        self.metadata.topics[name] = found
        self.metadata.version += 1

    def on_partitions_assigned(self, assigned):
        self.heard.append(("assigned", sorted(assigned)))

    def on_partitions_revoked(self, revoked):
        self.heard.append(("revoked", sorted(revoked)))

    def on_partitions_lost(self, lost):
        self.heard.append(("lost", sorted(lost)))

    def says(self):
        return {name: decode_subscription(data) for name, data in self.role.protocols()}

    def do(self, call, *args):
        for _ in range(5):
            if call(*args):
                return
        raise AssertionError("not done")

    def rebalance(self, *tps, protocol=None, identity=ME):
        del self.heard[:]
        self.do(self.role.prepare, identity, 0.0)
        self.role.protocols()
        self.role.accept(identity, protocol or self.assignors[0].name, encode_assignment(tps), 0.0)
        self.do(self.role.revoke_unassigned, identity, 0.0)
        self.do(self.role.install, identity, 0.0)
        return self.heard


A, B, C = (TopicPartition("t", n) for n in range(3))


@pytest.mark.parametrize(
    ("strategy", "cooperative"),
    [
        (["range"], False),
        (["range", "cooperative-sticky"], False),
        (["cooperative-sticky", "range"], False),
        (["cooperative-sticky"], True),
        ([Mine], True),
        ([Mine(), "cooperative-sticky"], True),
        (["sticky"], False),
    ],
)
def test_the_protocol_is_the_highest_that_all_assignors_support(strategy, cooperative):
    """The elected assignor does not change it."""
    assert World(*strategy).role.is_cooperative is cooperative


def test_eager_revokes_all_then_assigns_all():
    world = World("range")
    assert world.rebalance(A, B, identity=Identity("g")) == [("assigned", [A, B])], "no partitions to revoke at first"
    assert world.rebalance(B) == [("revoked", [A, B]), ("assigned", [B])]
    assert world.rebalance() == [("revoked", [B]), ("assigned", [])]
    assert world.rebalance(A) == [("revoked", []), ("assigned", [A])]


def test_a_cooperative_rebalance_calls_back_only_changes():
    world = World("cooperative-sticky")
    assert world.rebalance(A, B) == [("assigned", [A, B])]
    kept = world.partitions.require(B)
    assert world.rebalance(B, C) == [("revoked", [A]), ("assigned", [C])]
    assert world.partitions.require(B) is kept, "its position and buffered records stay"
    assert "can now be assigned" in world.role.rejoin_reason(0.0)
    assert world.rebalance(B, C) == [("assigned", [])]
    assert world.role.rejoin_reason(0.0) is None


def test_a_cooperative_member_revokes_unsubscribed_topics_before_the_join():
    world = World("cooperative-sticky", topics=("t", "u"))
    U = TopicPartition("u", 0)
    world.rebalance(A, U)
    world.subscription.subscribe(["t"], None, world)
    del world.heard[:]
    world.do(world.role.prepare, ME, 0.0)
    assert world.heard == [("revoked", [U])] and world.partitions.tps() == {A}


def test_partitions_missing_in_the_new_assignment_are_held_back_at_once():
    world = World("cooperative-sticky")
    world.rebalance(A, B)
    world.role.accept(ME, "cooperative-sticky", encode_assignment([B]), 0.0)
    assert [p.pending_revocation for p in world.partitions] == [True, False]


def test_a_cooperative_subscription_has_owned_partitions_and_generation():
    """KIP-792."""
    world = World("cooperative-sticky", client_rack="r1")
    said = world.says()["cooperative-sticky"]
    assert (said.topics, said.owned_partitions, said.generation_id, said.rack_id) == (["t"], [], -1, "r1")
    world.rebalance(A, B)
    said = world.says()["cooperative-sticky"]
    assert [(t.topic, t.partitions) for t in said.owned_partitions] == [("t", [0, 1])] and said.generation_id == 3
    world.role.lose("gone", 0.0)
    said = world.says()["cooperative-sticky"]
    assert (said.owned_partitions, said.generation_id) == ([], -1)


def test_an_eager_subscription_has_no_owned_partitions():
    world = World("range")
    world.rebalance(A)
    world.do(world.role.prepare, ME, 0.0)
    assert world.says()["range"].owned_partitions == []


def test_each_assignor_adds_its_user_data_and_gets_on_assignment():
    mine = Mine()
    world = World("range", mine)
    assert world.says()["mine"].user_data == b"t"
    assert world.says()["range"].user_data is None
    world.rebalance(A, protocol="mine")
    assert mine.told == [(Assignment((A,)), ME[:4])]


def test_the_assignor_gets_the_assignment_before_the_listener():
    """As in Java's client: a listener may read what its assignor has kept of the assignment."""
    mine = Mine()
    world = World(mine)
    mine.on_assignment = lambda assignment, metadata: world.heard.append(("assignor", list(assignment.partitions)))
    assert world.rebalance(A, B) == [("assignor", [A, B]), ("assigned", [A, B])]


def joined(assignor, **members):
    return [JoinedMember(name, None, dict(member.role.protocols())[assignor]) for name, member in members.items()]


def lead(world, assignor, share=None, *, skip=False, now=0.0, **others):
    """Assign as the leader "a", and accept its share, or another one; return the encoded assignments."""
    plan = world.role.perform_assignment("a", assignor, joined(assignor, a=world, **others), skip=skip)
    world.role.accept(ME, assignor, plan["a"] if share is None else encode_assignment(share), now)
    return plan


def test_the_leader_assigns_the_topics_of_all_members():
    mine = Mine()
    world, other = World(mine), World(Mine(), topics=("t", "u"))
    members = joined("mine", a=world, b=other)
    assert not world.role.ready_to_assign("mine", members, 0.0), "metadata of u is not known yet"
    assert world.role.subscribed.names() | world.role.notes.topics == {"t", "u"}
    world.topic("u", 1)
    assert world.role.ready_to_assign("mine", members, 0.0)
    plan = world.role.perform_assignment("a", "mine", members, skip=False)
    assert set(plan) == {"a", "b"}, "a member without partitions gets an empty assignment"
    share = decode_assignment(plan["b"])
    assert {t.topic: t.partitions for t in share.assigned_partitions} == {"t": [0, 1], "u": [0]}
    assert share.user_data == b"yours"
    cluster, subscriptions = mine.seen
    assert set(cluster.partitions) == {"t", "u"} and subscriptions["b"].topics == ("t", "u")


def test_the_leader_assigns_partitions_marked_for_deletion_apart_and_rejoins_when_more_are():
    world, other = World("range"), World("range")
    world.topic("t", 8)
    world.metadata.topics["t"].counts = PartitionCounts(2, 4)
    plan = lead(world, "range", [A, B], b=other)
    shares = [decode_assignment(plan[name]).assigned_partitions[0].partitions for name in ("a", "b")]
    assert sorted(map(sorted, shares)) == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert world.role.rejoin_reason(0.0) is None
    world.metadata.topics["t"].counts = PartitionCounts(2, 3)
    world.metadata.version += 1
    assert "5 partitions marked for deletion" in world.role.rejoin_reason(0.0)


@pytest.mark.parametrize("skip", [False, True])
def test_the_leader_rejoins_only_for_changes_that_affect_its_assignment(skip):
    world = World("range")
    lead(world, "range", [A, B], skip=skip)
    assert world.role.rejoin_reason(0.0) is None
    world.topic("t", 2, leader=2)
    world.topic("other", 5)
    assert world.role.rejoin_reason(0.0) is None, "only a leader moved, and another topic was created"
    world.topic("t", 3)
    assert "3 partitions" in world.role.rejoin_reason(0.0)


def comes_back(strategy, change=lambda world: None, halfway=()):
    """Return a static leader that assigns, restarts and keeps that assignment; ``change`` happens before it is back.

    It has compared the assignments of all members with the partitions that exist.
    """
    before, other = World(strategy, group_instance_id="i"), World(strategy)
    if halfway:
        other.rebalance(*halfway)
    plan = lead(before, strategy, b=other)
    world = World(strategy, group_instance_id="i")
    change(world)
    assert world.role.perform_assignment("a", strategy, joined(strategy, a=world, b=other), skip=True) == {}
    assert not world.role.notes.awaits_assignments, "the group has no assignments before SyncGroup"
    world.role.accept(ME, strategy, plan["a"], 0.0)
    assert world.role.rejoin_reason(0.0) is None and world.role.notes.awaits_assignments
    world.role.compare_assignments(plan.values())
    assert not world.role.notes.awaits_assignments
    return world


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_restarted_static_leader_rejoins_only_if_its_assignment_is_outdated(strategy):
    """It keeps the assignment (KIP-814); partitions created since it was computed would stay unassigned."""
    assert comes_back(strategy).role.rejoin_reason(1e9) is None
    assert comes_back(strategy, lambda world: world.topic("other", 5)).role.rejoin_reason(0.0) is None
    assert "with t-1" in comes_back(strategy, lambda world: world.topic("t", 1)).role.rejoin_reason(0.0)
    world = comes_back(strategy, lambda world: world.topic("t", 3))
    assert "without t-2" in world.role.rejoin_reason(0.0)
    world.rebalance(A, B, C)
    assert world.role.rejoin_reason(1e9) is None, "once"


def test_a_restarted_static_leader_rejoins_if_its_subscription_changed():
    """The coordinator does not compare subscriptions of a restarted static member."""
    world = World("range", topics=("u",), group_instance_id="i")
    world.topic("u", 1)
    members = joined("range", a=world)
    world.role.perform_assignment("a", "range", members, skip=True)
    world.role.accept(ME, "range", encode_assignment([A]), 0.0)
    assert "not subscribed to" in world.role.rejoin_reason(0.0)
    assert not world.role.notes.awaits_assignments


def test_a_restarted_static_leader_rejoins_if_partitions_were_withheld():
    """It may itself have revoked them and stopped before it rejoined; no other member would rejoin for them."""
    world = comes_back("cooperative-sticky", halfway=(A, B))
    assert "of an assignment without t-" in world.role.rejoin_reason(0.0)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_leader_writes_no_user_data_of_its_own(strategy):
    """Kafka moves no group to the consumer group protocol while an assignment has user data (KAFKA-18134)."""
    world, other = World(strategy, group_instance_id="i"), World(strategy)
    plan = lead(world, strategy, b=other)
    assert [decode_assignment(share).user_data for share in plan.values()] == [None, None]
    mine = World(Mine(), group_instance_id="i")
    plan = mine.role.perform_assignment("a", "mine", joined("mine", a=mine), skip=False)
    assert decode_assignment(plan["a"]).user_data == b"yours", "the assignor's user data is kept"


@pytest.mark.parametrize("skip", [False, True])
def test_a_restarted_leader_replaces_user_data_of_an_old_version(skip):
    mine = Mine()
    world = World(mine, group_instance_id="i")
    if skip:
        lead(world, "mine", [A], skip=True)
    else:
        world.says()
    world.role.accept(ME, "mine", encode_assignment([A, B], OLD_NOTE + b"anything"), 0.0)
    world.do(world.role.install, ME, 0.0)
    assert mine.told[-1][0] == Assignment((A, B), None), "assignors do not see it"
    reason = world.role.rejoin_reason(0.0)
    assert "user data of thinconsumer 0.1.0" in reason if skip else reason is None


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_restarted_leader_that_cannot_read_the_assignments_rejoins_if_cooperative(strategy):
    """A cooperative rebalance moves no partition needlessly."""
    world = World(strategy)
    assert lead(world, strategy, [A], skip=True) == {}
    world.role.compare_assignments(None)
    reason = world.role.rejoin_reason(0.0)
    assert reason is None if strategy == "range" else "assignment that it did not compute" in reason
    lead(world, strategy, [A, B])
    assert world.role.rejoin_reason(1e9) is None, "once"


def test_a_member_with_an_undecodable_assignment_owns_nothing():
    world = World("range")
    lead(world, "range", [A], skip=True)
    world.role.compare_assignments([encode_assignment([A]), b"?"])
    assert "without t-1" in world.role.rejoin_reason(0.0)


@pytest.mark.parametrize("ends", ["a rebalance", "the membership"])
def test_assignments_are_not_compared_once_the_generation_has_ended(ends):
    world = World("range")
    lead(world, "range", [A], skip=True)
    assert world.role.notes.awaits_assignments
    if ends == "a rebalance":
        world.do(world.role.prepare, ME, 0.0)
    else:
        world.do(world.role.lose, "gone", 0.0)
    assert not world.role.notes.awaits_assignments


@pytest.mark.parametrize("ends", [None, "as a follower", "lost"])
def test_the_leader_rejoins_if_owners_of_withheld_partitions_do_not(ends):
    """A static member that revokes partitions and restarts before it rejoins returns without a rebalance."""
    world, other = World("cooperative-sticky"), World("cooperative-sticky")
    other.rebalance(A, B)
    plan = lead(world, "cooperative-sticky", [], now=100.0, b=other)
    assert sum(len(t.partitions) for s in plan.values() for t in decode_assignment(s).assigned_partitions) == 1
    assert world.role.rejoin_reason(144.9) is None, "the owner has a session timeout to rejoin"
    if ends == "as a follower":
        world.rebalance(A)
    elif ends == "lost":
        world.role.lose("gone", 101.0)
    reason = world.role.rejoin_reason(145.0)
    assert reason is None if ends else "did not join again" in reason


@pytest.mark.parametrize("gone", [C, TopicPartition("other", 0)])
def test_owned_partitions_that_do_not_exist_are_not_awaited(gone):
    world, other = World("cooperative-sticky"), World("cooperative-sticky")
    other.rebalance(B, gone)
    lead(world, "cooperative-sticky", b=other)
    assert world.partitions.tps() == set() and world.role.rejoin_reason(1e9) is None


@pytest.mark.parametrize("share", [[A], []])
def test_after_a_missed_generation_kept_partitions_are_lost_not_revoked(share):
    """A commit, as in a revocation, would reset the offsets of the owner in between."""
    world = World("cooperative-sticky")
    world.rebalance(A, B)
    kept = world.partitions.require(A)
    del world.heard[:]
    world.role.protocols()
    world.role.accept(ME.joined(5, "me"), "cooperative-sticky", encode_assignment(share), 0.0, missed=True)
    assert world.heard == [("lost", [A, B])] and world.partitions.tps() == set()
    world.do(world.role.revoke_unassigned, ME, 0.0)
    world.do(world.role.install, ME, 0.0)
    assert world.heard == [("lost", [A, B]), ("assigned", share)]
    assert not share or world.partitions.require(A) is not kept, "it starts at the committed offset"
    assert "can now be assigned" in world.role.rejoin_reason(0.0), "its JoinGroup listed them as owned"


def test_after_a_missed_generation_without_partitions_nothing_is_lost():
    world = World("range")
    world.role.protocols()
    world.role.accept(ME, "range", encode_assignment([A]), 0.0, missed=True)
    assert world.heard == [] and world.role.rejoin_reason(0.0) is None


def test_a_follower_leaves_partition_counts_to_the_leader():
    world = World("range")
    world.rebalance(A)
    world.topic("t", 9)
    assert world.role.rejoin_reason(0.0) is None


def test_rack_changes_matter_only_to_a_leader_with_client_rack():
    for rack, expected in (("", None), ("r1", "racks")):
        world = World("range", client_rack=rack)
        lead(world, "range", [A, B])
        world.topic("t", 2, leader=2)
        reason = world.role.rejoin_reason(0.0)
        assert reason is None if expected is None else expected in reason


def test_every_member_rejoins_when_its_own_topics_change():
    world = World("range")
    world.rebalance(A)
    world.subscription.subscribe(["t", "u"], None, world)
    assert "new u" in world.role.rejoin_reason(0.0)
    world.rebalance(A)
    assert world.role.rejoin_reason(0.0) is None
    world.subscription.subscribe((), "t|v", world)
    assert "gone u" in world.role.rejoin_reason(0.0)
    world.rebalance(A)
    world.topic("v", 1)
    assert "new v" in world.role.rejoin_reason(0.0)


def test_an_assigned_topic_that_is_not_subscribed_is_a_reason_to_rejoin():
    world = World("range")
    world.rebalance(A, TopicPartition("stranger", 0))
    assert "stranger" in world.role.rejoin_reason(0.0)


def test_lost_is_called_once_and_drops_everything():
    world = World("cooperative-sticky")
    world.rebalance(A, B)
    del world.heard[:]
    world.do(world.role.lose, "why", 0.0)
    world.do(world.role.lose, "why", 0.0)
    assert world.heard == [("lost", [A, B])] and not world.partitions


@pytest.mark.parametrize("share", [b"\x00", b"\x00\x01\xff\xff\xff\xfe"])
def test_an_undecodable_assignment_is_a_protocol_error(share):
    with pytest.raises(KafkaProtocolError):
        World("range").role.accept(ME, "range", share, 0.0)


def test_an_unknown_elected_assignor_is_a_protocol_error():
    with pytest.raises(KafkaProtocolError, match="sticky"):
        World("range").role.accept(ME, "sticky", encode_assignment([A]), 0.0)


def test_the_summary_lists_new_and_gone_partitions(caplog):
    world = World("range", topics=("t",))
    world.rebalance(A, B)
    assert world.role.summary == "2 partitions, 2 new (t-0, t-1), none gone"
    world.rebalance(B, C)
    assert world.role.summary == "2 partitions, 1 new (t-2), 1 gone (t-0)"
    world.rebalance(*(TopicPartition("t", n) for n in range(100)))
    assert world.role.summary == "100 partitions, 98 new (t-0, t-3, t-4, t-5, t-6, ...), none gone"
    assert not [r for r in caplog.records if r.levelno >= logging.INFO]
