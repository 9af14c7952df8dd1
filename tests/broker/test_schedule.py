"""The cluster's clock: order, cancellation, and independence of the step size."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer_testing.broker.schedule import CANCELLED_MAX, Schedule


def test_timers_fire_in_order_of_time_then_registration():
    schedule, seen = Schedule(), []
    for moment, name in ((2.0, "b"), (1.0, "a"), (2.0, "c")):
        schedule.call_at(moment, lambda name=name: seen.append((schedule.now, name)))
    schedule.advance(5.0)
    assert seen == [(1.0, "a"), (2.0, "b"), (2.0, "c")], "each sees the time at which it was due"
    assert schedule.now == 5.0
    assert schedule.wake_at() == math.inf


def test_monotonic_time_never_goes_back_but_wall_time_may():
    schedule = Schedule(10.0, wall_time=1_000.0)
    assert schedule.wall_ms() == 1_000_000
    schedule.advance(9.0)
    assert schedule.now == 10.0
    schedule.advance(11.0, wall_time=500.0)
    assert schedule.wall_ms() == 500_000
    schedule.advance(12.0)
    assert schedule.wall_ms() == 501_000


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 50), max_size=20), st.lists(st.integers(1, 20), min_size=1, max_size=20))
def test_step_size_does_not_change_the_result(delays, steps):
    """Every timer sets another one; with any step size each sees the same times."""

    def run(pace):
        schedule, seen = Schedule(), []
        for number, delay in enumerate(delays):

            def fire(number=number, delay=delay):
                seen.append((schedule.now, number))
                if len(seen) < 100:
                    schedule.call_later(delay * 0.5, fire)

            schedule.call_at(float(delay), fire)
        for moment in pace:
            schedule.advance(moment)
        return seen

    end = 60.0
    fine = run([n * 0.25 for n in range(int(end * 4) + 1)])
    coarse = run(sorted({min(end, float(sum(steps[: n + 1]))) for n in range(len(steps))} | {end}))
    assert fine == coarse


def test_cancelled_timers_are_removed_early():
    """A request with a timeout of weeks leaves nothing behind when it is answered immediately."""
    schedule = Schedule()
    seen = []
    schedule.call_at(5, lambda: seen.append("kept"))
    for number in range(100_000):
        schedule.call_later(1e6 + number, lambda: seen.append("cancelled")).cancel()
    assert len(schedule._heap) < 2 * CANCELLED_MAX
    timers = [schedule.call_at(10 - number % 3, lambda: seen.append("late")) for number in range(1000)]
    for timer in timers[1:]:
        timer.cancel()
        timer.cancel()
    schedule.advance(2e6)
    assert seen == ["kept", "late"]
    assert schedule._heap == []
