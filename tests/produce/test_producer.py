"""The producer's public calls on a cluster in memory."""

import io

import pytest

from thinconsumer.broker import Silence
from thinconsumer.errors import IllegalArgumentError, IllegalStateError, KafkaError, KafkaTimeoutError
from thinconsumer.partitioning import partition
from thinconsumer.produce import BufferFullError, RecordMetadata
from thinconsumer_testing.clock import SOME_DAY


def test_a_record_is_written_and_its_future_has_the_position(world):
    w, producer = world.start()
    future = producer.send("t", b"v", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp_ms=1234)
    assert not future.done
    assert future.error is None
    producer.flush()
    assert future.done
    assert future.result() == RecordMetadata("t", 0, 0, 1234)
    (record,) = w.cluster.records("t")
    assert (record.key, record.value, record.headers, record.timestamp) == (
        b"k",
        b"v",
        (("h", b"1"), ("n", None)),
        1234,
    )


def test_send_does_no_io_and_poll_0_is_one_step(world):
    w, producer = world.start()
    producer.send("t", b"v")
    assert w.network.dials == []
    before = w.clock.now()
    steps = 0
    while not producer.poll(0):
        w.clock.advance(0.001)
        steps += 1
        assert steps < 100
    assert w.clock.now() - before < 0.1
    assert w.values() == [b"v"]


def test_buffered_records_are_sent_in_one_batch(world):
    w, producer = world.start()
    for n in range(100):
        producer.send("t", b"%d" % n)
    producer.flush()
    assert w.stamps() == [(0, 0, 100)]


def test_timestamps_are_wall_clock_time_by_default(world):
    w, _ = world.start()
    future = w.deliver("t", b"v")
    assert future.result().timestamp == int(SOME_DAY * 1000)


def test_keys_choose_partitions_before_and_after_the_topic_is_known(world):
    _, producer = world.start(topics={"t": 7})
    keys = [b"key-%d" % n for n in range(50)]
    early = [producer.send("t", b"v", key=key) for key in keys]
    producer.flush()
    late = [producer.send("t", b"v", key=key) for key in keys]
    producer.flush()
    wanted = [partition(key, 7, 7) for key in keys]
    assert [r.result().partition for r in early] == wanted
    assert [r.result().partition for r in late] == wanted


def test_records_with_a_partition_do_not_overtake_those_without_metadata(world):
    w, producer = world.start()
    producer.send("t", b"first")
    producer.send("t", b"second", partition=0)
    w.deliver("t", b"third", key=b"k")
    assert w.values() == [b"first", b"second", b"third"]


def test_values_may_be_none_empty_or_any_bytes_like_object(world):
    w, producer = world.start()
    buffer = bytearray(b"abc")
    producer.send("t", buffer)
    buffer[:] = b"xyz"
    producer.send("t", None, key=b"k")
    producer.send("t", b"")
    w.deliver("t", memoryview(b"view"))
    assert w.values() == [b"abc", None, b"", b"view"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"value": "text"}, {"value": 1}, {"value": bytes(2**20)}, {"key": "text"}, {"topic": ""}, {"topic": b"t"},
        {"partition": -1}, {"partition": True}, {"partition": 1.0},
        {"timestamp_ms": -1}, {"timestamp_ms": 2**63}, {"timestamp_ms": 10**5000}, {"partition": -(10**5000)},
        {"timestamp_ms": 0.5},
        {"headers": [("h", "text")]}, {"headers": [("h",)]}, {"headers": [(b"h", b"1")]},
        {"headers": [("\udc80", b"1")]},
    ],
)  # fmt: skip
def test_invalid_arguments_raise_and_no_record_is_taken(world, arguments):
    _, producer = world.start()
    with pytest.raises(IllegalArgumentError):
        producer.send(**{"topic": "t", "value": b"v", **arguments})
    assert producer.idle
    assert producer._accumulator.buffered_bytes == 0


def test_a_full_buffer_raises_at_once_if_max_block_ms_is_0(world):
    w, producer = world.start(buffer_memory=1000, max_block_ms=0)
    futures = [producer.send("t", bytes(100)) for _ in range(8)]
    with pytest.raises(BufferFullError, match="buffer_memory=1000"):
        producer.send("t", bytes(100))
    assert w.network.dials == []
    producer.flush()
    producer.send("t", bytes(100))
    assert [r.result().offset for r in futures] == list(range(8))


def test_a_full_buffer_makes_send_wait_for_room(world):
    _, producer = world.start(buffer_memory=1000)
    futures = [producer.send("t", bytes(100)) for _ in range(100)]
    assert producer._accumulator.buffered_bytes <= 1000
    producer.flush()
    assert [r.result().offset for r in futures] == list(range(100))


def test_send_waits_no_longer_than_max_block_ms(world):
    w, producer = world.start(buffer_memory=1000, max_block_ms=300)
    w.cluster.on("Produce", Silence())
    for _ in range(8):
        producer.send("t", bytes(100))
    before = w.clock.now()
    with pytest.raises(BufferFullError, match="within 0.300 s"):
        producer.send("t", bytes(100))
    assert w.clock.now() - before == pytest.approx(0.3, abs=0.01)


def test_flush_times_out_and_leaves_records_under_way(world):
    w, producer = world.start()
    w.cluster.on("Produce", Silence())
    future = producer.send("t", b"v")
    before = w.clock.now()
    with pytest.raises(KafkaTimeoutError, match="after 2.000 s"):
        producer.flush(2000)
    assert w.clock.now() - before == pytest.approx(2.0, abs=0.01)
    assert not future.done
    with pytest.raises(IllegalStateError, match="still under way"):
        future.result()


def test_flush_does_not_raise_errors_of_records(world):
    w, _ = world.start(delivery_timeout_ms=1000)
    future = w.deliver("nowhere", b"v")
    assert isinstance(future.error, KafkaTimeoutError)


def test_close_sends_buffered_records(world):
    w = world()
    with w.producer() as producer:
        future = producer.send("t", b"v")
    assert future.result().offset == 0
    with pytest.raises(IllegalStateError, match="closed"):
        producer.send("t", b"v")
    with pytest.raises(IllegalStateError, match="closed"):
        producer.poll(0)
    producer.close()


@pytest.mark.parametrize(("timeout_ms", "tolerance"), [(500, 0.01), (0, 0)])
def test_close_fails_records_after_its_timeout(world, timeout_ms, tolerance):
    w, producer = world.start()
    w.cluster.on("Produce", Silence())
    futures = [producer.send("t", b"v"), producer.send("nowhere", b"v")]
    assert w.seconds_of(producer.close, timeout_ms=timeout_ms) == pytest.approx(timeout_ms / 1000, abs=tolerance)
    for future in futures:
        assert future.done
        with pytest.raises(KafkaError, match="was closed before"):
            future.result()


def test_poll_returns_once_records_are_settled_or_at_its_timeout(world):
    w, producer = world.start()
    for _ in range(5):
        producer.send("t", b"v")
    assert producer.poll(60_000) == 5
    assert w.clock.now() < 1001
    before = w.clock.now()
    assert producer.poll(700) == 0
    assert w.clock.now() - before == pytest.approx(0.7)


def test_polling_at_wake_at_is_enough(world):
    """Polled at wake_at() and when bytes arrive, the producer delivers everything without a busy loop."""
    w, producer = world.start(nodes=2, topics={"t": 4})
    futures = [producer.send("t", b"%d" % n, partition=n % 4) for n in range(100)]
    polls = 0
    while not producer.idle:
        now = w.clock.now()
        due = min(producer.wake_at(), w.network.next_event_at() or now)
        w.clock.advance_to(max(now, due))
        producer.poll(0)
        polls += 1
        assert polls < 100
    assert all(r.done for r in futures)
    w.clock.advance_to(producer.wake_at())  # the end of the pause after the last refresh of the metadata
    producer.poll(0)
    assert producer.wake_at() > w.clock.now() + 100


def test_the_memory_driver_has_no_descriptor(world):
    with pytest.raises(io.UnsupportedOperation):
        world().producer().fileno()


def test_negative_timeouts_raise(world):
    _, producer = world.start()
    for call in (producer.poll, producer.flush, producer.close):
        with pytest.raises(IllegalArgumentError):
            call(-1)


def test_the_context_manager_closes_after_an_exception(world):
    _, producer = world.start()
    with pytest.raises(ZeroDivisionError), producer:
        raise ZeroDivisionError
    with pytest.raises(IllegalStateError):
        producer.poll(0)
