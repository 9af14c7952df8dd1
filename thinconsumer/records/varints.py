"""Zigzag varints: one at a time, and as tables for reading them many at a time.

Kafka's ``ByteUtils``: up to 5 bytes for 32 bits, up to 10 for 64; longer than need be is allowed.
"""

from __future__ import annotations

__all__ = [
    "LENGTH_TABLES",
    "NOT_HERE",
    "NUMBER_TABLES",
    "WIDTHS_MAX",
    "Malformed",
    "raw_offsets",
    "varint",
    "varlong",
]

#: In the tables: this is no varint of that many bytes. Larger than any length, offset or time a table holds.
NOT_HERE = 1 << 62
#: The numbers 0 up to this fit into varints of one and two bytes.
WIDTHS_MAX = (64, 8192)


class Malformed(ValueError):
    """Bytes that cannot be records; the message says why."""


def varint(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    """The varint of up to 32 bits at ``pos``, and where it ends. Bits beyond are dropped, as in Java.

    Raises: Malformed; IndexError where the data end.
    """
    return _zigzag(data, pos, 5, 0xFFFFFFFF)


def varlong(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    """The varint of up to 64 bits at ``pos``, and where it ends.

    Raises: Malformed; IndexError where the data end.
    """
    return _zigzag(data, pos, 10, 0xFFFFFFFFFFFFFFFF)


def _zigzag(data: bytes | memoryview, pos: int, length_max: int, mask: int) -> tuple[int, int]:
    raw = data[pos]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), pos + 1
    byte = data[pos + 1]
    raw += (byte << 7) - 0x80
    if byte < 0x80:
        return (raw >> 1) ^ -(raw & 1), pos + 2
    byte = data[pos + 2]
    raw += (byte << 14) - 0x4000
    if byte < 0x80:
        return (raw >> 1) ^ -(raw & 1), pos + 3
    raw -= 0x200000
    for at in range(3, length_max):
        byte = data[pos + at]
        raw |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            raw &= mask
            return (raw >> 1) ^ -(raw & 1), pos + at + 1
    raise Malformed(f"a varint of more than {length_max} bytes")


def _unzigzag(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


def _two_bytes() -> list[int]:
    table = [NOT_HERE] * 65536
    for high in range(128):
        table[high << 8 | 128 : (high << 8) + 256] = [_unzigzag(high << 7 | low) for low in range(128)]
    return table


_ONE = [_unzigzag(raw) if raw < 128 else NOT_HERE for raw in range(256)]
_TWO = _two_bytes()
#: By width: the number that a varint of so many bytes stands for, by those bytes read as a little-endian integer.
NUMBER_TABLES = {1: _ONE, 2: _TWO}
#: The same for lengths: what is below zero is not here either.
LENGTH_TABLES = {width: [n if n >= 0 else NOT_HERE for n in table] for width, table in NUMBER_TABLES.items()}


def raw_offsets() -> list[int]:
    """The varints of 0, 1, 2, ... as they read in one byte (the first 64) or as a little-endian pair (the others)."""
    one, two = WIDTHS_MAX
    pairs = (2 * number for number in range(one, two))
    return [*range(0, 2 * one, 2), *(raw & 127 | 128 | raw >> 7 << 8 for raw in pairs)]
