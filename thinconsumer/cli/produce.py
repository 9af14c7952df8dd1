"""Write each line of standard input to a topic as a record, acknowledged by all in-sync replicas.

A line is a value, or with --key-separator a key and a value. With --json it is an object with any of key, value,
headers, partition and timestamp, as 'consume --json' prints them; topic and offset are ignored.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Any, NamedTuple

from ..errors import KafkaError
from ..produce import Producer, ProducerSettings
from ..produce.batch import SendFuture
from ..sockets.secured import open_driver
from .cluster import connected_admin, notify, partitions_of
from .output import ProgressLine, bytes_from_json, counted
from .parsing import CommandError, Parser, UsageError, add_client, add_cluster, client_config, one_of

READ_BYTES = 256 * 1024
DELIVERY_TIMEOUT_MS = 30_000


class InputRecord(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def describe(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="topic to write to")
    add_cluster(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="each line is a JSON object, as 'consume --json' prints them")
    form.add_argument("--key-separator", metavar="TEXT", help="the key precedes TEXT in a line, the value follows it")
    parser.add_argument("--partition", type=int, metavar="N", help="write all to this partition (default: by key)")
    parser.add_argument(
        "--compression",
        type=one_of("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="none, gzip, snappy, lz4 or zstd (default: %(default)s)",
    )
    add_client(parser, "producer")


def run(options: argparse.Namespace) -> int:
    own = {"compression_type": options.compression, "delivery_timeout_ms": DELIVERY_TIMEOUT_MS}
    settings = ProducerSettings.from_config(client_config(options, ProducerSettings.options(), **own))
    parse = _parser(options)
    with connected_admin(options) as (_, topics):
        partitions = partitions_of(topics, options.topic, () if options.partition is None else (options.partition,))
    with Producer(settings, driver=open_driver(settings)) as producer:
        writer = RecordWriter(producer, options, ProgressLine(options.progress), partitions)
        writer.write_all(stdin_lines(writer.keep_going), parse)
    return 0


class RecordWriter:
    def __init__(
        self, producer: Producer, options: argparse.Namespace, progress: ProgressLine, partitions: Container[int]
    ) -> None:
        self._producer, self._progress, self._partitions = producer, progress, partitions
        self._topic, self._partition = options.topic, options.partition
        self._is_silent = options.progress is False
        #: The number, the bytes and the future of each line that is not acknowledged yet.
        self._unsettled: deque[tuple[int, int, SendFuture]] = deque()
        self._written = self._written_bytes = 0
        self._input_bytes = bytes_left(sys.stdin.fileno())
        self._started = time.monotonic()

    def write_all(self, lines: Iterator[bytes], parse: Callable[[bytes], InputRecord]) -> None:
        """Write all lines, and wait until every record is acknowledged. An error about a line names its number."""
        try:
            for number, data in enumerate(lines, start=1):
                self._write(number, data, parse)
                if not number % 1000:
                    self.keep_going(0)
            while self._unsettled:
                self.keep_going(1000)
        finally:
            last = f"{counted(self._written, 'record')} written to {self._topic} in {self._seconds():.1f} s"
            if self._progress.is_wanted:
                self._progress.say(last)
            elif not self._is_silent:
                notify(last)

    def keep_going(self, timeout_ms: float) -> bool:
        """Have the producer send and receive; return whether some records are not acknowledged yet.

        Raises CommandError if a record could not be written.
        """
        self._producer.poll(timeout_ms)
        while self._unsettled and self._unsettled[0][2].done:
            number, size, future = self._unsettled.popleft()
            try:
                future.result()
            except KafkaError as error:
                raise CommandError(f"line {number} could not be written ({self._before()}): {error}") from error
            self._written += 1
            self._written_bytes += size
        self._progress.update(self._how_far)
        return bool(self._unsettled)

    def _write(self, number: int, data: bytes, parse: Callable[[bytes], InputRecord]) -> None:
        try:
            line = parse(data)
            if line.partition is not None and line.partition not in self._partitions:
                # Checked here, since the producer would keep the record until its delivery timeout, in case the
                # partition is created.
                raise ValueError(f"{self._topic} has no partition {line.partition}")
            future = self._producer.send(
                self._topic,
                line.value,
                key=line.key,
                headers=line.headers,
                partition=self._partition if line.partition is None else line.partition,
                timestamp_ms=line.timestamp_ms,
            )
        except ValueError as error:
            # Finish the earlier lines, so that the user can correct this line and continue with it.
            while self._unsettled:
                self.keep_going(1000)
            raise CommandError(f"line {number}: {error} ({self._before()})") from error
        self._unsettled.append((number, len(data) + 1, future))

    def _before(self) -> str:
        return {0: "no line is written", 1: "the line before it is written"}.get(
            self._written, f"the {self._written:,} lines before it are written"
        )

    def _how_far(self) -> str:
        done = f"{counted(self._written, 'record')} written, {self._written / self._seconds():,.0f}/s"
        # The last line may have no line feed, and the file may grow meanwhile.
        return done + (f", {min(100, 100 * self._written_bytes // self._input_bytes)} %" if self._input_bytes else "")

    def _seconds(self) -> float:
        return max(time.monotonic() - self._started, 0.001)


def bytes_left(source: int) -> int:
    """Return the number of bytes in a regular file after the current position; 0 for a pipe or a terminal."""
    status = os.fstat(source)
    return max(0, status.st_size - os.lseek(source, 0, os.SEEK_CUR)) if stat.S_ISREG(status.st_mode) else 0


def stdin_lines(keep_going: Callable[[float], bool]) -> Iterator[bytes]:
    """Yield lines as they arrive. While none arrives, call ``keep_going`` until every record is acknowledged."""
    source, unread = sys.stdin.fileno(), b""
    while True:
        while not _has_input(source) and keep_going(10):
            pass
        data = os.read(source, READ_BYTES)
        if not data:
            break
        *lines, unread = (unread + data).split(b"\n")
        yield from lines
    if unread:
        yield unread


def parse_json(data: bytes) -> InputRecord:
    """Parse a line of JSON; raise ValueError if it is not a record that can be written."""
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError(f'a record is an object such as {{"key": "a", "value": "b"}}, not {data!r:.80}')
    unknown = set(fields) - {"key", "value", "headers", "partition", "timestamp", "topic", "offset"}
    if unknown:
        raise ValueError(f"a record has no field {min(unknown)!r}; use key, value, headers, partition, timestamp")
    headers = fields.get("headers") or []
    if not isinstance(headers, list):
        raise ValueError(f'headers are a list such as [["name", "value"]], not {json.dumps(headers):.80}')
    return InputRecord(
        bytes_from_json(fields.get("value")),
        bytes_from_json(fields.get("key")),
        tuple(map(_header, headers)),
        _number(fields, "partition"),
        _number(fields, "timestamp"),
    )


def parse_text(separator: bytes | None) -> Callable[[bytes], InputRecord]:
    """Return a function that parses a line of text: a value, or with ``separator`` a key and a value."""

    def parse(data: bytes) -> InputRecord:
        if separator is None:
            return InputRecord(data)
        key, found, value = data.partition(separator)
        if not found:
            raise ValueError(f"there is no {separator.decode(errors='replace')!r} between key and value")
        return InputRecord(value, key)

    return parse


def _parser(options: argparse.Namespace) -> Callable[[bytes], InputRecord]:
    if options.json:
        return parse_json
    if options.key_separator == "":
        raise UsageError("--key-separator is empty; give the text between key and value")
    return parse_text(None if options.key_separator is None else options.key_separator.encode())


def _header(pair: Any) -> tuple[str, bytes | None]:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        raise ValueError(f'a header is ["name", "value"], not {json.dumps(pair):.80}')
    return pair[0], bytes_from_json(pair[1])


def _number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None or (name == "timestamp" and value == -1):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is a whole number from 0 on, not {value!r:.80}")
    return value


def _has_input(source: int) -> bool:
    if sys.platform == "win32":
        return False  # Windows' select() accepts only sockets; with False, stdin_lines() awaits all acks before a read
    return bool(select.select([source], [], [], 0)[0])
