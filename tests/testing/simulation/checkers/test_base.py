"""The jury passes each event, in order, to the checkers that override its method only."""

import inspect

import pytest

from thinconsumer_testing.simulation.checkers import ALL
from thinconsumer_testing.simulation.checkers.base import EVENTS, Checker, Jury


class Hears(Checker):
    """Records seeks and errors."""

    heard: list

    def sought(self, reader, tp, offset):
        self.heard.append((self, "sought", reader, tp, offset))

    def raised(self, reader, error):
        self.heard.append((self, "raised", reader, error))


class HearsMore(Hears):
    """Inherits two event methods, and overrides one more."""

    def finish(self):
        self.heard.append((self, "finish"))


def hearing(cls, heard):
    checker = cls(lambda words: None, lambda tp: None)
    checker.heard = heard
    return checker


def test_each_checker_gets_the_events_it_overrides_in_the_order_added():
    heard = []
    first, second = hearing(Hears, heard), hearing(HearsMore, heard)
    jury = Jury([first])
    jury.add(second)
    assert jury.checkers == [first, second]
    jury.tell("sought", "ann", ("t", 0), 5)
    jury.tell("finish")
    jury.tell("paused", "ann", [], True)
    assert heard == [(first, "sought", "ann", ("t", 0), 5), (second, "sought", "ann", ("t", 0), 5), (second, "finish")]


def test_unknown_event_raises_key_error():
    with pytest.raises(KeyError):
        Jury().tell("delighted", "ann")


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_checker_accepts_the_arguments_of_each_event(cls):
    """Each method takes as many arguments as the base class's: a mismatch would show only once that event happens."""
    listened = [event for event in EVENTS if event in vars(cls)]
    assert listened
    for event in listened:
        own, base = (len(inspect.signature(getattr(one, event)).parameters) for one in (cls, Checker))
        assert own == base
