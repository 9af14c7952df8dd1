"""Unsigned varints and tagged fields."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import IllegalArgumentError, KafkaProtocolError
from thinconsumer.wire.primitives import UVARINTS, read_tags, read_uvarint, uvarint, write_tags


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=300)
def test_uvarint_round_trip(value: int) -> None:
    encoded = uvarint(value)
    assert (
        (encoded[0], 1) == (value, 1) if value < 128 else read_uvarint(encoded, 1, encoded[0]) == (value, len(encoded))
    )


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_uvarint_bytes(value: int, encoded: str) -> None:
    assert uvarint(value).hex() == encoded
    if value < len(UVARINTS):
        assert UVARINTS[value].hex() == encoded


@pytest.mark.parametrize("encoded", ["ffffffff10", "ffffffffff01", "8080808080"])
def test_uvarint_of_more_than_32_bits_is_rejected(encoded: str) -> None:
    data = bytes.fromhex(encoded)
    with pytest.raises(KafkaProtocolError, match="more than 32 bits"):
        read_uvarint(data, 1, data[0])


def test_overlong_uvarints_are_accepted() -> None:
    """As by Java."""
    assert read_uvarint(b"\x81\x80\x00", 1, 0x81) == (1, 3)


def test_tags_are_written_in_ascending_order() -> None:
    parts: list[bytes] = []
    write_tags(lambda part: parts.append(bytes(part)), {3: b"c", 0: b"a"}, {200: b"", 1: b"b"})
    encoded = b"".join(parts)
    assert encoded == b"\0\1a\1\1b\3\1c\xc8\1\0"
    assert read_tags(encoded, 0, 4) == ({0: b"a", 1: b"b", 3: b"c", 200: b""}, len(encoded))


def test_duplicate_tags_are_rejected() -> None:
    with pytest.raises(IllegalArgumentError, match=r"\[2\]"):
        write_tags(lambda part: None, {2: b""}, {2: b""})
    with pytest.raises(IllegalArgumentError, match="128 tagged fields"):
        write_tags(lambda part: None, {}, dict.fromkeys(range(128), b""))


def test_a_tag_count_above_the_buffer_size_is_rejected_first() -> None:
    with pytest.raises(KafkaProtocolError, match="tagged fields at byte 1 claims 2 elements"):
        read_tags(b"\2\1\0\2", 1, 2)
    with pytest.raises(KafkaProtocolError, match="tagged field 7 at byte 3 claims 2 bytes"):
        read_tags(b"\1\7\2x", 1, 1)
