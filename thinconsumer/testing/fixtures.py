"""Fixtures for the tests of programs that use Kafka: a broker in a process of its own, topics, and a simulation.

In your ``conftest.py``::

    pytest_plugins = ["thinconsumer.testing.fixtures"]

``kafka_broker`` is one for the whole session, ``kafka_topic`` makes topics on it that no other test has, and
``embedded_broker`` is a fresh cluster for one test to break. ``simulation`` has no sockets and no clock. What they are
made with comes from ``kafka_broker_options``, ``embedded_broker_options`` and ``simulation_options``, to be overridden
like any fixture. Needs pytest, which this package does not.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ..broker.process import BrokerProcess

if TYPE_CHECKING:
    from .simulation import Simulation

__all__ = [
    "embedded_broker",
    "embedded_broker_options",
    "kafka_broker",
    "kafka_broker_options",
    "kafka_topic",
    "simulation",
    "simulation_options",
]

#: Makes a topic: ``kafka_topic(partitions=3, configs={"cleanup.policy": "compact"})`` returns its name.
NewTopic = Callable[..., str]

#: Kafka allows 249 letters; what is not one of these is not allowed.
_NAME_MAX = 200
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]+")


@pytest.fixture(scope="session")
def kafka_broker_options() -> dict[str, Any]:
    """Arguments of the session's broker: those of ``BrokerProcess``."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_broker_options: dict[str, Any]) -> Iterator[BrokerProcess]:
    """A broker for all tests of the session; ``kafka_broker.bootstrap_servers`` is where to connect."""
    with BrokerProcess(**kafka_broker_options) as broker:
        yield broker


@pytest.fixture
def kafka_topic(kafka_broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[NewTopic]:
    """A function that makes a topic of this test's own on ``kafka_broker``, and returns its name.

    ``kafka_topic(partitions=1, configs=None)``. The topics go when the test ends.
    """
    base = _NOT_ALLOWED.sub("-", request.node.name).strip("-")[:_NAME_MAX]
    made: list[str] = []

    def new_topic(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        name = f"{base}-{next(_numbers)}"
        kafka_broker.create_topic(name, partitions, configs=configs)
        made.append(name)
        return name

    yield new_topic
    for name in made:
        kafka_broker.delete_topic(name)


@pytest.fixture
def embedded_broker_options() -> dict[str, Any]:
    """Arguments of each test's own cluster: those of ``BrokerProcess``."""
    return {"nodes": 3}


@pytest.fixture
def embedded_broker(embedded_broker_options: dict[str, Any]) -> Iterator[BrokerProcess]:
    """A cluster of this test's own, three brokers unless told otherwise, to kill, pause and set rules on."""
    with BrokerProcess(**embedded_broker_options) as broker:
        yield broker


@pytest.fixture
def simulation_options() -> dict[str, Any]:
    """Arguments of each test's simulation: those of ``Simulation``."""
    return {"seed": 1, "brokers": 3}


@pytest.fixture
def simulation(simulation_options: dict[str, Any]) -> Simulation:
    """A cluster and a network on virtual time: no sockets, no waiting, and the same again for the same seed."""
    from .simulation import Simulation

    return Simulation(**simulation_options)


_numbers = itertools.count(1)
