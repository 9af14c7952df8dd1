"""The agenda beside a model that looks at every alarm at each time."""

from heapq import heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.support import agenda as agenda_module
from thinconsumer.support.agenda import Agenda
from thinconsumer.support.timers import NEVER

KEYS = ("a", "b", "c")
TIMES = st.integers(0, 20)
CALLS = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(KEYS), TIMES),
    st.tuples(st.just("set_earlier"), st.sampled_from(KEYS), TIMES),
    st.tuples(st.just("clear"), st.sampled_from(KEYS)),
    st.tuples(st.just("touch"), st.sampled_from(KEYS)),
    st.tuples(st.just("take"), TIMES),
    st.tuples(st.just("forget")),
)


class Model:
    """Each alarm's time, whether it has come up since it was set, and the touched keys."""

    def __init__(self):
        self.at = dict.fromkeys(KEYS, NEVER)
        self.waiting = dict.fromkeys(KEYS, False)
        self.touched = set()

    def set(self, key, at):
        self.at[key], self.waiting[key] = at, True

    def set_earlier(self, key, at):
        if at < self.at[key]:
            self.set(key, at)

    def clear(self, key):
        self.at[key], self.waiting[key] = NEVER, False

    def touch(self, key):
        self.touched.add(key)

    def forget(self):
        self.touched = set()
        self.waiting["c"] = False

    def take(self, now):
        over = {key for key in KEYS if self.waiting[key] and self.at[key] <= now}
        taken, self.touched = self.touched | over, set()
        self.waiting.update(dict.fromkeys(over, False))
        return taken

    def next(self):
        times = (at for key, at in self.at.items() if self.waiting[key])
        return -NEVER if self.touched else min(times, default=NEVER)


@given(st.lists(CALLS, max_size=40))
def test_what_is_due_is_taken_once_and_at_its_time(calls):
    agenda, model, now = Agenda(), Model(), 0
    alarms = {key: agenda.alarm(key) for key in KEYS}
    for name, *values in calls:
        if name == "take":
            now += values[0]
            expected = model.take(now)
            assert set(agenda.take(now)) == expected
        elif name == "forget":
            agenda.forget(lambda key: key == "c")
            model.forget()
        else:
            key, *at = values
            getattr(alarms[key], name)(*[now + one for one in at])
            getattr(model, name)(key, *[now + one for one in at])
        assert agenda.next() == model.next()
        assert agenda.is_due(now) is (model.next() <= now)


def test_what_joins_the_next_step_causes_none():
    agenda = Agenda()
    agenda.join("a")
    assert agenda.next() == NEVER
    assert agenda.is_due(0.0)
    assert agenda.take(0.0) == {"a": None}
    assert not agenda.is_due(0.0)


def test_later_times_add_no_entries():
    """The deadline of a response moves with each received chunk."""
    agenda = Agenda()
    alarm = agenda.alarm("a")
    for at in range(1000):
        alarm.set(float(at))
    assert len(agenda.entries) == 1


def test_an_alarm_that_is_near_and_far_in_turn_keeps_its_far_entry():
    """As that of a producer, which has a batch to send or the deadline of one in flight: a thousand times a second."""
    agenda = Agenda()
    agenda.alarm("other").set(5000.0)  # between the near and the far times
    alarm = agenda.alarm("a")
    for now in range(1000):
        alarm.set(9000.0 + now)
        alarm.set(float(now))
        assert agenda.take(now) == {"a": None}
    assert len(agenda.entries) <= 3


@pytest.mark.parametrize("line", range(3))
def test_an_interrupted_set_leaves_no_time_without_an_entry(line, monkeypatch):
    agenda = Agenda()
    alarm = agenda.alarm("a")
    alarm.set(9.0)

    def interrupted(entries, entry):
        if line:
            heappush(entries, entry)
        raise KeyboardInterrupt

    if line < 2:
        monkeypatch.setattr(agenda_module, "heappush", interrupted)
        with pytest.raises(KeyboardInterrupt):
            alarm.set(5.0)
    else:
        heappush(agenda.entries, (5.0, next(agenda.serial), alarm))
        alarm.listed.append(5.0)  # and Ctrl-C comes before ``at`` is set
    assert agenda.take(5.0) == {}
    agenda.forget(lambda key: False)
    assert agenda.take(8.0) == {}
    assert agenda.take(9.0) == {"a": None}
