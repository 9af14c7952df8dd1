"""Varints, one at a time and as tables, against kafka-python's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import decode_varint, encode_varint

from thinconsumer.records.varints import (
    LENGTH_TABLES,
    NO_VARINT,
    NUMBER_TABLES,
    WIDTH_LIMITS,
    Malformed,
    raw_offsets,
    varint,
    varlong,
)

EDGES = sorted(
    {sign * (2**bits + add) for bits in (0, 6, 7, 13, 14, 20, 21, 27, 28, 30) for add in (-1, 0, 1) for sign in (1, -1)}
)


def encoded(number: int) -> bytes:
    out = bytearray()
    encode_varint(number, out.append)
    return bytes(out)


@pytest.mark.parametrize("number", EDGES)
def test_reads_what_kafka_python_writes(number):
    data = b"\xff" + encoded(number) + b"\xff"
    assert varint(data, 1) == (number, len(data) - 1) == decode_varint(bytearray(data), 1)


@given(st.integers(-(2**63), 2**63 - 1))
def test_reads_every_long(number):
    data = encoded(number)
    assert varlong(data, 0) == (number, len(data))


def test_bits_beyond_the_width_are_dropped_as_in_java():
    """A fifth byte may have bits above the 32nd."""
    assert varint(b"\xfe\xff\xff\xff\x7f", 0) == (2**31 - 1, 5)


@pytest.mark.parametrize(("read", "width"), [(varint, 5), (varlong, 10)])
def test_too_long_is_malformed(read, width):
    assert read(b"\x80" * (width - 1) + b"\x00", 0) == (0, width), "longer than need be is allowed"
    with pytest.raises(Malformed):
        read(b"\x80" * width + b"\x00", 0)


@pytest.mark.parametrize("read", [varint, varlong])
def test_truncated_is_an_index_error(read):
    for size in range(4):
        with pytest.raises(IndexError):
            read(b"\x80" * size, 0)


@pytest.mark.parametrize("width", [1, 2])
def test_tables_hold_every_varint_of_their_width_and_no_other(width):
    for raw, number in enumerate(NUMBER_TABLES[width]):
        data = raw.to_bytes(width, "little")
        last = data[-1] < 128 and all(byte > 127 for byte in data[:-1])
        assert number == (varint(data, 0)[0] if last else NO_VARINT)
        assert LENGTH_TABLES[width][raw] == (number if number >= 0 else NO_VARINT)


def test_raw_offsets_are_the_encoded_offsets():
    raw = raw_offsets()
    assert len(raw) == WIDTH_LIMITS[1]
    for number in (0, 1, 63, 64, 65, 127, 128, 8191):
        data = encoded(number)
        assert raw[number] == int.from_bytes(data, "little")
        assert len(data) == (1 if number < WIDTH_LIMITS[0] else 2)
