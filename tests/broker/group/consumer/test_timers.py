"""The timers of members: one of each kind, and none after the coordinator has resigned."""

from __future__ import annotations

from thinconsumer_testing.broker.group.consumer.timers import MemberTimers, TimerKind
from thinconsumer_testing.broker.schedule import Schedule

SESSION, JOIN = TimerKind.SESSION, TimerKind.JOIN


def test_a_timer_replaces_the_pending_one_of_its_kind() -> None:
    schedule, fired = Schedule(0.0, 0.0), list[str]()
    timers = MemberTimers(schedule.call_later)
    timers.schedule("g", "m", SESSION, 1_000, lambda: fired.append("first"))
    timers.schedule("g", "m", SESSION, 2_000, lambda: fired.append("second"))
    timers.schedule("g", "m", JOIN, -5, lambda: fired.append("join"))
    assert (len(timers), timers.is_set("g", "m", JOIN)) == (2, True)
    schedule.advance(3.0)
    assert fired == ["join", "second"]
    assert len(timers) == 0


def test_cancelled_timers_do_not_fire() -> None:
    schedule, fired = Schedule(0.0, 0.0), list[str]()
    timers = MemberTimers(schedule.call_later)
    for member in ("a", "b", "c"):
        for kind in TimerKind:
            timers.schedule("g", member, kind, 1, lambda: fired.append("fired"))
    timers.cancel("g", "a", SESSION)
    timers.cancel("g", "a", SESSION)
    timers.cancel_member("g", "b")
    assert len(timers) == 2 * len(TimerKind) - 1
    timers.cancel_all()
    schedule.advance(1.0)
    assert (fired, len(timers)) == ([], 0)


def test_a_callback_can_set_its_timer_again() -> None:
    schedule, fired = Schedule(0.0, 0.0), list[float]()
    timers = MemberTimers(schedule.call_later)

    def fire() -> None:
        fired.append(schedule.now)
        timers.schedule("g", "m", SESSION, 1_000, fire)

    timers.schedule("g", "m", SESSION, 1_000, fire)
    for _ in range(3):
        schedule.advance(schedule.now + 1.0)
    assert fired == [1.0, 2.0, 3.0]
