"""The Spark job: reads orders from Kafka, joins them with a compacted topic, and writes to Parquet and to Kafka.

    python job.py BOOTSTRAP_SERVERS PREFIX FOLDER

This is the file to copy. It can be killed at any moment and started again with the same arguments: it continues from
its checkpoints, and the final results are the same.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thinconsumer.spark import KafkaListener, Lag

ORDER = "number long, product string, quantity int, at timestamp"
PRODUCT = "category string, cents long"
#: The watermark's delay, and the length of a window.
LATE, WINDOW = "10 seconds", "5 seconds"
#: Limits the first batch after a pause, which would otherwise contain the whole backlog.
ORDERS_PER_BATCH = 10_000


def read_products(spark: SparkSession, kafka: dict[str, str], topic: str) -> DataFrame:
    """Return a compacted topic as a table: the last value of each key, without deleted keys."""
    changes = spark.read.format("thinconsumer").options(**kafka, subscribe=topic).load()
    rows = changes.groupBy("key").agg(F.max_by("value", "offset").alias("value")).where("value is not null")
    table = rows.select(
        F.expr("string(key)").alias("product"), F.from_json(F.expr("string(value)"), PRODUCT).alias("is")
    )
    return table.select("product", "is.*").persist()  # otherwise every micro-batch reads the topic again


def read_orders(spark: SparkSession, kafka: dict[str, str], topic: str, products: DataFrame) -> DataFrame:
    """Return the stream of orders: time, category and amount."""
    records = spark.readStream.format("thinconsumer").options(**kafka, subscribe=topic, startingOffsets="earliest")
    values = records.option("maxOffsetsPerTrigger", ORDERS_PER_BATCH).schema("value binary").load()
    orders = values.select(F.from_json(F.expr("string(value)"), ORDER).alias("order")).select("order.*")
    priced = orders.withWatermark("at", LATE).join(F.broadcast(products), "product")
    return priced.select("at", "category", (F.col("quantity") * F.col("cents")).alias("cents"))


def write_windows(orders: DataFrame, folder: str) -> None:
    """Write revenue by window and category to Parquet, exactly once: the file sink logs the files of each batch."""
    revenue = orders.groupBy(F.window("at", WINDOW), "category").agg(
        F.count("*").alias("orders"), F.sum("cents").alias("cents")
    )
    files = revenue.select("window.start", "category", "orders", "cents").writeStream.format("parquet")
    start(files.option("path", f"{folder}/revenue"), "windows", folder)


def write_totals(orders: DataFrame, kafka: dict[str, str], topic: str, folder: str) -> None:
    """Write running totals to a compacted topic, by category; the last record of a key is valid.

    A repeated batch writes the same totals again, since Spark restores its state as well. Increments would be counted
    twice.
    """

    def publish(changed: DataFrame, batch: int) -> None:
        total = F.to_json(F.struct("orders", "cents", F.lit(batch).alias("batch")))
        records = changed.select(F.col("category").alias("key"), total.alias("value"))
        records.write.format("thinconsumer").mode("append").options(**kafka, topic=topic).save()

    totals = orders.groupBy("category").agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
    start(totals.writeStream.outputMode("update").foreachBatch(publish), "totals", folder)


def start(writer, name: str, folder: str) -> None:
    """Start a query with its own checkpoint."""
    checkpoint = f"{folder}/checkpoints/{name}"
    writer.queryName(name).option("checkpointLocation", checkpoint).trigger(processingTime="1 second").start()


def tell(lag: Lag) -> None:
    """Print a query's lag. For the batch that Spark repeats after a restart it is unknown."""
    behind = lag.total if lag.behind else None
    print(json.dumps({"at": time.time(), "query": lag.query, "behind": behind}), flush=True)


def main(servers: str, prefix: str, folder: str) -> None:
    spark = (
        SparkSession.builder.appName(prefix)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")  # one task per core in each batch
        .getOrCreate()
    )
    kafka = {"kafka.bootstrap.servers": servers}
    spark.streams.addListener(KafkaListener({**kafka, "subscribe": f"{prefix}.orders"}, tell))
    orders = read_orders(spark, kafka, f"{prefix}.orders", read_products(spark, kafka, f"{prefix}.products"))
    write_windows(orders, folder)
    write_totals(orders, kafka, f"{prefix}.totals", folder)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
