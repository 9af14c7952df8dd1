"""Records of format 2: gaps, timestamps, header names and malformed bytes."""

import struct

import pytest
from handmade import encode_record, varint_of
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import CorruptRecordError
from thinconsumer.records.batch import HEADER_SIZE
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch

NOW = 1_700_000_000_000


@pytest.mark.parametrize("key", [None, 12])
@pytest.mark.parametrize("count", [5, 70, 300])
def test_compacted_batches_keep_their_next_offset(only_batch, same, some, key, count):
    """Records are missing inside and at the end."""
    records = [r._replace(offset=3 + 2 * n + n // 10) for n, r in enumerate(some(count, key=key, step=1))]
    batch = only_batch(build_batch(records, base_offset=1000, last_offset_delta=5000))
    assert [r.offset for r in batch.decode("t", 0)] == [1000 + r.offset for r in records]
    assert batch.next_offset == 6001
    same(batch, records)


@pytest.mark.parametrize("count", [3, 100])
def test_delete_horizon_replaces_the_base_timestamp(only_batch, same, some, count):
    """Timestamp deltas are then large and negative (KIP-534)."""
    records = some(count, key=5, step=1)
    batch = only_batch(build_batch(records, delete_horizon=NOW + 86_400_000))
    assert batch.base_timestamp == NOW + 86_400_000
    same(batch, records)


def test_log_append_time_is_every_records_timestamp(only_batch, some):
    batch = only_batch(build_batch(some(20, step=5), log_append_time=NOW + 999))
    rows = batch.decode("t", 0)
    assert {(r.timestamp, r.timestamp_type) for r in rows} == {(NOW + 999, 1)}


@pytest.mark.parametrize("base", [2**63 - 1, -(2**63)])
def test_timestamps_wrap_as_javas_do(only_batch, base):
    data = bytearray(build_batch([NewRecord(b"", timestamp=0), NewRecord(b"", timestamp=5)]))
    struct.pack_into(">q", data, 27, base)
    stamps = only_batch(bytes(data)).columns(check_crcs=False).timestamps
    assert list(stamps) == [base, base + 5 if base < 0 else base + 5 - 2**64]


def test_header_keys_that_are_not_utf8_show_replacement_characters(only_batch):
    """Brokers do not check them. Java returns U+FFFD; an error would make the partition unreadable."""
    raw = bytearray(build_batch([NewRecord(b"v", headers=[("abc", b"1"), ("é", b"2")])]))
    raw[raw.index(b"abc")] = 0xFF
    (row,) = only_batch(bytes(raw)).decode("t", 0, False)
    assert row.headers == (("\ufffdbc", b"1"), ("é", b"2"))


def body_of(*records: bytes, count=None, delta=None) -> bytes:
    """Return a batch around hand-made records."""
    body = b"".join(records)
    number = len(records) if count is None else count
    shell = bytearray(build_batch([], base_offset=10, last_offset_delta=number - 1 if delta is None else delta))
    struct.pack_into(">i", shell, 8, 49 + len(body))
    struct.pack_into(">i", shell, 57, number)
    return bytes(shell) + body


def made(fields: bytes, length=None) -> bytes:
    out = bytearray()
    out += varint_of(len(fields) if length is None else length)
    return bytes(out) + fields


GOOD = encode_record(NewRecord(b"value"), 0, 0)
#: attributes, timestamp, offset, null key, value "v", then what is wrong.
HEAD = b"\0\0\0\1\2v"
LIES = {
    "no records where some are claimed": body_of(count=1),
    "negative count": body_of(GOOD, count=-1, delta=0),
    "count beyond the bytes": body_of(GOOD, count=2**31 - 1, delta=2**31 - 1),
    "count one too many": body_of(GOOD, GOOD, count=3),
    "count one too few": body_of(GOOD, encode_record(NewRecord(b"v"), 1, 0), count=1),
    "length 0": body_of(made(HEAD + b"\0", 0)),
    "length negative": body_of(made(HEAD + b"\0", -1)),
    "length too large": body_of(made(HEAD + b"\0", 2**31 - 1)),
    "length one less": body_of(made(HEAD + b"\0", len(HEAD))),
    "length one more": body_of(made(HEAD + b"\0", len(HEAD) + 2)),
    "value beyond the record": body_of(made(b"\0\0\0\1\xfe\xff\xff\xff\x0fv\0")),
    "key beyond the record": body_of(made(b"\0\0\0\xfe\xff\xff\xff\x0fv\0")),
    "no place for headers": body_of(made(HEAD)),
    "null value in two bytes and no headers": body_of(made(b"\0\0\0\1\x81\0")),
    "negative header count": body_of(made(HEAD + b"\1")),
    "headers claimed": body_of(made(HEAD + b"\2")),
    "headers claimed by all of many alike": body_of(*(made(b"\0\0" + bytes((2 * n,)) + b"\1\2v\2") for n in range(40))),
    "header count beyond the bytes": body_of(made(HEAD + b"\xfe\xff\xff\xff\x0f")),
    "header without a name": body_of(made(HEAD + b"\2\1\0")),
    "header name beyond the record": body_of(made(HEAD + b"\2\x7eab")),
    "header value beyond the record": body_of(made(HEAD + b"\2\2a\x7eb")),
    "one header more than claimed": body_of(made(HEAD + b"\2\2a\2b\2c\2d")),
    "endless varint": body_of(made(b"\0" + b"\xff" * 11 + b"\0\1\2v\0")),
    "offset before the batch": body_of(made(b"\0\0\1\1\2v\0")),
    "offset behind the batch": body_of(made(b"\0\0\2\1\2v\0")),
    "offset twice": body_of(GOOD, GOOD),
    "offsets descend": body_of(encode_record(NewRecord(b"a"), 1, 0), encode_record(NewRecord(b"a"), 0, 0)),
}


@pytest.mark.parametrize("name", LIES)
def test_malformed_records_are_corrupt_batches(only_batch, name):
    with pytest.raises(CorruptRecordError) as caught:
        only_batch(LIES[name]).decode("t", 0, False)
    assert (caught.value.offset, caught.value.partition) == (10, ("t", 0))


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("before", [3, 90])
def test_malformed_records_after_good_ones_are_detected(only_batch, name, before):
    """The fast decoder is in the middle of a run there."""
    good = [encode_record(NewRecord(b"x" * 30), n, 0) for n in range(before)]
    lie = LIES[name][HEADER_SIZE:]
    count = struct.unpack_from(">i", LIES[name], 57)[0]
    if not 0 < count < 100:
        count = 1 if lie == GOOD else count
    with pytest.raises(CorruptRecordError):
        only_batch(body_of(*good, lie, count=before + (count if 0 < count < 100 else 1), delta=200)).decode(
            "t", 0, False
        )


@given(st.binary(max_size=80), st.integers(-1, 12), st.integers(0, 12))
@settings(max_examples=300)
def test_any_bytes_as_records_give_typed_errors_only(data, count, delta):
    (batch,), _ = split(memoryview(body_of(data, count=count, delta=delta)))
    try:
        rows = batch.decode("t", 0, False)
    except CorruptRecordError:
        return
    assert len(rows) == count


def test_records_truncated_anywhere_are_corrupt(only_batch, some):
    whole = [r._replace(headers=[("t", bytes([n]))] if n % 5 == 0 else ()) for n, r in enumerate(some(70))]
    records = [encode_record(record, n, 0) for n, record in enumerate(whole)]
    body = b"".join(records)
    for size in range(len(body)):
        with pytest.raises(CorruptRecordError):
            only_batch(body_of(body[:size], count=70)).decode("t", 0, False)
