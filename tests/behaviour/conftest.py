"""The worlds as fixtures: ``world`` has one broker, ``world3`` three; every test runs in each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from worlds import WORLDS, EmbeddedLoopWorld, EmbeddedWorld, RealLoopWorld, RealWorld, SimulatedWorld, World

from thinconsumer_testing.broker.process import BrokerProcess

HERE = Path(__file__).parent
#: The session of members that use the consumer group protocol (KIP-848), as on the real brokers.
SHORT_SESSIONS = {"group_consumer_session_timeout_ms": 6000}


#: The tests that run in an asyncio loop by default, on the embedded broker. All loops and worlds: ``--soak``.
IN_A_LOOP = (
    "test_offsets_for_times",
    "test_seek_goes_anywhere_and_position_follows",
    "test_reading_to_the_end",
    "test_a_listener_may_ask_seek_pause_and_commit",
    "test_an_assigned_callback_that_raises_is_called_again_and_nothing_comes_before",
    "test_auto_commit_covers_what_earlier_polls_returned_and_nothing_more",
    "test_two_share_and_hear_deltas_that_match_what_they_own",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is here: real clusters make the same of it on each interpreter, so do the others."""
    left_out = []
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.once)
            if not config.getoption("--soak") and not _runs_by_default(item):
                left_out.append(item)
    if left_out:
        items[:] = [item for item in items if item not in set(left_out)]
        config.hook.pytest_deselected(items=left_out)


def _runs_by_default(item: pytest.Item) -> bool:
    world = next((part for part in ("asyncio", "uvloop", "trio") if f"-{part}" in item.name), None)
    if world is None:
        return True
    return "embedded-asyncio" in item.name and item.name.partition("[")[0] in IN_A_LOOP


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
    else:
        kind, _, loop = request.param.partition("-")
        cluster = request.getfixturevalue(embedded if kind == "embedded" else kafka)
        if loop:
            found = (EmbeddedLoopWorld if kind == "embedded" else RealLoopWorld)(cluster, loop)
        else:
            found = (EmbeddedWorld if kind == "embedded" else RealWorld)(cluster)
    try:
        yield found
    finally:
        found.close()
