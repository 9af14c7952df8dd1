"""Sticky for eager groups: what it remembers, what it sends, whom it believes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.assignors.base import Assignment, GroupMetadata, RebalanceProtocol
from thinconsumer.assignors.claims import Claim
from thinconsumer.assignors.sticky import StickyAssignor, read_claim
from thinconsumer.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
JAVAS = bytes.fromhex("0000000100017400000002000000000000000100000007")


def says(*tps, generation=7):
    """Return the user data of a member that was given these."""
    assignor = StickyAssignor()
    assignor.on_assignment(Assignment(tps), GroupMetadata("g", generation, "m"))
    return assignor.subscription_user_data(["t"])


def test_it_is_eager_and_says_nothing_before_it_has_had_anything():
    assert set(StickyAssignor().supported_protocols) == {RebalanceProtocol.EAGER}
    assert StickyAssignor().subscription_user_data(["t"]) is None


def test_what_it_had_is_sent_as_java_does():
    assert says(T1, T0) == JAVAS


@pytest.mark.parametrize(
    ("data", "claim"),
    [
        (JAVAS, Claim([T0, T1], 7)),
        (JAVAS[:-4], Claim([T0, T1], -1)),  # Java's version 0
        (b"\0\1" + JAVAS, Claim([T0, T1], 7)),  # kafka-python's, with a version in front
        (JAVAS + b"more", Claim([T0, T1], 7)),
        (b"\0\0\0\0\0\0\0\5", Claim([], 5)),
        (None, Claim()),
        (b"", Claim()),
        (b"\xff" * 40, Claim()),
        (b"\x7f\xff\xff\xff", Claim()),
        (JAVAS[:-6], Claim()),
    ],
)
def test_what_others_say_they_had(data, claim):
    assert read_claim(data) == claim


@given(st.binary(max_size=60))
def test_no_bytes_do_any_harm(data):
    assert isinstance(read_claim(data), Claim)


def test_members_keep_what_they_had_and_the_rest_goes_to_who_has_least(cluster, member, words):
    members = {
        "a": member("t u", user_data=says(T0, T1)),
        "b": member("t u", user_data=says(U0)),
        "c": member("t u"),
    }
    plan = StickyAssignor().assign(cluster(t=4, u=2), members)
    assert words(plan) == {"a": "t-0 t-1", "b": "t-2 u-0", "c": "t-3 u-1"}


def test_only_user_data_counts_since_eager_members_own_nothing_when_they_join(cluster, member, words):
    members = {"a": member("t", "t-1", generation=7), "b": member("t")}
    assert words(StickyAssignor().assign(cluster(t=2), members)) == {"a": "t-0", "b": "t-1"}


def test_pain_E3_of_two_that_had_it_the_newer_one_did(cluster, member, words):
    members = {"a": member("t", user_data=says(T1, generation=6)), "b": member("t", user_data=says(T1, generation=7))}
    assert words(StickyAssignor().assign(cluster(t=2), members)) == {"a": "t-0", "b": "t-1"}


def test_pain_E10_who_subscribes_to_nothing_gets_nothing(cluster, member, words):
    members = {"a": member("", user_data=says(T0)), "b": member("t")}
    assert words(StickyAssignor().assign(cluster(t=2), members)) == {"a": "", "b": "t-0 t-1"}
