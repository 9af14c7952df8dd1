"""An assignor of the user on whole clusters: what it gets, and that its faults fail one heartbeat only."""

from __future__ import annotations

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.assignors import RangeAssignor, StickyAssignor
from thinconsumer.broker import BrokerConfig, BrokerProcess, ConsumerGroupPartitionAssignor, MemberSubscription
from thinconsumer.errors import BrokerResponseError, IllegalArgumentError
from thinconsumer.testing import MemoryCluster, ServerSideAssignor
from thinconsumer_testing.broker.group.consumer.assignors.user_assignor import InvalidPlan, checked

pytestmark = pytest.mark.once

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


class Scripted:
    """Does what the test says, by default what ``range`` does; notes what it gets."""

    name = "scripted"

    def __init__(self):
        self.calls = []
        self.plan = None  #: The plan as a function of the members, or an exception.

    def assign(self, members, topics):
        self.calls.append((members, topics))
        if isinstance(self.plan, Exception):
            raise self.plan
        if self.plan is not None:
            return self.plan(members)
        plan = {member: [] for member in members}
        for topic, found in sorted(topics.items()):
            order = sorted(member for member, given in members.items() if topic in given.topics)
            for number in found:
                plan[order[number % len(order)]].append(TopicPartition(topic, number))
        return plan


class World:
    """A cluster with three racks, and members of one group."""

    def __init__(self, request, *assignors, topics=None):
        self.assignor = Scripted()
        self.cluster = MemoryCluster(
            3,
            topics or {"t": 3},
            racks=["a", "b", "c"],
            group_consumer_assignors=[self.assignor, *assignors],
            group_consumer_heartbeat_interval_ms=100,
        )
        self.members = []
        self._request = request

    def member(self, *topics, **options):
        settings = {"group_id": "g", "group_protocol": "consumer", "auto_offset_reset": "earliest", **options}
        servers = self.cluster.bootstrap_servers
        found = Consumer(*(topics or ["t"]), driver=self.cluster.driver(), bootstrap_servers=servers, **settings)
        self._request.addfinalizer(found.close)
        self.members.append(found)
        return found

    def run(self, polls=20):
        """Poll all members in turn; return the errors that they raise."""
        errors = []
        for _ in range(polls):
            for member in self.members:
                try:
                    member.poll(100)
                except BrokerResponseError as error:
                    errors.append(error)
        assert self.cluster.bugs == []
        return errors

    def owned(self):
        return [member.assignment() for member in self.members]


@pytest.fixture
def world(request):
    return World(request)


def test_it_gets_members_topics_and_racks(world):
    world.member(client_rack="b", group_instance_id="one")
    assert world.run() == []
    (ann,) = world.assignor.calls[-1][0].values()
    assert ann == MemberSubscription(frozenset({"t"}), "b", "one", frozenset())
    topics = world.assignor.calls[-1][1]
    assert topics == {"t": {n: frozenset("abc") for n in range(3)}}
    world.cluster.create_topic("t1", 2, 1)
    world.member("t1", "missing", client_rack="a")
    assert world.run() == []
    members, topics = world.assignor.calls[-1]
    assert set(members.values()) == {
        MemberSubscription(frozenset({"t"}), "b", "one", frozenset({T0, T1, T2})),
        MemberSubscription(frozenset({"t1"}), "a", None, frozenset()),
    }
    leaders = [world.cluster.leader(("t1", n)).node.node_id for n in range(2)]
    assert topics["t1"] == {n: frozenset({"abc"[leader - 1]}) for n, leader in enumerate(leaders)}
    assert world.owned() == [{T0, T1, T2}, {TopicPartition("t1", 0), TopicPartition("t1", 1)}]


def test_partitions_are_assigned_anew_when_their_replicas_change(world):
    cluster = world.cluster
    cluster.create_topic("u", 1, 1)
    world.member("u")
    assert world.run() == []
    (row,) = cluster.controller.image.topics["u"].partitions
    other = next(node_id for node_id in (1, 2, 3) if node_id not in row.replicas)
    cluster.controller.put_topic(
        cluster.controller.image.topics["u"]._replace(partitions=(row._replace(replicas=(*row.replicas, other)),))
    )
    assert world.run() == []
    assert len(world.assignor.calls[-1][1]["u"][0]) == 2


#: Wrong plans, or the assignor's error, each with the reason in the member's response.
FAULTS = {
    "raises": (ZeroDivisionError("by design"), r"ZeroDivisionError\('by design'\)"),
    "unknown member": (lambda members: {"nobody": [T0]}, "'nobody', which is not a member"),
    "unknown topic": (lambda members: {min(members): [("x", 0)]}, "x-0, which does not exist"),
    "unknown partition": (lambda members: {min(members): [("t", 3)]}, "t-3, which does not exist"),
    "doubled": (lambda members: {member: [T0] for member in members}, "assigns t-0 to .* and to"),
    "no integer": (lambda members: {min(members): [("t", 1.0)]}, "'float' object cannot be interpreted as an integer"),
    "no plan": (lambda members: None, "AttributeError"),
    "no partitions": (lambda members: {member: [7] for member in members}, "TypeError"),
}


@pytest.mark.parametrize(("fault", "reason"), FAULTS.values(), ids=FAULTS)
def test_a_fault_fails_the_heartbeat_that_needs_a_plan_and_no_other(world, fault, reason):
    """A member goes on reading while another one cannot join; it joins once the assignor works again."""
    world.member()
    assert world.run() == []
    world.assignor.plan = fault
    world.member()
    errors = world.run(60)
    assert {error.code for error in errors} == {-1} and len(errors) < 100
    with pytest.raises(BrokerResponseError, match=f"new target assignment for epoch .* with scripted: .*{reason}"):
        raise errors[0]
    assert world.owned() == [{T0, T1, T2}, set()]
    world.cluster.produce("t", [b"x"], 2)
    assert [record.value for found in world.members[0].poll(1000).values() for record in found] == [b"x"]
    world.assignor.plan = None
    world.run(60)
    one, two = world.owned()
    assert one | two == {T0, T1, T2} and one and two and not one & two


def test_a_partition_that_is_left_out_has_no_reader(world):
    world.assignor.plan = lambda members: {min(members): [T1]}
    world.member(), world.member()
    assert world.run() == []
    assert sorted(world.owned(), key=len) == [set(), {T1}]


def test_a_topic_of_another_member_is_refused():
    ann = MemberSubscription(frozenset({"t"}), None, None, frozenset())
    assert checked({"ann": [("t", 1)]}, {"ann": ann}, {"t": {1: ""}, "u": {0: ""}}) == {"ann": [T1]}
    with pytest.raises(InvalidPlan, match="u-0 to ann, which is not subscribed to u"):
        checked({"ann": [("u", 0)]}, {"ann": ann}, {"t": {1: ""}, "u": {0: ""}})
    with pytest.raises(InvalidPlan, match="t-1 to ann and to ann"):
        checked({"ann": [T1, T1]}, {"ann": ann}, {"t": {1: ""}})


def test_an_assignor_for_clients_is_adapted_and_chosen_by_its_name(request):
    """Ranges with racks (KIP-881): the member in the rack of a partition gets that partition."""
    world = World(request, ServerSideAssignor(StickyAssignor()), ServerSideAssignor(RangeByRack()))
    world.cluster.create_topic("r", 3, 1)
    racks = ["abc"[world.cluster.leader(("r", n)).node.node_id - 1] for n in range(3)]
    assert sorted(racks) == ["a", "b", "c"]
    for rack in "abc":
        world.member("r", client_rack=rack, group_remote_assignor="range-by-rack")
    assert world.run(40) == []
    assert world.owned() == [{TopicPartition("r", racks.index(rack))} for rack in "abc"]


class RangeByRack(RangeAssignor):
    """Under another name than the broker's own."""

    name = "range-by-rack"


def test_it_assigns_partitions_that_are_marked_for_deletion_apart(request):
    """Ordered delivery (KIP-253): of four partitions two are marked, and each member gets one of each kind."""
    world = World(request, ServerSideAssignor(RangeByRack()))
    world.cluster.create_topic("o", 2, 1, {"enable.ordered.delivery": "true"})
    world.cluster.expand("o", 4)
    world.member("o", group_remote_assignor="range-by-rack")
    world.member("o", group_remote_assignor="range-by-rack")
    world.run()
    for partition in range(4):
        world.cluster.produce("o", [b"x"], partition)
    world.cluster.shrink("o", 2)
    world.run()
    assert sorted(sorted(tp.partition for tp in owned) for owned in world.owned()) == [[0, 2], [1, 3]]


def test_the_broker_in_a_process_loads_a_class_and_refuses_objects(monkeypatch, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    config = {"group.consumer.assignors": "uniform,mine.Mine", "group.consumer.heartbeat.interval.ms": 50}
    with BrokerProcess(topics={"t": 3}, config=config) as broker:
        options = {"group_protocol": "consumer", "group_id": "g", "group_remote_assignor": "mine"}
        with Consumer("t", bootstrap_servers=broker.bootstrap_servers, **options) as consumer:
            while not consumer.assignment():
                consumer.poll(100)
            assert consumer.assignment() == {T2}
    for settings in ({"group.consumer.assignors": [Scripted()]}, BrokerConfig(group_consumer_assignors=(Scripted(),))):
        with pytest.raises(IllegalArgumentError, match="cannot be sent to the broker's process: give its class"):
            BrokerProcess(config=settings)


MINE = """
class Mine:
    name = "mine"
    def assign(self, members, topics):
        return {min(members): [("t", 2)]}
"""


def test_the_interface_is_checked_by_its_methods():
    assert isinstance(Scripted(), ConsumerGroupPartitionAssignor)
    assert isinstance(ServerSideAssignor(StickyAssignor()), ConsumerGroupPartitionAssignor)
    assert not isinstance(object(), ConsumerGroupPartitionAssignor)
