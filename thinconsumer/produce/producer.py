"""The internal producer's calls: engine and driver under one roof.

Owns the order within a call and what a call promises: bounded, on one thread, everything inside the calls themselves.
What brokers are asked, and when, is decided in :mod:`.sender`.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TypeVar

from ..client import Engine, Shell, to_seconds
from ..driver import Driver
from ..errors import IllegalArgumentError, KafkaError, KafkaTimeoutError
from ..metadata import Metadata
from ..records.builder import NewRecord
from ..records.columns import Header
from .accumulator import Accumulator, BufferFullError
from .batch import Receipt
from .ids import ProducerIds
from .sender import Sender
from .settings import ProducerSettings

P = TypeVar("P", bound="Producer")

#: What a record takes at most besides key, value and headers: Java's MAX_RECORD_OVERHEAD.
RECORD_OVERHEAD = 21
#: What a header takes at most besides name and value: two lengths.
HEADER_OVERHEAD = 10
INT64_MAX = 2**63 - 1

_new_record = NewRecord._make


class Producer:
    """Writes records; see the package for what is promised. Closing it closes the driver."""

    def __init__(self, settings: ProducerSettings, *, driver: Driver) -> None:
        random = driver.random
        self.settings = settings
        self._metadata = Metadata(settings, random)
        self._accumulator = Accumulator(settings, random)
        ids = ProducerIds(settings, random)
        self._sender = Sender(settings, self._metadata, self._accumulator, ids, random)
        engine = Engine(settings, random, self._metadata, (ids, self._sender))
        self._sender.obstacle = engine.obstacle
        self._shell = Shell("producer", engine, driver, attend=lambda now: self._sender.attend(now, engine.wake_at()))
        self._record_max = min(settings.max_request_size, settings.buffer_memory)

    def __enter__(self: P) -> P:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of records are not settled yet; at most ``buffer_memory``."""
        return self._accumulator.used

    @property
    def idle(self) -> bool:
        """Whether every record has been settled."""
        return not self._accumulator

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
    ) -> Receipt:
        """Take a record; it leaves in :meth:`poll`, :meth:`flush` or :meth:`close`.

        Without a ``partition`` the ``key`` decides, as in Java, and without a key the producer. ``timestamp_ms`` is the
        time now by default. Waits up to ``max_block_ms`` for room, and does I/O only then.

        Raises:
            BufferFullError: there was no room in that time. The record was not taken.
            IllegalArgumentError: an argument is none, or the record is larger than ``max_request_size``.
        """
        shell = self._shell
        if shell.closed or shell.step_interrupted:
            shell.begin()
        if value.__class__ is not bytes and value is not None:
            value = _as_bytes("value", value)
        if key.__class__ is not bytes and key is not None:
            key = _as_bytes("key", key)
        size = RECORD_OVERHEAD + (len(value) if value else 0) + (len(key) if key else 0)
        if headers:
            headers, more = _check_headers(headers)
            size += more
        if timestamp_ms is None:
            timestamp_ms = int(shell.driver.wall_time() * 1000)
        elif not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms <= INT64_MAX:
            raise IllegalArgumentError(f"timestamp_ms is a number of milliseconds from 0 on, not {timestamp_ms!r}")
        if partition is not None:
            _check_partition(partition)
        if not topic or topic.__class__ is not str:
            raise IllegalArgumentError(f"a topic is a non-empty str, not {topic!r}")
        if self._accumulator.used + size > self.settings.buffer_memory or size > self._record_max:
            self._make_room(size)
        record = _new_record((value, key, headers, timestamp_ms, None))
        shell.step_interrupted = True
        receipt = self._accumulator.append(topic, partition, record, size, shell.driver.now())
        shell.step_interrupted = False
        return receipt

    def poll(self, timeout_ms: float = 0) -> int:
        """Go on: send, take answers. Returns how many records were settled, as soon as some were.

        ``poll(0)`` is one non-blocking step. With a longer time it waits until something is settled, or the time is
        over. Errors are in the receipts.
        """
        with self._shell.enter():
            before = self._accumulator.settled
            self._shell.wait_until(lambda: self._accumulator.settled > before, to_seconds(timeout_ms))
            return self._accumulator.settled - before

    def flush(self, timeout_ms: float | None = None) -> None:
        """Wait until every record has been settled, acknowledged or not; ``delivery_timeout_ms`` by default.

        Raises:
            KafkaTimeoutError: some are still under way; they remain so.
        """
        seconds = to_seconds(timeout_ms, self._default_timeout_ms)
        with self._shell.enter():
            if not self._shell.wait_until(lambda: self.idle, seconds):
                raise KafkaTimeoutError(f"flush: records are still under way after {seconds:.3f} s{self._why()}")

    def close(self, timeout_ms: float | None = None) -> None:
        """Flush, for so long at most (``delivery_timeout_ms`` by default), then fail what is left, and hang up.

        Returns within that time, and raises nothing because of records: that is in their receipts. Closed twice, it
        does nothing.
        """
        if self._shell.closed:
            return
        seconds = to_seconds(timeout_ms, self._default_timeout_ms)
        try:
            if self._accumulator:
                with self._shell.enter():
                    self._shell.wait_until(lambda: self.idle, seconds)
        finally:
            self._accumulator.recount()
            self._sender.outcomes.abandon(KafkaError(f"the producer was closed before the answer came{self._why()}"))
            self._shell.close()

    def wake_at(self) -> float:
        """Return when to poll next at the latest, in the driver's monotonic seconds."""
        return self._shell.wake_at()

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is I/O to do; ``io.UnsupportedOperation`` if none."""
        return self._shell.driver.fileno()

    # -- inside

    @property
    def _default_timeout_ms(self) -> float:
        """How long delivering everything may take: the last batch may have been begun just now."""
        return self.settings.delivery_timeout_ms + 1000

    def _make_room(self, size: int) -> None:
        if size > self._record_max:
            raise IllegalArgumentError(
                f"a record of {size} bytes is larger than max_request_size={self.settings.max_request_size} or "
                f"buffer_memory={self.settings.buffer_memory}"
            )
        limit = self.settings.buffer_memory - size
        seconds = self.settings.max_block_ms / 1000
        if seconds > 0:
            with self._shell.enter():
                self._shell.wait_until(lambda: self._accumulator.used <= limit, seconds)
        if self._accumulator.used > limit:
            raise BufferFullError(
                f"buffer_memory={self.settings.buffer_memory} is full of records that are not acknowledged, and no "
                f"room for {size} bytes came up within {seconds:.3f} s{self._why()}"
            )

    def _why(self) -> str:
        obstacle = self._shell.engine.obstacle()
        return f"; {obstacle}" if obstacle else ""


def _as_bytes(what: str, data: object) -> bytes:
    """Return what is as good as bytes as bytes: the caller may change a buffer of its own while it waits to be sent."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise IllegalArgumentError(f"a {what} is bytes or None, not {type(data).__name__}: serialize it first")


def _check_headers(headers: Iterable[Header]) -> tuple[tuple[Header, ...], int]:
    """Return headers that can be written, and how many bytes they take at most."""
    checked: list[Header] = []
    size = 0
    for header in headers:
        if not isinstance(header, tuple) or len(header) != 2 or not isinstance(header[0], str):
            raise IllegalArgumentError(f"a header is a tuple of a str and bytes or None, not {header!r}")
        name, data = header
        data = None if data is None else _as_bytes("header's value", data)
        try:
            size += HEADER_OVERHEAD + len(name.encode()) + len(data or b"")
        except UnicodeEncodeError:
            raise IllegalArgumentError(f"the header name {name!r} cannot be written as UTF-8") from None
        checked.append((name, data))
    return tuple(checked), size


def _check_partition(partition: object) -> None:
    if isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition < 2**31:
        raise IllegalArgumentError(f"a partition is a number from 0 on, not {partition!r}")
