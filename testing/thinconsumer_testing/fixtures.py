"""Fixtures for the tests of programs that use Kafka: a broker in a process of its own, topics, and a simulation.

In your ``conftest.py``::

    pytest_plugins = ["thinconsumer.testing.fixtures"]

``kafka_broker`` runs for the whole session, ``kafka_topic`` creates topics on it for one test, and ``embedded_broker``
is a new cluster for one test, which may kill brokers. ``simulation`` has a virtual clock and no sockets. Override
``kafka_broker_options``, ``embedded_broker_options`` and ``simulation_options`` to change the arguments of these
fixtures. No other module of the package needs pytest.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from .broker.process import BrokerProcess

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

#: Creates a topic: ``kafka_topic(partitions=3, configs={"cleanup.policy": "compact"})`` returns its name.
NewTopic = Callable[..., str]

#: A topic's name begins with its test's name, cut to this many characters, since Kafka limits a topic's name to 249.
#: Characters other than ASCII letters, digits, ``_`` and ``-`` are replaced: each run of them becomes one ``-``.
_NAME_MAX = 200
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]+")


@pytest.fixture(scope="session")
def kafka_broker_options() -> dict[str, Any]:
    """Return the arguments of BrokerProcess with which ``kafka_broker`` is started; override it to change them."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_broker_options: dict[str, Any]) -> Iterator[BrokerProcess]:
    """A broker for all tests of the session; clients connect to ``kafka_broker.bootstrap_servers``."""
    with BrokerProcess(**kafka_broker_options) as broker:
        yield broker


@pytest.fixture
def kafka_topic(kafka_broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[NewTopic]:
    """``kafka_topic(partitions=1, configs=None)`` creates a topic that is deleted after the test; returns its name."""
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
    """Return the arguments of BrokerProcess with which ``embedded_broker`` is started; override it to change them."""
    return {"nodes": 3}


@pytest.fixture
def embedded_broker(embedded_broker_options: dict[str, Any]) -> Iterator[BrokerProcess]:
    """A cluster for this test only, of three brokers by default, to kill, pause and set fault rules on."""
    with BrokerProcess(**embedded_broker_options) as broker:
        yield broker


@pytest.fixture
def simulation_options() -> dict[str, Any]:
    """Return the arguments of Simulation with which ``simulation`` is created; override it to change them."""
    return {"seed": 1, "brokers": 3}


@pytest.fixture
def simulation(simulation_options: dict[str, Any]) -> Simulation:
    """A cluster and a network on a virtual clock; the same seed gives the same run."""
    from .simulation import Simulation

    return Simulation(**simulation_options)


_numbers = itertools.count(1)
