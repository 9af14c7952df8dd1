"""Fixtures for the tests of programs that use Kafka: a broker in a process of its own, topics, and a simulation.

In your ``conftest.py``::

    pytest_plugins = ["thinconsumer.testing.fixtures"]

``kafka_broker`` runs for the whole session, ``kafka_topic`` creates topics on it for one test, ``produce`` writes to
them, and ``records`` and ``committed`` return what is in them and how far a group is. ``embedded_broker`` is a new
cluster for one test, which may kill brokers. ``simulation`` has a virtual clock and no sockets. Override
``kafka_broker_options``, ``kafka_client_options``, ``embedded_broker_options`` and ``simulation_options`` to change the
arguments of these fixtures. No other module of the package needs pytest.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from thinconsumer.consumer import Consumer
from thinconsumer.records.builder import NewRecord
from thinconsumer.types import ConsumerRecord, TopicPartition

from .broker.new_records import as_list
from .broker.process import BrokerProcess

if TYPE_CHECKING:
    from .simulation import Simulation

__all__ = [
    "committed",
    "embedded_broker",
    "embedded_broker_options",
    "kafka_broker",
    "kafka_broker_options",
    "kafka_client_options",
    "kafka_topic",
    "produce",
    "records",
    "simulation",
    "simulation_options",
]

#: Creates a topic: ``kafka_topic(partitions=3, configs={"cleanup.policy": "compact"})`` returns its name.
NewTopic = Callable[..., str]
#: Writes records: ``produce(topic, [b"one", b"two"], key=b"7")`` returns the first offset.
Produce = Callable[..., int]
#: Returns all records of a topic, by partition and offset.
Records = Callable[[str], list[ConsumerRecord[Any, Any]]]
#: Returns the offsets that a group has committed for a topic, by partition.
Committed = Callable[[str, str], dict[int, int]]

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


@pytest.fixture(scope="session")
def kafka_client_options() -> dict[str, Any]:
    """Return options with which ``records`` and ``committed`` connect to ``kafka_broker``, such as those of a login.

    A group id and ``auto_offset_reset`` have no effect: these fixtures have their own.
    """
    return {}


def _options(broker: BrokerProcess, given: dict[str, Any], group: str | None = None) -> dict[str, Any]:
    """Return a consumer's options; the user's may name other servers, such as another listener."""
    return {"bootstrap_servers": broker.bootstrap_servers, **given, "group_id": group, "auto_offset_reset": "earliest"}


@pytest.fixture
def produce(kafka_broker: BrokerProcess) -> Produce:
    """``produce(topic, values, key=None, headers=(), partition=0)`` writes records to ``kafka_broker``, and returns the
    offset of the first one. Values are bytes, None, or a ``NewRecord``, which has its own key and headers.
    """

    def write(
        topic: str,
        values: Iterable[bytes | NewRecord | None],
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int = 0,
    ) -> int:
        given = as_list(values)
        new = [value if isinstance(value, NewRecord) else NewRecord(value, key, headers) for value in given]
        return kafka_broker.produce(topic, new, partition)

    return write


@pytest.fixture
def records(kafka_broker: BrokerProcess, kafka_client_options: dict[str, Any]) -> Records:
    """``records(topic)`` returns all records of a topic of ``kafka_broker``, in the order of partitions and offsets."""

    def read(topic: str) -> list[ConsumerRecord[Any, Any]]:
        kafka_broker.leader((topic, 0))  # raises an error if the topic does not exist
        with Consumer(topic, **_options(kafka_broker, kafka_client_options)) as consumer:
            return sorted(consumer.read_to_end(), key=attrgetter("partition", "offset"))

    return read


@pytest.fixture
def committed(kafka_broker: BrokerProcess, kafka_client_options: dict[str, Any]) -> Committed:
    """``committed(group, topic)`` returns the offsets that a group has committed on ``kafka_broker``, by partition.

    A committed offset is that of the next record to read. Partitions without one are left out.
    """

    def ask(group: str, topic: str) -> dict[int, int]:
        kafka_broker.leader((topic, 0))  # raises an error if the topic does not exist
        with Consumer(**_options(kafka_broker, kafka_client_options, group)) as consumer:
            numbers = sorted(consumer.partitions_for_topic(topic) or ())
            found = consumer.committed([TopicPartition(topic, number) for number in numbers])
        return {tp.partition: offset for tp, offset in found.items() if offset is not None}

    return ask


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
