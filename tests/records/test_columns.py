"""Records of format 2: the fast way against the careful one, and bytes that lie."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import CorruptRecordError
from thinconsumer.records import columns
from thinconsumer.records.batch import HEADER_SIZE, split
from thinconsumer.records.builder import NewRecord, build_batch, encode_record, write_varint
from thinconsumer.records.runs import Found

NOW = 1_700_000_000_000


def careful(batch):
    """What the byte-by-byte reader makes of it: the judge of the fast one."""
    found = Found()
    columns._read(bytes(batch.view[HEADER_SIZE:]), 0, batch.count, found)
    return found


def same(batch, records):
    """Both readers agree with what was written."""
    fast, slow = batch.columns(), careful(batch)
    assert list(fast.keys) == slow.keys == [r.key for r in records]
    assert list(fast.values) == slow.values == [r.value for r in records]
    assert list(fast.headers) == [tuple(r.headers) for r in records]
    assert {place: some for place, some in enumerate(fast.headers) if some} == slow.headers
    assert list(fast.timestamps) == [r.timestamp for r in records]
    assert [offset - batch.base_offset for offset in fast.offsets] == slow.offsets


def run(count, value=100, key=None, step=0, headers=()):
    return [
        NewRecord(
            None if value is None else bytes([n % 251]) * (value(n) if callable(value) else value),
            None if key is None else bytes([n % 250]) * (key(n) if callable(key) else key),
            headers,
            NOW + (step(n) if callable(step) else step * n),
        )
        for n in range(count)
    ]


SHAPES = {
    "one": run(1),
    "constant": run(200),
    "constant, with keys": run(200, key=20),
    "constant, empty keys": run(200, key=0),
    "constant, empty": run(200, value=0),
    "constant, long keys": run(100, key=70),
    "constant, long values": run(100, value=9000),
    "constant, one stamp a record": run(200, step=1),
    "constant, wide stamps": run(200, step=100),
    "constant, very wide stamps": run(200, step=100_000),
    "constant, but for one": run(200, value=lambda n: 99 if n == 130 else 100),
    "constant, but for the last": run(200, value=lambda n: 99 if n == 199 else 100),
    "constant in size, not in shape": run(200, value=lambda n: 50 - n % 2, key=lambda n: 10 + n % 2),
    "all null": run(200, value=None),
    "values around one byte of length": run(300, value=lambda n: 40 + n % 50),
    "keys around one byte of length": run(300, key=lambda n: 40 + n % 50),
    "some keys": [r if n % 3 else r._replace(key=None) for n, r in enumerate(run(200, key=9))],
    "a few keys": [r if n % 50 == 30 else r._replace(key=None) for n, r in enumerate(run(200, key=9))],
    "some tombstones": [r if n % 7 else r._replace(value=None) for n, r in enumerate(run(200, key=9))],
    "the same headers": run(200, headers=[("a", b"1"), ("b", None)]),
    "some headers": [r._replace(headers=[("t", bytes([n]))] if n % 5 == 0 else ()) for n, r in enumerate(run(200))],
    "long headers": run(50, key=5, headers=[("n" * 70, b"v" * 70), ("n" * 9000, b"v" * 9000)]),
    "many headers": run(20, headers=[("n", b"v")] * 100),
    "stamps out of order": run(200, key=5, step=lambda n: (n * 37) % 100),
    "stamps far apart": run(200, step=lambda n: (n * 7919) % 3_000_000),
    "more than two bytes of offset": run(9000, value=1),
    "more than two bytes of offset, varied": run(9000, value=lambda n: n % 5, key=2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_fast_and_careful_agree(only, name):
    same(only(build_batch(SHAPES[name], base_offset=1000)), SHAPES[name])


def test_fast_and_careful_agree_on_anything(only, record_lists):
    @given(record_lists)
    @settings(max_examples=150)
    def check(records):
        same(only(build_batch(records, base_offset=1000)), records)

    check()


@pytest.mark.parametrize("key", [None, 12])
@pytest.mark.parametrize("count", [5, 70, 300])
def test_compaction_holes(only, key, count):
    """Offsets jump, the tail is missing, and the header still says where the batch once ended."""
    records = [r._replace(offset=3 + 2 * n + n // 10) for n, r in enumerate(run(count, key=key, step=1))]
    batch = only(build_batch(records, base_offset=1000, last_offset_delta=5000))
    assert [r.offset for r in batch.decode("t", 0)] == [1000 + r.offset for r in records]
    assert batch.next_offset == 6001
    same(batch, records)


@pytest.mark.parametrize("count", [3, 100])
def test_delete_horizon_takes_the_base_timestamps_place(only, count):
    """Deltas then count from a day after the records, and are large and negative (KIP-534)."""
    records = run(count, key=5, step=1)
    batch = only(build_batch(records, delete_horizon=NOW + 86_400_000))
    assert batch.base_timestamp == NOW + 86_400_000
    same(batch, records)


def test_log_append_time_is_every_records_timestamp(only):
    batch = only(build_batch(run(20, step=5), log_append_time=NOW + 999))
    rows = batch.decode("t", 0)
    assert {(r.timestamp, r.timestamp_type) for r in rows} == {(NOW + 999, 1)}


@pytest.mark.parametrize("base", [2**63 - 1, -(2**63)])
def test_timestamps_wrap_as_javas_do(only, base):
    data = bytearray(build_batch([NewRecord(b"", timestamp=0), NewRecord(b"", timestamp=5)]))
    struct.pack_into(">q", data, 27, base)
    stamps = only(bytes(data)).columns(check_crcs=False).timestamps
    assert list(stamps) == [base, base + 5 if base < 0 else base + 5 - 2**64]


def test_header_keys_that_are_not_utf8_show_replacement_characters(only):
    """Brokers do not look at them. Java yields U+FFFD; to raise would make the partition unreadable."""
    raw = bytearray(build_batch([NewRecord(b"v", headers=[("abc", b"1"), ("é", b"2")])]))
    raw[raw.index(b"abc")] = 0xFF
    (row,) = only(bytes(raw)).decode("t", 0, False)
    assert row.headers == (("\ufffdbc", b"1"), ("é", b"2"))


def body_of(*records: bytes, count=None, delta=None) -> bytes:
    """A batch around hand-made records."""
    body = b"".join(records)
    number = len(records) if count is None else count
    shell = bytearray(build_batch([], base_offset=10, last_offset_delta=number - 1 if delta is None else delta))
    struct.pack_into(">i", shell, 8, 49 + len(body))
    struct.pack_into(">i", shell, 57, number)
    return bytes(shell) + body


def made(fields: bytes, length=None) -> bytes:
    out = bytearray()
    write_varint(out, len(fields) if length is None else length)
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
def test_lies_are_corrupt_batches(only, name):
    with pytest.raises(CorruptRecordError) as caught:
        only(LIES[name]).decode("t", 0, False)
    assert (caught.value.offset, caught.value.partition) == (10, ("t", 0))


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("before", [3, 90])
def test_lies_behind_good_records_are_noticed_too(only, name, before):
    """The fast reader is well under way when it meets them."""
    good = [encode_record(NewRecord(b"x" * 30), n, 0) for n in range(before)]
    lie = LIES[name][HEADER_SIZE:]
    count = struct.unpack_from(">i", LIES[name], 57)[0]
    if not 0 < count < 100:
        count = 1 if lie == GOOD else count
    with pytest.raises(CorruptRecordError):
        only(body_of(*good, lie, count=before + (count if 0 < count < 100 else 1), delta=200)).decode("t", 0, False)


@given(st.binary(max_size=80), st.integers(-1, 12), st.integers(0, 12))
@settings(max_examples=300)
def test_any_bytes_as_records_give_typed_errors_only(data, count, delta):
    (batch,), _ = split(memoryview(body_of(data, count=count, delta=delta)))
    try:
        rows = batch.decode("t", 0, False)
    except CorruptRecordError:
        return
    assert len(rows) == count


def test_cut_anywhere_is_corrupt(only):
    whole = SHAPES["some headers"][:70]
    records = [encode_record(record, n, 0) for n, record in enumerate(whole)]
    body = b"".join(records)
    for size in range(len(body)):
        with pytest.raises(CorruptRecordError):
            only(body_of(body[:size], count=70)).decode("t", 0, False)


def test_bytes_that_only_look_like_the_record_before_do_not_fool_the_fast_reader(only):
    """Values that hold records themselves, with stamps whose width changes in between."""
    inner = encode_record(NewRecord(b"v" * 9, b"k"), 1, 0)
    for step in range(60, 70):
        records = [NewRecord(inner * (1 + n % 3), b"\0\1"[: n % 3], timestamp=NOW + step * n // 3) for n in range(150)]
        same(only(build_batch(records)), records)


HEADER_SHAPES = {
    "one of one size": lambda n: [("trace", bytes([n]) * 16)],
    "two of one size": lambda n: [("trace", bytes([n]) * 16), ("kind", bytes([n, n]))],
    "three, one null": lambda n: [("trace", bytes([n]) * 16), ("tenant", None), ("kind", bytes([n]))],
    "one null": lambda n: [("tenant", None if n % 3 else b"")],
    "a name that changes": lambda n: [("trace" if n % 3 else "tracy", bytes([n]) * 16)],
    "sizes that change": lambda n: [("trace", bytes([n]) * (n % 5))],
    "the same size, cut elsewhere": lambda n: [("n" * (1 + n % 2), bytes([n]) * (9 - n % 2))],
    "the same size, more or fewer": lambda n: [("a", b"12345")] if n % 4 < 2 else [("a", b"1"), ("b", b"2")],
    "values that hold headers": lambda n: [("a", b"\2\2a\2b" if n % 4 < 2 else b"\2\2a\2c"), ("b", bytes([n]))],
}


@pytest.mark.parametrize("name", HEADER_SHAPES)
@pytest.mark.parametrize("key", [None, 12])
def test_headers_of_neighbours(only, name, key):
    """Their layout is taken from the record before; what only looks like it must be read anew."""
    records = [r._replace(headers=HEADER_SHAPES[name](n % 250)) for n, r in enumerate(run(120, key=key))]
    same(only(build_batch(records)), records)
