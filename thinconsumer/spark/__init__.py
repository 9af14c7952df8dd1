"""Kafka for PySpark, without a jar: the format ``thinconsumer`` to read and to write, frames and streams.

``pip install thinconsumer[spark]`` registers it by itself (``pyspark_thinconsumer``); where that is not found, call
:func:`register`. The rows and the options are those of Spark's own Kafka connector. What is decided here is decided by
pure functions (``options``, ``offsets``, ``planner``), which import no Spark; ``lookup`` asks the cluster on the
driver, ``reading`` reads on the executors, ``source`` is what Spark calls, and ``listener`` hears how far its queries
are. To write: ``write_options``, ``rows`` and ``writing``, and ``sink`` is what Spark calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .listener import KafkaListener, Lag
    from .source import KafkaDataSource

__all__ = ["KafkaDataSource", "KafkaListener", "Lag", "register"]


def register(spark: Any) -> None:
    """Make the format ``thinconsumer`` known to a session."""
    from .source import KafkaDataSource

    spark.dataSource.register(KafkaDataSource)


def __getattr__(name: str) -> Any:
    # Asked for only where Spark is: the rest of this room works without.
    if name == "KafkaDataSource":
        from .source import KafkaDataSource

        return KafkaDataSource
    if name in ("KafkaListener", "Lag"):
        from . import listener

        return getattr(listener, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
