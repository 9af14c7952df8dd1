"""What is drawn for worlds of groups."""

from __future__ import annotations

import itertools

from thinconsumer.config import ConsumerConfig
from thinconsumer.testing.simulation.groups.knobs import STYLES, GroupWorldKnobs

SEEDS = range(1, 121)


def test_the_same_seed_draws_the_same():
    assert str(GroupWorldKnobs.draw(7)) == str(GroupWorldKnobs.draw(7)) != str(GroupWorldKnobs.draw(8))


def test_every_kind_of_group_is_drawn():
    worlds = [GroupWorldKnobs.draw(seed) for seed in SEEDS]
    teams = [team for world in worlds for team in world.teams]
    assert {team.style for team in teams} == set(STYLES)
    assert {len(world.teams) for world in worlds} == {1, 2}
    assert {world.consumers for world in worlds} >= {2, 3, 4, 5, 6}
    assert {world.brokers for world in worlds} == {2, 3, 4, 5}
    assert any(team.pattern for team in teams) and any(team.static_share for team in teams)
    assert {mate.commits for team in teams for mate in team.mates} == {"auto", "sync", "async", "offsets"}


def test_nothing_that_is_committed_gets_lost():
    for world in map(GroupWorldKnobs.draw, SEEDS):
        lossy = world.unclean, world.compacted, world.deletions, world.compactions, world.corruptions, world.expansions
        assert not any(lossy)
        assert not (world.vanishings and world.transactional)


def test_the_options_are_fine(recwarn):
    """Poll intervals above the session are meant; everything else that is wrong with options would be an error."""
    for world in map(GroupWorldKnobs.draw, SEEDS):
        for team in world.teams:
            assert team.heartbeat_interval_ms * 3 <= team.session_timeout_ms
            assert team.patience_s * 1000 > team.session_timeout_ms + max(m.request_timeout_ms for m in team.mates)
            for mate in team.mates:
                ConsumerConfig.from_options(
                    group_id="g", bootstrap_servers="x:1", fetch_max_wait_ms=world.fetch_max_wait_ms, **mate.options()
                )


def test_neighbours_in_an_upgrade_have_an_assignor_in_common():
    for steps in STYLES.values():
        assert all(set(one) & set(other) for one, other in itertools.pairwise(steps))
