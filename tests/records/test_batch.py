"""Headers, checksums, control batches, and decoding of whole batches."""

import importlib.util
import pickle

import pytest
from handmade import build_legacy

from thinconsumer.errors import CorruptRecordError, UnsupportedCodecError
from thinconsumer.records import batch as module
from thinconsumer.records import compression
from thinconsumer.records.batch import ControlType, info
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.records.compression import Codec
from thinconsumer.types import TopicPartition

TP = TopicPartition("orders", 3)
RECORDS = [NewRecord(b"value %d" % n, b"key", [("h", b"1")], 1000 + n) for n in range(5)]
PLAIN = build_batch(RECORDS, base_offset=100, leader_epoch=7, producer_id=9, producer_epoch=1, base_sequence=0)


def test_header_fields_of_format_2(only_batch):
    batch = only_batch(
        build_batch(
            RECORDS, base_offset=100, codec=Codec.LZ4, leader_epoch=7, producer_id=9, producer_epoch=1,
            transactional=True, last_offset_delta=8, log_append_time=5000,
        )
    )  # fmt: skip
    assert (batch.base_offset, batch.next_offset, batch.leader_epoch, batch.magic) == (100, 109, 7, 2)
    assert (batch.codec, batch.is_control, batch.is_transactional, batch.timestamp_type) == (Codec.LZ4, False, True, 1)
    assert (batch.producer_id, batch.producer_epoch, batch.count, batch.max_timestamp) == (9, 1, 5, 5000)
    assert batch.size == len(batch.view)
    assert "100..108" in repr(batch)
    assert "transactional" in repr(batch)


@pytest.mark.parametrize(("magic", "kind"), [(0, -1), (1, 0)])
def test_header_fields_of_old_formats(only_batch, magic, kind):
    batch = only_batch(build_legacy(RECORDS[:1], magic=magic, base_offset=41))
    assert (batch.base_offset, batch.next_offset, batch.leader_epoch, batch.magic) == (41, 42, -1, magic)
    assert (batch.codec, batch.is_control, batch.is_transactional, batch.timestamp_type) == (0, False, False, kind)
    assert (batch.producer_id, batch.count) == (-1, 1)


@pytest.mark.parametrize("codec", Codec)
def test_whole_batch_to_rows(only_batch, contents, codec):
    batch = only_batch(build_batch(RECORDS, base_offset=100, codec=codec, leader_epoch=7))
    rows = batch.decode(*TP)
    assert [r.offset for r in rows] == [100, 101, 102, 103, 104]
    assert contents(rows) == contents(RECORDS)
    assert {(r.topic, r.partition, r.leader_epoch, r.timestamp_type) for r in rows} == {("orders", 3, 7, 0)}
    assert [r.offset for r in batch.decode(*TP, start=103)] == [103, 104]


def test_every_flipped_bit_is_detected(only_batch):
    """Except in fields that the checksum does not cover: base offset, length, leader epoch, magic."""
    for place in range(17, len(PLAIN)):
        for bit in range(8):
            data = bytearray(PLAIN)
            data[place] ^= 1 << bit
            batches, error = split(memoryview(bytes(data)), TP)
            if error is None:
                with pytest.raises(CorruptRecordError) as caught:
                    batches[0].decode(*TP)
                assert caught.value.offset == 100


@pytest.mark.parametrize(
    "data", [PLAIN, build_batch(RECORDS, base_offset=100, codec=Codec.GZIP)], ids=["plain", "gzip"]
)
def test_unchecked_flipped_bits_give_typed_errors_only(data):
    """With ``check_crcs=False`` a corrupt batch may yield wrong records, but no other exception and no disorder."""
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            batches, error = split(memoryview(bytes(changed)), TP)
            assert error is None or error.next_offset > error.offset
            for batch in batches:
                try:
                    rows = batch.decode(*TP, False)
                except (CorruptRecordError, UnsupportedCodecError) as exc:
                    assert exc.next_offset > exc.offset
                else:
                    offsets = [r.offset for r in rows]
                    assert offsets == sorted(set(offsets))
                    assert all(batch.base_offset <= offset < batch.next_offset for offset in offsets)


def test_error_of_a_corrupt_batch_names_its_offsets_and_where_to_seek(only_batch):
    with pytest.raises(CorruptRecordError, match="orders-3, offsets 100 to 104: the checksum.*seek to 105") as caught:
        only_batch(PLAIN[:-1] + b"\x77").decode(*TP)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.partition, error.offset, error.next_offset) == (TP, 100, 105)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_error_of_an_unknown_codec_names_partition_and_offset(only_batch, codec):
    data = bytearray(PLAIN)
    data[22] |= codec
    with pytest.raises(UnsupportedCodecError, match=f"orders-3.*codec {codec}") as caught:
        only_batch(bytes(data)).decode(*TP, False)
    assert (caught.value.partition, caught.value.offset, caught.value.next_offset) == (TP, 100, 105)


def test_error_of_a_missing_package_names_codec_partition_offset_and_extra(only_batch, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cramjam", None)
    data = build_batch(RECORDS, base_offset=100, codec=Codec.GZIP)
    data = data[:22] + b"\2" + data[23:]
    module.compression._functions.cache_clear()
    with pytest.raises(UnsupportedCodecError, match="orders-3.*offsets 100 to 104.*thinconsumer\\[snappy\\]") as caught:
        only_batch(data).decode(*TP, False)
    module.compression._functions.cache_clear()
    assert (caught.value.codec, caught.value.extra, caught.value.next_offset) == ("snappy", "thinconsumer[snappy]", 105)


def test_a_decompression_bomb_is_a_corrupt_batch(only_batch, monkeypatch):
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", 1_000_000)
    bomb = only_batch(build_batch([NewRecord(b"\0" * 5_000_000)], codec=Codec.ZSTD))
    assert bomb.size < 1000
    with pytest.raises(CorruptRecordError, match="more than 1000000 bytes"):
        bomb.decode(*TP)


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_control_batch_yields_its_marker_and_no_records(only_batch, kind):
    batch = only_batch(build_marker(kind, producer_id=5, base_offset=8))
    assert batch.is_control
    assert (batch.control_type(), batch.producer_id, batch.next_offset) == (kind, 5, 9)
    assert batch.decode(*TP) == []


def control(key):
    return build_batch([NewRecord(b"\0" * 6, key)], control=True, producer_id=1)


def test_control_type_of_other_batches(only_batch):
    assert only_batch(PLAIN).control_type() is None
    assert only_batch(build_batch([], control=True)).control_type() is None
    assert only_batch(control(b"\0\0\0\x02")).control_type() is ControlType.UNKNOWN, "KRaft's leader change"
    assert only_batch(control(b"\0\x05\0\x01more")).control_type() is ControlType.COMMIT, "a version of the future"


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_control_batch_without_a_marker_is_corrupt(only_batch, key):
    with pytest.raises(CorruptRecordError, match="control record"):
        only_batch(control(key)).control_type(*TP)


def test_an_empty_batch_moves_the_position(only_batch):
    """Compaction keeps a batch's header when all of its records are removed."""
    batch = only_batch(build_batch([], base_offset=50, last_offset_delta=9))
    assert batch.decode(*TP) == []
    assert batch.next_offset == 60


def test_info_names_how_records_are_decoded_the_checksum_and_every_codec():
    found = info()
    numpy = importlib.util.find_spec("numpy") is not None
    assert ("by numpy" in found["rows"]) is numpy and ("thinconsumer[fast]" in found["rows"]) is not numpy
    assert found["crc32c"].startswith("native")
    assert {"gzip", "snappy", "lz4", "zstd"} <= set(found)
