"""Assignors written for kafka-python: subclasses of its base class, and its built-in ones."""

import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import ClassVar

import pytest

from thinconsumer.assignors.base import Assignment, GroupMetadata, RebalanceProtocol
from thinconsumer.assignors.kafka_python import KafkaPythonAssignor, built_in_name, is_kafka_python_assignor
from thinconsumer.assignors.range import RangeAssignor
from thinconsumer.assignors.registry import create, name_of
from thinconsumer.errors import InvalidAssignmentError
from thinconsumer.types import Node, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(scope="module")
def kafka():
    """Return the parts of kafka-python that users' assignors build on; importing it causes warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        abstract = pytest.importorskip("kafka.coordinator.assignors.abstract")
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    return SimpleNamespace(
        base=abstract.AbstractPartitionAssignor,
        Assignment=abstract.ConsumerProtocolAssignment,
        Subscription=abstract.ConsumerProtocolSubscription,
        own=[RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor],
    )


@pytest.fixture(scope="module")
def everything_to_the_first(kafka):
    """An assignor in kafka-python's style, with class methods and no state."""

    class EverythingToTheFirst(kafka.base):
        name = "first"
        heard: ClassVar[list] = []

        @classmethod
        def assign(cls, cluster, members):
            first, *others = sorted(member.member_id for member in members)
            topics = {topic for member in members for topic in member.metadata.topics}
            plan = {member: kafka.Assignment(0, [], b"") for member in others}
            plan[first] = kafka.Assignment(
                0, [(topic, sorted(cluster.partitions_for_topic(topic) or ())) for topic in sorted(topics)], b"all"
            )
            return plan

        @classmethod
        def metadata(cls, topics):
            return kafka.Subscription(0, list(topics), b",".join(topic.encode() for topic in sorted(topics)))

        @classmethod
        def on_assignment(cls, assignment, generation):
            cls.heard.append((assignment.partitions(), assignment.user_data, generation))

    return EverythingToTheFirst


def test_an_adapted_assignor_assigns_and_gets_its_assignment(everything_to_the_first, cluster, member):
    everything_to_the_first.heard.clear()
    (assignor,) = create([everything_to_the_first])
    assert assignor.name == name_of(everything_to_the_first) == "first"
    assert tuple(assignor.supported_protocols) == (RebalanceProtocol.EAGER,)
    assert assignor.subscription_user_data(["u", "t"]) == b"t,u"
    plan = assignor.assign(cluster(t=2), {"b": member("t"), "a": member("t unknown")})
    assert plan == {"a": Assignment((T0, T1), b"all"), "b": Assignment((), b"")}
    assignor.on_assignment(plan["a"], GroupMetadata("g", 4, "a"))
    assert everything_to_the_first.heard == [([T0, T1], b"all", 4)]


def test_an_instance_is_used_as_it_is(everything_to_the_first):
    inner = everything_to_the_first()
    (assignor,) = create([inner])
    assert assignor._inner is inner


def test_subclasses_and_built_in_assignors_are_recognised(kafka, everything_to_the_first):
    assert is_kafka_python_assignor(everything_to_the_first) and is_kafka_python_assignor(everything_to_the_first())
    assert not is_kafka_python_assignor(RangeAssignor) and not is_kafka_python_assignor(object())
    assert built_in_name(everything_to_the_first) is None
    assert [built_in_name(entry) for entry in kafka.own] == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert [built_in_name(entry()) for entry in kafka.own] == [built_in_name(entry) for entry in kafka.own]


@pytest.mark.parametrize("which", range(4))
def test_kafka_pythons_own_assignors_work_when_adapted(kafka, cluster, member, whole, which):
    """They use more of their arguments than most assignors."""
    assignor = KafkaPythonAssignor(kafka.own[which])
    assignor.on_assignment(Assignment((T0, T1)), GroupMetadata("g", 4, "a"))
    data = assignor.subscription_user_data(["t", "u"])
    view = cluster(t=2, u=3)
    members = {"a": member("t u", "t-0 t-1", generation=4, user_data=data), "b": member("t u")}
    plan = assignor.assign(view, members)
    if built_in_name(kafka.own[which]) == "cooperative-sticky":
        assert set(assignor.supported_protocols) == {RebalanceProtocol.COOPERATIVE}
    assert whole({name: share.partitions for name, share in plan.items()}, view, members)


def test_the_cluster_behaves_as_kafka_pythons(kafka, cluster, member):
    asked = []

    class Asks(kafka.own[0]):
        name = "asks"

        @classmethod
        def assign(cls, view, members):
            asked.extend(
                [
                    view.topics(),
                    view.partitions_for_topic("t"),
                    view.partitions_for_topic("x"),
                    view.available_partitions_for_topic("t"),
                    view.available_partitions_for_topic("x"),
                    view.leader_for_partition(T0),
                    view.leader_for_partition(TopicPartition("t", 7)),
                    view.broker_metadata(0),
                    view.broker_metadata(9),
                    len(view.brokers()),
                    members[0].metadata.subscription,
                    members[0].metadata.owned_partitions,
                ]
            )
            return {}

    assert KafkaPythonAssignor(Asks).assign(cluster(t="a b"), {"m": member("t", "t-1")}) == {}
    node = Node(0, "h", 9092, "a")
    assert asked == [{"t"}, {0, 1}, None, set(), None, -1, None, node, None, 2, ["t"], [("t", [1])]]


def test_the_interface_of_version_2_0_works(kafka, cluster, member):
    """It names the partitions ``assignment`` and passes no generation; some assignors return structures."""
    heard = []

    class Old(kafka.own[0]):
        name = "old"

        @classmethod
        def assign(cls, view, members):
            return {"m": SimpleNamespace(assignment=[SimpleNamespace(topic="t", partitions=[1])], user_data=None)}

        def on_assignment(self, assignment):
            heard.append(assignment.assignment)

    assignor = KafkaPythonAssignor(Old)
    assert assignor.assign(cluster(t=2), {"m": member("t")}) == {"m": Assignment((T1,))}
    assignor.on_assignment(Assignment((T1,)), GroupMetadata("g", 1, "m"))
    assert heard == [[("t", [1])]]


def test_error_of_a_wrong_result_names_the_assignor(kafka, cluster, member):
    class Wrong(kafka.own[0]):
        name = "wrong"

        @classmethod
        def assign(cls, view, members):
            return {"m": {"t": [0]}}

    with pytest.raises(
        InvalidAssignmentError, match="assignor 'wrong' returned dict instead of ConsumerProtocolAssignment"
    ):
        KafkaPythonAssignor(Wrong).assign(cluster(t=2), {"m": member("t")})


def test_kafka_python_is_not_needed(tmp_path):
    code = "import sys, thinconsumer.assignors.kafka_python as k; assert 'kafka' not in sys.modules, 'imported'"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
