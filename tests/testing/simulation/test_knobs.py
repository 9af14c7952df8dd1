"""Knobs are equal for equal seeds, in their ranges, from separate random streams, and affordable."""

from collections import Counter
from dataclasses import dataclass, fields

import pytest
from lab.group_faults import GROUP_FAULTS
from lab.knobs import Knobs, between, draw_knobs, whole

from thinconsumer.config import ConsumerConfig
from thinconsumer_testing.simulation import Simulation
from thinconsumer_testing.simulation.streams import Streams

SEEDS = range(150)


@pytest.fixture(scope="module")
def drawn():
    """Many draws."""
    return [Knobs.draw(seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def group_worlds():
    """Many draws for groups."""
    return [Knobs.draw(seed, groups=True) for seed in range(1, 121)]


@dataclass
class Small:
    """Some knobs."""

    a: int = whole(1, 1000)
    c: float = between(0.0, 1.0)


@dataclass
class Larger:
    """The same with one more between them."""

    a: int = whole(1, 1000)
    b: int = whole(1, 1000)
    c: float = between(0.0, 1.0)


def test_a_seed_draws_the_same_knobs_and_another_draws_others(drawn):
    assert [str(Knobs.draw(seed)) for seed in range(5)] == [str(knobs) for knobs in drawn[:5]]
    assert len({str(knobs) for knobs in drawn}) == len(drawn)


def test_one_more_knob_does_not_change_the_others():
    for seed in range(5):
        small, larger = draw_knobs(Small, Streams(seed)), draw_knobs(Larger, Streams(seed))
        assert (small.a, small.c) == (larger.a, larger.c)


def test_every_fault_is_in_some_runs_and_not_in_others(drawn):
    rates = [f.name for f in fields(Knobs) if all(isinstance(getattr(knobs, f.name), float) for knobs in drawn)]
    others = ("silent_share", "one_way_share", "latency_max_s", "coordinator_load_s", "group_error_rate", *GROUP_FAULTS)
    rates = [name for name in rates if name not in others]
    assert len(rates) > 20
    for name in rates:
        zeros = Counter(getattr(knobs, name) == 0.0 for knobs in drawn)
        assert zeros[True] and zeros[False], name


def test_every_draw_of_options_is_one_that_a_consumer_accepts(drawn):
    sim = Simulation(1, traced=False)
    for knobs in drawn[:30]:
        for client in knobs.clients:
            sim.consumer(fetch_max_wait_ms=knobs.fetch_max_wait_ms, **client.options("rack0"))


# -- worlds of groups


def test_options_of_members_are_valid(recwarn, group_worlds):
    """Poll intervals above the session timeout are intended; any other warning about options is an error."""
    for world in group_worlds:
        for group in world.group_knobs:
            assert group.heartbeat_interval_ms * 3 <= group.session_timeout_ms
            assert group.patience_s * 1000 > group.session_timeout_ms + max(m.request_timeout_ms for m in group.clients)
            for client in group.clients:
                ConsumerConfig.from_options(
                    group_id="g", bootstrap_servers="x:1", fetch_max_wait_ms=world.fetch_max_wait_ms, **client.options()
                )


# -- logins
