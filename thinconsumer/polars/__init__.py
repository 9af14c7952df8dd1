"""Kafka topics as Polars LazyFrames: :func:`scan_kafka`. It needs ``pip install 'thinconsumer[polars]'``.

``bounds`` reads off a predicate which offsets a scan needs, ``scan`` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..config import ConsumerConfig
from ..consumer import Consumer
from ..errors import IllegalArgumentError

try:
    import polars

    from .scan import Scan
except ImportError as exc:
    raise ImportError(
        f"thinconsumer.polars needs polars and pyarrow ({exc}): pip install 'thinconsumer[polars]'"
    ) from exc

if TYPE_CHECKING:
    from typing_extensions import Unpack  # for type checkers only: not a runtime dependency

    from ..config.typed import ConsumerOptions

__all__ = ["scan_kafka"]


def scan_kafka(
    topics: str | Iterable[str], *, timestamps_ascend: bool = False, **options: Unpack[ConsumerOptions]
) -> polars.LazyFrame:
    """Return a LazyFrame of the records of these topics, from the log start to the log end at the time of the query.

    Each query reads with a new consumer with these ``options``, without a group, so that nothing is committed. The
    columns are key, value, topic, partition, offset, timestamp, timestampType and headers. The rows of a partition are
    in offset order, those of different partitions come in any order.

    Only the offsets that a query needs are read: those allowed by its comparisons of ``partition``, ``topic``,
    ``offset`` and ``timestamp`` with constants, and by ``head``. A lower limit of ``timestamp`` is looked up in the
    brokers' index. An upper limit is so only with ``timestamps_ascend``, which says that the timestamps within a
    partition never decrease; otherwise a record below the limit could follow one above it. Only the columns that a
    query needs are made.

    Raises:
        IllegalArgumentError: ``group_id`` or ``auto_offset_reset`` is given.
        KafkaConfigurationError: options are unknown, invalid or contradictory.

    Running the query raises:
        UnknownTopicOrPartitionError: a topic does not exist.
        OffsetOutOfRangeError: records were deleted before the query had read them.
        KafkaTimeoutError: nothing was read for ``default_api_timeout_ms``.
    """
    if ours := {"group_id", "auto_offset_reset"} & options.keys():
        raise IllegalArgumentError(f"scan_kafka() reads without a group, from the log start: omit {', '.join(ours)}")
    ConsumerConfig.from_options(**options)  # errors are raised here, not by the query
    names = [topics] if isinstance(topics, str) else [*dict.fromkeys(topics)]
    given: dict[str, Any] = {**options, "auto_offset_reset": "none"}
    return Scan(lambda: Consumer(**given), names, timestamps_ascend).frame()
