"""Polls that return buffered records within a millisecond of the last step, without a step of their own."""

import select

import pytest

from thinconsumer import Consumer, TopicPartition, WakeupError
from thinconsumer.consumer import core as reader
from thinconsumer.engine import Shell
from thinconsumer_testing.broker.server import EmbeddedBroker

T0 = TopicPartition("t", 0)


@pytest.fixture
def buffered(reading, monkeypatch):
    """Return a function: a world, a consumer with eight records left in its buffer, and its steps from now on."""

    def make():
        w, consumer = reading(10, max_poll_records=1)
        assert consumer.poll(1000)
        w.clock.advance_to(w.clock.now() + 0.5)  # what the last poll sent is answered
        w.network.run_due()
        assert consumer.poll(0)
        steps, run_due = [], Shell.run_due
        monkeypatch.setattr(Shell, "run_due", lambda *args, **how: steps.append(args) or run_due(*args, **how))
        return w, consumer, steps

    return make


def test_a_poll_right_after_a_step_makes_none(buffered, offsets):
    _, consumer, steps = buffered()
    found = [offsets(consumer.poll(0)) for _ in range(8)]
    assert found == [{0: [offset]} for offset in range(2, 10)]
    assert not steps


def test_the_last_record_is_followed_by_a_poll_that_steps(buffered):
    _, consumer, steps = buffered()
    while consumer.poll(0):
        assert not steps
    assert len(steps) == 1


def test_a_poll_a_millisecond_later_steps(buffered):
    w, consumer, steps = buffered()
    w.clock.advance_to(w.clock.now() + reader.STEP_EVERY_S)
    assert consumer.poll(0)
    assert len(steps) == 1
    assert consumer.poll(0)
    assert len(steps) == 1


@pytest.mark.parametrize("timeout_ms", [0, 50])
def test_a_poll_that_finds_no_record_to_return_steps(buffered, timeout_ms):
    """Otherwise a loop of polls would not see responses for a millisecond, and one with a timeout would end early."""
    w, consumer, steps = buffered()
    consumer.pause(*consumer.assignment())
    consumer.drive()
    steps.clear()
    before = w.clock.now()
    assert not consumer.poll(timeout_ms)
    assert w.clock.now() - before == pytest.approx(timeout_ms / 1000)
    assert steps


def test_a_poll_after_a_call_that_changes_something_steps(buffered, offsets):
    _, consumer, steps = buffered()
    [tp] = consumer.assignment()
    consumer.pause(tp)
    assert not consumer.poll(0)
    consumer.resume(tp)
    steps.clear()
    assert offsets(consumer.poll(0)) == {0: [2]}
    assert len(steps) == 1


def test_a_poll_steps_if_something_is_due(buffered):
    """A heartbeat, for example."""
    w, consumer, steps = buffered()
    consumer._shell.engine.agenda.alarm().set(w.clock.now())
    assert consumer.poll(0)
    assert len(steps) == 1


def test_a_wakeup_ends_a_poll(buffered, offsets):
    _, consumer, steps = buffered()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(0)
    assert len(steps) == 1
    assert offsets(consumer.poll(0)) == {0: [2]}


def test_the_descriptor_is_not_readable_after_a_wakeup_that_ended_a_poll():
    """Otherwise an event loop would call a program that does not poll again at once in a loop."""
    with EmbeddedBroker(1, {"t": 1}) as broker:
        broker.produce("t", [b"x"] * 200, 0)
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([T0])
            while not consumer.poll(1, 1):
                broker.step()
            for _ in range(10):
                consumer.poll(0, 1)
                consumer.wakeup()
                with pytest.raises(WakeupError):
                    consumer.poll(0, 1)
                assert select.select([consumer.fileno()], [], [], 0)[0] == []


def test_polls_step_although_the_clock_stands_still(buffered):
    _, consumer, steps = buffered()
    for _ in range(reader.SKIPPED_STEPS_MAX):
        assert consumer.poll(0, update_offsets=False)
    assert not steps
    assert consumer.poll(0, update_offsets=False)
    assert len(steps) == 1


def test_the_partitions_are_checked_when_that_is_due(buffered):
    """Otherwise polls within a millisecond of one another would delay health() and warnings."""
    w, consumer, _ = buffered()
    watch = consumer._reader.watch
    watch.check_at = w.clock.now() - 0.001
    assert consumer.poll(0)
    assert watch.check_at > w.clock.now()
