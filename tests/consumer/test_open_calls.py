"""A call that ran out of time is kept for a moment: made again, it returns the answer that came since."""

import pytest

from thinconsumer import CommitFailedError, Consumer, KafkaTimeoutError, TopicPartition
from thinconsumer.consumer.bulk_queries import look_up
from thinconsumer.consumer.open_calls import COUNT_MAX, KEPT
from thinconsumer.testing import Simulation

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def sim():
    return Simulation(seed=1, brokers=1, topics={"t": 2})


@pytest.fixture
def consumer(sim):
    options = {"bootstrap_servers": sim.bootstrap_servers, "group_id": "g", "enable_auto_commit": False}
    with Consumer(driver=sim.driver(), **options) as found:
        found.assign([TP])
        yield found


CALLS = {
    "committed": (lambda c: c.committed(TP, timeout_ms=0), None),
    "end_offsets": (lambda c: c.end_offsets([TP, OTHER], timeout_ms=0), {TP: 2, OTHER: 0}),
    "beginning_offsets": (lambda c: c.beginning_offsets([TP], timeout_ms=0), {TP: 0}),
    "offsets_for_times": (lambda c: c.offsets_for_times({OTHER: 5}, timeout_ms=0), {OTHER: None}),
    "topics": (lambda c: c.topics(timeout_ms=0), {"t"}),
    "partitions_for_topic": (lambda c: c.partitions_for_topic("t", timeout_ms=0), {0, 1}),
    "bootstrap": (lambda c: c.bootstrap(timeout_ms=0, refresh=True), None),
    "commit": (lambda c: c.commit({TP: 1}, timeout_ms=0), None),
}


def again(sim, call):
    """Make a call until it succeeds, for 3 s; return its result."""
    for _ in range(300):
        try:
            return call()
        except (KafkaTimeoutError, CommitFailedError):
            sim.run_for(0.01)
    raise AssertionError("it never succeeded")


@pytest.mark.parametrize("name", CALLS)
def test_a_call_without_time_succeeds_when_it_is_repeated(sim, consumer, name):
    sim.produce("t", 0, [b"a", b"b"])
    call, result = CALLS[name]
    assert again(sim, lambda: call(consumer)) == result
    assert len(consumer._reader.open_calls.kept) == 0


def test_a_repeated_commit_is_sent_once(sim, consumer):
    again(sim, lambda: consumer.commit({TP: 1}, timeout_ms=0))
    assert consumer.committed(TP) == 1
    assert consumer.metrics()["consumer-coordinator-metrics"]["commit-total"] == 1


def test_a_commit_without_time_says_why_it_was_not_written(sim, consumer):
    sim.kill(1)
    with pytest.raises(CommitFailedError) as caught:
        consumer.commit({TP: 1}, timeout_ms=0)
    assert (caught.value.reason, caught.value.partitions) == ("coordinator", (TP,))


def test_a_commit_that_another_one_followed_is_made_anew(sim, consumer):
    """Else the offset would stay at the other commit's."""
    with pytest.raises(CommitFailedError):
        consumer.commit({TP: 1}, timeout_ms=0)
    consumer.commit({TP: 2})
    consumer.commit({TP: 1})
    assert consumer.committed(TP) == 1


def test_committed_does_not_return_an_answer_from_before_a_commit(sim, consumer):
    consumer.commit({TP: 1})
    with pytest.raises(KafkaTimeoutError):
        consumer.committed(TP, timeout_ms=0)
    sim.run_for(0.1)
    consumer.commit({TP: 2})
    assert consumer.committed(TP) == 2


def test_kept_calls_are_few_and_are_abandoned_after_a_while(sim, consumer):
    consumer.bootstrap()
    for number in range(2 * COUNT_MAX):
        with pytest.raises(KafkaTimeoutError):
            consumer.end_offsets([TopicPartition("missing", number)], timeout_ms=0)
    assert len(consumer._reader.open_calls.kept) == COUNT_MAX
    sim.run_for(KEPT + 0.1)
    consumer.drive()
    consumer.drive()
    assert len(consumer._reader.open_calls.kept) == 0
    assert consumer._reader.managers.lookups.topics() == set()


def test_one_deadline_holds_for_all_questions_of_a_call(sim, consumer):
    """Each of them had the whole timeout."""
    consumer.bootstrap()
    sim.pause(1)
    began = sim.now()
    with pytest.raises(KafkaTimeoutError):
        look_up(consumer, [{TP: -1}, {TP: -2}, {OTHER: -1}], timeout_ms=1000)
    assert sim.now() - began == pytest.approx(1, abs=0.01)
