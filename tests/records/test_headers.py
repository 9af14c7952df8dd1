"""Headers: read one by one, and by the layout of the previous record."""

import tracemalloc

import pytest
from handmade import encode_record

from thinconsumer.records import headers
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.headers import HeaderReader, read_headers
from thinconsumer.records.varints import Malformed, varint


def block_of(*pairs: tuple[str, bytes | None]) -> bytes:
    record = encode_record(NewRecord(b"", headers=pairs), 0, 0)
    return record[varint(record, 0)[1] + len(["attributes", "timestamp", "offset", "key", "value"]) :]


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
def test_headers_with_and_without_the_layout_of_the_previous_record(only_batch, same, some, name, key):
    """Their layout is taken from the record before; what only looks like it must be read anew."""
    records = [r._replace(headers=HEADER_SHAPES[name](n % 250)) for n, r in enumerate(some(120, key=key))]
    same(only_batch(build_batch(records)), records)


@pytest.mark.parametrize("value", [None, b"", b"v", b"v" * 63, b"v" * 64, b"v" * 9000])
@pytest.mark.parametrize("name", ["", "n", "n" * 63, "n" * 64, "é\u20ac"])
def test_names_and_values_of_every_width(name, value):
    assert read_headers(block_of((name, value), ("b", b"2"))) == ((name, value), ("b", b"2"))


def test_a_header_count_of_two_bytes():
    pairs = tuple((f"n{n}", bytes([n])) for n in range(200))
    assert read_headers(block_of(*pairs)) == pairs


@pytest.mark.parametrize(
    "block", [b"", b"\2", b"\1", b"\2\1\0", b"\2\x7ea", b"\2\2a\x7eb", b"\4\2a\2b", b"\2\2a\2b\0", b"\0\0"]
)
def test_malformed_headers(block):
    with pytest.raises((Malformed, IndexError)):
        read_headers(block)


@pytest.mark.parametrize("claimed", [b"\0", b"\3", b"\xfe\xff\xff\xff\x0f", b"\xfe\xff\x7f"])
def test_wrong_header_counts_take_no_memory(claimed):
    """Zeros are headers with empty names and values; a batch of them would fill the memory."""
    block = claimed + bytes(2_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            read_headers(block)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_truncated_headers_are_malformed_also_after_good_ones():
    reader, whole = HeaderReader(), block_of(("trace", b"1" * 16), ("none", None))
    for _ in range(3):
        reader.read(whole, 0, len(whole))
    for size in range(len(whole)):
        with pytest.raises((Malformed, IndexError)):
            reader.read(whole[:size], 0, size)


@pytest.mark.parametrize(
    ("raw", "name"), [(b"\xff", "\ufffd"), (b"a\xe2\x82", "a\ufffd"), (b"\xed\xa0\x80b", "\ufffdb"), (b"\xc3\xa9", "é")]
)
def test_names_that_are_not_utf8_read_as_in_java(raw, name):
    block = b"\2" + bytes([2 * len(raw)]) + raw + b"\1"
    assert read_headers(block) == ((name, None),)


def test_remembered_names_are_bounded(only_batch):
    """A different name in every record must not fill the memory."""
    for n in range(headers.NAMES.COUNT_MAX + 50):
        read_headers(block_of((f"name {n}", None)))
    assert len(headers.NAMES) <= headers.NAMES.COUNT_MAX


def test_the_number_of_remembered_layouts_is_limited():
    reader = HeaderReader()
    for n in range(50):
        name = f"n{n:02}"
        block = block_of((name, b"v"))
        assert reader.read(block, 0, len(block)) == ((name, b"v"),)
    assert reader._layouts_left == 0
