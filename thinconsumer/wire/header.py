"""A client's side of request headers (versions 1 and 2) and response headers (0 and 1), without the frame's size.

Flexible message versions use the newer header, with two exceptions: the client id keeps its non-compact encoding, and
the response to ApiVersions keeps header version 0, because the client does not know the broker's versions yet. Follows
``RequestHeader.json``, ``ResponseHeader.json`` and KIP-482.
"""

from __future__ import annotations

import struct

from ..errors import IllegalArgumentError, KafkaProtocolError
from .message import Message
from .primitives import read_tags, read_uvarint

_API_VERSIONS = 18
_REQUEST = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return header and body of a request, without the size field."""
    try:
        name = b"" if client_id is None else client_id.encode()
        length = -1 if client_id is None else len(name)
        fixed = _REQUEST.pack(message.API_KEY, version, correlation_id, length)
    except (struct.error, UnicodeEncodeError) as error:
        raise IllegalArgumentError(f"cannot encode the header of {type(message).__name__}: {error}") from error
    parts: list[bytes | bytearray | memoryview] = [fixed, name]
    if version >= message.FLEXIBLE:
        parts.append(b"\0")
    message.encode_into(parts.append, version)
    return b"".join(parts)


def decode_response_header(
    buffer: bytes | bytearray | memoryview, request: type[Message], version: int
) -> tuple[int, int]:
    """Return the correlation id of the response to ``request``, and where its body starts.

    Raises:
        KafkaProtocolError: The header is truncated, or its tagged fields are malformed.
    """
    if len(buffer) < _CORRELATION_ID.size:
        raise KafkaProtocolError(f"response has {len(buffer)} bytes, too few for its correlation id")
    (correlation_id,) = _CORRELATION_ID.unpack_from(buffer)
    if version < request.FLEXIBLE or request.API_KEY == _API_VERSIONS:
        return correlation_id, _CORRELATION_ID.size
    if buffer[_CORRELATION_ID.size : _CORRELATION_ID.size + 1] == b"\0":
        return correlation_id, _CORRELATION_ID.size + 1  # no tagged fields, as in all headers so far
    return correlation_id, skip_tags(buffer, _CORRELATION_ID.size)


def skip_tags(buffer: bytes | bytearray | memoryview, position: int) -> int:
    """Return the position after a header's tagged fields, which are ignored: Kafka defines none for headers so far."""
    data = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    try:
        count = data[position]
        position += 1
        if count > 127:
            count, position = read_uvarint(data, position, count)
        if count:
            _, position = read_tags(data, position, count)
    except IndexError:
        raise KafkaProtocolError(f"frame of {len(buffer)} bytes ends inside its header's tagged fields") from None
    return position
