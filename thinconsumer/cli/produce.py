"""Write lines from standard input to a topic, one record a line, each acknowledged by all replicas in sync.

Without --json a line is a value, or with --key-separator key and value. With --json it is an object with any of key,
value, headers, partition and timestamp, as 'consume --json' writes them; its topic and offset are not looked at.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Any, NamedTuple

from ..errors import KafkaError
from ..net import SelectorDriver
from ..produce import Producer, ProducerSettings
from ..produce.batch import Receipt
from .cluster import asking, check_topic
from .output import Progress, bytes_from_json
from .parsing import Failure, OneOf, Parser, UsageError, add_cluster, add_properties, client_config

READ_BYTES = 256 * 1024
#: A record is given up after this long.
DELIVERY_TIMEOUT_MS = 30_000


class Line(NamedTuple):
    """What a line says."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def describe(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("topic", metavar="TOPIC", help="where to write")
    add_cluster(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="each line is an object, as 'consume --json' writes them")
    form.add_argument("--key-separator", metavar="TEXT", help="what is before it in a line is the key")
    parser.add_argument("--partition", type=int, metavar="N", help="write all to this one (default: by key)")
    parser.add_argument(
        "--compression",
        type=OneOf("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="none, gzip, snappy, lz4 or zstd (default: %(default)s)",
    )
    add_properties(parser, "producer")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="say on standard error how far it is (default: where that is a terminal and standard output is none)",
    )


def run(options: argparse.Namespace) -> int:
    """Write what comes in; return the exit code."""
    config = client_config(options, compression_type=options.compression, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
    config.pop("bootstrap.timeout.ms")
    settings = ProducerSettings.from_config(config)
    parse = _parser(options)
    with asking(options) as (_, topics):
        check_topic(topics, options.topic, options.partition)
        partitions = topics[options.topic].partitions
    with Producer(settings, driver=SelectorDriver()) as producer:
        writer = Writer(producer, options.topic, options.partition, Progress(options.progress), partitions)
        writer.write_all(stdin_lines(writer.keep_going), parse)
    return 0


class Writer:
    """Hands lines to the producer, and knows which of them are acknowledged."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        partition: int | None,
        progress: Progress,
        partitions: Container[int] | None = None,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._progress = progress
        self._partitions = partitions
        self._unsettled: deque[tuple[int, Receipt]] = deque()
        self._written = 0
        self._started = time.monotonic()

    def write_all(self, lines: Iterator[bytes], parse: Callable[[bytes], Line]) -> None:
        """Write until there are no more lines, and wait until all is acknowledged.

        Raises:
            Failure: A line makes no sense, or could not be written; it says which, and how many were.
        """
        try:
            for number, data in enumerate(lines, start=1):
                self._write(number, data, parse)
                if not number % 1000:
                    self.keep_going(0)
            while self._unsettled:
                self.keep_going(1000)
        finally:
            self._progress.say(self._how_far())

    def keep_going(self, timeout_ms: float) -> bool:
        """Send and take answers; return whether records are still under way."""
        self._producer.poll(timeout_ms)
        while self._unsettled and self._unsettled[0][1].done:
            number, receipt = self._unsettled.popleft()
            try:
                receipt.result()
            except KafkaError as error:
                raise Failure(f"line {number} could not be written ({self._before()}): {error}") from error
            self._written += 1
        self._progress.update(self._how_far)
        return bool(self._unsettled)

    def _write(self, number: int, data: bytes, parse: Callable[[bytes], Line]) -> None:
        try:
            line = parse(data)
            if self._partitions is not None and line.partition is not None and line.partition not in self._partitions:
                # The producer would wait for it until its time is over: it may be about to be created.
                raise ValueError(f"{self._topic} has no partition {line.partition}")
            receipt = self._producer.send(
                self._topic,
                line.value,
                key=line.key,
                headers=line.headers,
                partition=self._partition if line.partition is None else line.partition,
                timestamp_ms=line.timestamp_ms,
            )
        except ValueError as error:
            # What came before it is written, so that whoever corrects it can go on from there.
            while self._unsettled:
                self.keep_going(1000)
            raise Failure(f"line {number}: {error} ({self._before()})") from error
        self._unsettled.append((number, receipt))

    def _before(self) -> str:
        return {
            0: "no line is written",
            1: "the line before it is written",
        }.get(self._written, f"the {self._written:,} lines before it are written")

    def _how_far(self) -> str:
        seconds = max(time.monotonic() - self._started, 0.001)
        return f"{self._written:,} records written, {self._written / seconds:,.0f}/s"


def stdin_lines(keep_going: Callable[[float], bool]) -> Iterator[bytes]:
    """Yield lines as they come. While none do, the producer goes on until nothing is under way."""
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


def parse_json(data: bytes) -> Line:
    """Read a line of JSON.

    Raises:
        ValueError: It is none, or says something that cannot be written.
    """
    try:
        said = json.loads(data)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from None
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not isinstance(said, dict):
        raise ValueError('a record is an object such as {"key": "a", "value": "b"}')
    unknown = set(said) - {"key", "value", "headers", "partition", "timestamp", "topic", "offset"}
    if unknown:
        raise ValueError(f"a record has no field {min(unknown)!r}: key, value, headers, partition and timestamp")
    headers = said.get("headers") or []
    if not isinstance(headers, list):
        raise ValueError(f'headers are a list such as [["name", "value"]], not {json.dumps(headers):.80}')
    return Line(
        bytes_from_json(said.get("value")),
        bytes_from_json(said.get("key")),
        tuple(map(_header, headers)),
        _number(said, "partition"),
        _number(said, "timestamp"),
    )


def parse_text(separator: bytes | None) -> Callable[[bytes], Line]:
    """Return what reads a line of text."""

    def parse(data: bytes) -> Line:
        if separator is None:
            return Line(data)
        key, found, value = data.partition(separator)
        if not found:
            raise ValueError(f"no {separator.decode(errors='replace')!r} between key and value")
        return Line(value, key)

    return parse


def _parser(options: argparse.Namespace) -> Callable[[bytes], Line]:
    if options.json:
        return parse_json
    if options.key_separator == "":
        raise UsageError("--key-separator: an empty one is nowhere and everywhere")
    return parse_text(None if options.key_separator is None else options.key_separator.encode())


def _header(said: Any) -> tuple[str, bytes | None]:
    if not isinstance(said, list) or len(said) != 2 or not isinstance(said[0], str):
        raise ValueError(f'a header is ["name", "value"], not {json.dumps(said):.80}')
    return said[0], bytes_from_json(said[1])


def _number(said: dict[str, Any], name: str) -> int | None:
    value = said.get(name)
    if value is None or (name == "timestamp" and value == -1):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is a whole number from 0 on, not {value!r:.80}")
    return value


def _has_input(source: int) -> bool:
    if sys.platform == "win32":
        return False  # nothing but sockets can be waited for there: all is acknowledged before the next line is read
    return bool(select.select([source], [], [], 0)[0])
