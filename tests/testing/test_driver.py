"""The driver in memory keeps the driver's contract, and jumps instead of waiting."""

import io
import math
from collections import deque

import pytest

from thinconsumer.driver import Driver, Resolve
from thinconsumer.errors import IllegalStateError
from thinconsumer.testing import MemoryDriver, ScriptedPeer

HERE = ("10.0.0.1", 9092)


def test_memory_driver_is_a_driver():
    driver: Driver = MemoryDriver()
    driver.check_process()
    with pytest.raises(io.UnsupportedOperation):
        driver.fileno()
    assert driver.wall_time() > driver.now()


def test_idle_step_jumps_to_the_deadline(stage):
    assert not stage.driver.step(stage.orders, stage.began + 3600.0)
    assert stage.passed == 3600.0


def test_step_ends_at_the_endpoints_wake_at(stage):
    stage.orders.agenda.alarm().set(stage.began + 7.0)
    assert not stage.driver.step(stage.orders, math.inf)
    assert stage.passed == 7.0


def test_step_returns_after_the_first_batch(stage):
    stage.network.listen(*HERE, ScriptedPeer())
    stage.dial()
    assert stage.driver.step(stage.orders, stage.began + 10.0)
    assert stage.passed == pytest.approx(stage.network.latency)


def test_step_with_a_past_deadline_does_not_wait(stage):
    stage.network.listen(*HERE, ScriptedPeer())
    stream = stage.dial()
    assert not stage.driver.step(stage.orders, stage.began)
    assert (stage.passed, stream.calls) == (0.0, [])


def test_waiting_for_what_can_never_happen_fails(stage):
    with pytest.raises(AssertionError, match="waiting without end"):
        stage.driver.step(stage.orders, math.inf)


def test_lookups_are_answered_within_the_step(stage):
    stage.network.names["kafka"] = ["10.0.0.1", "10.0.0.2"]
    stage.orders.commands.append(Resolve("kafka", 9092))
    assert stage.driver.step(stage.orders, stage.began)
    assert stage.orders.answers == [("kafka", 9092, ["10.0.0.1:9092", "10.0.0.2:9092"], "")]


def test_commands_are_carried_out_after_each_call(stage):
    """As over sockets: a closed stream gets no more bytes, not even the rest of one read."""
    stage.network.chunk = 1
    stage.network.listen(*HERE, ScriptedPeer(on_connect=b"hello"))
    stream = stage.dial()
    updated = stream.buffer_updated

    def buffer_updated(size, now):
        updated(size, now)
        if len(stream.received) == 2:
            stage.hang_up(stream)

    stream.buffer_updated = buffer_updated
    stage.run(0.1)
    assert stream.received == b"he"
    assert stage.driver.streams == []


def test_second_connection_of_one_stream_raises(stage):
    stage.network.listen(*HERE, ScriptedPeer())
    stage.dial()
    stage.orders.commands *= 2
    with pytest.raises(IllegalStateError):
        stage.driver.step(stage.orders, stage.began)


def test_endless_commands_of_an_endpoint_raise(stage):
    class Endless:
        def __init__(self):
            self.commands = deque([Resolve("x", 1)])

        def resolved(self, *answer):
            self.commands.append(Resolve("x", 1))

    with pytest.raises(AssertionError, match="than 100000 commands"):
        stage.driver.step(Endless(), stage.began)


def test_wakeup_ends_the_next_step_only_and_is_told_once(stage):
    stage.driver.wakeup()
    assert not stage.driver.step(stage.orders, stage.began + 5.0)
    assert stage.passed == 0.0
    stage.driver.step(stage.orders, stage.began + 5.0)  # closing steps on without asking: it must not spin
    assert stage.passed == 5.0
    assert stage.driver.woken


def test_close_closes_all_connections(stage):
    stage.network.listen(*HERE, ScriptedPeer())
    stream = stage.connect()
    stage.driver.close()
    assert stage.driver.streams == []
    assert stream.lost == []
    with pytest.raises(IllegalStateError):
        stage.driver.step(stage.orders, stage.began)
