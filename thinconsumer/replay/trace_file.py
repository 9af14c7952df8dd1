"""The file of a trace: events in blocks, each compressed and with a checksum, so that a file cut anywhere is readable.

A block is the length and the CRC-32 of its compressed bytes, then those. Decompressed, it is the length of a JSON array
of events, the array, and the bytes that belong to events of it in order. An event is a number (a reading of the
monotonic clock), or an array that begins with its kind; :data:`WITH_BYTES` end with the number of their bytes.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from typing import Any

from ..errors import KafkaError

MAGIC = b"thinconsumer trace 1\n"
_BLOCK = struct.Struct(">II")
_LENGTH = struct.Struct(">I")
#: The kinds of events with bytes: of a request, and the bytes of a response.
WITH_BYTES = ("request", "response")
#: A block is written once it has so many events or bytes.
EVENTS_MAX, BYTES_MAX = 2000, 1 << 18
#: A file with larger blocks is no trace. One response has at most 2 GB, of which records are left out.
BLOCK_MAX = 1 << 28
#: Higher levels take three times as long, and save a tenth.
LEVEL = 1


class TraceError(KafkaError):
    """The file is no trace, or not one that this version can replay."""


class TraceWriter:
    """Writes events to a new file that only its owner can read; writes no more once the file has ``bytes_max``."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._file = open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
        if os.name == "posix":
            os.fchmod(self._file.fileno(), 0o600)  # of a file that was there before
        self._file.write(MAGIC)
        self._left = bytes_max - len(MAGIC)
        self._events: list[Any] = []
        self._blob = bytearray()

    def add(self, event: Any, data: bytes = b"") -> None:
        """Append an event and its bytes."""
        self._events.append(event)
        self._blob += data
        if len(self._events) >= EVENTS_MAX or len(self._blob) >= BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write a block of the events since the last one."""
        events, self._events = self._events, []
        blob, self._blob = self._blob, bytearray()
        if not events or self._file.closed:
            return
        text = json.dumps(events, separators=(",", ":")).encode()
        packed = zlib.compress(_LENGTH.pack(len(text)) + text + blob, LEVEL)
        self._left -= len(packed) + _BLOCK.size
        if self._left < 0:
            self._file.close()
            return
        self._file.write(_BLOCK.pack(len(packed), zlib.crc32(packed)) + packed)
        self._file.flush()

    def close(self) -> None:
        """Write what is left, and close the file."""
        self.flush()
        self._file.close()


def read_trace(path: str) -> list[tuple[Any, bytes]]:
    """Return the events of a trace with their bytes, up to the last block that is whole.

    Raises:
        TraceError: the file is no trace, or a whole block of it has a wrong form.
    """
    events: list[tuple[Any, bytes]] = []
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise TraceError(f"{path} is no trace of this version: it does not begin with {MAGIC.decode().strip()!r}")
        while len(head := file.read(_BLOCK.size)) == _BLOCK.size:
            size, crc = _BLOCK.unpack(head)
            packed = file.read(min(size, BLOCK_MAX))
            if len(packed) < size or zlib.crc32(packed) != crc:
                break
            events += _events_of(packed, path)
    return events


def _events_of(packed: bytes, path: str) -> list[tuple[Any, bytes]]:
    found: list[tuple[Any, bytes]] = []
    try:
        data = zlib.decompressobj().decompress(packed, BLOCK_MAX)
        (size,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + size
        for event in json.loads(data[_LENGTH.size : at]):
            has_bytes = isinstance(event, list) and event[0] in WITH_BYTES
            end = at + int(event[-1]) if has_bytes else at
            if not at <= end <= len(data):
                raise ValueError("the bytes of an event are missing")
            found.append((event, data[at:end]))
            at = end
    except (ValueError, LookupError, TypeError, RecursionError, struct.error, zlib.error) as error:
        raise TraceError(f"{path} has a block of a wrong form: {error}") from None
    return found
