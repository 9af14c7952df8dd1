"""Deserializers that are not ready: polls go on with other partitions, wait, and lose, skip and repeat nothing."""

import pytest

from thinconsumer import DeserializerNotReadyError, HealthState, TopicPartition, WakeupError
from thinconsumer.records.batch import RecordBatch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Gate:
    """A deserializer that is not ready for some offsets until a time; it notes when it is called."""

    def __init__(self, one, until, offsets=(3,), partition=0, retry_after_ms=100):
        self.one, self.until, self.retry_after_ms = one, until, retry_after_ms
        self.waiting = {b"%d:%d" % (partition, offset) for offset in offsets}
        self.calls = []

    def __call__(self, data):
        if data in self.waiting:
            self.calls.append(self.one.clock.now())
            if self.one.clock.now() < self.until:
                raise DeserializerNotReadyError("schema 7 cannot be fetched", self.retry_after_ms)
        return int(data.split(b":")[1])


@pytest.mark.parametrize("policy", ["raise", "skip", pytest.fail])
@pytest.mark.parametrize("sizes", [[6], [1] * 6, [200]])
def test_a_poll_returns_what_is_before_the_record_and_waits_for_it(world, policy, sizes):
    one = world()
    for size in sizes:
        one.append(size)
    gate = Gate(one, until=one.clock.now() + 2)
    consumer = one.consumer(value_deserializer=gate, on_bad_record=policy)
    assert [record.value for record in consumer.poll(1000)[T0]] == [0, 1, 2]
    began = one.clock.now()
    assert consumer.poll(500) == {}
    assert one.clock.now() == pytest.approx(began + 0.5, abs=0.01)
    assert consumer.position(T0) == 3
    assert [record.value for record in consumer.poll(5000)[T0]] == [*range(3, sum(sizes))]
    assert one.clock.now() == pytest.approx(gate.until, abs=0.11)
    assert 10 < len(gate.calls) < 30


def test_no_poll_tries_before_the_time_that_the_deserializer_has_named(world):
    one = world()
    one.append(1)
    gate = Gate(one, until=one.clock.now() + 1.95, offsets=[0])
    consumer = one.consumer(value_deserializer=gate)
    while not (found := consumer.poll(0)):
        one.clock.advance(0.001)
    assert len(found[T0]) == 1
    assert len(gate.calls) == 21
    assert all(later - earlier >= 0.0999 for earlier, later in zip(gate.calls, gate.calls[1:]))


def test_other_partitions_go_on(world):
    one = world(topics={"t": 2})
    one.append(4, 0)
    one.append(4, 1)
    gate = Gate(one, until=one.clock.now() + 30, offsets=[0])
    consumer = one.consumer(T0, T1, value_deserializer=gate, max_poll_records=2)
    for first in (0, 2):
        assert {tp: [r.value for r in rows] for tp, rows in consumer.poll(1000).items()} == {T1: [first, first + 1]}
    one.append(1, 1)
    assert {tp: [r.value for r in rows] for tp, rows in consumer.poll(1000).items()} == {T1: [4]}
    assert (consumer.position(T0), consumer.position(T1)) == (0, 5)


def test_only_bad_records_reach_the_function(world):
    one = world()
    one.append(6)
    gate = Gate(one, until=one.clock.now() + 1)
    seen = []

    def number(data):
        if data in (b"0:2", b"0:4"):
            raise ValueError
        return gate(data)

    consumer = one.consumer(
        value_deserializer=number, on_bad_record=lambda error: seen.append(error.offset), consumer_timeout_ms=3000
    )
    assert [record.value for record in consumer] == [0, 1, 3, 5]
    assert seen == [2, 4]


def test_a_function_that_is_not_ready_is_called_again_until_it_is(world):
    one = world()
    one.append(6)
    calls = []

    def write(error):
        calls.append(error.offset)
        if len(calls) % 3:
            raise DeserializerNotReadyError("the dead letter is not acknowledged", 5)

    def number(data):
        if data in (b"0:2", b"0:3"):
            raise ValueError("bad")
        return int(data[2:])

    consumer = one.consumer(value_deserializer=number, on_bad_record=write, consumer_timeout_ms=1000)
    assert [record.value for record in consumer] == [0, 1, 4, 5]
    assert calls == [2, 2, 2, 3, 3, 3]


def test_health_names_the_record_and_is_stuck_only_after_a_while(world, caplog):
    one = world()
    one.append(4)
    gate = Gate(one, until=one.clock.now() + 100)
    caplog.set_level("INFO", "thinconsumer")
    consumer = one.consumer(value_deserializer=gate)
    consumer.poll(1000)
    consumer.poll(1000)
    health = consumer.health()
    assert health.state is not HealthState.STUCK
    assert "t-0 stays at offset 3: tried" in health.reason and "schema 7 cannot be fetched" in health.reason
    for _ in range(30):
        consumer.poll(1000)
    assert consumer.health().state is HealthState.STUCK
    assert len([line for line in caplog.messages if "schema 7" in line]) == 1
    assert len(consumer.poll(100_000)[T0]) == 1
    assert "t-0 goes on after 99.0 s and " in caplog.text
    assert consumer.position(T0) == 4
    assert consumer.health().state is HealthState.OK


def test_a_wakeup_ends_the_wait(world):
    one = world()
    one.append(1)
    consumer = one.consumer(value_deserializer=Gate(one, until=one.clock.now() + 100, offsets=[0]))
    consumer.poll(100)
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(10_000)


def test_seeking_past_the_record_ends_the_wait(world):
    one = world()
    one.append(6)
    consumer = one.consumer(value_deserializer=Gate(one, until=one.clock.now() + 100))
    consumer.poll(1000)
    consumer.poll(1000)
    consumer.seek(T0, 4)
    assert [record.value for record in consumer.poll(1000)[T0]] == [4, 5]


def test_many_records_that_wait_one_by_one_take_linear_time(world, monkeypatch):
    """The records behind the one that waits are not decoded anew for each try."""
    one = world()
    one.append(400)
    seen = set()

    def write(error):
        if error.offset not in seen:
            seen.add(error.offset)
            raise DeserializerNotReadyError("wait", 1)

    def fail(data):
        raise ValueError

    consumer = one.consumer(value_deserializer=fail, on_bad_record=write)
    decoded = []
    decode = RecordBatch.decode
    monkeypatch.setattr(RecordBatch, "decode", lambda self, *a, **k: decoded.append(1) or decode(self, *a, **k))
    while consumer.position(T0) < 400:
        assert consumer.poll(1000) == {}
    assert len(seen) == 400
    assert len(decoded) <= 2
