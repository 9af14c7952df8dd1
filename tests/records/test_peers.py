"""The record encoders and decoders of kafka-python and aiokafka, in both directions."""

import pytest
from handmade import build_legacy
from hypothesis import HealthCheck, given, settings
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.compression import Codec

NOW = 1_700_000_000_000
BIG = 1 << 24


def read_with_kafka_python(data):
    found = []
    for batch in MemoryRecords(data):
        assert batch.validate_crc()
        found += batch
    return found


def write_with_kafka_python(records, magic, codec):
    if magic == 2:
        builder = DefaultRecordBatchBuilder(magic, codec, False, -1, -1, -1, BIG)
    else:
        builder = LegacyRecordBatchBuilder(magic, codec, BIG)
    for n, r in enumerate(records):
        builder.append(n, r.timestamp, r.key, r.value, list(r.headers))
    return bytes(builder.build())


def read_with_aiokafka(data):
    records = pytest.importorskip("aiokafka.record.memory_records").MemoryRecords(data)
    found = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        found += batch
    return found


def write_with_aiokafka(records, magic, codec):
    if magic == 2:
        module = pytest.importorskip("aiokafka.record.default_records")
        builder = module.DefaultRecordBatchBuilder(magic, codec, 0, -1, -1, -1, BIG)
        for n, r in enumerate(records):
            builder.append(n, r.timestamp, r.key, r.value, list(r.headers))
    else:
        builder = pytest.importorskip("aiokafka.record.legacy_records").LegacyRecordBatchBuilder(magic, codec, BIG)
        for n, r in enumerate(records):
            builder.append(n, r.timestamp, r.key, r.value)
    return bytes(builder.build())


PEERS = {
    "kafka-python": (read_with_kafka_python, write_with_kafka_python),
    "aiokafka": (read_with_aiokafka, write_with_aiokafka),
}
#: kafka-python needs packages of its own for these codecs and for lz4 in format 0.
ABSENT = {("kafka-python", 2, Codec.SNAPPY), ("kafka-python", 1, Codec.SNAPPY), ("kafka-python", 0, Codec.SNAPPY)}
ABSENT |= {("kafka-python", 0, Codec.LZ4), ("aiokafka", 0, Codec.LZ4)}
CASES = [
    (peer, magic, codec)
    for peer in PEERS
    for magic in (0, 1, 2)
    for codec in Codec
    if (peer, magic, codec) not in ABSENT and (magic == 2 or codec != Codec.ZSTD)
]
RECORDS = [
    NewRecord(
        None if n % 11 == 3 else b"value %d " % n * (n % 17),
        None if n % 3 else b"key %d" % n,
        [("trace", bytes([n % 256])), ("none", None), ("é", b"")] if n % 5 == 1 else [],
        NOW + n * n % 10_000,
    )
    for n in range(400)
]


def ours(data):
    batches, error = split(memoryview(data))
    assert error is None
    return [row for batch in batches for row in batch.decode("t", 0)]


def plain(records, magic, start=0):
    return [
        (start + n, r.key, r.value, list(r.headers) if magic == 2 else [], r.timestamp if magic else None)
        for n, r in enumerate(records)
    ]


def seen(found, magic):
    return [(r.offset, r.key, r.value, list(r.headers), r.timestamp if magic else None) for r in found]


@pytest.mark.parametrize(("peer", "magic", "codec"), CASES)
def test_their_batches_are_read(peer, magic, codec):
    records = RECORDS if magic == 2 else [r._replace(headers=[]) for r in RECORDS]
    assert seen(ours(PEERS[peer][1](records, magic, codec)), magic) == plain(records, magic)


@pytest.mark.parametrize(("peer", "magic", "codec"), CASES)
def test_they_read_our_batches(peer, magic, codec):
    if magic == 2:
        data = build_batch(RECORDS, base_offset=70, codec=codec)
    else:
        data = build_legacy(RECORDS, magic=magic, base_offset=70, codec=codec)
    assert seen(PEERS[peer][0](data), magic) == plain(RECORDS, magic, 70)


@pytest.mark.parametrize("peer", PEERS)
def test_same_bytes_for_the_same_uncompressed_records(peer):
    """There is only one way to write them."""
    theirs = PEERS[peer][1](RECORDS, 2, Codec.NONE)
    epoch = int.from_bytes(theirs[12:16], "big", signed=True)
    assert build_batch(RECORDS, leader_epoch=epoch) == theirs


@pytest.mark.parametrize("peer", PEERS)
def test_any_records_in_both_directions(peer, record_lists):
    read, write = PEERS[peer]

    @given(record_lists)
    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    def check(records):
        expected = plain(records, 2)
        assert seen(ours(write(records, 2, Codec.NONE)), 2) == expected
        assert seen(read(build_batch(records)), 2) == expected

    check()
