"""Which offsets may be committed: pairs of the identity when they were queued and the current one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from thinconsumer.group.commit_identity import CommitIdentity
from thinconsumer.group.identity import Identity
from thinconsumer.types import TopicPartition

A = TopicPartition("t", 0)
BY_HAND = Identity("g")
FIVE, SIX, SEVEN = (Identity("g", generation, "me") for generation in (5, 6, 7))


def standing(
    identity: Identity, *, is_member: bool = True, rebalancing: bool = False, owned: bool = True
) -> CommitIdentity:
    """Return a member's commit identity, noted outside of a rebalance."""
    straw = SimpleNamespace(is_member=is_member, identity=identity, rebalancing=False, owns=lambda tp: owned)
    found = CommitIdentity(straw, "g")  # type: ignore[arg-type]
    found.note()
    straw.rebalancing = rebalancing
    return found


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        (FIVE, standing(FIVE), None),
        (FIVE, standing(SIX), None),
        (FIVE, standing(SIX, owned=False), "rebalance_in_progress"),
        # In the missed generation another member may have owned the partition.
        (FIVE, standing(SEVEN), "rebalance_in_progress"),
        (FIVE, standing(FIVE.behind()), "illegal_generation"),
        (FIVE, standing(FIVE.lost()), "unknown_member"),
        (FIVE, standing(Identity("g", 6, "reborn")), "unknown_member"),
        (FIVE, standing(FIVE, is_member=False), "unknown_member"),
        (FIVE, CommitIdentity(None, "g"), "unknown_member"),
        (BY_HAND, standing(FIVE), "refused"),
        (BY_HAND, standing(FIVE, is_member=False), None),
        (BY_HAND, CommitIdentity(None, "g"), None),
    ],
)
def test_offsets_queued_under_another_identity_are_rejected(before, now, reason):
    """Offsets are committed under the identity of their queueing, or by the same member in the next generation."""
    objection = now.objection(A, before)
    assert (objection.reason if objection is not None else None) == reason


@pytest.mark.parametrize(
    ("now", "who"),
    [
        (standing(FIVE), FIVE),
        (standing(FIVE, rebalancing=True), FIVE),
        (standing(FIVE.lost()), None),
        (standing(FIVE.behind()), None),
        (standing(FIVE.lost(), is_member=False), BY_HAND),
        (standing(Identity("g", 5, "me", "static"), is_member=False), BY_HAND),
        (CommitIdentity(None, "g"), BY_HAND),
    ],
)
def test_the_identity_to_commit_under(now, who):
    """A lost member must not commit as a consumer with manual assignment."""
    assert now.who == who


def test_commits_are_held_from_the_join_until_the_sync():
    """Meanwhile the coordinator rejects commits of every generation."""
    straw = SimpleNamespace(is_member=True, identity=FIVE, rebalancing=False, owns=lambda tp: True)
    found = CommitIdentity(straw, "g")  # type: ignore[arg-type]
    found.note()
    assert not found.held
    straw.rebalancing = True
    found.note()
    assert not found.held  # others are joining: those of the old generation are taken
    found.refused(FIVE)
    assert found.held
    straw.identity = SIX
    assert found.held
    straw.rebalancing = False
    assert not found.held
    found.note()
    straw.rebalancing = True
    assert not found.held


def test_offsets_queued_after_a_missed_generation_belong_to_the_generation_before():
    """Another member may have owned the partition in the missed generation."""
    straw = SimpleNamespace(is_member=True, identity=FIVE, rebalancing=False, owns=lambda tp: True)
    found = CommitIdentity(straw, "g")  # type: ignore[arg-type]
    found.note()
    straw.rebalancing = True
    assert found.asks_as == FIVE
    straw.identity = SIX
    assert found.asks_as == SIX, "nobody had it in between"
    straw.identity = SEVEN
    assert (found.asks_as, found.who) == (FIVE, SEVEN)
    straw.identity = Identity("g", 7, "reborn")
    assert found.asks_as == straw.identity, "it never was the other one"
    straw.identity = FIVE.lost()
    assert found.asks_as is None
    straw.identity, straw.rebalancing = SEVEN, False
    found.note()
    assert found.asks_as == SEVEN


def test_with_manual_assignment_commits_are_never_held():
    """Not even while a former membership still rebalances."""
    straw = SimpleNamespace(is_member=False, identity=FIVE, rebalancing=True, owns=lambda tp: True)
    found = CommitIdentity(straw, "g")  # type: ignore[arg-type]
    found.note()
    assert not found.held
    assert not found.rebalancing
    CommitIdentity(None, "g").told(None, FIVE, 0.0)  # type: ignore[arg-type]


def test_commits_without_membership_fail_with_the_reason():
    """The reason tells a rebalance in progress from a lost membership."""
    assert standing(Identity("g"), rebalancing=True).outside().reason == "rebalance_in_progress"
    assert standing(Identity("g")).outside().reason == "unknown_member"
