"""A Spark Connect client that reads and writes with the format: ``python connected.py SERVERS REMOTE FOLDER``.

It registers nothing, configures only the server's address, and imports nothing of this package. Prints its results as
one line of JSON.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

servers, remote, folder = sys.argv[1:]
builder = SparkSession.builder.remote(remote)
if remote.startswith("local"):
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
spark = builder.getOrCreate()
found = {"session": type(spark).__module__}


def options(topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}


def offsets(frame) -> list:
    return sorted([row.partition, row.offset] for row in frame.collect())


def patient(run):
    """Repeat ``run`` if a Python worker did not start within Spark's limit of ten seconds."""
    for _ in range(4):
        try:
            return run()
        except Exception as error:
            if "connect back" not in str(error):
                raise
    return run()


def to_end(writer) -> None:
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(240)


found["batch"] = patient(lambda: offsets(spark.read.format("thinconsumer").options(**options("in")).load()))
stream = patient(lambda: spark.readStream.format("thinconsumer").options(**options("in")).load())

writer = stream.writeStream.format("parquet").option("checkpointLocation", str(Path(folder, "c1")))
patient(lambda: to_end(writer.option("path", str(Path(folder, "files")))))
found["available now"] = offsets(spark.read.parquet(str(Path(folder, "files"))))


def follow():
    query = stream.writeStream.format("memory").queryName("followed").start()
    query.processAllAvailable()
    return query


query = patient(follow)
rows = spark.createDataFrame([("in", b"written")], "topic string, value binary").coalesce(1)
rows = rows.write.format("thinconsumer").mode("append").option("kafka.bootstrap.servers", servers)
patient(rows.save)
query.processAllAvailable()
found["followed"] = [bytes(row.value).decode() for row in spark.table("followed").collect()]
query.stop()

writer = stream.select("value").writeStream.format("thinconsumer").option("kafka.bootstrap.servers", servers)
patient(lambda: to_end(writer.option("topic", "out").option("checkpointLocation", str(Path(folder, "c2")))))
found["copied"] = spark.read.format("thinconsumer").options(**options("out")).load().count()
found["on the client"] = [name for name in sys.modules if name.startswith(("thinconsumer", "pyspark_thinconsumer"))]
spark.stop()
print(json.dumps(found))
