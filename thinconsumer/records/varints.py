"""Zigzag varints: functions that read one, and lookup tables for reading many at once.

Follows Kafka's ``ByteUtils``: up to 5 bytes for 32 bits, up to 10 for 64; overlong encodings are accepted.
"""

from itertools import chain

#: Entry of the tables below for bytes that are not exactly one varint of the table's width. The entry is so large that
#: a position computed with it lies beyond the data, where the readers notice it.
NO_VARINT = 1 << 62
#: Non-negative numbers below the first limit fit into a varint of one byte, those below the second into two bytes.
WIDTH_LIMITS = (64, 8192)


class Malformed(ValueError):
    """The bytes are no valid records."""


def varint(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Read a varint of up to 32 bits; return the value and the position after it. Excess bits are dropped, as in Java.

    Raises: Malformed; IndexError if the data end inside the varint.
    """
    raw = data[pos]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), pos + 1
    return _zigzag(data, pos, 5, 0xFFFFFFFF)


def varlong(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Read a varint of up to 64 bits; apart from that, as :func:`varint`."""
    raw = data[pos]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), pos + 1
    return _zigzag(data, pos, 10, 0xFFFFFFFFFFFFFFFF)


def _zigzag(data: bytes | memoryview, pos: int, length_max: int, mask: int) -> tuple[int, int]:
    raw = data[pos]
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
    raise Malformed(f"a varint has more than {length_max} bytes")


def _tables() -> dict[int, list[int]]:
    # Filled by slices: the tables are built whenever the package is imported, and one entry at a time takes 5 ms.
    one, two = [NO_VARINT] * 256, [NO_VARINT] * 65536
    one[0:128:2], one[1:128:2] = range(64), range(-1, -65, -1)
    for high in range(128):
        first = high << 8 | 128
        two[first : first + 128 : 2] = range(high << 6, high + 1 << 6)
        two[first + 1 : first + 128 : 2] = range(~(high << 6), ~(high + 1 << 6), -1)
    return {1: one, 2: two}


#: By width in bytes: a table that decodes varints of that width, indexed by their bytes as a little-endian number.
NUMBER_TABLES = _tables()
#: The same for lengths, which are not negative: the varints of negative numbers, the odd ones, have NO_VARINT.
LENGTH_TABLES = {width: [*table] for width, table in NUMBER_TABLES.items()}
for _table in LENGTH_TABLES.values():
    _table[1::2] = [NO_VARINT] * (len(_table) // 2)


def raw_offsets() -> list[int]:
    """Return the varints of all numbers from 0 on that take one or two bytes, as little-endian integers."""
    pairs = (range(high << 8 | 128, high + 1 << 8, 2) for high in range(1, 128))
    return [*range(0, 128, 2), *chain.from_iterable(pairs)]
