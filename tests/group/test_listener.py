"""Rebalance listeners with three callbacks, and with two."""

import pytest

from thinconsumer.group.listener import (
    PartitionKeyRebalanceListener,
    RebalanceListener,
    call_key_listener,
    call_listener,
)
from thinconsumer.types import TopicPartition

EVENTS = ("assigned", "revoked", "lost")
TPS = [TopicPartition("t", 0), TopicPartition("t", 1)]


class Two:
    def __init__(self):
        self.heard = []

    def on_partitions_assigned(self, assigned):
        self.heard.append(("assigned", assigned))

    def on_partitions_revoked(self, revoked):
        self.heard.append(("revoked", revoked))


class Base(Two, RebalanceListener):
    pass


class Three(Two):
    def on_partitions_lost(self, lost):
        self.heard.append(("lost", lost))


def heard(listener):
    for event in EVENTS:
        call_listener(listener, event, TPS)
    return [(name, tps == set(TPS)) for name, tps in listener.heard]


def test_without_a_lost_callback_the_revoked_callback_is_called():
    """kafka-python's listeners have two methods; so has a subclass that does not override the third."""
    expected = [("assigned", True), ("revoked", True), ("revoked", True)]
    assert heard(Two()) == heard(Base()) == expected


def test_an_overridden_lost_callback_is_called():
    assert heard(Three())[2] == ("lost", True)


@pytest.mark.parametrize("listener", [None, RebalanceListener()], ids=["none", "overrides nothing"])
def test_a_listener_may_be_absent_or_override_nothing(listener):
    for event in EVENTS:
        call_listener(listener, event, TPS)


class Keys(PartitionKeyRebalanceListener):
    def __init__(self):
        self.heard = []

    def on_partition_keys_assigned(self, assigned):
        self.heard.append(("assigned", assigned))

    def on_partition_keys_maybe_revoked(self, revoked):
        self.heard.append(("maybe_revoked", revoked))


def test_callbacks_for_keys_are_called_with_partitions_only():
    listener = Keys()
    for event in ("assigned", "maybe_revoked"):
        call_key_listener(listener, event, TPS)
        call_key_listener(listener, event, ())
    assert listener.heard == [("assigned", set(TPS)), ("maybe_revoked", set(TPS))]


@pytest.mark.parametrize("listener", [None, RebalanceListener(), PartitionKeyRebalanceListener()])
def test_callbacks_for_keys_may_be_absent(listener):
    for event in ("assigned", "maybe_revoked"):
        call_key_listener(listener, event, TPS)
