"""Request headers (versions 1 and 2) and response headers (versions 0 and 1), without the frame's size field.

Flexible message versions use the newer header, with two exceptions: the client id keeps its non-compact encoding, and
the response to ApiVersions keeps header version 0, because the client does not know the broker's versions yet. Follows
``RequestHeader.json``, ``ResponseHeader.json`` and KIP-482.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..errors import IllegalArgumentError, KafkaProtocolError
from .message import Message
from .primitives import read_tags, read_uvarint

_API_VERSIONS = 18
_REQUEST = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """A decoded request header; the body starts at ``body_offset``."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


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


def encode_response(message: Message, version: int, correlation_id: int) -> bytes:
    """Return header and body of a response, without the size field."""
    parts: list[bytes | bytearray | memoryview] = [_CORRELATION_ID.pack(correlation_id)]
    if version >= message.FLEXIBLE and message.API_KEY != _API_VERSIONS:
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
    return correlation_id, _skip_tags(buffer, _CORRELATION_ID.size)


def decode_request_header(buffer: bytes | bytearray | memoryview) -> RequestHeader:
    """Read a request's header, as a broker does. Does not check whether the request's version is supported.

    Raises:
        KafkaProtocolError: The header is truncated or malformed, or the API key is unknown.
    """
    # Only brokers call this function. The import is in it, so that clients do not import the modules of all APIs.
    from .apis import REQUESTS

    if len(buffer) < _REQUEST.size:
        raise KafkaProtocolError(f"request has {len(buffer)} bytes, too few for its header")
    api_key, version, correlation_id, length = _REQUEST.unpack_from(buffer)
    request = REQUESTS.get(api_key)
    if request is None:
        raise KafkaProtocolError(f"request has the unknown API key {api_key}")
    position = _REQUEST.size
    client_id: str | None = None
    if length != -1:
        end = position + length
        if not position <= end <= len(buffer):
            raise KafkaProtocolError(f"client id claims {length} bytes, but {len(buffer) - position} are left")
        try:
            client_id = str(buffer[position:end], "utf-8")
        except UnicodeDecodeError as error:
            raise KafkaProtocolError(f"client id is not UTF-8: {error}") from None
        position = end
    if version >= request.FLEXIBLE:
        position = _skip_tags(buffer, position)
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def _skip_tags(buffer: bytes | bytearray | memoryview, position: int) -> int:
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
