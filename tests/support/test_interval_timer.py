"""The interval timer shares SIGALRM and ITIMER_REAL with the program, on a system of signals that is played here."""

import inspect
import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer.support import interval_timer
from thinconsumer.support.interval_timer import REPEAT_S, IntervalTimer

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")


class System(SimpleNamespace):
    """The signals, the timer and the clock of a process, in place of the modules ``signal``, ``time`` and ``os``."""

    SIGALRM, ITIMER_REAL, SIG_DFL, SIG_IGN = signal.SIGALRM, signal.ITIMER_REAL, signal.SIG_DFL, signal.SIG_IGN

    def __init__(self):
        super().__init__(now=100.0, handler=signal.SIG_DFL, at=None, interval=0.0, wakeup=-1, killed=[], heard=[])

    def getsignal(self, number):
        return self.handler

    def signal(self, number, handler):
        before, self.handler = self.handler, handler
        return before

    def getitimer(self, which):
        return (0.0 if self.at is None else max(1e-6, self.at - self.now), self.interval)

    def setitimer(self, which, seconds, interval=0.0):
        before = self.getitimer(which)
        self.at, self.interval = (self.now + seconds if seconds else None), (interval if seconds else 0.0)
        return before

    def set_wakeup_fd(self, fd, warn_on_full_buffer=True):
        before, self.wakeup = self.wakeup, fd
        return before

    def monotonic(self):
        return self.now

    def getpid(self):
        return 1

    def kill(self, pid, number):
        self.killed.append(self.handler)

    def advance(self, seconds):
        """Let time pass, and call the handler when the timer is due."""
        end = self.now + seconds
        while self.at is not None and self.at <= end:
            self.now = max(self.now, self.at)
            self.at = self.now + self.interval if self.interval else None
            self.handler(signal.SIGALRM, sys._getframe())
        self.now = end

    def alarm(self, number, frame):
        """The program's handler."""
        self.heard.append(round(self.now, 2))


@pytest.fixture
def system(monkeypatch):
    system = System()
    for name in ("signal", "time", "os"):
        monkeypatch.setattr(interval_timer, name, system)
    return system


@pytest.fixture
def ticking(system):
    """Return a timer that ticks every 0.1 s, and the times of its ticks."""
    ticks = []

    def tick(frame):
        ticks.append(round(system.now, 2))
        return 0.1

    return IntervalTimer(tick), ticks


def test_it_ticks_until_it_is_stopped_and_leaves_nothing(system, ticking):
    timer, ticks = ticking
    timer.start(0.2)
    system.advance(0.45)
    timer.stop()
    system.advance(5)
    assert ticks == [100.2, 100.3, 100.4]
    assert (system.handler, system.at) == (signal.SIG_DFL, None)


def test_a_tick_that_returns_none_is_the_last(system):
    timer = IntervalTimer(lambda frame: None)
    timer.start(0.1)
    system.advance(1)
    assert (system.handler, system.at) == (signal.SIG_DFL, None)


def test_a_tick_in_which_the_timer_is_stopped_is_the_last(system):
    """Garbage collection may stop it there. Set again, the timer would end the process."""
    ticks = []

    def tick(frame):
        ticks.append(system.now)
        timer.stop()
        return 0.1

    timer = IntervalTimer(tick)
    timer.start(0.1)
    assert timer.runs
    system.advance(1)
    assert len(ticks) == 1 and not timer.runs
    assert (system.handler, system.at) == (signal.SIG_DFL, None)


def test_after_an_exception_the_ticks_go_on(system):
    raised = iter([KeyboardInterrupt])

    def tick(frame):
        raise next(raised, SystemExit)

    timer = IntervalTimer(tick)
    timer.start(0.1)
    with pytest.raises(KeyboardInterrupt):
        system.advance(1)
    with pytest.raises(SystemExit):
        system.advance(1)
    assert system.now == pytest.approx(100.1 + REPEAT_S)


@pytest.mark.parametrize(
    ("after", "interval", "heard"),
    [(0.25, 0.0, [100.25]), (2.0, 0.0, [102.0]), (0.3, 0.4, [100.3, 100.7, 101.1, 101.5, 101.9]), (0.05, 0, [100.05])],
)
@pytest.mark.parametrize("stopped_after", [0.0, 0.1, 0.52, 1.3])
def test_an_alarm_of_the_program_comes_at_its_time(system, ticking, after, interval, heard, stopped_after):
    timer, ticks = ticking
    system.signal(signal.SIGALRM, system.alarm)
    system.setitimer(signal.ITIMER_REAL, after, interval)
    timer.start(0.1)
    system.advance(stopped_after)
    assert len(ticks) >= int(stopped_after / 0.1) - 1
    timer.stop()
    assert system.handler == system.alarm
    system.advance(2.2 - stopped_after)
    assert [time for time in system.heard if time < 102.05] == pytest.approx(heard, abs=0.02)


def test_an_alarm_without_a_handler_ends_the_process_as_without_the_timer(system, ticking):
    system.setitimer(signal.ITIMER_REAL, 0.35)
    ticking[0].start(0.1)
    system.advance(0.3)
    assert system.killed == []
    system.advance(0.1)
    assert system.killed == [signal.SIG_DFL]


def test_an_ignored_alarm_is_ignored(system, ticking):
    system.signal(signal.SIGALRM, signal.SIG_IGN)
    system.setitimer(signal.ITIMER_REAL, 0.35)
    ticking[0].start(0.1)
    system.advance(1)
    ticking[0].stop()
    assert system.handler is signal.SIG_IGN and system.killed == []


def test_an_alarm_that_the_program_sets_meanwhile_comes_and_then_the_ticks_go_on(system, ticking):
    """``signal.alarm`` for a handler that was there before."""
    timer, ticks = ticking
    system.signal(signal.SIGALRM, system.alarm)
    timer.start(0.1)
    system.advance(0.15)
    system.setitimer(signal.ITIMER_REAL, 1)
    system.advance(1.5)
    assert system.heard == [101.15]
    assert ticks[0] == 100.1 and ticks[-1] > 101.5


def test_a_periodic_timer_of_the_program_shares_from_its_first_signal_on(system, ticking):
    timer, ticks = ticking
    system.signal(signal.SIGALRM, system.alarm)
    timer.start(0.1)
    system.setitimer(signal.ITIMER_REAL, 0.5, 0.3)
    system.advance(1.2)
    timer.stop()
    system.advance(0.5)
    assert system.heard == pytest.approx([100.5, 100.8, 101.1, 101.4, 101.7], abs=0.02)
    assert len(ticks) > 5


def test_what_the_program_has_set_meanwhile_stays_at_the_end(system, ticking):
    timer, ticks = ticking
    timer.start(0.1)
    system.signal(signal.SIGALRM, system.alarm)
    system.setitimer(signal.ITIMER_REAL, 3)
    timer.stop()
    system.advance(4)
    assert system.handler == system.alarm and system.heard == [103.0] and not ticks


def test_a_new_handler_gets_no_ticks_after_the_end(system, ticking):
    timer, _ = ticking
    timer.start(0.1)
    system.signal(signal.SIGALRM, system.alarm)
    timer.stop()
    system.advance(4)
    assert system.heard == []


def test_a_forked_child_gets_the_programs_handler(system, ticking):
    system.signal(signal.SIGALRM, system.alarm)
    ticking[0].start(0.1)
    system.at, system.interval = None, 0.0  # a child inherits no timer
    ticking[0].after_fork()
    assert system.handler == system.alarm


@pytest.mark.parametrize("how", ["unknown handler", "wakeup descriptor", "no timer", "thread"])
def test_where_the_timer_cannot_be_shared_there_is_an_error(system, monkeypatch, ticking, how):
    timer, _ = ticking
    if how == "unknown handler":
        system.handler = None
    elif how == "wakeup descriptor":
        system.wakeup = 7
    elif how == "no timer":
        monkeypatch.setattr(interval_timer, "signal", SimpleNamespace())
    raised = []

    def start():
        try:
            timer.start(0.1)
        except IllegalStateError as error:
            raised.append(error)

    if how == "thread":
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
    else:
        start()
    assert raised and system.at is None and system.handler in (None, signal.SIG_DFL)
    assert system.wakeup == (7 if how == "wakeup descriptor" else -1)


def at_line(number, do, function, events=("line", "call")):
    """Call a function, and ``do(frame)`` before the line or function of the module with that number in order.

    If it returns a function, that is called before the next line.
    """
    count, later = 0, None

    def trace(frame, event, arg):
        nonlocal count, later
        if frame.f_code.co_filename != interval_timer.__file__:
            return None
        if event in events:
            count += 1
            if count == number or callable(later):
                later = do(frame) if count == number else later(frame)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)


def program(system, timer, number, do, seconds=0.15, **events):
    """Start and stop a timer beside an alarm at 100.2 s, with something in between at one line."""

    def work():
        timer.start(0.1)
        system.advance(seconds)
        timer.stop()

    at_line(number, do, work, **events)


@pytest.mark.parametrize(
    ("seconds", "events"),
    [(0.15, ("line", "call")), (0.25, ("call",))],  # just before the program's handler, Python checks for no signal
    ids=["before the alarm", "as a function begins in the alarm's tick"],
)
def test_ctrl_c_at_any_line_loses_no_alarm(system, seconds, events):
    """Whoever is interrupted calls ``stop`` again, as ``KeepAlive`` does."""
    total = 0
    while True:
        total += 1
        system.__init__()
        system.signal(signal.SIGALRM, system.alarm)
        system.setitimer(signal.ITIMER_REAL, 0.2)
        timer = IntervalTimer(lambda frame: 0.1)

        def interrupt(frame):
            raise KeyboardInterrupt

        try:
            program(system, timer, total, interrupt, seconds, events=events)
        except KeyboardInterrupt:
            timer.stop()
        else:
            break
        system.advance(1)
        assert system.heard == [100.2], (total, system)
        assert system.handler == system.alarm and system.at is None, total
    assert total > 15, "the module was traced"


@pytest.mark.parametrize("due", ["the alarm", "a tick", "a tick, one line later"])
def test_a_signal_at_any_line_loses_and_doubles_no_alarm(system, due):
    total = 0
    while True:
        total += 1
        system.__init__()
        system.signal(signal.SIGALRM, system.alarm)
        system.setitimer(signal.ITIMER_REAL, 0.2)
        timer, done = IntervalTimer(lambda frame: 0.1), []

        def fire(frame, done=done):
            done.append(frame)
            mine = abs(system.interval - REPEAT_S) < 1e-6
            if due == "a tick":
                system.handler(signal.SIGALRM, frame) if mine else None
                return None
            if due != "the alarm":
                if mine and system.at - system.now < 0.1:
                    system.now = system.at
                    system.at += system.interval
                    return lambda frame: system.handler(signal.SIGALRM, frame)
                return None
            system.now = max(system.now, 100.2)
            if system.at is not None and system.at <= system.now:
                system.at = system.now + system.interval if system.interval else None
                system.handler(signal.SIGALRM, frame)
            return None

        program(system, timer, total, fire)
        if not done:
            break
        system.advance(1)
        assert len(system.heard) == 1, (total, system, inspect.getframeinfo(done[0]))
        assert system.handler == system.alarm and system.at is None, total
    assert total > 30
