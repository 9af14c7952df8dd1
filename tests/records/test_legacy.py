"""Message formats 0 and 1: uncompressed, in wrappers, and malformed bytes."""

import struct
import zlib

import pytest
from handmade import build_legacy

from thinconsumer.errors import CorruptRecordError, UnsupportedCodecError
from thinconsumer.records import compression
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord
from thinconsumer.records.compression import Codec, compress

RECORDS = [NewRecord(b"value %d" % n if n != 2 else None, b"k" if n else None, (), 1000 + n) for n in range(5)]
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
CASES = [(magic, codec) for magic in (0, 1) for codec in CODECS]


def rows(data: bytes, check_crcs: bool = True):
    batches, error = split(memoryview(data))
    assert error is None
    return [row for batch in batches for row in batch.decode("t", 0, check_crcs)]


@pytest.mark.parametrize(("magic", "codec"), CASES)
def test_messages_to_rows(magic, codec):
    found = rows(build_legacy(RECORDS, magic=magic, codec=codec, base_offset=40))
    assert [r.offset for r in found] == [40, 41, 42, 43, 44]
    assert [(r.key, r.value, r.headers) for r in found] == [(r.key, r.value, ()) for r in RECORDS]
    assert [r.timestamp for r in found] == [r.timestamp if magic else -1 for r in RECORDS]
    assert {(r.timestamp_type, r.leader_epoch) for r in found} == {(0 if magic else -1, -1)}


@pytest.mark.parametrize(("magic", "codec"), CASES)
def test_offsets_of_a_compacted_wrapper(magic, codec):
    """In format 1 the inner offsets are relative, and only the wrapper's own offset is absolute."""
    records = [r._replace(offset=offset) for r, offset in zip(RECORDS, [2, 3, 7, 20, 21])]
    assert [r.offset for r in rows(build_legacy(records, magic=magic, codec=codec, base_offset=40))] == [
        42,
        43,
        47,
        60,
        61,
    ]


def test_base_offset_of_a_wrapper_is_its_last_offset():
    (batch,), _ = split(memoryview(build_legacy(RECORDS, magic=1, codec=Codec.GZIP, base_offset=40)))
    assert (batch.base_offset, batch.next_offset) == (44, 45)
    assert [r.offset for r in batch.decode("t", 0, start=43)] == [43, 44]


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_of_a_wrapper_applies_to_its_messages(codec):
    found = rows(build_legacy(RECORDS, magic=1, codec=codec, log_append_time=7777))
    assert {(r.timestamp, r.timestamp_type) for r in found} == {(7777, 1)}


def test_format_0_inside_format_1():
    """Brokers with a raised message format have such wrappers; messages of format 0 have no timestamp."""
    found = rows(build_legacy(RECORDS, magic=1, codec=Codec.GZIP, base_offset=40, inner_magic=0))
    assert [(r.offset, r.timestamp) for r in found] == [(offset, -1) for offset in range(40, 45)]


@pytest.mark.parametrize(("magic", "codec"), CASES)
def test_an_incomplete_message_at_the_end_is_ignored(magic, codec):
    whole = build_legacy(RECORDS, magic=magic, codec=codec)
    for size in range(len(whole)):
        assert [r.offset for r in rows(whole[:size])] == list(range(len(rows(whole[:size]))))


@pytest.mark.parametrize(("magic", "codec"), CASES)
def test_every_flipped_bit_is_detected(magic, codec):
    """Except in offset and length, which the checksum does not cover."""
    whole = build_legacy(RECORDS if codec else RECORDS[:1], magic=magic, codec=codec, base_offset=40)
    for place in range(12, len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[place] ^= 1 << bit
            batches, error = split(memoryview(data))
            if error is None:
                with pytest.raises(CorruptRecordError):
                    batches[0].decode("t", 0)


@pytest.mark.parametrize(("magic", "codec"), CASES)
def test_unchecked_flipped_bits_give_typed_errors_only(magic, codec):
    whole = build_legacy(RECORDS, magic=magic, codec=codec, base_offset=40)
    for place in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[place] ^= 1 << bit
            batches, error = split(memoryview(data))
            assert error is None or error.next_offset > error.offset
            for batch in batches:
                try:
                    offsets = [r.offset for r in batch.decode("t", 0, False)]
                except (CorruptRecordError, UnsupportedCodecError):
                    continue
                assert offsets == sorted(set(offsets))
                assert offsets[-1] < batch.next_offset or not batch.base_offset


def wrapper(inner: bytes, codec: int = Codec.GZIP, magic: int = 1, offset: int = 9, value: bytes | None = b"") -> bytes:
    packed = compress(Codec.GZIP if codec == Codec.ZSTD else codec, inner) if value is not None else None
    covered = bytes((magic, codec)) + (bytes(8) if magic else b"") + struct.pack(">i", -1)
    covered += struct.pack(">i", -1) if packed is None else struct.pack(">i", len(packed)) + packed
    return struct.pack(">qiI", offset, len(covered) + 4, zlib.crc32(covered)) + covered


ONE = build_legacy(RECORDS[:1], magic=1)
LIES = {
    "no value": wrapper(b"", value=None),
    "nothing inside": wrapper(b""),
    "a wrapper inside": wrapper(build_legacy(RECORDS, magic=1, codec=Codec.GZIP)),
    "zstd, which these formats never had": wrapper(ONE, Codec.ZSTD),
    "a message too short": wrapper(struct.pack(">qi", 0, 13) + bytes(40)),
    "a message of negative length": wrapper(struct.pack(">qi", 0, -1) + bytes(40)),
    "format 2 inside": wrapper(ONE[:16] + b"\2" + ONE[17:]),
    "a wrong checksum inside": wrapper(ONE[:-1] + b"\x77"),
    "relative offset above the wrapper's": wrapper(ONE.replace(bytes(8), struct.pack(">q", 99), 1)),
    "absolute offset above the wrapper's": wrapper(build_legacy(RECORDS, magic=0, base_offset=50), magic=0),
    "the same offset twice": wrapper(ONE + ONE),
}


@pytest.mark.parametrize("name", LIES)
def test_malformed_messages_are_corrupt_batches(name):
    with pytest.raises(CorruptRecordError) as caught:
        rows(LIES[name])
    assert (caught.value.offset, caught.value.next_offset) == (9, 10)


def test_the_last_inner_message_may_be_truncated():
    """Java ignores it, too."""
    assert [r.offset for r in rows(wrapper(ONE + ONE[:-1]))] == [9]


def test_a_decompression_bomb_is_a_corrupt_batch(monkeypatch):
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", 1_000_000)
    (batch,), _ = split(memoryview(build_legacy([NewRecord(b"\0" * 3_000_000)], magic=1, codec=Codec.GZIP)))
    with pytest.raises(CorruptRecordError, match="more than 1000000 bytes"):
        batch.decode("t", 0)
