"""Cut the bytes of a connection into requests and responses, and mask what may be no part of a trace.

Of record batches only the headers are kept, and of commit metadata only the length. A mask keeps the length of a
request or response, so that a replay has the same sizes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from ..errors import KafkaError
from ..network.framing import LEAST_FRAME, Frame
from ..wire.fetch import FetchRequest
from ..wire.header import decode_response_header
from ..wire.offset_commit import OffsetCommitRequest
from ..wire.offset_fetch import OffsetFetchRequest
from ..wire.sasl import SaslAuthenticateRequest
from .trace_file import TraceError

_SIZE = 4
_REQUEST = struct.Struct(">hhih")
#: The sizes of a batch's length and offset, and of the headers by format; in each, the format is at ``_MAGIC_AT``.
_LOG_OVERHEAD, _MAGIC_AT, _HEADERS = 12, 16, {0: 18, 1: 26, 2: 61}
_SECRET_APIS = (FetchRequest, OffsetFetchRequest, SaslAuthenticateRequest)


class FrameCutter:
    """The requests of a connection, cut out of its bytes; they keep the four bytes of their size."""

    def __init__(self) -> None:
        self._data = bytearray()

    def take(self, data: bytes) -> list[bytearray]:
        """Add bytes; return the frames that are now complete."""
        self._data += data
        frames = []
        while len(self._data) >= _SIZE:
            end = _SIZE + int.from_bytes(self._data[:_SIZE], "big")
            if len(self._data) < end:
                break
            rest = self._data[end:]
            del self._data[end:]
            frames.append(self._data)
            self._data = rest
        return frames


def masked_metadata(text: str | None) -> str | None:
    """Return a text of the same length in UTF-8."""
    return text and "x" * len(text.encode())


def masked_request(frame: bytearray) -> bytes:
    """Return a request without the metadata of commits, and without a login's message."""
    if len(frame) < _SIZE + _REQUEST.size:
        return bytes(frame)
    api, version, _, length = _REQUEST.unpack_from(frame, _SIZE)
    masked = next((each for each in (OffsetCommitRequest, SaslAuthenticateRequest) if api == each.API_KEY), None)
    if masked is None:
        return bytes(frame)
    start = _SIZE + _REQUEST.size + max(length, 0)
    if version >= masked.FLEXIBLE:
        start += 1  # the client writes no tagged fields
    try:
        request: Any = masked.decode(frame, version, start)
    except KafkaError:
        return _same_size(frame, _SIZE + _REQUEST.size, b"")
    if masked is SaslAuthenticateRequest:
        request.auth_bytes = bytes(len(request.auth_bytes))
        return _same_size(frame, start, request.encode(version))
    for topic in request.topics:
        for partition in topic.partitions:
            partition.committed_metadata = masked_metadata(partition.committed_metadata)
    return _same_size(frame, start, request.encode(version))


class Responses:
    """Knows the requests of one connection, and masks the responses to them."""

    def __init__(self) -> None:
        self._versions: dict[int, tuple[int, int]] = {}

    def sent(self, frame: bytes | bytearray) -> None:
        """Note a request, in the order of which responses come."""
        if len(frame) >= _SIZE + _REQUEST.size:
            api, version, correlation_id, _ = _REQUEST.unpack_from(frame, _SIZE)
            self._versions[correlation_id] = api, version

    def masked(self, frame: Frame) -> tuple[bytes, list[int]]:
        """Return what is kept of a response, and the holes in it: the place and the length of each, in turn."""
        correlation_id = int.from_bytes(frame[:LEAST_FRAME], "big")
        api, version = self._versions.pop(correlation_id, (-1, 0))
        request = next((each for each in _SECRET_APIS if api == each.API_KEY), None)
        if request is None:
            return (bytes(frame), []) if api >= 0 else _cut(frame, [LEAST_FRAME, len(frame) - LEAST_FRAME])
        try:
            start = decode_response_header(frame, request, version)[1]
            message: Any = request.RESPONSE.decode(frame, version, start)
            if request is FetchRequest:
                return _cut(frame, _holes(frame, message))
            if request is SaslAuthenticateRequest:
                message.auth_bytes = bytes(len(message.auth_bytes))
                message.error_message = masked_metadata(message.error_message)
            else:
                _mask_committed(message)
            return _same_size(frame, start, message.encode(version)), []
        except KafkaError:
            return _cut(frame, [LEAST_FRAME, len(frame) - LEAST_FRAME])


def _same_size(frame: Frame | bytearray, start: int, body: bytes) -> bytes:
    """Return the frame with another body; with zeros if the sizes differ, as for fields that were left out."""
    return bytes(frame[:start]) + (body if len(body) == len(frame) - start else bytes(len(frame) - start))


def _mask_committed(message: Any) -> None:
    for topics in (message.topics, *(group.topics for group in message.groups)):
        for topic in topics:
            for partition in topic.partitions:
                partition.metadata = masked_metadata(partition.metadata)


def _holes(frame: Frame, message: Any) -> list[int]:
    """Return where a Fetch response has records, without the headers of batches."""
    holes: list[int] = []
    found = 0
    for records in (partition.records for topic in message.responses for partition in topic.partitions):
        if not records:
            continue
        found, at, end = _place(frame, records, found), 0, len(records)
        while at < end:
            magic = records[at + _MAGIC_AT] if at + _MAGIC_AT < end else -1
            length = int.from_bytes(records[at + 8 : at + _LOG_OVERHEAD], "big")
            stop = min(at + _LOG_OVERHEAD + length, end)
            begin = min(at + _HEADERS.get(magic, 0), stop)
            if stop > begin:
                holes += [found + begin, stop - begin]
            at = stop
        found += end
    return holes


def _place(frame: Frame, records: memoryview, start: int) -> int:
    """Return where these records, a slice of the frame, are in it; not before ``start``.

    They are found by the header of their first batch, with its CRC-32. If that is not complete, there are no records.
    """
    data: Any = frame.obj if isinstance(frame, memoryview) else frame  # a view cannot be searched
    return int(data.index(bytes(records[: _HEADERS[2]]), start))


def _cut(frame: Frame, holes: list[int]) -> tuple[bytes, list[int]]:
    parts, at = [], 0
    for place, length in zip(holes[::2], holes[1::2]):
        parts.append(frame[at:place])
        at = place + max(length, 0)
    return b"".join([*parts, frame[at:]]), holes


def filled(kept: bytes, holes: Sequence[int], size: int) -> bytes:
    """Return a response of ``size`` bytes with zeros in its holes; raise TraceError if it has another size."""
    if len(kept) + sum(max(0, length) for length in holes[1::2]) != size:
        raise TraceError(f"a response of a wrong form: it has not {size} bytes")
    parts, at, place = [], 0, 0
    for hole, length in zip(holes[::2], holes[1::2]):
        parts += [kept[at : at + hole - place], bytes(max(0, length))]
        at, place = at + hole - place, hole + length
    return b"".join([*parts, kept[at:]])
