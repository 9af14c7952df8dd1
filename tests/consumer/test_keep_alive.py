"""Blocks of ``keep_alive``, on a virtual clock: the tests call what the timer's signal would call."""

import gc
import logging
import os
import signal
import sys
import threading
from contextlib import ExitStack
from unittest.mock import Mock

import pytest

from thinconsumer import IllegalStateError, TopicPartition
from thinconsumer.consumer import keep_alive
from thinconsumer.support.interval_timer import IntervalTimer
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here"),
    pytest.mark.filterwarnings("ignore:max_poll_interval_ms=.* is above"),
]

STYLES = ["range", "cooperative-sticky", "consumer"]
SHORT = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 2000, "max_poll_interval_ms": 300_000}
SHORT_BY_BROKER = {"group_consumer_session_timeout_ms": 6000, "group_consumer_heartbeat_interval_ms": 2000}


def short(style, **options):
    """Return options for a session of 6 s; in the consumer protocol it is the broker's."""
    return {"max_poll_interval_ms": 300_000, **({} if style == "consumer" else SHORT), **options}


class Listener:
    def __init__(self, assigned, revoked=lambda revoked: None):
        self.on_partitions_assigned, self.on_partitions_revoked = assigned, revoked


@pytest.fixture
def work(tick):
    """Return a function that lets time pass with two ticks each second."""

    def work_for(cluster, seconds):
        end = cluster.clock.now() + seconds
        while cluster.clock.now() < end:
            cluster.clock.advance(0.5)
            tick()

    return work_for


def logged(caplog, text):
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("ticks", [True, False], ids=["kept alive", "without ticks"])
def test_a_member_stays_for_five_sessions(make_group, work, style, ticks):
    group = make_group(style, **SHORT_BY_BROKER)
    one, other = group.member(**short(style)), group.member(**short(style))
    group.settle(one, other)
    before = one.group_metadata(), one.assignment()
    with one.keep_alive(), other.keep_alive():
        if ticks:
            work(group.cluster, 30)
        else:
            group.cluster.clock.advance(30)
    for _ in range(20):
        one.poll(20)
        other.poll(20)
    assert ((one.group_metadata(), one.assignment()) == before) is ticks


@pytest.mark.parametrize("style", STYLES)
def test_a_member_leaves_after_max_poll_interval_and_logs_it_once_at_the_end(make_group, work, caplog, style):
    group = make_group(style, **SHORT_BY_BROKER)
    member = group.member(**short(style, max_poll_interval_ms=10_000))
    group.settle(member)
    caplog.set_level(logging.INFO, "thinconsumer")
    with member.keep_alive():
        work(group.cluster, 15)
        assert not logged(caplog, "max_poll_interval_ms")
    assert len(logged(caplog, "max_poll_interval_ms=10000: left the group")) == 1
    group.settle(member)


def test_ticks_fetch_and_commit_and_move_no_position(make_group, work):
    group = make_group(partitions=1)
    member, tp = group.member(**SHORT), TopicPartition("t", 0)
    group.settle(member)
    group.cluster.produce("t", [b"%d" % n for n in range(8)])
    records = iter(member)
    assert next(records).offset == 0
    with member.keep_alive():
        member.commit_async({tp: 1})
        position = member._partitions.require(tp).cursor.offset
        group.cluster.produce("t", [b"late"])
        work(group.cluster, 1)
        assert len(group.cluster.received(OffsetCommitRequest)) == 1
    assert member._partitions.require(tp).cursor.offset == position
    assert [next(records).offset for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]
    fetches = len(group.cluster.received(FetchRequest))
    assert member.poll(0)[tp][0].offset == 8
    assert len(group.cluster.received(FetchRequest)) <= fetches + 1 and member.committed(tp) == 1


def test_no_code_of_the_program_runs(make_group, work):
    group = make_group("range")
    heard = []
    listener = Listener(lambda assigned: heard.append("assigned"), lambda revoked: heard.append("revoked"))
    one = group.member(listener, **SHORT, value_deserializer=lambda value: heard.append("value"))
    group.settle(one)
    heard.clear()
    other = group.member(**SHORT)
    with one.keep_alive():
        group.cluster.produce("t", [b"x"])
        one.commit_async({TopicPartition("t", 0): 0}, lambda offsets, error: heard.append("committed"))
        for _ in range(10):
            work(group.cluster, 0.5)
            other.poll(0)
        assert heard == []
    group.settle(one, other)
    assert heard[0] == "committed" and {"value", "revoked", "assigned"} <= {*heard}


def test_a_tick_does_nothing_in_a_call_of_any_consumer(make_group, tick, work):
    """Its own call, and that of another: a deserializer runs in both."""
    group = make_group(partitions=1)
    kept, steps, ticked = group.member(**SHORT), [], []

    def ticks(value):
        before = kept._shell.engine.steps
        ticked.append(tick())
        steps.append(kept._shell.engine.steps - before)
        return value

    group.settle(kept)
    reader = group.member(**SHORT, value_deserializer=ticks)
    reader.unsubscribe()
    reader.assign([TopicPartition("t", 0)])
    group.cluster.produce("t", [b"x"] * 3)
    with kept.keep_alive():
        while not steps:
            reader.poll(100)
        assert set(steps) == {0} and set(ticked) == {keep_alive.PERIOD_S}
        before = kept._shell.engine.steps
        group.cluster.clock.advance(3)
        tick()
        assert kept._shell.engine.steps > before


def test_a_tick_does_nothing_in_a_call_below_its_block(make_group, tick):
    """A deserializer goes on with a generator whose block is of another consumer."""
    group = make_group(partitions=1)
    kept, steps = group.member(**SHORT), []

    def ticks():
        with kept.keep_alive():
            while True:
                before = kept._shell.engine.steps
                group.cluster.clock.advance(3)
                tick()
                yield kept._shell.engine.steps - before

    def deserializer(value):
        steps.append(next(ticking))
        return value

    group.settle(kept)
    reader = group.member(**SHORT, value_deserializer=deserializer)
    reader.unsubscribe()
    reader.assign([TopicPartition("t", 0)])
    group.cluster.produce("t", [b"x"] * 3)
    ticking = ticks()
    assert next(ticking) > 0
    while not steps:
        reader.poll(100)
    assert set(steps) == {0} and next(ticking) > 0
    ticking.close()


def test_a_tick_does_nothing_inside_an_import(make_group, tick, tmp_path, monkeypatch):
    (tmp_path / "imported_in_block.py").write_text("import sys\nsys.modules['the_tick'].tick()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    group = make_group()
    member = group.member(**SHORT)
    group.settle(member)
    steps = []

    class Here:
        @staticmethod
        def tick():
            steps.append(member._shell.engine.steps)
            group.cluster.clock.advance(1)
            keep_alive._keeper._tick(sys._getframe(1))
            steps.append(member._shell.engine.steps)

    monkeypatch.setitem(sys.modules, "the_tick", Here)
    with member.keep_alive():
        import imported_in_block  # noqa: F401

        assert steps[0] == steps[1]
        Here.tick()
    assert steps[2] < steps[3]


def test_a_tick_needs_room_on_the_stack(make_group, tick, monkeypatch):
    group = make_group()
    member = group.member(**SHORT)
    group.settle(member)
    depths, step = [], Mock(wraps=keep_alive._step)
    monkeypatch.setattr(keep_alive, "_step", step)

    def deep(left):
        if left % 6 == 0:
            before = step.call_count
            tick()
            depths.append(step.call_count > before)
            assert not member._shell.step_interrupted
        return left and deep(left - 1)

    before = sys.getrecursionlimit()
    with member.keep_alive():
        sys.setrecursionlimit(500)
        try:
            with pytest.raises(RecursionError):
                deep(10_000)
        finally:
            sys.setrecursionlimit(before)
    assert depths[0] and not depths[-1] and depths == sorted(depths, reverse=True)


def test_a_step_that_fails_is_logged_by_the_next_call_which_goes_on(make_group, tick, work, monkeypatch, caplog):
    group = make_group()
    member = group.member(**SHORT)
    group.settle(member)
    fails = Mock(side_effect=ValueError("a defect"))
    with monkeypatch.context() as patch:
        patch.setattr(member._shell.engine, "step", fails)
        with member.keep_alive():
            work(group.cluster, 5)
            assert fails.call_count == 1 and not logged(caplog, "failed")
            patch.undo()
            member.poll(0)
            assert logged(caplog, "a step of keep_alive() failed: the next call of the consumer goes on")
            work(group.cluster, 12)
    group.settle(member)
    assert len(logged(caplog, "keep_alive")) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, TimeoutError])
def test_an_exception_of_another_signals_handler_reaches_the_block(make_group, work, monkeypatch, error):
    group = make_group()
    member = group.member(**SHORT)
    group.settle(member)

    def handler():
        raise error

    def interrupted(now, later=""):
        handler()

    def block():
        with member.keep_alive():
            monkeypatch.setattr(member._shell.engine, "step", interrupted)
            work(group.cluster, 5)

    with pytest.raises(error):
        block()
    monkeypatch.undo()
    group.settle(member)


@pytest.mark.soak(600)
@pytest.mark.timeout(900)
def test_ctrl_c_at_any_line_of_a_tick_leaves_a_consumer_that_goes_on(make_group, tick, run_traced, request):
    """And at any line of the block's beginning and end; this takes a sample of the lines, ``--soak`` takes all."""
    group = make_group(partitions=1)
    member, tp = group.member(**SHORT), TopicPartition("t", 0)
    group.settle(member)
    read, produced, number = 0, 0, 1
    while True:
        group.cluster.produce("t", [b"x"])
        produced += 1

        def block():
            with member.keep_alive():
                group.cluster.clock.advance(2.1)
                tick()
                tick()

        if not run_traced(block, number):
            break
        assert not keep_alive._keeper._blocks and not keep_alive._keeper._timer.runs, number
        number = number + 1 if request.config.getoption("--soak") else int(number * 1.1) + 1
    while read < produced:
        read += sum(map(len, member.poll(500).values()))
    assert read == produced > 20
    assert member.position(tp) == read


def test_blocks_may_be_nested_and_end_in_any_order(make_group, timer, work):
    group = make_group()
    one, other = group.member(**SHORT), group.member(**SHORT)
    group.settle(one, other)
    before = one.group_metadata(), other.group_metadata()
    first, second, third = one.keep_alive(), other.keep_alive(), one.keep_alive()
    first.__enter__()
    second.__enter__()
    third.__enter__()
    work(group.cluster, 10)
    first.__exit__(None, None, None)
    work(group.cluster, 10)
    second.__exit__(None, None, None)
    other.poll(0)
    assert timer.runs
    third.__exit__(None, None, None)
    assert not timer.runs and one._shell.stepped == one._reader.stepped
    one.poll(0)
    other.poll(0)
    assert (one.group_metadata(), other.group_metadata()) == before


def test_a_block_may_close_its_consumer_and_use_it(make_group, work):
    group = make_group()
    member = group.member(**SHORT)
    with member.keep_alive():
        group.settle(member)
        work(group.cluster, 1)
        member.close()
        work(group.cluster, 1)
    with pytest.raises(IllegalStateError, match="closed"), member.keep_alive():
        pass


def test_where_it_is_not_possible_an_error_names_alternatives(make_group, timer, monkeypatch):
    group = make_group()
    raised = []

    def assigned(partitions):
        with pytest.raises(IllegalStateError, match=r"inside another call.*drive\(\).*run_in_executor") as caught:
            member.keep_alive().__enter__()
        raised.append(caught.value)

    member = group.member(Listener(assigned), **SHORT)
    group.settle(member)
    assert raised

    def start():
        monkeypatch.setattr(keep_alive._keeper, "_timer", IntervalTimer(lambda frame: None))
        with pytest.raises(IllegalStateError, match=r"in the main thread only.*drive\(\)") as caught:
            member.keep_alive().__enter__()
        raised.append(caught.value)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert len(raised) == 2
    block = member.keep_alive()
    monkeypatch.setattr(keep_alive._keeper, "_timer", timer)
    with block, pytest.raises(IllegalStateError, match="begun already"):
        block.__enter__()


def test_a_block_that_ctrl_c_ends_as_its_exit_begins_gets_no_more_steps(make_group, timer, tick):
    """Python checks for signals before the first line of a function, where nothing can catch what they raise."""
    group = make_group()
    member = group.member(**SHORT)
    group.settle(member)

    def trace(frame, event, arg):
        if frame.f_code is keep_alive.KeepAlive.__exit__.__code__:
            raise KeyboardInterrupt

    before = sys.gettrace()
    try:
        with member.keep_alive():
            sys.settrace(trace)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    assert timer.runs and tick() is None and not keep_alive._keeper._blocks
    timer.stop()


def test_no_garbage_is_collected_in_a_step(make_group, tick, monkeypatch):
    """It could call ``__del__`` of the program, or end a block."""
    group = make_group()
    member = group.member(**SHORT)
    group.settle(member)
    enabled = []
    monkeypatch.setattr(keep_alive, "_step", lambda core: enabled.append(gc.isenabled()))
    with member.keep_alive():
        tick()
    assert enabled == [False] and gc.isenabled()


def test_a_block_whose_timer_the_program_has_taken_ends_with_a_warning(make_group, monkeypatch, caplog):
    group = make_group()
    member = group.member(**SHORT)
    group.settle(member)
    monkeypatch.setattr(keep_alive._keeper, "_has_warned", False)
    with member.keep_alive():
        pass
    with member.keep_alive():
        signal.alarm(100)
        signal.alarm(0)
        with member.keep_alive():  # lets the ticks begin again
            assert not logged(caplog, "SIGALRM")
        assert keep_alive._keeper._timer.runs
    assert not logged(caplog, "SIGALRM")
    for _ in range(2):
        with member.keep_alive(), member.keep_alive():
            signal.alarm(100)
            signal.alarm(0)
    assert len(logged(caplog, "SIGALRM or ITIMER_REAL: from then on no heartbeats")) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_no_block(make_group, monkeypatch):
    group = make_group()
    member = group.member(**SHORT)
    before = signal.getsignal(signal.SIGALRM)
    with member.keep_alive():
        assert signal.getsignal(signal.SIGALRM) is not before
        with keep_alive._keeper._logs:
            keep_alive.log.warning("the parent's")
        pid = os.fork()
        if pid == 0:
            is_clean = not keep_alive._keeper._blocks and not keep_alive._keeper._logs._held
            is_clean = is_clean and signal.getsignal(signal.SIGALRM) is before
            os._exit(0 if is_clean else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert keep_alive._keeper._blocks
    assert signal.getsignal(signal.SIGALRM) is before


def test_log_lines_of_a_long_block_come_with_its_next_call(make_group, work, caplog):
    group = make_group()
    member = group.member(**SHORT)
    group.settle(member)
    caplog.set_level(logging.DEBUG, "thinconsumer")
    with ExitStack() as stack:
        stack.enter_context(member.keep_alive())
        caplog.clear()
        group.cluster.clock.advance(7)
        work(group.cluster, 0.2)
        assert not caplog.records
        member.poll(0)
        assert logged(caplog, "s between polls, session_timeout_ms=6000")
