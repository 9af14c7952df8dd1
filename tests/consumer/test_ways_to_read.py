"""What ``poll``, ``poll_batches`` and ``poll_raw`` have in common: time, positions, pauses, errors and refusals."""

import pytest

from thinconsumer import CorruptRecordError, IllegalArgumentError, IllegalStateError, TopicPartition
from thinconsumer.records.builder import NewRecord, build_batch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

OFFSETS = {
    "poll": lambda found: [record.offset for record in found],
    "poll_batches": lambda found: found.offsets.tolist(),
    "poll_raw": lambda found: [record.offset for batch in found for record in batch.decode()],
}


@pytest.fixture(params=OFFSETS)
def way(request):
    if request.param == "poll_batches":
        pytest.importorskip("numpy")
    return request.param


@pytest.fixture
def poll(way):
    """Return a function that makes one call, and returns the offsets by partition number."""

    def call(consumer, timeout_ms=1000, **how):
        found = getattr(consumer, way)(timeout_ms, **how)
        return {tp.partition: OFFSETS[way](some) for tp, some in found.items()}

    return call


@pytest.mark.parametrize("timeout_ms", [1, 100, 999.5, 60_000, 300_000])
def test_an_idle_call_takes_exactly_its_timeout(reading, poll, timeout_ms):
    """Neither less, which would spin, nor more."""
    w, consumer = reading()
    assert poll(consumer) == {}
    seconds, found = w.elapsed(lambda: poll(consumer, timeout_ms))
    assert found == {}
    assert seconds == pytest.approx(timeout_ms / 1000, abs=1e-9)


def test_a_call_returns_as_soon_as_something_came(reading, poll):
    w, consumer = reading()
    poll(consumer)
    w.network.call_at(w.clock.now() + 2, lambda: w.append(3))
    seconds, found = w.elapsed(lambda: poll(consumer, 60_000))
    assert found == {0: [0, 1, 2]}
    assert seconds == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("call", [*OFFSETS, "__next__"])
def test_reading_with_nothing_assigned_raises(reading, call):
    if call == "poll_batches":
        pytest.importorskip("numpy")
    _, consumer = reading()
    consumer.unsubscribe()
    with pytest.raises(IllegalStateError, match="assign"):
        getattr(consumer, call)()


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "8"])
def test_nonsense_is_refused_and_changes_nothing(reading, way, poll, wrong):
    _, consumer = reading(3)
    limit = "max_records" if way == "poll" else "max_bytes"
    with pytest.raises(IllegalArgumentError, match=limit):
        poll(consumer, **{limit: wrong})
    with pytest.raises(IllegalArgumentError, match="timeout"):
        poll(consumer, -1)
    assert poll(consumer) == {0: [0, 1, 2]}


def test_positions_are_behind_what_was_returned(world, poll):
    w = world(topics={"t": 2})
    w.append(4)
    w.append(2, partition=1)
    consumer = w.consumer(("t", 0), ("t", 1))
    found = {}
    while sum(map(len, found.values())) < 6:
        found.update(poll(consumer))
    assert found == {0: [0, 1, 2, 3], 1: [0, 1]}
    assert (consumer.position(T0), consumer.position(T1)) == (4, 2)
    consumer.seek(T0, 2)
    assert poll(consumer) == {0: [2, 3]}


def test_paused_partitions_are_kept_for_later(world, poll):
    w = world(topics={"t": 2})
    w.append(3)
    w.append(3, partition=1)
    consumer = w.consumer(("t", 0), ("t", 1))
    consumer.poll(1000, update_offsets=False)  # both are buffered
    consumer.pause(T0)
    assert poll(consumer) == {1: [0, 1, 2]}
    assert poll(consumer, 100) == {}
    consumer.resume(T0)
    assert poll(consumer) == {0: [0, 1, 2]}


def test_a_broken_batch_raises_after_the_records_before_it_until_it_is_skipped(world, poll):
    w = world()
    w.append(2)
    broken = bytearray(build_batch([NewRecord(b"x")] * 2))
    broken[-1] ^= 1
    w.cluster.append_batch(T0, bytes(broken))
    w.append(2)
    consumer = w.consumer()
    assert poll(consumer) == {0: [0, 1]}
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="t-0.*checksum") as caught:
            poll(consumer)
    assert (caught.value.offset, caught.value.next_offset, consumer.position(T0)) == (2, 4, 2)
    consumer.skip(caught.value)
    assert poll(consumer) == {0: [4, 5]}


def test_only_poll_calls_deserializers(reading, way, poll):
    seen = []
    _, consumer = reading(2, value_deserializer=lambda data: seen.append(data) or data)
    assert poll(consumer) == {0: [0, 1]}
    assert seen == ([b"0:0", b"0:1"] if way == "poll" else [])


def test_metrics_count_the_records(reading, poll):
    _, consumer = reading(5)
    poll(consumer)
    assert consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"] == 5
