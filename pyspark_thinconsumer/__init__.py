"""What PySpark looks for: of every module whose name begins with ``pyspark_`` it registers ``DefaultSource`` by itself.

So ``spark.read.format("thinconsumer")`` and ``CREATE TABLE t USING thinconsumer`` work without a call.
"""

from thinconsumer.spark.source import KafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
