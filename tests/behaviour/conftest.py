"""The worlds as fixtures: ``world`` has one broker, ``world3`` three; every test runs in each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from worlds import WORLDS, EmbeddedWorld, RealWorld, SimulatedWorld, World

from thinconsumer_testing.broker.process import BrokerProcess

HERE = Path(__file__).parent
#: The session of members that use the consumer group protocol (KIP-848), as on the real brokers.
SHORT_SESSIONS = {"group_consumer_session_timeout_ms": 6000}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is here: real clusters make the same of it on each interpreter, so do the others."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.once)


@pytest.fixture(scope="session")
def embedded_one() -> Iterator[BrokerProcess]:
    """One embedded broker for the session."""
    with BrokerProcess(nodes=1) as broker:
        yield broker


@pytest.fixture(scope="session")
def embedded_three() -> Iterator[BrokerProcess]:
    """Three of them."""
    with BrokerProcess(nodes=3, config=SHORT_SESSIONS) as broker:
        yield broker


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world with one broker."""
    yield from _world(request, 1, "kafka", "embedded_one")


@pytest.fixture(params=WORLDS)
def world3(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world with three brokers, all of them up; a test leaves it so."""
    yield from _world(request, 3, "kafka3", "embedded_three")


def _world(request: pytest.FixtureRequest, brokers: int, kafka: str, embedded: str) -> Iterator[World]:
    if request.param == "simulation":
        found: World = SimulatedWorld(brokers)
    elif request.param == "embedded":
        found = EmbeddedWorld(request.getfixturevalue(embedded))
    else:
        found = RealWorld(request.getfixturevalue(kafka))
    try:
        yield found
    finally:
        found.close()
