"""The fast decoder against the byte-by-byte decoder: records of every kind, and bytes that mislead it."""

import pytest
from handmade import encode_record
from hypothesis import given, settings

from thinconsumer.records.batch import HEADER_SIZE
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.fast_decoder import ColumnsBuilder, read_run

NOW = 1_700_000_000_000
SHAPES = {
    "one": lambda some: some(1),
    "constant": lambda some: some(200),
    "constant, with keys": lambda some: some(200, key=20),
    "constant, empty keys": lambda some: some(200, key=0),
    "constant, empty": lambda some: some(200, value=0),
    "constant, long keys": lambda some: some(100, key=70),
    "constant, long values": lambda some: some(100, value=9000),
    "constant, one stamp a record": lambda some: some(200, step=1),
    "constant, wide stamps": lambda some: some(200, step=100),
    "constant, very wide stamps": lambda some: some(200, step=100_000),
    "constant, but for one": lambda some: some(200, value=lambda n: 99 if n == 130 else 100),
    "constant, but for the last": lambda some: some(200, value=lambda n: 99 if n == 199 else 100),
    "constant in size, not in shape": lambda some: some(200, value=lambda n: 50 - n % 2, key=lambda n: 10 + n % 2),
    "all null": lambda some: some(200, value=None),
    "values around one byte of length": lambda some: some(300, value=lambda n: 40 + n % 50),
    "keys around one byte of length": lambda some: some(300, key=lambda n: 40 + n % 50),
    "some keys": lambda some: [r if n % 3 else r._replace(key=None) for n, r in enumerate(some(200, key=9))],
    "a few keys": lambda some: [r if n % 50 == 30 else r._replace(key=None) for n, r in enumerate(some(200, key=9))],
    "some tombstones": lambda some: [r if n % 7 else r._replace(value=None) for n, r in enumerate(some(200, key=9))],
    "the same headers": lambda some: some(200, headers=[("a", b"1"), ("b", None)]),
    "some headers": lambda some: [
        r._replace(headers=[("t", bytes([n]))] if n % 5 == 0 else ()) for n, r in enumerate(some(200))
    ],
    "long headers": lambda some: some(50, key=5, headers=[("n" * 70, b"v" * 70), ("n" * 9000, b"v" * 9000)]),
    "many headers": lambda some: some(20, headers=[("n", b"v")] * 100),
    "stamps out of order": lambda some: some(200, key=5, step=lambda n: (n * 37) % 100),
    "stamps far apart": lambda some: some(200, step=lambda n: (n * 7919) % 3_000_000),
    "more than two bytes of offset": lambda some: some(9000, value=1),
    "more than two bytes of offset, varied": lambda some: some(9000, value=lambda n: n % 5, key=2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_fast_and_byte_by_byte_decoder_agree(only_batch, same, some, name):
    records = SHAPES[name](some)
    same(only_batch(build_batch(records, base_offset=1000)), records)


def test_fast_and_byte_by_byte_decoder_agree_on_any_records(only_batch, same, record_lists):
    @given(record_lists)
    @settings(max_examples=150)
    def check(records):
        same(only_batch(build_batch(records, base_offset=1000)), records)

    check()


def test_values_that_contain_records_do_not_mislead_the_fast_decoder(only_batch, same):
    """The width of timestamps changes in between."""
    inner = encode_record(NewRecord(b"v" * 9, b"k"), 1, 0)
    for step in range(60, 70):
        records = [NewRecord(inner * (1 + n % 3), b"\0\1"[: n % 3], timestamp=NOW + step * n // 3) for n in range(150)]
        same(only_batch(build_batch(records)), records)


@pytest.mark.parametrize(
    "name", ["constant", "constant, with keys", "some headers", "values around one byte of length"]
)
def test_a_run_stops_at_the_requested_count(only_batch, some, name):
    """The bytes after it look like another record."""
    data = bytes(only_batch(build_batch(SHAPES[name](some))).view[HEADER_SIZE:])
    for count in (1, 10, 64, 65, 150):
        found, pos = ColumnsBuilder(), 0
        while len(found.values) < count:
            pos = read_run(data, pos, count, found)
        assert len(found.values) == len(found.deltas) == len(found.keys) == count
        assert found.offsets == list(range(count))


@pytest.mark.parametrize("data", [b"", b"\0", b"\x80", b"\xff" * 50, bytes(50), b"\x02" * 50])
def test_random_bytes_end_the_run(data):
    found = ColumnsBuilder()
    assert read_run(data, 0, 7, found) == 0
    assert found.values == []


def test_a_narrower_timestamp_with_matching_lengths_is_detected(only_batch, same):
    """The last key is made so that all lengths add up also for a timestamp of two bytes, as in the records before."""
    records = [NewRecord(b"vvv", b"kk", (), NOW)] * 3 + [NewRecord(b"ab", bytes((1, 8, 120)), (), NOW - 995)]
    same(only_batch(build_batch(records, delete_horizon=NOW - 1000)), records)
