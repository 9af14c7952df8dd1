"""The Spark job: orders out of Kafka, joined with a table that is in Kafka as well, to Parquet and back to Kafka.

    python job.py BOOTSTRAP_SERVERS PREFIX FOLDER

This is the file to copy. Kill it at any moment and start it again with the same arguments: it goes on from its
checkpoints, and what it has written in the end is what it would have written without.
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
#: How late an order may come and still count in its window; and how long a window is.
LATE, WINDOW = "10 seconds", "5 seconds"
#: After a pause: catch up in batches of this size, and not in one that takes all there is.
ORDERS_PER_BATCH = 10_000


def read_products(spark: SparkSession, kafka: dict[str, str], topic: str) -> DataFrame:
    """Return the table that a compacted topic is: the last value of each key, unless that is null."""
    changes = spark.read.format("thinconsumer").options(**kafka, subscribe=topic).load()
    rows = changes.groupBy("key").agg(F.max_by("value", "offset").alias("value")).where("value is not null")
    table = rows.select(
        F.expr("string(key)").alias("product"), F.from_json(F.expr("string(value)"), PRODUCT).alias("is")
    )
    return table.select("product", "is.*").persist()  # or each micro-batch would read the topic again


def read_orders(spark: SparkSession, kafka: dict[str, str], topic: str, products: DataFrame) -> DataFrame:
    """Return the stream of orders: when, of which category, and what they are worth."""
    records = spark.readStream.format("thinconsumer").options(**kafka, subscribe=topic, startingOffsets="earliest")
    values = records.option("maxOffsetsPerTrigger", ORDERS_PER_BATCH).schema("value binary").load()
    orders = values.select(F.from_json(F.expr("string(value)"), ORDER).alias("order")).select("order.*")
    priced = orders.withWatermark("at", LATE).join(F.broadcast(products), "product")
    return priced.select("at", "category", (F.col("quantity") * F.col("cents")).alias("cents"))


def write_windows(orders: DataFrame, folder: str) -> None:
    """Write revenue by window and category to Parquet, each once: the file sink notes which files a batch has made."""
    revenue = orders.groupBy(F.window("at", WINDOW), "category").agg(
        F.count("*").alias("orders"), F.sum("cents").alias("cents")
    )
    files = revenue.select("window.start", "category", "orders", "cents").writeStream.format("parquet")
    start(files.option("path", f"{folder}/revenue"), "windows", folder)


def write_totals(orders: DataFrame, kafka: dict[str, str], topic: str, folder: str) -> None:
    """Write running totals to a compacted topic, by category: the last one of each is the one that counts.

    A batch that is repeated writes the same totals again, since Spark's state goes back with it: a total, and not what
    is to be added to one.
    """

    def publish(changed: DataFrame, batch: int) -> None:
        total = F.to_json(F.struct("orders", "cents", F.lit(batch).alias("batch")))
        records = changed.select(F.col("category").alias("key"), total.alias("value"))
        records.write.format("thinconsumer").mode("append").options(**kafka, topic=topic).save()

    totals = orders.groupBy("category").agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
    start(totals.writeStream.outputMode("update").foreachBatch(publish), "totals", folder)


def start(writer, name: str, folder: str) -> None:
    """Start a query that keeps its place in a checkpoint of its own."""
    checkpoint = f"{folder}/checkpoints/{name}"
    writer.queryName(name).option("checkpointLocation", checkpoint).trigger(processingTime="1 second").start()


def tell(lag: Lag) -> None:
    """Say on standard output how far a query is behind. After a restart Spark repeats a batch, and does not know."""
    behind = lag.total if lag.behind else None
    print(json.dumps({"at": time.time(), "query": lag.query, "behind": behind}), flush=True)


def main(servers: str, prefix: str, folder: str) -> None:
    spark = (
        SparkSession.builder.appName(prefix)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")  # as many as there are cores: each is a task in each batch
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
