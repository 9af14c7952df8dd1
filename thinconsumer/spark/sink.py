"""What Spark calls to write: the batch writer and the stream writer, which get Arrow batches on every PySpark there is.

Owns what goes from the tasks to the driver: how much they have written. What a task does is in ``writing``. Spark
pickles a batch writer into tasks and into the process that commits, and makes a stream writer anew for each of both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from ..produce import Producer
from .client_cache import ClientCache
from .write_options import WriteSettings
from .writing import Connect, connect, write

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):  # type: ignore[no-redef]
        """PySpark 4.0 has none, and gives Arrow batches to whatever is an Arrow writer, in a stream, too."""


if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


@dataclass
class KafkaCommitMessage(WriterCommitMessage):
    """What a task tells the driver: so many records are written and acknowledged."""

    records: int
    bytes: int


class _Writer:
    """What both writers do alike."""

    def __init__(
        self, how: WriteSettings, *, connect: Connect = connect, cache: ClientCache[Producer] | None = None
    ) -> None:
        self._how = how
        self._connect = connect
        self._cache = cache

    def write(self, iterator: Iterator[pa.RecordBatch]) -> KafkaCommitMessage:
        """Write what a task has; runs on an executor."""
        return KafkaCommitMessage(
            *write(iterator, self._how, attempt=_attempt(), cache=self._cache, connect=self._connect)
        )


class KafkaBatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a frame."""

    def commit(self, messages: Sequence[KafkaCommitMessage | None]) -> None:
        """Say how much was written. There is nothing else to do: the tasks have it in Kafka."""
        log.info("wrote %s", _sum(messages))

    def abort(self, messages: Sequence[KafkaCommitMessage | None]) -> None:
        """Say what cannot be taken back."""
        log.warning("not everything was written; %s of tasks that were done stay in Kafka", _sum(messages))


class KafkaStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream."""

    def commit(self, messages: Sequence[KafkaCommitMessage | None], batchId: int) -> None:
        """Say how much was written."""
        log.info("wrote %s of micro-batch %d", _sum(messages), batchId)

    def abort(self, messages: Sequence[KafkaCommitMessage | None], batchId: int) -> None:
        """Say what cannot be taken back, and will come again."""
        what = "micro-batch %d was not written; %s of tasks that were done stay in Kafka, and come again with it"
        log.warning(what, batchId, _sum(messages))


def _attempt() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _sum(messages: Sequence[KafkaCommitMessage | None]) -> str:
    done = [message for message in messages if message is not None]
    return f"{sum(one.records for one in done):,} records ({sum(one.bytes for one in done):,} bytes)"
