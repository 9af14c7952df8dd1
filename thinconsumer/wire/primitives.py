"""The functions that generated encoders and decoders call: unsigned varints, tagged fields (KIP-482) and errors.

Fixed-size fields need none of these: generated code packs and unpacks them with ``struct``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from ..errors import IllegalArgumentError, KafkaProtocolError

#: The input of decoders: ``bytes``, or a memoryview of the frame for messages with records, which are not copied.
Buffer = bytes | memoryview
Write = Callable[[bytes | bytearray | memoryview], None]

#: The longest string that Kafka accepts, in bytes of UTF-8.
STRING_MAX = 32767
#: The maximum number of tagged fields that are written for one struct. Their count is an unsigned varint, and generated
#: encoders write it as one byte.
TAGS_MAX = 127


class UnsupportedFieldError(IllegalArgumentError):
    """A message cannot be encoded in a version that lacks a field that is set, or does not allow None in a field."""


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


#: The encodings of the numbers below 1024, by number. Nearly all lengths and counts are that small.
UVARINTS = tuple(uvarint(value) for value in range(1024))


def read_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint after its ``first`` byte; return the value and the position after it."""
    # Written without a loop, which would be slower: nearly every Fetch response calls this function for the length of
    # its record batches, which takes two or three bytes.
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
    """Read ``count`` undeclared tagged fields; return them by tag, and the position after them."""
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
    """Read the tag and the length in front of a tagged field; return both and the position of its content."""
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
    """Write tagged fields, whose count is written already, in ascending order of tags as KIP-482 requires."""
    if len(known) + len(unknown) > TAGS_MAX:
        raise IllegalArgumentError(
            f"{len(known) + len(unknown)} tagged fields in one struct; at most {TAGS_MAX} can be sent"
        )
    clash = known.keys() & unknown.keys()
    if clash:
        raise IllegalArgumentError(f"unknown_tags contains tags of fields that this version declares: {sorted(clash)}")
    for tag, content in sorted([*known.items(), *unknown.items()]):
        write(uvarint(tag))
        write(uvarint(len(content)))
        write(content)


def bad_length(what: str, length: int, position: int) -> NoReturn:
    """Raise KafkaProtocolError for a length beyond the end of the frame."""
    raise KafkaProtocolError(f"{what} at byte {position} claims {length} bytes, which the frame does not hold")


def bad_count(what: str, count: int, position: int) -> NoReturn:
    """Raise KafkaProtocolError for a count of elements that cannot fit into the rest of the frame."""
    raise KafkaProtocolError(f"{what} at byte {position} claims {count} elements, which the frame cannot hold")


def bad_tag(what: str, position: int, end: int) -> NoReturn:
    """Raise KafkaProtocolError for a tagged field with content shorter or longer than its declared length."""
    raise KafkaProtocolError(f"tagged field {what} ends at byte {position}, but its declared length ends at byte {end}")


def string_too_long(what: str, length: int) -> NoReturn:
    """Raise IllegalArgumentError for a string that is longer than Kafka accepts."""
    raise IllegalArgumentError(f"{what} has {length} bytes of UTF-8, more than the maximum of {STRING_MAX}")
