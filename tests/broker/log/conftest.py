"""Logs, batches and an in-memory store for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from thinconsumer.records.aborted import AbortedTransactions
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.config import TopicConfig
from thinconsumer_testing.broker.log.log import LoadedLog, Log

NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)


class MemoryStore:
    """A log's file in memory."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.start = 0
        self.rewritten = 0

    def load(self) -> LoadedLog:
        return LoadedLog(self.start, bytes(self.data))

    def append(self, data: bytes) -> None:
        self.data += data

    def truncate(self, size: int) -> None:
        assert size <= len(self.data)
        del self.data[size:]

    def rewrite(self, batches: Iterable[bytes]) -> None:
        self.data = bytearray().join(batches)
        self.rewritten += 1

    def start_at(self, offset: int) -> None:
        self.start = offset


class LogWriter:
    """Appends to a log like producers and coordinators, in leader epoch 0 by default."""

    now = NOW

    def __init__(self, log: Log) -> None:
        self.log = log
        self.sequences: dict[tuple[int, int], int] = {}

    def __call__(self, *values: Any, **more: Any) -> Any:
        """Append one batch; values may be NewRecords. ``more`` goes to build_batch, except leader_epoch and now."""
        leader_epoch, now = more.pop("leader_epoch", 0), more.pop("now", self.now)
        return self.log.append(self.batch(*values, **more), leader_epoch=leader_epoch, now_ms=now)

    def batch(self, *values: Any, **more: Any) -> bytes:
        """Return the bytes of a producer's batch."""
        records = [v if isinstance(v, NewRecord) else NewRecord(v) for v in values]
        dated = [r._replace(timestamp=self.now) if r.timestamp == -1 else r for r in records]
        return build_batch(dated, **more)

    def idempotent(self, producer: int, *values: Any, epoch: int = 0, transactional: bool = False, **more: Any) -> Any:
        """Append with the next sequence number."""
        sequence = self.sequences.get((producer, epoch), 0)
        appended = self(
            *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=transactional,
            **more,
        )  # fmt: skip
        self.sequences[producer, epoch] = sequence + len(values)
        return appended

    def transactional(self, producer: int, *values: Any, **more: Any) -> Any:
        """Append a transactional batch."""
        return self.idempotent(producer, *values, transactional=True, **more)

    def end(self, producer: int, commit: bool = True, epoch: int = 0, **more: Any) -> Any:
        """Append a transaction marker."""
        return self.log.append_control(
            producer_id=producer, producer_epoch=epoch, commit=commit,
            **{"coordinator_epoch": 0, "leader_epoch": 0, "now_ms": self.now, **more},
        )  # fmt: skip


@pytest.fixture(scope="session")
def tools() -> SimpleNamespace:
    """The names above, for modules that cannot import them."""
    return SimpleNamespace(
        NOW=NOW,
        TP=TP,
        MemoryStore=MemoryStore,
        LogWriter=LogWriter,
        new_log=_new_log,
        contents=contents,
        logs_equal=same,
        read_committed=read_committed,
    )


def _new_log(store: Any = None, **config: Any) -> Log:
    return Log(TP, TopicConfig(**config), store)


@pytest.fixture
def new_log() -> Callable[..., Log]:
    """``new_log(store=None, **topic config)``."""
    return _new_log


@pytest.fixture
def log() -> Log:
    """A log with default topic configs."""
    return _new_log()


@pytest.fixture
def write(log: Log) -> LogWriter:
    """The writer of ``log``."""
    return LogWriter(log)


@pytest.fixture
def compacted() -> Log:
    """A compacted log; tombstones are retained for a second."""
    return _new_log(compact=True, delete=False, delete_retention_ms=1_000)


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return (offset, key, value) of all records, as a consumer reads them."""
    found = []
    for batch in log.read_batches(log.start_offset, log.end_offset):
        found += [(one.offset, one.key, one.value) for one in batch.decode("t", 0, start=log.start_offset)]
    return found


def same(one: Log, other: Log) -> None:
    """Assert that both logs have the same contents and state."""
    assert contents(one) == contents(other)
    assert list(one.batches_from(0)) == list(other.batches_from(0))
    assert one.open_transactions() == other.open_transactions()
    assert one.aborted(0, 1 << 62) == other.aborted(0, 1 << 62)
    assert one.size_bytes == other.size_bytes


def read_committed(log: Log, end: int) -> set[int]:
    """Return the offsets that a read_committed consumer gets."""
    aborted = AbortedTransactions(log.aborted(log.start_offset, end), "t", 0)
    found = set()
    batches, error = split(memoryview(log.read(log.start_offset, end, 1 << 30)))
    assert error is None
    for batch in batches:
        if not aborted.skip(batch):
            found |= {record.offset for record in batch.decode("t", 0, start=log.start_offset)}
    return found
