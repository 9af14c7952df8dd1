"""Print records and tables to standard output, and progress, by default to standard error."""

from __future__ import annotations

import base64
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

from ..types import ConsumerRecord

#: Seconds between two updates of the progress line: on a terminal, where the line is overwritten, and in a file, where
#: each update is a line of its own.
REDRAW_S, REPEAT_S = 0.1, 1.0

Record = ConsumerRecord["bytes | None", "bytes | None"]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def bytes_as_json(data: bytes | None) -> Any:
    """Return bytes as text if they are UTF-8, else as ``{"base64": "..."}``; None for None."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def bytes_from_json(value: Any) -> bytes | None:
    """Return the bytes for a value of :func:`bytes_as_json`. Any other value, such as a number, becomes JSON text.

    Raises ValueError if the base64 text is invalid.
    """
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    if isinstance(value, dict) and set(value) == {"base64"} and isinstance(value["base64"], str):
        return base64.b64decode(value["base64"], validate=True)
    return _encode(value).encode()


def record_as_json(record: Record, value: str | None = None) -> bytes:
    """Return a line with a JSON object. ``value`` is the JSON text for the value; None: its text or base64."""
    line = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_as_json(record.key),
    }
    value = _encode(bytes_as_json(record.value)) if value is None else value
    headers = _encode([[name, bytes_as_json(data)] for name, data in record.headers])
    return f'{_encode(line)[:-1]},"value":{value},"headers":{headers}}}\n'.encode()


def record_as_text(record: Record, key_separator: bytes | None, value: str | None = None) -> bytes:
    """Return a line with the value; with ``key_separator``, the key and the separator before it.

    None becomes ``null``, as in Kafka's tools. ``value`` is the text to print instead of the value.
    """
    data = (b"null" if record.value is None else record.value) if value is None else value.encode()
    if key_separator is None:
        return data + b"\n"
    return (b"null" if record.key is None else record.key) + key_separator + data + b"\n"


class JsonValues:
    """Returns JSON values as text, and counts the values that are not JSON."""

    def __init__(self, *, is_pretty: bool) -> None:
        self._is_pretty = is_pretty
        self.not_json = 0  #: The number of values that are not JSON.

    def text(self, value: bytes | None) -> str | None:
        """Return the JSON text of a value, on one line or indented; None, and count it, if it is not JSON."""
        if value is None:
            return "null"
        try:
            text = value.decode()
            # Numbers stay text: a conversion would limit their digits, and take time.
            json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            self.not_json += 1
            return None
        return layout_json(text, is_pretty=self._is_pretty)


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


#: Levels of nesting that are indented. Without a limit, a small value that is nested deeply would print huge indents.
INDENTED_LEVELS = 32

_JSON_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},:]|[^][{},:"\s]+')


def layout_json(text: str, *, is_pretty: bool) -> str:
    """Return valid JSON text on one line, or with the first INDENTED_LEVELS levels indented.

    Only white space changes: numbers keep all their digits.
    """
    tokens = _JSON_TOKEN.findall(text)
    if not is_pretty:
        return "".join(tokens)
    parts: list[str] = []
    depth, before = 0, ""
    for token in tokens:
        is_end = token in ("]", "}")
        is_indented = depth <= INDENTED_LEVELS
        depth -= is_end
        if is_indented and ((before not in ("[", "{")) if is_end else before in ("[", "{", ",")):
            parts.append("\n" + "  " * depth)
        parts.append(": " if token == ":" else token)
        depth += token in ("[", "{")
        before = token
    return "".join(parts)


def counted(count: int, noun: str) -> str:
    """Return a number and a noun, which gets an "s" unless the number is 1: ``2,000 records``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def write_lines(lines: Iterable[bytes]) -> None:
    """Write all lines to standard output, and flush it. Raises BrokenPipeError if the reader closed the pipe."""
    stream, left = sys.stdout.buffer, memoryview(b"".join(lines))
    while left:
        # With PYTHONUNBUFFERED the stream is a raw file, of which write() may write only a part.
        left = left[stream.write(left) :]
    stream.flush()


def print_rows(heads: Sequence[str], rows: Iterable[Sequence[Any]], as_json: bool) -> None:
    """Print rows as lines of JSON, or as a table with numbers aligned to the right. Without rows, print nothing.

    In a table, a mapping from topics to partition numbers reads ``orders:0-2,5 payments:1``.
    """
    if as_json:
        sys.stdout.writelines(_encode(dict(zip(heads, row))) + "\n" for row in rows)
        return
    cells = [list(map(cell, row)) for row in rows]
    if not cells:
        return
    table = [[head.upper().replace("_", " ") for head in heads], *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    numeric = [all(_is_number(row[column]) for row in cells) for column in range(len(heads))]
    for row in table:
        parts = [cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(row, widths, numeric)]
        sys.stdout.write("  ".join(parts).rstrip() + "\n")


def cell(value: Any) -> str:
    """Return the text of a value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "-"
    if isinstance(value, Mapping):
        return " ".join(f"{topic}:{_ranges(numbers)}" for topic, numbers in value.items()) or "-"
    return str(value)


def _ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as ranges: ``0-2,5``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] == number - 1:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, each)) for each in found)


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.removeprefix("-").replace(".", "", 1).isdecimal()


class ProgressLine:
    """A progress line: overwritten on a terminal, else printed again, at most once a second.

    Args:
        is_wanted: Whether to print; None: only if standard error is a terminal and standard output is not.
    """

    def __init__(
        self, is_wanted: bool | None = None, *, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self.is_wanted = self._is_terminal and not sys.stdout.isatty() if is_wanted is None else is_wanted
        self._now = now
        self._updated_at = -float("inf")
        self._is_shown = False

    def update(self, words: Callable[[], str]) -> None:
        """Print the progress line if one is wanted, at most every ``REDRAW_S`` (terminal) or ``REPEAT_S`` seconds."""
        every = REDRAW_S if self._is_terminal else REPEAT_S
        if self.is_wanted and self._now() >= self._updated_at + every:
            self._updated_at = self._now()
            self._write(f"\r\x1b[K{words()}" if self._is_terminal else words() + "\n")
            self._is_shown = self._is_terminal

    def say(self, *lines: str) -> None:
        """Print lines that stay, in place of the progress line; print nothing if no progress is wanted."""
        if self.is_wanted:
            self._write(("\r\x1b[K" if self._is_shown else "") + "".join(f"{line}\n" for line in lines))
            self._is_shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
