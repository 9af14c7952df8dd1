"""A Spark job that may be killed at any moment: follows a topic into two sinks until its standard input ends.

``python followed.py SERVERS TOPIC FOLDER MASTER``. One sink is Spark's file sink, which writes each row exactly once;
the other is ``foreachBatch``, which writes each batch under its number, so that a repeated batch overwrites itself. A
failed query is started again. Prints "running" when both queries have started, "read" after each micro-batch, and
"done" when standard input has ended and everything is read.
"""

import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

servers, topic, folder, master = sys.argv[1:]
spark = (
    SparkSession.builder.master(master)
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.local.dir", str(Path(folder, "local")))
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
options = {
    "kafka.bootstrap.servers": servers,
    "subscribe": topic,
    "startingOffsets": "earliest",
    "maxOffsetsPerTrigger": "400",
    "kafka.reconnect.backoff.max.ms": "200",
    "commitGroup": f"{topic}-group",
}


def keep(batch, number):
    batch.write.mode("overwrite").parquet(str(Path(folder, "batches", str(number))))


def start(name):
    rows = spark.readStream.format("thinconsumer").options(**options).load()
    writer = rows.select("partition", "offset", rows.value.cast("string").alias("value")).writeStream.queryName(name)
    writer = writer.option("checkpointLocation", str(Path(folder, f"checkpoint-{name}"))).trigger(
        processingTime="100 milliseconds"
    )
    if name == "files":
        return writer.format("parquet").option("path", str(Path(folder, "files"))).start()
    return writer.foreachBatch(keep).start()


told_to_end = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), told_to_end.set()), daemon=True).start()
queries = {name: start(name) for name in ("files", "batches")}
read = dict.fromkeys(queries)
print("running", flush=True)
while True:
    finish = told_to_end.wait(0.05)
    for name, query in queries.items():
        try:
            progress = query.lastProgress
            if progress is not None and progress["batchId"] != read[name]:
                read[name] = progress["batchId"]
                print(name, "read", progress["numInputRows"], flush=True)
            if finish:
                query.processAllAvailable()
            elif query.isActive:
                continue
        except Exception as error:  # noqa: BLE001 - the query is started again after any error
            print(name, "failed:", str(error)[:200].replace("\n", " "), flush=True)
        if not query.isActive:
            print(name, "ended:", str(query.exception())[:2000].replace("\n", " "), flush=True)
            queries[name] = start(name)
            finish = False
    if finish:
        break
for query in queries.values():
    query.stop()
print("done", flush=True)
spark.stop()
