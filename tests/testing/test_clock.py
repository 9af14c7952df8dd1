"""The virtual clock advances on demand, never backwards, and its wall clock can jump."""

from thinconsumer.testing import VirtualClock


def test_time_does_not_go_back():
    clock = VirtualClock(now=5.0)
    clock.advance_to(3.0)
    assert clock.now() == 5.0
    clock.advance_to(9.0)
    assert clock.now() == 9.0


def test_wall_clock_may_jump_while_the_monotonic_clock_stands():
    clock = VirtualClock(now=5.0, wall_time=100.0)
    clock.set_wall_time(50.0)
    clock.advance(1.0)
    assert (clock.now(), clock.wall_time()) == (6.0, 51.0)
