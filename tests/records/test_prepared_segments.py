"""Whole segments as old brokers left them on disk, read by us and by kafka-python: the same records, field for field.

Today's brokers cannot write formats 0 and 1 any more, so the segments are prepared here: any mixture of plain and
compressed sets of both formats and of batches of format 2, with the holes that compaction leaves.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.records import compression
from thinconsumer.records.batch import split
from thinconsumer.records.builder import NewRecord, build_batch, build_legacy

memory_records = pytest.importorskip("kafka.record.memory_records")

CODECS = (compression.Codec.NONE, compression.Codec.GZIP, compression.Codec.LZ4)
BYTES = st.none() | st.binary(max_size=40)


@st.composite
def sets(draw):
    """A function from a base offset to (bytes, next offset)."""
    magic = draw(st.sampled_from((0, 1, 2)))
    # kafka-python reads the lz4 of format 0, with its wrong checksum, only with a package that nobody installs.
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
    """What its decoder yields, checksums verified."""
    found = memory_records.MemoryRecords(segment)
    rows = []
    while (batch := found.next_batch()) is not None:
        assert batch.validate_crc()
        for r in batch:
            kind = -1 if r.timestamp_type is None else r.timestamp_type
            rows.append((r.offset, -1 if r.timestamp is None else r.timestamp, kind, r.key, r.value))
    return rows


def by_us(segment: bytes) -> list[tuple]:
    """What ours yields."""
    batches, error = split(memoryview(segment))
    assert error is None
    return [(r.offset, r.timestamp, r.timestamp_type, r.key, r.value) for b in batches for r in b.decode("t", 0)]


@settings(max_examples=100)
@given(st.lists(sets(), min_size=1, max_size=5), st.integers(0, 2**40), st.data())
def test_prepared_segments_read_as_kafka_python_reads_them(many, base, data):
    """Mixed formats in one segment, and cut off anywhere at its end, as brokers do."""
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
