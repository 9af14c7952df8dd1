"""The Spark job: reads orders from Kafka, finds their prices in a compacted topic, and writes to Parquet and to Kafka.

Orders that have no price go to a topic of their own.

    python job.py BOOTSTRAP_SERVERS PREFIX FOLDER

This is the file to copy, with products.py. It can be killed at any moment and started again with the same arguments:
it continues from its checkpoints, and the final results are the same.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from thinconsumer.spark import KafkaListener, Lag

RECORD = "key binary, value binary, partition int, offset long, timestamp timestamp"
ORDER = "number long, product string, quantity int, at timestamp"
PRODUCT = "category string, cents long"
#: The watermark's delay, and the length of a window.
LATE, WINDOW = "10 seconds", "5 seconds"
#: Limits the first batch after a pause, which would otherwise contain the whole backlog.
ORDERS_PER_BATCH = 10_000


def read_orders(spark: SparkSession, kafka: dict[str, str], topic: str, products: str) -> DataFrame:
    """Return the stream of orders: time, category and amount; the record; and the ``reason`` if it has no amount.

    A join with the table of products would drop malformed orders, and those of unknown products, uncounted. The topic
    of products has to keep prices for as long as orders may be behind (``min.compaction.lag.ms``).
    """
    records = spark.readStream.format("thinconsumer").options(**kafka, subscribe=topic, startingOffsets="earliest")
    values = records.option("maxOffsetsPerTrigger", ORDERS_PER_BATCH).schema(RECORD).load()
    orders = values.select("*", F.from_json(F.expr("string(value)"), ORDER).alias("order")).select("*", "order.*")
    servers = kafka["kafka.bootstrap.servers"]

    def price(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from products import products_of  # here: this function runs in Spark's workers

        table = products_of(servers, products).refresh()
        for batch in batches:
            written = batch.column("timestamp").cast(pa.int64()).to_pylist()  # microseconds
            names = batch.column("product").to_pylist()
            found = [table.find(name, at // 1000) for name, at in zip(names, written)]
            category = pa.array([category for category, _ in found], pa.string())
            cents = pa.array([cents for _, cents in found], pa.int64())
            yield batch.drop_columns(["order"]).append_column("category", category).append_column("cents", cents)

    priced = orders.mapInArrow(price, f"{RECORD}, {ORDER}, {PRODUCT}").withWatermark("at", LATE)
    is_malformed = F.expr("number is null or product is null or quantity is null or at is null")
    is_unknown = F.expr("category is null or cents is null")
    return priced.select(
        "at",
        "category",
        (F.col("quantity") * F.col("cents")).alias("cents"),
        "key",
        "value",
        F.concat_ws("@", "partition", "offset").alias("place"),
        F.when(is_malformed, "malformed").when(is_unknown, "unknown product").alias("reason"),
    )


def write_windows(orders: DataFrame, folder: str) -> StreamingQuery:
    """Write revenue by window and category to Parquet, exactly once: the file sink logs the files of each batch."""
    revenue = orders.groupBy(F.window("at", WINDOW), "category").agg(
        F.count("*").alias("orders"), F.sum("cents").alias("cents")
    )
    files = revenue.select("window.start", "category", "orders", "cents").writeStream.format("parquet")
    return start(files.option("path", f"{folder}/revenue"), "windows", folder)


def write_totals(orders: DataFrame, kafka: dict[str, str], topic: str, folder: str) -> StreamingQuery:
    """Write running totals to a compacted topic, by category; the last record of a key is valid.

    A repeated batch writes the same totals again, since Spark restores its state as well. Increments would be counted
    twice.
    """

    def publish(changed: DataFrame, batch: int) -> None:
        total = F.to_json(F.struct("orders", "cents", F.lit(batch).alias("batch")))
        records = changed.select(F.col("category").alias("key"), total.alias("value"))
        records.write.format("thinconsumer").mode("append").options(**kafka, topic=topic).save()

    totals = orders.groupBy("category").agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
    return start(totals.writeStream.outputMode("update").foreachBatch(publish), "totals", folder)


def write_dead_letters(orders: DataFrame, kafka: dict[str, str], topic: str, folder: str) -> StreamingQuery:
    """Write orders without an amount to a topic, with the reason and their place in headers, and print their numbers.

    A repeated batch writes them again: a program that corrects them and writes them to the topic of orders compares
    the places.
    """

    def publish(rejected: DataFrame, batch: int) -> None:
        rejected.persist()
        counts = {row["reason"]: row["count"] for row in rejected.groupBy("reason").count().collect()}
        if counts:
            headers = F.array(*(_header(name) for name in ("reason", "place")))
            records = rejected.select("key", "value", headers.alias("headers"))
            records.write.format("thinconsumer").mode("append").options(**kafka, topic=topic).save()
            print(json.dumps({"at": time.time(), "batch": batch, "rejected": counts}), flush=True)
        rejected.unpersist()

    return start(orders.where("reason is not null").writeStream.foreachBatch(publish), "dead-letters", folder)


def _header(name: str) -> Column:
    return F.struct(F.lit(name).alias("key"), F.col(name).cast("binary").alias("value"))


def start(writer, name: str, folder: str) -> StreamingQuery:
    """Start a query with its own checkpoint."""
    checkpoint = f"{folder}/checkpoints/{name}"
    return writer.queryName(name).option("checkpointLocation", checkpoint).trigger(processingTime="1 second").start()


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
    spark.sparkContext.addPyFile(str(Path(__file__).with_name("products.py")))
    orders = read_orders(spark, kafka, f"{prefix}.orders", f"{prefix}.products")
    priced = orders.where("reason is null")
    queries = [write_windows(priced, folder), write_totals(priced, kafka, f"{prefix}.totals", folder)]
    # Spark gives a new Python worker ten seconds to start. On two busy processors, three queries at once take longer.
    while any(query.isActive and query.lastProgress is None for query in queries):
        time.sleep(0.2)
    write_dead_letters(orders, kafka, f"{prefix}.dead-letters", folder)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
