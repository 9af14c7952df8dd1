"""The calls of the internal producer, and the checks of their arguments."""

from collections.abc import Callable, Iterable

from ..config.values import INT64_MAX
from ..driver import Driver
from ..engine import BaseClient, Engine, Shell, to_seconds
from ..errors import IllegalArgumentError, KafkaError, KafkaTimeoutError
from ..network.metadata import Metadata
from ..records.batch import HEADER_SIZE
from ..records.builder import NewRecord
from ..records.headers import Header
from ..records.section import RecordSection
from ..support.agenda import Agenda
from ..support.shown import shown
from .accumulator import Accumulator, BufferFullError
from .batch import HEADER_OVERHEAD, RECORD_OVERHEAD, BatchFuture, SendFuture
from .sender import DEADLINE_EXTENSION, Sender
from .settings import ProducerSettings

_new_record = NewRecord._make


class Producer(BaseClient):
    """Sends records with the guarantees in the package's docstring. Closing it closes the driver."""

    def __init__(self, settings: ProducerSettings, *, driver: Driver) -> None:
        random = driver.random
        self.settings = settings
        agenda = Agenda()
        self._metadata = Metadata(settings, random, agenda)
        self._accumulator = Accumulator(settings, random, agenda)
        self._sender = Sender(settings, self._metadata, self._accumulator, random, agenda)
        engine = Engine(settings, random, self._metadata, (self._sender,), driver.wall_time, agenda)
        self._sender.obstacle = engine.obstacle
        self._shell = Shell(
            "producer", engine, driver, attend=lambda now: self._sender.note_call(now, engine.agenda.next())
        )
        self._record_max = min(settings.max_request_size, settings.buffer_memory)

    @property
    def idle(self) -> bool:
        """Whether every record is acknowledged or has failed."""
        return not self._accumulator

    def topic_error(self, topic: str) -> KafkaError | None:
        """Return why the partitions of a topic that is sent to are not known, by the last metadata response."""
        found = self._metadata.topics.get(topic)
        return None if found is None else found.error

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
    ) -> SendFuture:
        """Add a record to the buffer; :meth:`poll`, :meth:`flush` or :meth:`close` sends it.

        Without ``partition`` the hash of ``key`` chooses the partition: as in Java's producer, unless the topic is
        counted. Without a key, a sticky partitioner does. ``timestamp_ms`` defaults to the present time. While the
        buffer is full, the call sends and receives for up to ``max_block_ms``; otherwise it does no I/O.

        Raises:
            BufferFullError: there was no room within ``max_block_ms``. The record was not queued.
            IllegalArgumentError: an argument is invalid, or the record is larger than ``max_request_size`` or
                ``buffer_memory``.
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
            raise IllegalArgumentError(f"timestamp_ms must be an int from 0 to 2**63 - 1, not {shown(timestamp_ms)}")
        if partition is not None:
            _check_partition(partition)
        if not topic or topic.__class__ is not str:
            raise IllegalArgumentError(f"topic must be a non-empty str, not {topic!r}")
        if self._accumulator.buffered_bytes + size > self.settings.buffer_memory or size > self._record_max:
            self._make_room(size)
        record = _new_record((value, key, headers, timestamp_ms, None))
        shell.step_interrupted = True
        future = self._accumulator.append(topic, partition, record, size, shell.driver.now())
        shell.step_interrupted = False
        return future

    def send_section(self, topic: str, partition: int, section: RecordSection) -> BatchFuture:
        """Add a batch with the encoded records of another log's batch, which keep their codec and timestamps.

        Waits for room as :meth:`send` does. A batch that a leader rejects as too large may be decoded and split.

        Raises:
            BufferFullError: there was no room within ``max_block_ms``. The batch was not queued.
            IllegalArgumentError: the partition is invalid, or the batch is larger than ``max_request_size`` or
                ``buffer_memory``.
        """
        shell = self._shell
        if shell.closed or shell.step_interrupted:
            shell.begin()
        _check_partition(partition)
        size = len(section.data) + HEADER_SIZE
        self._make_room(size)
        shell.step_interrupted = True
        future = self._accumulator.append_section(topic, partition, section, size, shell.driver.now())
        shell.step_interrupted = False
        return future

    def poll(self, timeout_ms: float = 0) -> int:
        """Send batches and handle responses until the timeout, or until a record is acknowledged or fails.

        Returns the number of such records; their futures have the errors. ``poll(0)`` is one non-blocking step.
        """
        with self._shell.enter():
            before = self._accumulator.settled_records
            self._wait_until(lambda: self._accumulator.settled_records > before, to_seconds(timeout_ms))
            return self._accumulator.settled_records - before

    def flush(self, timeout_ms: float | None = None) -> None:
        """Wait until every record is acknowledged or has failed; by default up to ``delivery_timeout_ms`` plus 1 s.

        Raises:
            KafkaTimeoutError: some records have no outcome yet; later calls go on sending them.
        """
        seconds = self._seconds(timeout_ms)
        with self._shell.enter():
            if not self._wait_until(lambda: self.idle, seconds):
                raise KafkaTimeoutError(f"flush: records are not acknowledged after {seconds:.3f} s{self._obstacle()}")

    def close(self, timeout_ms: float | None = None) -> None:
        """Flush up to the timeout, fail the records without an outcome, and close the connections.

        The default timeout is that of :meth:`flush`. The futures have the records' errors. A second call does nothing.
        """
        if self._shell.closed:
            return
        seconds = self._seconds(timeout_ms)
        try:
            if self._accumulator:
                with self._shell.enter():
                    self._wait_until(lambda: self.idle, seconds)
        finally:
            self._accumulator.repair()
            self._sender.completer.fail_all(
                KafkaError(f"the producer was closed before the record was acknowledged{self._obstacle()}")
            )
            self._shell.close()

    def _wait_until(self, done: Callable[[], bool], seconds: float) -> bool:
        return self._shell.complete(self._shell.wait_until(done, seconds))

    def _seconds(self, timeout_ms: float | None) -> float:
        """Return a timeout in seconds, by default the time after which every record has an outcome."""
        return to_seconds(timeout_ms, self.settings.delivery_timeout_ms + 1000 * DEADLINE_EXTENSION)

    def _make_room(self, size: int) -> None:
        if size > self._record_max:
            raise IllegalArgumentError(
                f"a record of {size} bytes is larger than max_request_size={self.settings.max_request_size} or "
                f"buffer_memory={self.settings.buffer_memory}"
            )
        limit = self.settings.buffer_memory - size
        seconds = self.settings.max_block_ms / 1000
        if seconds > 0 and self._accumulator.buffered_bytes > limit:
            with self._shell.enter():
                self._wait_until(lambda: self._accumulator.buffered_bytes <= limit, seconds)
        if self._accumulator.buffered_bytes > limit:
            raise BufferFullError(
                f"buffer_memory={self.settings.buffer_memory} is full of unacknowledged records, and there was no "
                f"room for {size} bytes within {seconds:.3f} s{self._obstacle()}"
            )

    def _obstacle(self) -> str:
        obstacle = self._shell.engine.obstacle()
        return f"; {obstacle}" if obstacle else ""


def _as_bytes(what: str, data: object) -> bytes:
    """Return ``data`` as bytes, a copy if the application may change it later."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise IllegalArgumentError(f"the {what} must be bytes or None, not {type(data).__name__}: serialize it first")


def _check_headers(headers: Iterable[Header]) -> tuple[tuple[Header, ...], int]:
    """Return the headers as a tuple, and the upper bound of their encoded size."""
    checked: list[Header] = []
    size = 0
    for header in headers:
        if not isinstance(header, tuple) or len(header) != 2 or not isinstance(header[0], str):
            raise IllegalArgumentError(f"a header must be a tuple of a str and bytes or None, not {header!r}")
        name, data = header
        data = None if data is None else _as_bytes("header's value", data)
        try:
            size += HEADER_OVERHEAD + len(name.encode()) + len(data or b"")
        except UnicodeEncodeError:
            raise IllegalArgumentError(f"the header name {name!r} cannot be encoded as UTF-8") from None
        checked.append((name, data))
    return tuple(checked), size


def _check_partition(partition: object) -> None:
    if isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition < 2**31:
        raise IllegalArgumentError(f"partition must be an int from 0 to 2**31 - 1, not {shown(partition)}")
