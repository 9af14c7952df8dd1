"""The PySpark data source ``thinconsumer``: reads and writes Kafka topics, in batches and streams, without a jar.

Rows and options are those of Spark's own Kafka connector. PySpark finds the data source through the package
``pyspark_thinconsumer``; where it does not, call :func:`register`.

Only ``source``, ``sink`` and ``listener`` import PySpark. Reading: ``options`` checks the options, ``offsets`` and
``planner`` are pure functions, ``order`` decides what may be read so that the records of each key stay in order,
``cluster_client`` sends the Spark driver's requests, ``reading`` runs in a task. Writing: ``writing`` checks options
and columns, and runs in a task.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .listener import KafkaListener, Lag
    from .source import KafkaDataSource

__all__ = ["KafkaDataSource", "KafkaListener", "Lag", "register"]


def register(spark: Any) -> None:
    """Register the format ``thinconsumer`` with a Spark session."""
    from .source import KafkaDataSource

    spark.dataSource.register(KafkaDataSource)


def __getattr__(name: str) -> Any:
    # Imported on demand, so that the other modules work without PySpark.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".source" if name == "KafkaDataSource" else ".listener", __name__), name)
