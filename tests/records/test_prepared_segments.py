"""Whole log segments of old brokers, read by this package and by kafka-python with equal results.

Current brokers cannot write formats 0 and 1, so the segments are generated: any mixture of uncompressed and compressed
message sets of both formats and batches of format 2, with the gaps left by compaction.
"""

import pytest
from handmade import build_legacy
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.records import compression
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch

memory_records = pytest.importorskip("kafka.record.memory_records")

CODECS = (compression.Codec.NONE, compression.Codec.GZIP, compression.Codec.LZ4)
BYTES = st.none() | st.binary(max_size=40)


@st.composite
def sets(draw):
    """Draw a function from a base offset to (bytes, next offset)."""
    magic = draw(st.sampled_from((0, 1, 2)))
    # kafka-python reads lz4 in format 0 only with an obsolete package.
    codec = draw(st.sampled_from(CODECS if magic else CODECS[:2]))
    stamp = draw(st.none() | st.integers(0, 2**40)) if magic == 1 else None
    offset, records = 0, []
    for _ in range(draw(st.integers(1, 6))):
        offset += draw(st.sampled_from((0, 0, 0, 1, 5)))  # holes
        timestamp = draw(st.integers(0, 2**40)) if magic else -1
        records.append(NewRecord(draw(BYTES), draw(BYTES), (), timestamp, offset))
        offset += 1

    def build(base: int) -> tuple[bytes, int]:
        if magic == 2:
            return build_batch(records, base_offset=base, codec=codec), base + offset
        return build_legacy(records, magic=magic, base_offset=base, codec=codec, log_append_time=stamp), base + offset

    return build


def by_kafka_python(segment: bytes) -> list[tuple]:
    """Return the records of kafka-python's decoder, with verified checksums."""
    found = memory_records.MemoryRecords(segment)
    rows = []
    while (batch := found.next_batch()) is not None:
        assert batch.validate_crc()
        for r in batch:
            kind = -1 if r.timestamp_type is None else r.timestamp_type
            rows.append((r.offset, -1 if r.timestamp is None else r.timestamp, kind, r.key, r.value))
    return rows


def by_us(segment: bytes) -> list[tuple]:
    batches, error = split(memoryview(segment))
    assert error is None
    return [(r.offset, r.timestamp, r.timestamp_type, r.key, r.value) for b in batches for r in b.decode("t", 0)]


@settings(max_examples=100)
@given(st.lists(sets(), min_size=1, max_size=5), st.integers(0, 2**40), st.data())
def test_prepared_segments_are_read_as_by_kafka_python(many, base, data):
    """Mixed formats in one segment, truncated at any byte."""
    segment = b""
    for build in many:
        written, base = build(base)
        segment += written
    whole = by_kafka_python(segment)
    assert by_us(segment) == whole
    cut = segment[: data.draw(st.integers(0, len(segment)), "cut")]
    kept = by_us(cut)
    assert kept == whole[: len(kept)]
    assert kept == by_kafka_python(cut)
