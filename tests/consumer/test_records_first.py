"""A program that polls again at once gets the records of a small response before the next Fetch is sent."""

import pytest

from thinconsumer import TopicPartition
from thinconsumer.consumer import core as reader
from thinconsumer.consumer.health import HealthMonitor
from thinconsumer.network.connection import MANY_OBJECTS_BYTES
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import build_marker

T0 = TopicPartition("t", 0)
PROMPT_POLLS = 80  #: So many polls without a pause make the consumer expect the next one at once.


@pytest.fixture
def prompt(reading):
    """Return a function: a world, and a consumer that has read one record in each of many polls without a pause."""

    def make(**options):
        w, consumer = reading(PROMPT_POLLS, max_poll_records=1, **options)
        for _ in range(PROMPT_POLLS):
            assert consumer.poll(1000)
        w.append(1)
        assert consumer.poll(1000)
        return w, consumer

    return make


def waits_with_a_fetch(w, consumer):
    before = w.fetches()[-1].session_epoch
    w.clock.advance_to(w.clock.now() + 0.1)
    w.network.run_due()
    return w.fetches()[-1].session_epoch > before


def test_the_next_fetch_is_sent_by_the_next_poll(prompt):
    w, consumer = prompt()
    assert not waits_with_a_fetch(w, consumer)
    w.append(1)
    before = w.clock.now()
    [[record]] = consumer.poll(1000).values()
    assert record.offset == PROMPT_POLLS + 1
    assert w.clock.now() - before < 0.1


def test_the_consumer_has_to_be_called_at_once_then(prompt):
    w, consumer = prompt()
    assert consumer.wake_at() == w.clock.now()
    consumer.drive()
    assert consumer.wake_at() > w.clock.now()
    assert waits_with_a_fetch(w, consumer)


@pytest.mark.parametrize("call", ["poll", "drive"])
def test_a_call_without_waiting_sends_it(prompt, call):
    w, consumer = prompt()
    consumer.poll(0) if call == "poll" else consumer.drive()
    assert waits_with_a_fetch(w, consumer)


def test_a_program_that_works_on_some_record_for_long_has_the_fetch_sent_first(prompt):
    w, consumer = prompt()
    w.clock.advance_to(w.clock.now() + 1.0)
    for _ in range(20):
        w.append(1)
        assert consumer.poll(1000)
        assert waits_with_a_fetch(w, consumer)


def test_the_fetch_is_sent_before_the_records_of_a_large_response(prompt):
    w, consumer = prompt()
    w.cluster.produce("t", [b"x" * MANY_OBJECTS_BYTES])
    assert consumer.poll(1000)
    assert waits_with_a_fetch(w, consumer)


def test_a_response_without_records_to_return_does_not_stop_fetching(prompt):
    w, consumer = prompt()
    w.cluster.append_batch(T0, build_marker(ControlType.COMMIT, producer_id=9))
    w.network.call_at(w.clock.now() + 0.2, lambda: w.append(1))
    before = w.clock.now()
    [[record]] = consumer.poll(1000).values()
    assert record.offset == PROMPT_POLLS + 2
    assert w.clock.now() - before < 0.3


def test_records_are_returned_before_the_partitions_are_checked(prompt, monkeypatch):
    """The check, twice a second, takes as long as a fifth of such a poll; the next poll makes it before it waits."""
    w, consumer = prompt()
    buffer = consumer._reader.managers.buffer
    buffered, step = [], HealthMonitor.check
    monkeypatch.setattr(HealthMonitor, "check", lambda *args: (buffered.append(bool(buffer.queues)), step(*args))[1])
    for _ in range(300):
        w.network.call_at(w.clock.now() + 0.01, lambda: w.append(1))
        assert consumer.poll(1000)
    assert not any(buffered) and len(buffered) >= 5


def test_a_program_that_pauses_has_its_partitions_checked_although_records_are_buffered(prompt):
    w, consumer = prompt()
    watch = consumer._reader.watch
    for _ in range(5):
        due = watch.check_at
        w.clock.advance_to(due + 0.1)
        w.append(5)
        assert consumer.poll(1000)
        assert watch.check_at > due


def test_a_program_that_only_drives_has_its_partitions_checked_although_records_are_buffered(prompt):
    w, consumer = prompt()
    watch = consumer._reader.watch
    w.append(5)
    assert consumer.poll(1000)
    for _ in range(5):
        due = watch.check_at
        w.clock.advance_to(due + reader.CHECK_LATER_S)
        consumer.drive()
        assert watch.check_at > due and consumer._reader.managers.buffer.queues
