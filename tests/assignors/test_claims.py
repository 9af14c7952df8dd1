"""Whom to believe about who owns what."""

from __future__ import annotations

from thinconsumer.assignors.claims import Claim, find_owners
from thinconsumer.types import TopicPartition

T0, T1, T9 = (TopicPartition("t", number) for number in (0, 1, 9))
TOPICS = {"t": 3}


def test_a_claim_nobody_disputes_makes_an_owner():
    owned = find_owners({"a": Claim([T0], 5), "b": Claim([T1], 4), "c": Claim()}, TOPICS)
    assert owned.owners == {T0: "a", T1: "b"}
    assert not owned.disputed


def test_pain_E3_two_claims_in_one_generation_cancel_each_other():
    owned = find_owners({"a": Claim([T0], 5), "b": Claim([T0], 5), "c": Claim([T0], 4)}, TOPICS)
    assert owned.owners == {}, "an older claim counts only while nobody newer makes one"
    assert owned.disputed == {T0}
    assert all(owned.held_by_others(T0, member) for member in "abcd")


def test_pain_E3_the_newer_generation_wins_in_any_order():
    for order in (("old", "new"), ("new", "old")):
        claims = {name: Claim([T0], {"old": 5, "new": 6}[name]) for name in order}
        owned = find_owners(claims, TOPICS)
        assert owned.owners == {T0: "new"}
        assert owned.held_by_others(T0, "old")
        assert not owned.held_by_others(T0, "new")


def test_a_newer_claim_settles_a_dispute_between_older_ones():
    owned = find_owners({"a": Claim([T0], 5), "b": Claim([T0], 5), "c": Claim([T0], 6)}, TOPICS)
    assert owned.owners == {T0: "c"}
    assert not owned.disputed


def test_a_generation_that_is_not_known_is_older_than_all():
    """Whatever negative number stands for it."""
    assert find_owners({"a": Claim([T0], -7), "b": Claim([T0], 0)}, TOPICS).owners == {T0: "b"}
    assert find_owners({"a": Claim([T0], -7), "b": Claim([T0], -1)}, TOPICS).disputed == {T0}


def test_naming_a_partition_twice_is_no_dispute_with_oneself():
    assert find_owners({"a": Claim([T0, T0], 5)}, TOPICS).owners == {T0: "a"}


def test_pain_E10_what_does_not_exist_any_more_is_owned_by_nobody():
    """A topic was deleted and made again with fewer partitions."""
    owned = find_owners({"a": Claim([T9, TopicPartition("gone", 0), TopicPartition("t", -1), T1], 5)}, TOPICS)
    assert owned.owners == {T1: "a"}
