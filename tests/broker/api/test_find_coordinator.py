"""FindCoordinator in every version: one key or several, groups and transactional ids."""

from typing import Any

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer_testing.broker.group.hashing import partition_for

NOT_AVAILABLE = 15
SINGLE, MANY = range(4), range(4, 7)
TOPICS = {0: "__consumer_offsets", 1: "__transaction_state"}


def leader(cluster: Any, kind: int, key: str) -> Any:
    """Return the broker that leads the partition of a key."""
    number = partition_for(key, 5)
    return cluster.nodes[cluster.leader(TopicPartition(TOPICS[kind], number)).node.node_id]


@pytest.mark.parametrize("version", SINGLE)
@pytest.mark.parametrize("kind", [0, 1])
def test_single_key(version: int, kind: int, new_cluster: Any, client_of: Any) -> None:
    if version == 0 and kind == 1:
        return  # version 0 has no key type
    cluster = new_cluster(3)
    answer = client_of(cluster, 1).ask(FindCoordinatorRequest(key="billing", key_type=kind), version)
    node = leader(cluster, kind, "billing")
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, node.node_id, node.host, node.port)
    assert answer.error_message == ("NONE" if version >= 1 else "")


@pytest.mark.parametrize("version", MANY)
@pytest.mark.parametrize("kind", [0, 1])
def test_several_keys(version: int, kind: int, new_cluster: Any, client_of: Any) -> None:
    cluster = new_cluster(3)
    keys = [f"key-{number}" for number in range(10)]
    answer = client_of(cluster, 2).ask(FindCoordinatorRequest(coordinator_keys=keys, key_type=kind), version)
    assert [(c.key, c.error_code, c.node_id) for c in answer.coordinators] == [
        (key, 0, leader(cluster, kind, key).node_id) for key in keys
    ]
    assert len({c.node_id for c in answer.coordinators}) > 1


def test_dead_coordinator_is_not_available(new_cluster: Any, client_of: Any) -> None:
    cluster = new_cluster(2, offsets_topic_replication_factor=1)
    client = client_of(cluster, 1)
    keys = [f"key-{number}" for number in range(20)]
    found = client.ask(FindCoordinatorRequest(coordinator_keys=keys)).coordinators
    lost = [c.key for c in found if c.node_id == 2]
    cluster.kill(2, noticed_after_s=0)
    again = client.ask(FindCoordinatorRequest(coordinator_keys=keys)).coordinators
    assert {c.key for c in again if c.error_code == NOT_AVAILABLE and c.node_id == -1} == set(lost) != set()
