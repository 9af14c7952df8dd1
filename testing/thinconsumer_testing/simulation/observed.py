"""A Consumer's wrapper that reports public calls to the checkers.

After a poll that returned, it also reports the bytes in the consumer's buffer, although no public method returns them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from thinconsumer.consumer import Consumer
from thinconsumer.driver import Driver
from thinconsumer.errors import KafkaError
from thinconsumer.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

from .checkers.base import Jury, SimReader
from .trace import Trace

Record = ConsumerRecord[Any, Any]


class SimConsumer(Consumer[Any, Any]):
    """A consumer that may be dropped without ``close()``, as when its process is killed."""

    def __init__(self, *topics: str, driver: Driver, **options: Any) -> None:
        # Otherwise the same seed would be another run where the extra is installed.
        options.setdefault("enable_metrics_push", False)
        super().__init__(*topics, driver=driver, **options)

    def __del__(self) -> None:
        """Do nothing, where the Consumer would warn that it was not closed: a killed process closes nothing."""

    def decode_together(self) -> None:
        """Let numpy, if installed, decode even single records: simulated batches are too small for the default."""
        self._reader.managers.collector.chunk_decoder.together_min = 1


class ObservedConsumer:
    """Calls the Consumer's method of the same name, and reports the call to the checkers."""

    def __init__(self, reader: SimReader, consumer: SimConsumer, jury: Jury, trace: Trace) -> None:
        self.reader = reader
        self.raw = consumer
        self._jury = jury
        self._trace = trace
        self._name = str(reader)
        jury.tell("started", reader)

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> dict[TopicPartition, list[Record]]:
        limit = self.reader.max_poll_records if max_records is None else max_records

        def receive() -> dict[TopicPartition, list[Record]]:
            return {tp: list(found) for tp, found in self.raw.poll(timeout_ms, max_records).items()}

        return self._received("poll", receive, limit)

    def poll_batches(self, timeout_ms: float = 0) -> dict[TopicPartition, list[Record]]:
        """Poll column batches; return them as records, as the checkers expect."""

        def receive() -> dict[TopicPartition, list[Record]]:
            return {tp: columns.rows() for tp, columns in self.raw.poll_batches(timeout_ms).items()}

        return self._received("poll_batches", receive, sys.maxsize)

    def _received(
        self, call: str, receive: Callable[[], dict[TopicPartition, list[Record]]], limit: int
    ) -> dict[TopicPartition, list[Record]]:
        try:
            records = receive()
        except KafkaError as error:
            self._raised(call, error)
            raise
        if records:
            for tp, found in records.items():
                self._note("delivered", "%s-%d: %d from offset %d", *tp, len(found), found[0].offset if found else -1)
            self._jury.tell("delivered", self.reader, records, limit)
        self._jury.tell("polled", self.reader, self.raw._reader.managers.buffer.pinned)
        return records

    def assign(self, tps: Iterable[TopicPartition]) -> None:
        tps = list(tps)
        self.raw.assign(tps)
        self._note("assign", "%s", " ".join(f"{tp.topic}-{tp.partition}" for tp in tps))
        self._jury.tell("assigned", self.reader, tps)

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        self.raw.seek(tp, offset)
        at, epoch = (offset.offset, offset.leader_epoch) if isinstance(offset, OffsetAndMetadata) else (offset, -1)
        self._note("seek", "%s-%d to %d", *tp, at)
        self._jury.tell("sought", self.reader, tp, at, epoch)

    def seek_to_beginning(self, tp: TopicPartition) -> None:
        self.raw.seek_to_beginning(tp)
        self._note("seek to begin", "%s-%d", *tp)
        self._jury.tell("reset", self.reader, tp, False)

    def seek_to_end(self, tp: TopicPartition) -> None:
        self.raw.seek_to_end(tp)
        self._note("seek to end", "%s-%d", *tp)
        self._jury.tell("reset", self.reader, tp, True)

    def pause(self, *tps: TopicPartition) -> None:
        self.raw.pause(*tps)
        self._note("pause", "%s", " ".join(f"{tp.topic}-{tp.partition}" for tp in tps))
        self._jury.tell("paused", self.reader, tps, True)

    def resume(self, *tps: TopicPartition) -> None:
        self.raw.resume(*tps)
        self._note("resume", "%s", " ".join(f"{tp.topic}-{tp.partition}" for tp in tps))
        self._jury.tell("paused", self.reader, tps, False)

    def position(self, tp: TopicPartition, timeout_ms: float | None = None) -> int:
        with self._errors_reported("position"):
            offset = self.raw.position(tp, timeout_ms)
        self._note("position", "%s-%d: %d", *tp, offset)
        self._jury.tell("positioned", self.reader, tp, offset)
        return offset

    def end_offsets(self, tps: Iterable[TopicPartition], timeout_ms: float | None = None) -> dict[TopicPartition, int]:
        with self._errors_reported("end_offsets"):
            return self.raw.end_offsets(tps, timeout_ms)

    def _note(self, event: str, why: str, *args: object) -> None:
        self._trace.add(self._name, "", event, why, *args)

    @contextmanager
    def _errors_reported(self, call: str) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            self._raised(call, error)
            raise

    def _raised(self, call: str, error: KafkaError) -> None:
        self._note("raised", "%s: %s: %s", call, type(error).__name__, str(error))
        self._jury.tell("raised", self.reader, error)
