"""Where real Kafka and the embedded broker answer differently, the embedded broker is wrong.

Each script of ``differential`` holds the same conversation with both, in the lowest, a middle and the highest version
of every API, and all answers have to be equal, field by field.
"""

import difflib
import itertools
import os
import time
from collections.abc import Iterator
from pprint import pformat

import pytest
from differential import (  # noqa: F401 - they put their scripts on the list
    acls,
    admin,
    commits,
    consumer_group_acls,
    consumer_group_migration,
    consumer_group_offsets,
    consumer_groups,
    fetching,
    frames,
    groups,
    offsets,
    producing,
    transactions,
)
from differential.consumer_group_limits import LIMITS, NO_INTERVAL
from differential.scripts import ACL_SCRIPTS, CLUSTER_SCRIPTS, CONSUMER_GROUP_SCRIPTS, SCRIPTS
from differential.talk import PLANS, MemoryWorld, SocketWorld, World
from realkafka.admin import Administration
from realkafka.cluster import KafkaCluster
from realkafka.fixtures import start
from realkafka.security import Listener, Security

NUMBERS = itertools.count(1)


def conversation(world: World, name: str) -> list[tuple[str, str]]:
    try:
        {**SCRIPTS, **CONSUMER_GROUP_SCRIPTS, **CLUSTER_SCRIPTS, **ACL_SCRIPTS}[name](world)
    finally:
        world.close()
    return [(label, pformat(note, width=110, sort_dicts=False)) for label, note in world.notes]


def compared(real: tuple[str, str], ours: tuple[str, str]) -> str:
    lines = difflib.unified_diff(real[1].splitlines(), ours[1].splitlines(), "Kafka", "here", lineterm="")
    return "\n".join([real[0] if real[0] == ours[0] else f"{real[0]} (here {ours[0]})", *lines])


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_both_answer_the_same(kafka: Administration, name: str, plan: str):
    host, port = kafka.bootstrap.split(",")[0].rsplit(":", 1)
    base_ms = int(time.time() * 1000)
    prefix = f"d{os.getpid()}-{next(NUMBERS)}"
    compare(MemoryWorld(plan, prefix, base_ms), SocketWorld(host, int(port), plan, prefix, base_ms), name)


@pytest.fixture(scope="session")
def consumer_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    yield from start(request, config=LIMITS)


#: With time to pass, so that one version has to do.
SLOW = {"sessions_of_consumers_end"}


@pytest.mark.parametrize(
    ("name", "plan"),
    [(name, plan) for name in sorted(CONSUMER_GROUP_SCRIPTS) for plan in ("lowest", "highest")[name in SLOW :]],
)
def test_both_answer_the_same_in_consumer_groups(consumer_kafka: KafkaCluster, name: str, plan: str):
    """The APIs of consumer groups have two versions."""
    prefix = f"c{os.getpid()}-{next(NUMBERS)}"
    base_ms = int(time.time() * 1000)
    host, port = consumer_kafka.bootstrap.rsplit(":", 1)
    embedded = MemoryWorld(plan, prefix, base_ms, config=LIMITS)
    compare(embedded, SocketWorld(host, int(port), plan, prefix, base_ms), name)


@pytest.mark.parametrize("plan", ["lowest", "highest"])
@pytest.mark.parametrize("name", sorted(CLUSTER_SCRIPTS))
def test_both_answer_the_same_on_three_brokers(kafka3: KafkaCluster, name: str, plan: str):
    prefix = f"n{os.getpid()}-{next(NUMBERS)}"
    base_ms = int(time.time() * 1000)
    nodes = {node: ("127.0.0.1", port) for node, port in kafka3.ports.items()}
    real = SocketWorld(*nodes[1], plan, prefix, base_ms, others=nodes)
    compare(MemoryWorld(plan, prefix, base_ms, brokers=3), real, name)


USERS = {"admin": "admin-secret", "alice": "alice-secret"}


@pytest.fixture(scope="session")
def authorizing_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One broker with an authorizer, and a listener on which users log in."""
    security = Security([Listener("LOGIN", "SASL_PLAINTEXT", ("PLAIN",))], USERS, authorizes=True)
    yield from start(request, security=security, config=NO_INTERVAL)


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        (name, plan)
        for name, script in sorted(ACL_SCRIPTS.items())
        for plan in PLANS
        if script.__module__ != consumer_group_acls.__name__ or plan != "middle"  # the APIs have two versions
    ],
)
def test_both_authorize_the_same(authorizing_kafka: KafkaCluster, name: str, plan: str):
    host, port = authorizing_kafka.address("LOGIN").rsplit(":", 1)
    base_ms = int(time.time() * 1000)
    prefix = f"a{os.getpid()}-{next(NUMBERS)}"
    embedded = MemoryWorld(plan, prefix, base_ms, USERS)
    compare(embedded, SocketWorld(host, int(port), plan, prefix, base_ms, USERS), name)


def compare(embedded: MemoryWorld, real: World, name: str) -> None:
    """Hold a conversation with both, and fail where the answers differ."""
    here = conversation(embedded, name)
    assert embedded.cluster.bugs == []
    there = conversation(real, name)

    differences = [compared(real, ours) for real, ours in zip(there, here, strict=False) if real != ours]
    assert not differences, "\n\n".join(differences)
    assert len(here) == len(there) > 0
