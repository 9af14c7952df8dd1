"""What goes out: records and tables to standard output, progress to standard error and only where a person looks.

Owns how bytes look as JSON: as text where they are UTF-8, else as ``{"base64": "..."}``.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

from ..types import ConsumerRecord

#: Between two updates of a line that is written over, and between two lines where it cannot be; seconds.
REDRAW_S, REPEAT_S = 0.1, 1.0

Record = ConsumerRecord["bytes | None", "bytes | None"]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def bytes_as_json(data: bytes | None) -> Any:
    """Return text, an object with base64 where it is no UTF-8, or None."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def bytes_from_json(said: Any) -> bytes | None:
    """Return what :func:`bytes_as_json` was given; numbers, lists and objects become their JSON.

    Raises:
        ValueError: Base64 that is none.
    """
    if said is None or isinstance(said, str):
        return None if said is None else said.encode()
    if isinstance(said, dict) and set(said) == {"base64"} and isinstance(said["base64"], str):
        return base64.b64decode(said["base64"], validate=True)
    return _encode(said).encode()


def record_as_json(record: Record) -> bytes:
    """Return one line."""
    line = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_as_json(record.key),
        "value": bytes_as_json(record.value),
        "headers": [[name, bytes_as_json(data)] for name, data in record.headers],
    }
    return _encode(line).encode() + b"\n"


def record_as_text(record: Record, key_separator: bytes | None) -> bytes:
    """Return the value, with the key before it where a separator is given; a null is ``null``, as in Kafka's tools."""
    value = b"null" if record.value is None else record.value
    if key_separator is None:
        return value + b"\n"
    return (b"null" if record.key is None else record.key) + key_separator + value + b"\n"


class Output:
    """Bytes to standard output."""

    def __init__(self) -> None:
        self._stream = sys.stdout.buffer

    def write(self, lines: Iterable[bytes]) -> None:
        """Write them all, and let whoever reads see them. Raises BrokenPipeError when nobody does."""
        left = memoryview(b"".join(lines))
        while left:
            # Under PYTHONUNBUFFERED this is a bare file, which may take a part only.
            left = left[self._stream.write(left) :]
        self._stream.flush()


def print_json(row: Any) -> None:
    """Print one line of JSON."""
    sys.stdout.write(_encode(row) + "\n")


def print_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print columns, numbers to the right. Nothing at all when there is no row."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        return
    table = [list(heads), *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    numeric = [all(_is_number(row[column]) for row in cells) for column in range(len(heads))]
    for row in table:
        parts = [cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(row, widths, numeric)]
        sys.stdout.write("  ".join(parts).rstrip() + "\n")


def print_rows(heads: Sequence[str], rows: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    """Print rows that have these fields, as a table or as lines of JSON."""
    if as_json:
        for row in rows:
            print_json(row)
    else:
        print_table([head.upper().replace("_", " ") for head in heads], [[row[head] for head in heads] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "-"
    return str(value)


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.removeprefix("-").isdecimal()


class Progress:
    """One line that says how far it is. To a terminal it is written over, elsewhere repeated; or it is not there.

    Args:
        is_wanted: True or False; None: where a person looks at standard error, and data does not go there too.
    """

    def __init__(
        self, is_wanted: bool | None = None, *, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self.is_wanted = self._is_terminal and not sys.stdout.isatty() if is_wanted is None else is_wanted
        self._now = now
        self._due = -float("inf")
        self._is_shown = False

    def update(self, words: Callable[[], str]) -> None:
        """Say it, unless something was said a moment ago."""
        if self.is_wanted and self._now() >= self._due:
            self._due = self._now() + (REDRAW_S if self._is_terminal else REPEAT_S)
            self._write(f"\r\x1b[K{words()}" if self._is_terminal else words() + "\n")
            self._is_shown = self._is_terminal

    def say(self, *lines: str) -> None:
        """Say what is to stay, in place of the last update; the next one follows below."""
        if self.is_wanted:
            self._write(("\r\x1b[K" if self._is_shown else "") + "".join(f"{line}\n" for line in lines))
            self._is_shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
