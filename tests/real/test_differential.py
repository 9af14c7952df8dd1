"""Where real Kafka and the embedded broker answer differently, the embedded broker is wrong.

Each script of ``differential`` holds the same conversation with both, in the lowest, a middle and the highest version
of every API, and all answers have to be equal, field by field.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from differential.consumer_group_limits import LIMITS, NO_INTERVAL
from differential.conversations import (
    ACL_CASES,
    BROKER_CASES,
    CLUSTER_CASES,
    CONSUMER_GROUP_CASES,
    USERS,
    Notes,
    compare,
    conversation,
    in_memory,
    names,
    write_recorded,
)
from differential.talk import SocketWorld
from realkafka.admin import Administration
from realkafka.cluster import KafkaCluster
from realkafka.fixtures import start
from realkafka.security import Listener, Security

Recorded = dict[tuple[str, str], Notes]


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorded]:
    """What Kafka answers, for ``tests/broker/test_conversations.py``: kept if THINCONSUMER_RECORD is set."""
    found: Recorded = {}
    yield found
    if os.environ.get("THINCONSUMER_RECORD"):
        write_recorded(found)


@pytest.mark.parametrize(("name", "plan"), BROKER_CASES)
def test_both_answer_the_same(kafka: Administration, recorded: Recorded, name: str, plan: str):
    host, port = kafka.bootstrap.split(",")[0].rsplit(":", 1)
    hold(recorded, name, plan, host, int(port))


@pytest.fixture(scope="session")
def consumer_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    yield from start(request, config=LIMITS)


@pytest.mark.parametrize(("name", "plan"), CONSUMER_GROUP_CASES)
def test_both_answer_the_same_in_consumer_groups(
    consumer_kafka: KafkaCluster, recorded: Recorded, name: str, plan: str
):
    host, port = consumer_kafka.bootstrap.rsplit(":", 1)
    hold(recorded, name, plan, host, int(port))


@pytest.mark.parametrize(("name", "plan"), CLUSTER_CASES)
def test_both_answer_the_same_on_three_brokers(kafka3: KafkaCluster, recorded: Recorded, name: str, plan: str):
    nodes = {node: ("127.0.0.1", port) for node, port in kafka3.ports.items()}
    hold(recorded, name, plan, *nodes[1], others=nodes)


@pytest.fixture(scope="session")
def authorizing_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One broker with an authorizer, and a listener on which users log in."""
    security = Security([Listener("LOGIN", "SASL_PLAINTEXT", ("PLAIN",))], USERS, authorizes=True)
    yield from start(request, security=security, config=NO_INTERVAL)


@pytest.mark.parametrize(("name", "plan"), ACL_CASES)
def test_both_authorize_the_same(authorizing_kafka: KafkaCluster, recorded: Recorded, name: str, plan: str):
    host, port = authorizing_kafka.address("LOGIN").rsplit(":", 1)
    hold(recorded, name, plan, host, int(port), users=USERS)


def hold(recorded: Recorded, name: str, plan: str, host: str, port: int, **options: Any) -> None:
    """Hold a conversation with both, and fail where the answers differ."""
    prefix, base_ms = names()
    here = conversation(in_memory(name, plan, prefix, base_ms), name)
    there = conversation(SocketWorld(host, port, plan, prefix, base_ms, **options), name)
    compare(there, here)
    recorded[name, plan] = there
