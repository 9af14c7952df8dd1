"""Fixtures of the assignor tests: clusters and groups in one line each, and checks of assignments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import pytest

from thinconsumer.assignors.base import Assignment, Subscription
from thinconsumer.types import ClusterView, Node, PartitionInfo, TopicPartition

Cluster = Callable[..., ClusterView]


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """``cluster(t=3, u="ab b -")``: topics with so many partitions, or with the racks of each partition's replicas."""

    def make(**topics: int | str) -> ClusterView:
        nodes: dict[int, Node] = {}
        partitions = {}
        for topic, shape in topics.items():
            rows = [""] * shape if isinstance(shape, int) else shape.split()
            infos = []
            for number, racks in enumerate(rows):
                replicas = []
                for rack in racks:
                    replicas.append(len(nodes))
                    nodes[len(nodes)] = Node(len(nodes), "h", 9092, None if rack == "-" else rack)
                infos.append(PartitionInfo(topic, number, -1, -1, tuple(replicas), (), ()))
            partitions[topic] = tuple(infos)
        return ClusterView(partitions, nodes)

    return make


@pytest.fixture(scope="session")
def member() -> Callable[..., Subscription]:
    """``member("t u", "t-0 t-1", generation=5)``: subscribed topics and owned partitions."""

    def make(topics: str, owned: str = "", *, generation: int = -1, **more: str | bytes | None) -> Subscription:
        return Subscription(
            tuple(topics.split()),
            owned_partitions=partitions(owned),
            generation_id=generation,
            user_data=more.pop("user_data", None),
            rack_id=more.pop("rack", None),
            group_instance_id=more.pop("instance", None),
        )

    return make


def partitions(text: str) -> tuple[TopicPartition, ...]:
    pairs = (word.rsplit("-", 1) for word in text.split())
    return tuple(TopicPartition(topic, int(number)) for topic, number in pairs)


@pytest.fixture(scope="session")
def words() -> Callable[[Mapping[str, Assignment]], dict[str, str]]:
    def write(plan: Mapping[str, Assignment]) -> dict[str, str]:
        return {name: " ".join(f"{tp.topic}-{tp.partition}" for tp in share.partitions) for name, share in plan.items()}

    return write


@pytest.fixture(scope="session")
def whole() -> Callable[[Mapping[str, Sequence[TopicPartition]], ClusterView, Mapping[str, Subscription]], bool]:
    """Return whether every subscribed partition is assigned exactly once, to a subscribed member."""

    def judge(
        shares: Mapping[str, Sequence[TopicPartition]], view: ClusterView, members: Mapping[str, Subscription]
    ) -> bool:
        wanted = {topic for subscription in members.values() for topic in subscription.topics}
        every = [TopicPartition(topic, p) for topic in wanted for p in range(view.partition_count(topic))]
        fits = all(tp.topic in members[name].topics for name, share in shares.items() for tp in share)
        return fits and shares.keys() == members.keys() and sorted(every) == sorted(chain(*shares.values()))

    return judge
