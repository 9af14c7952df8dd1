"""Registers the format ``thinconsumer`` with PySpark.

PySpark imports every top-level module named ``pyspark_*`` and registers its ``DefaultSource``, so that
``spark.read.format("thinconsumer")`` and ``CREATE TABLE t USING thinconsumer`` work without a call.
"""

from thinconsumer.spark.source import KafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
