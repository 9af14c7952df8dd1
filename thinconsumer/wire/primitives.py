"""What generated code falls back on: variable-length integers, tagged fields, and the words for bytes that lie.

Fixed-size fields never come here: the compilers turn them into runs of one ``struct.Struct`` each. Knows no message.
Follows KIP-482 (tagged fields, unsigned varints).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from ..errors import IllegalArgumentError, KafkaProtocolError

#: What decoders read: ``bytes``, or a view of the frame where records are cut out of it without a copy.
Buffer = bytes | memoryview
Write = Callable[[bytes | bytearray | memoryview], None]

#: Longest string Kafka takes, in bytes of UTF-8.
STRING_MAX = 32767
#: Most tagged fields written for one struct: their count is packed as the single byte it always is.
TAGS_MAX = 127


class UnsupportedFieldError(IllegalArgumentError):
    """A message says something that the version it is to be sent in has no field for."""


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


#: The encodings of small numbers, which is what nearly all lengths and counts are.
UVARINTS = tuple(uvarint(value) for value in range(1024))


def read_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Go on with an unsigned varint whose first byte was ``first``; return the value and the position after it."""
    # Unrolled: nearly every length of records comes here, with one or two more bytes.
    byte = buffer[position]
    value = first & 127 | (byte & 127) << 7
    if byte < 128:
        return value, position + 1
    byte = buffer[position + 1]
    value |= (byte & 127) << 14
    if byte < 128:
        return value, position + 2
    byte = buffer[position + 2]
    value |= (byte & 127) << 21
    if byte < 128:
        return value, position + 3
    byte = buffer[position + 3]
    if byte > 15:
        raise KafkaProtocolError(f"variable-length integer at byte {position} has more than 32 bits")
    return value | byte << 28, position + 4


def read_tags(buffer: Buffer, position: int, count: int) -> tuple[dict[int, bytes], int]:
    """Read ``count`` tagged fields that no declaration knows; return them and the position after."""
    size = len(buffer)
    if count * 2 > size - position:
        bad_count("tagged fields", count, position)
    tags: dict[int, bytes] = {}
    for _ in range(count):
        tag, length, position = read_tag(buffer, position)
        if length > size - position:
            bad_length(f"tagged field {tag}", length, position)
        tags[tag] = bytes(buffer[position : position + length])
        position += length
    return tags, position


def read_tag(buffer: Buffer, position: int) -> tuple[int, int, int]:
    """Read one tag's number and its field's length; return both and the position of the field."""
    tag = buffer[position]
    position += 1
    if tag > 127:
        tag, position = read_uvarint(buffer, position, tag)
    length = buffer[position]
    position += 1
    if length > 127:
        length, position = read_uvarint(buffer, position, length)
    return tag, length, position


def write_tags(write: Write, known: Mapping[int, bytes], unknown: Mapping[int, bytes]) -> None:
    """Write the tagged fields themselves (their count is written already), in the ascending order KIP-482 asks for."""
    if len(known) + len(unknown) > TAGS_MAX:
        raise IllegalArgumentError(
            f"{len(known) + len(unknown)} tagged fields in one struct; at most {TAGS_MAX} can be sent"
        )
    clash = known.keys() & unknown.keys()
    if clash:
        raise IllegalArgumentError(f"unknown_tags holds tags that this version declares: {sorted(clash)}")
    for tag, content in sorted([*known.items(), *unknown.items()]):
        write(uvarint(tag))
        write(uvarint(len(content)))
        write(content)


def bad_length(what: str, length: int, position: int) -> NoReturn:
    """Refuse a length that the frame cannot hold."""
    raise KafkaProtocolError(f"{what} at byte {position} claims {length} bytes, which the frame does not hold")


def bad_count(what: str, count: int, position: int) -> NoReturn:
    """Refuse a count of elements that the rest of the frame cannot hold, before anything is built for them."""
    raise KafkaProtocolError(f"{what} at byte {position} claims {count} elements, which the frame cannot hold")


def bad_tag(what: str, position: int, end: int) -> NoReturn:
    """Refuse a tagged field whose content does not end where its length says."""
    raise KafkaProtocolError(f"tagged field {what} ends at byte {position}, but its length says {end}")


def unsupported(what: str, version: int) -> NoReturn:
    """Refuse to drop a value silently: the version has no such field, and the field is not ignorable."""
    raise UnsupportedFieldError(f"{what} is set, but version {version} cannot say it")


def null_refused(what: str, version: int) -> NoReturn:
    """Refuse None where the version has no null."""
    raise UnsupportedFieldError(f"{what} is None, which version {version} cannot say")


def string_too_long(what: str, length: int) -> NoReturn:
    """Refuse a string that Kafka's length prefix cannot hold."""
    raise IllegalArgumentError(f"{what} has {length} bytes of UTF-8, more than Kafka's {STRING_MAX}")
