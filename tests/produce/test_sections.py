"""Batches of another log, sent as they are: order, retries, splits, and records between them."""

import pytest

from thinconsumer import IllegalArgumentError, TopicPartition, UnsupportedCodecError
from thinconsumer.produce import BufferFullError
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.compression import Codec
from thinconsumer.records.raw_batch import RawBatch
from thinconsumer.records.section import RecordSection
from thinconsumer.wire.error_codes import Code

T0 = TopicPartition("t", 0)


def section_of(*values, codec=Codec.ZSTD):
    data = build_batch([NewRecord(value, timestamp=1000 + n) for n, value in enumerate(values)], codec=codec)
    return RecordSection.of(RawBatch(T0, data, 0))[0]


def stored(w):
    log = w.cluster.leader(T0).log
    return list(log.read_batches(0, log.end_offset))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_the_log_has_the_same_bytes_behind_a_new_header(world, codec):
    w, producer = world.start()
    sections = [section_of(b"a", b"b", codec=codec), section_of(b"c", codec=codec)]
    futures = [producer.send_section("t", 0, section) for section in sections]
    producer.flush()
    assert [(future.done, future.error) for future in futures] == [(True, None)] * 2
    assert [bytes(batch.view[61:]) for batch in stored(w)] == [section.data for section in sections]
    assert [(batch.base_offset, batch.count, batch.codec) for batch in stored(w)] == [(0, 2, codec), (2, 1, codec)]
    assert len({batch.producer_id for batch in stored(w)} - {-1}) == 1
    assert [stamp[1] for stamp in w.stamps()] == [0, 2]


def test_records_and_batches_keep_the_order_of_the_calls(world):
    """Some wait for metadata, others do not."""
    w, producer = world.start()
    for _ in range(2):
        producer.send("t", b"1", partition=0)
        producer.send_section("t", 0, section_of(b"2", b"3"))
        producer.send("t", b"4", partition=0)
        producer.flush()
    assert w.values() == [b"1", b"2", b"3", b"4"] * 2
    assert producer.idle


@pytest.mark.parametrize("code", [Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_PRODUCER_ID, Code.REQUEST_TIMED_OUT])
def test_a_batch_that_is_sent_again_is_in_the_log_once(world, code):
    w, producer = world.start()
    producer.send_section("t", 0, section_of(b"before"))
    producer.flush()
    w.refuse_produce(code)
    future = producer.send_section("t", 0, section_of(b"a", b"b"))
    producer.flush()
    assert future.error is None and w.values() == [b"before", b"a", b"b"]


def test_a_batch_that_the_leader_finds_too_large_is_split(world):
    w, producer = world.start()
    w.refuse_produce(Code.MESSAGE_TOO_LARGE, Code.MESSAGE_TOO_LARGE)
    future = producer.send_section("t", 0, section_of(b"a", b"b", b"c", b"d"))
    producer.poll(0)
    assert not future.done
    producer.flush()
    assert future.done and future.error is None and w.values() == [b"a", b"b", b"c", b"d"]
    assert {batch.codec for batch in stored(w)} == {Codec.ZSTD}


def test_a_batch_that_would_have_to_be_split_and_cannot_be_decoded_fails(world):
    w, producer = world.start()
    data = bytearray(section_of(b"a", b"b").encode(-1, -1, -1))
    data[22] |= 7  # a codec that is unknown here
    w.refuse_produce(Code.MESSAGE_TOO_LARGE)
    future = producer.send_section("t", 0, RecordSection.of(RawBatch(T0, bytes(data), 0))[0])
    after = producer.send_section("t", 0, section_of(b"c"))
    producer.flush()
    assert isinstance(future.error, UnsupportedCodecError) and after.error is None and w.values() == [b"c"]


def test_a_part_that_fails_is_the_error_of_the_whole(world):
    w, producer = world.start()
    w.refuse_produce(Code.MESSAGE_TOO_LARGE, Code.MESSAGE_TOO_LARGE, Code.TOPIC_AUTHORIZATION_FAILED)
    future = producer.send_section("t", 0, section_of(b"a", b"b"))
    producer.flush()
    assert future.done and future.error is not None


def test_limits_are_those_of_records(world):
    w, producer = world.start(max_request_size=1024, buffer_memory=1500, max_block_ms=0)
    with pytest.raises(IllegalArgumentError, match="max_request_size"):
        producer.send_section("t", 0, section_of(b"x" * 1024, codec=Codec.NONE))
    producer.send_section("t", 0, section_of(b"x" * 800, codec=Codec.NONE))
    with pytest.raises(BufferFullError):
        producer.send_section("t", 0, section_of(b"x" * 800, codec=Codec.NONE))
    producer.flush()
    producer.send_section("t", 0, section_of(b"y" * 800, codec=Codec.NONE))
    producer.flush()
    assert w.values() == [b"x" * 800, b"y" * 800]


def test_a_topic_that_does_not_exist_fails_its_batches(world):
    _, producer = world.start(delivery_timeout_ms=2000, request_timeout_ms=1000)
    future = producer.send_section("missing", 0, section_of(b"a", b"b"))
    producer.flush()
    assert future.done and future.error is not None and producer.idle
