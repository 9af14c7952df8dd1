"""PySpark's batch writer and stream writer; ``writing`` does the work of a task.

Spark pickles one batch writer, for the tasks and for the process that commits. A stream writer is not shared: the tasks
get one, and the process that commits makes another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from ..produce import Producer
from .source import task_attempt
from .worker_process import ClientCache
from .writing import Connect, WriteSettings, connect, write

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):  # type: ignore[no-redef]
        """The class for PySpark 4.0: it passes Arrow batches to a stream writer that is a ``DataSourceArrowWriter``."""


if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


@dataclass
class KafkaCommitMessage(WriterCommitMessage):
    """A task's result for Spark's driver: the number of acknowledged records, and of the bytes of keys and values."""

    records: int
    bytes: int


class _Writer:
    def __init__(
        self, settings: WriteSettings, *, connect: Connect = connect, cache: ClientCache[Producer] | None = None
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._cache = cache

    def write(self, iterator: Iterator[pa.RecordBatch]) -> KafkaCommitMessage:
        """Write the rows of a task; runs on an executor."""
        return KafkaCommitMessage(
            *write(iterator, self._settings, attempt=task_attempt(), cache=self._cache, connect=self._connect)
        )


class KafkaBatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame. Nothing is undone after a failure: records are in Kafka before :meth:`commit`."""

    def commit(self, messages: Sequence[KafkaCommitMessage | None]) -> None:
        """Log how much was written."""
        log.info("wrote %s", _sum(messages))

    def abort(self, messages: Sequence[KafkaCommitMessage | None]) -> None:
        """Log how much was written before the failure."""
        log.warning("the write failed; %s of finished tasks stay in Kafka", _sum(messages))


class KafkaStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream."""

    def commit(self, messages: Sequence[KafkaCommitMessage | None], batchId: int) -> None:
        log.info("wrote %s of micro-batch %d", _sum(messages), batchId)

    def abort(self, messages: Sequence[KafkaCommitMessage | None], batchId: int) -> None:
        message = "micro-batch %d failed; %s of finished tasks stay in Kafka, and are written again when it is repeated"
        log.warning(message, batchId, _sum(messages))


def _sum(messages: Sequence[KafkaCommitMessage | None]) -> str:
    done = [message for message in messages if message is not None]
    return f"{sum(one.records for one in done):,} records ({sum(one.bytes for one in done):,} bytes)"
