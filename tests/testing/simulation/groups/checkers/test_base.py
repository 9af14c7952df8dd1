"""Who wants to hear what."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.checkers.base import EVENTS
from thinconsumer.testing.simulation.groups.checkers import GROUP_EVENTS, GroupChecker, Panel
from thinconsumer.testing.simulation.groups.checkers.base import names
from thinconsumer.types import TopicPartition


class Curious(GroupChecker):
    """Wants to hear of one thing."""

    def __init__(self):
        super().__init__(lambda words: None, lambda tp: None)
        self.told = []

    def parts(self, member):
        self.told.append(member)


def test_only_what_a_checker_asks_for_is_told():
    panel, curious = Panel(), Curious()
    panel.add(curious)
    panel.tell("parts", "ann")
    panel.tell("attends", "ann", True)
    assert curious.told == ["ann"]


def test_what_readers_have_in_common_is_told_by_the_jury_alone():
    assert not set(GROUP_EVENTS) & set(EVENTS)
    with pytest.raises(KeyError):
        Panel().tell("delivered")


def test_every_event_can_be_ignored():
    quiet = GroupChecker(lambda words: None, lambda tp: None)
    arguments = {"dialled": 4, "said": 4, "learned": 4, "cut_off": 2, "attends": 2, "attended": 1, "subscribed": 2,
                 "parts": 1, "hears": 3, "heard": 4, "processed": 2, "calmed": 0}  # fmt: skip
    assert set(arguments) == set(GROUP_EVENTS)
    for event, count in arguments.items():
        assert getattr(quiet, event)(*[None] * count) is None


def test_partitions_in_words():
    assert names({TopicPartition("t", 1), TopicPartition("a", 2)}) == "a-2 t-1"
    assert names([]) == "nothing"
