"""The file of a trace: events in blocks, each compressed and with a checksum, so that a file cut anywhere is readable.

A block is the length of its compressed bytes, the number of its times, and the CRC-32 of both; then those bytes, and
the times (seconds, as 8-byte floats). Decompressed, it is the number of events, the length of a JSON array, the kind of
each event in a byte, the array, and the bytes that belong to events, in order. Recording has to be cheap, so an event
that is frequent is nothing but one of the kinds in :class:`Short`; all others are the next item of the array, an array
that begins with the event's name. :data:`WITH_BYTES` end with the number of their bytes. Times are beside the events,
since they are long as text and take long to compress: of a clock reading, and those that end :data:`TIMED`.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import struct
import sys
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import IntEnum
from itertools import count
from typing import Any

from ..errors import KafkaError

log = logging.getLogger(__name__)
MAGIC = b"thinconsumer trace 1\n"
_BLOCK = struct.Struct(">III")
_LENGTHS = struct.Struct(">II")
#: The ending of the name of the file before the last one.
BEFORE = ".1"
#: The kinds of events with bytes: of a request, of a response, and of the beginning of one that was never complete.
WITH_BYTES = ("request", "response", "beginning")
#: The kinds of events whose last item is a time.
TIMED = ("received", "sent")


class Short(IntEnum):
    """The events that are written as one byte, and the byte of all others."""

    CLOCK = 0  #: A reading of the monotonic clock; it has a time.
    STEP = 1  #: ``["step", deadline]``; it has a time.
    STEPPED = 2  #: ``["end", True]``
    STEPPED_IDLE = 3  #: ``["end", False]``
    SEND = 4  #: ``["send"]``
    CALL = 5  #: The public call before, again.
    FOUND = 6  #: A poll has found what the one before has, one record later.
    NAMED = 7  #: The next item of the array.


_NAMED = int(Short.NAMED)
_PLAIN = {Short.STEPPED: ["end", True], Short.STEPPED_IDLE: ["end", False], Short.SEND: ["send"]}
#: A block is written once it has so many events or bytes.
EVENTS_MAX, BYTES_MAX = 2000, 1 << 18
#: A file with larger blocks is no trace. One response has at most 2 GB, of which records are left out.
BLOCK_MAX = 1 << 28
#: Higher levels take three times as long, and save a tenth.
LEVEL = 1


#: Numbers the traces of this process whose names the environment gives.
_NUMBERS = count(1)


def numbered(path: str) -> str:
    """Return a name that no other trace has, of this process or of another that runs."""
    return f"{path}-{os.getpid()}-{next(_NUMBERS)}"


def new_id() -> str:
    """Return what the files of one trace have in common."""
    return os.urandom(8).hex()


class TraceError(KafkaError):
    """The file is no trace, or not one that this version can replay."""


class TraceWriter:
    """Writes events to a file that only its owner can read.

    Once the file has half of ``bytes_max``, the trace is to go on in a new one, which begins with a checkpoint
    (:meth:`begin_segment`); the file before is kept as ``path`` with ``.1``. The two have at most ``bytes_max``.
    """

    def __init__(self, path: str, bytes_max: int) -> None:
        self._path = path
        self._half = bytes_max // 2
        #: The file is full with so many bytes: a large checkpoint makes it larger, or there would be nothing but those.
        self._full = self._half
        self._pid = os.getpid()
        self._open()
        self.is_on = True
        self._is_flushing = False  #: Still true at the next flush if Ctrl-C has cut off the last one.
        self.has_gap = False  #: Whether events were left out since the last one in the file.
        #: Whether a new segment is to begin with the next public call: the file is full, or a step was interrupted.
        self.wants_checkpoint = False
        self._kinds = bytearray()
        self._events: list[Any] = []
        self._times = array("d")
        self._blob = bytearray()
        #: Append a :class:`Short` event or a time, which are too frequent for :meth:`add`.
        self.short, self.time = self._kinds.append, self._times.append

    def add(self, event: Any, data: bytes = b"") -> None:
        """Append an event and its bytes."""
        # The byte comes last, here and for times: Ctrl-C in between leaves something without a byte (see add_failure).
        if data:
            self._blob += data
        self._events.append(event)
        self._kinds.append(_NAMED)
        if len(self._kinds) >= EVENTS_MAX or len(self._blob) >= BYTES_MAX:
            self.flush()

    def add_failure(self, kind: str, error: BaseException) -> None:
        """Append that an exception has ended something; that it was cut off, if it is one such as Ctrl-C.

        From there on a replay could not do the same: it goes on with a checkpoint.
        """
        if isinstance(error, Exception) and kind != "cut":
            self.add([kind, type(error).__name__])
        else:
            named, times, size = self._sizes()
            del self._events[named:], self._times[times:], self._blob[size:]
            self.add(["cut", type(error).__name__])
            self.wants_checkpoint = True

    def add_call(self) -> None:
        """Append the public call before once more."""
        self._kinds.append(Short.CALL)
        if len(self._kinds) >= EVENTS_MAX:
            self.flush()

    def _sizes(self) -> tuple[int, int, int]:
        """Return how many events, times and bytes belong to the kinds."""
        named = self._kinds.count(_NAMED)
        events = self._events[:named]
        times = self._kinds.count(Short.CLOCK) + self._kinds.count(Short.STEP) + sum(e[0] in TIMED for e in events)
        return named, times, sum(event[-1] for event in events if event[0] in WITH_BYTES)

    def flush(self) -> None:
        """Write a block of the events since the last one. An error ends the trace, and not the client's call."""
        if os.getpid() != self._pid:  # the file is the parent's
            self.is_on = False
        # Ctrl-C may have come at any line of this class.
        is_torn = self._is_flushing or self._sizes() != (len(self._events), len(self._times), len(self._blob))
        self._is_flushing = True
        kinds, events, times, blob = bytes(self._kinds), self._events[:], self._times[:], bytes(self._blob)
        self.discard()
        if is_torn:
            self.wants_checkpoint = True
            self.has_gap = self.has_gap or self._used <= len(MAGIC)  # the file would have no head
            kinds, events, times, blob = bytes([_NAMED]), [["cut", "KeyboardInterrupt"]], array("d"), b""
        if kinds and self.is_on and not self.has_gap and not self._file.closed:
            try:
                self._write(kinds, events, times, blob)
            except Exception as error:  # noqa: BLE001 - no call fails since its trace does
                self.fail(error)
        self._is_flushing = False

    def fail(self, error: Exception) -> None:
        """End the trace."""
        log.warning("the trace %s ends here: %s", self._path, error)
        self.is_on = self.wants_checkpoint = False
        self.discard()
        with suppress(OSError):
            self._file.close()

    def _write(self, kinds: bytes, events: list[Any], times: array[float], blob: bytes) -> None:
        text = json.dumps(events, separators=(",", ":")).encode()
        packed = zlib.compress(b"".join((_LENGTHS.pack(len(kinds), len(text)), kinds, text, blob)), LEVEL)
        if sys.byteorder == "big":
            times.byteswap()
        readings = times.tobytes()
        self._used += _BLOCK.size + len(packed) + len(readings)
        if self._used > self._full:
            self.wants_checkpoint = True
        if self._used > 2 * self._full:  # a call that takes very long
            self._file.close()
            return
        head = _BLOCK.pack(len(packed), len(times), zlib.crc32(readings, zlib.crc32(packed)))
        self._file.write(b"".join((head, packed, readings)))
        self._file.flush()

    def begin_segment(self, head: dict[str, Any], checkpoint: Any) -> None:
        """Go on with a checkpoint; in a new file with this head if the file is full."""
        self.flush()
        if not self.is_on:
            self.wants_checkpoint = False
            return
        if self._used > self._full or self.has_gap:
            # After a gap, the file before is no part of the trace.
            head["segment"] += 2 if self._file.closed or self.has_gap else 1
            self.has_gap = True  # Ctrl-C may come before the new file has its head
            self._file.close()
            with suppress(FileNotFoundError):
                os.replace(self._path, self._path + BEFORE)
            self._open()
            self.discard()
            self.add(["trace", head])
            self.has_gap = False
        before = self._used
        self.add(checkpoint)
        self.flush()
        self._full = max(self._half, 2 * (self._used - before))
        self.wants_checkpoint = False

    def discard(self) -> None:
        """Forget the events since the last block."""
        self._kinds.clear()
        self._events.clear()
        del self._times[:]
        self._blob.clear()

    def _open(self) -> None:
        # A file that is there may be open: in a trace of the same path, or by a user who may not read this one.
        with suppress(FileNotFoundError):
            if stat.S_ISREG(os.lstat(self._path).st_mode):
                os.unlink(self._path)
        self._file = open(self._path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
        if os.name == "posix":
            os.fchmod(self._file.fileno(), 0o600)  # of a file that was there before
        self._file.write(MAGIC)
        self._file.flush()
        self._used = len(MAGIC)

    def close(self) -> None:
        """Write what is left, and close the file."""
        self.flush()
        with suppress(OSError):
            self._file.close()


def read_trace(path: str) -> list[tuple[Any, bytes]]:
    """Return the events of a trace with their bytes, up to the last block that is whole; clock readings as floats.

    Raises:
        TraceError: the file is no trace, or a whole block of it has a wrong form.
    """
    events = _events_of(path)
    if os.path.exists(path + BEFORE):
        before = _events_of(path + BEFORE)
        if before and events and _segment(events) == [_segment(before)[0], _segment(before)[1] + 1]:
            return before + events[1:]
    return events


def _segment(events: list[tuple[Any, bytes]]) -> list[Any]:
    """Return which trace events belong to, and the number of their file."""
    head = events[0][0]
    about = head[1] if isinstance(head, list) and head[0] == "trace" else {}
    return [about.get("trace", ""), about.get("segment", 0)]


def _events_of(path: str) -> list[tuple[Any, bytes]]:
    reader = _EventReader()
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise TraceError(f"{path} is no trace of this version: it does not begin with {MAGIC.decode().strip()!r}")
        while len(head := file.read(_BLOCK.size)) == _BLOCK.size:
            size, count, crc = _BLOCK.unpack(head)
            packed, times = file.read(min(size, BLOCK_MAX)), file.read(min(8 * count, BLOCK_MAX))
            if zlib.crc32(times, zlib.crc32(packed)) != crc:
                break
            try:
                block = zlib.decompressobj().decompress(packed, BLOCK_MAX)
                reader.read(block, struct.unpack(f"<{count}d", times))
            except (
                ValueError,
                LookupError,
                TypeError,
                ArithmeticError,
                RecursionError,
                struct.error,
                zlib.error,
            ) as error:
                raise TraceError(f"{path} has a block of a wrong form: {error}") from None
    return reader.events


class _EventReader:
    def __init__(self) -> None:
        self.events: list[tuple[Any, bytes]] = []
        self._call: Any = None  #: The last public call.
        self._found: Any = None  #: What the last poll has found.

    def read(self, block: bytes, readings: Sequence[float]) -> None:
        count, size = _LENGTHS.unpack_from(block)
        start = _LENGTHS.size + count
        at = start + size
        named, times = iter(json.loads(block[start:at])), iter(readings)
        for kind in block[_LENGTHS.size : start]:
            event = self._whole(Short(kind), named, times)
            has_bytes = isinstance(event, list) and event[0] in WITH_BYTES
            end = at + int(event[-1]) if has_bytes else at
            if not at <= end <= len(block):
                raise ValueError("the bytes of an event are missing")
            self.events.append((event, block[at:end]))
            at = end

    def _whole(self, kind: Short, named: Iterator[Any], times: Iterator[float]) -> Any:
        """Return the next event in full."""
        if kind is Short.CLOCK:
            return _next(times)
        if kind is Short.STEP:
            return ["step", _next(times)]
        if kind is Short.CALL:
            return self._call
        if kind is Short.FOUND:
            name, first, visited, count, (move,), turns = self._found
            topic, partition, index, adds, chunk, record, offset, epoch, _ = move
            later = [topic, partition, index, adds, chunk, record + 1, offset + 1, epoch, [chunk, record]]
            self._found = [name, first, visited, count, [later], turns]
            return self._found
        if kind is not Short.NAMED:
            return _PLAIN[kind]
        event = _next(named)
        if event[0] in TIMED:
            return [*event, _next(times)]
        if event[0] == "call":
            self._call = event
        elif event[0] == "found":
            self._found = event
        return event


def _next(items: Iterator[Any]) -> Any:
    for item in items:
        return item
    raise ValueError("an event or a time is missing")
