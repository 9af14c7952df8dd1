"""Who may commit what: every pair of who it was to be committed as and who we are now."""

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
    """Return where a member stands, which was told so outside of a rebalance."""
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
        # It may have been another's in a generation that we were not told of, who went on from an older commit.
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
def test_objection_to_what_was_to_be_committed_as_another(before, now, reason):
    """A commit is written only as who asked for it, or as the same member of the next generation."""
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
def test_whom_to_commit_as(now, who):
    """A member that lost its membership is nobody, and not somebody who assigns by hand."""
    assert now.who == who


def test_commits_are_held_from_the_join_until_the_sync():
    """In between the coordinator takes none, whatever the generation."""
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


def test_what_is_to_be_committed_between_join_and_sync_was_read_before_a_missed_generation():
    """So it is judged as that after the sync: it may have gone to another a generation ago."""
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


def test_nothing_is_held_without_members():
    """By hand there is no rebalance, not even one that the member's machine is still busy with."""
    straw = SimpleNamespace(is_member=False, identity=FIVE, rebalancing=True, owns=lambda tp: True)
    found = CommitIdentity(straw, "g")  # type: ignore[arg-type]
    found.note()
    assert not found.held
    assert not found.rebalancing
    CommitIdentity(None, "g").told(None, FIVE, 0.0)  # type: ignore[arg-type]


def test_who_is_outside_is_told_whether_a_join_is_on():
    """One is a matter of polling on, the other of having been lost."""
    assert standing(Identity("g"), rebalancing=True).outside().reason == "rebalance_in_progress"
    assert standing(Identity("g")).outside().reason == "unknown_member"
