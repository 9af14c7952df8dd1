"""Listeners: the three calls, and objects that know only two of them."""

from __future__ import annotations

from thinconsumer.group.listener import RebalanceListener, call_assigned, call_lost, call_revoked
from thinconsumer.types import TopicPartition

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
    for hear in (call_assigned, call_revoked, call_lost):
        hear(listener, TPS)
    return [(name, tps == set(TPS)) for name, tps in listener.heard]


def test_lost_is_revoked_for_who_does_not_tell_them_apart():
    """kafka-python's own listeners have two methods; so has a subclass that leaves the third as it is."""
    expected = [("assigned", True), ("revoked", True), ("revoked", True)]
    assert heard(Two()) == heard(Base()) == expected


def test_lost_is_told_apart_by_who_does():
    assert heard(Three())[2] == ("lost", True)


def test_no_listener_hears_nothing():
    for hear in (call_assigned, call_revoked, call_lost):
        assert hear(None, TPS) is None


def test_a_listener_that_overrides_nothing_does_nothing():
    for hear in (call_assigned, call_revoked, call_lost):
        assert hear(RebalanceListener(), TPS) is None
