"""One Spark session, local[2], and a broker in a process of its own, for the tests that need the JVM."""

from __future__ import annotations

import itertools
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from realkafka import jars

from thinconsumer.testing import BrokerProcess

#: Nearly all code that a test runs is new to the JVM: optimising it costs more processor time than it saves.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow for a slow JVM, and ignore warnings about sockets that PySpark leaves open."""
    for item in items:
        if "jvm" in item.path.parts:
            item.add_marker(pytest.mark.timeout(600))
            item.add_marker(pytest.mark.filterwarnings("default", "ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def connector_jars() -> list[Path]:
    """Return the jars of Spark's own connector for the one PySpark version that they fit; none for others."""
    pyspark = pytest.importorskip("pyspark")
    if pyspark.__version__ != jars.SPARK:
        return []
    try:
        return jars.connector_jars()
    except jars.NoJars as error:
        if os.environ.get("THINCONSUMER_REQUIRE_KAFKA") == "1":
            pytest.fail(f"Spark's own connector is required: {error}")
        return []


@pytest.fixture(scope="session")
def spark(tmp_path_factory, connector_jars) -> Iterator:
    """Return a session in which nothing is registered: PySpark must find the format."""
    sql = pytest.importorskip("pyspark.sql")
    # By default Spark uses python3 from the PATH, which may lack this environment's packages.
    before = {name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    os.environ.update(dict.fromkeys(before, sys.executable))
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("thinconsumer")
        .config("spark.jars", ",".join(map(str, connector_jars)))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(tmp_path_factory.mktemp("local")))
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.execution.pyspark.udf.faulthandler.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as process:
        yield process


class Kafka:
    """A new topic, and reads of it with Spark."""

    def __init__(self, session, broker: BrokerProcess, folder) -> None:
        self.session = session
        self.broker = broker
        self.folder = folder
        self.topic = f"t{uuid.uuid4().hex[:8]}"
        self._names = itertools.count()

    def create(self, partitions: int = 2, configs: dict[str, str] | None = None) -> str:
        self.broker.create_topic(self.topic, partitions, configs=configs)
        return self.topic

    def produce(self, values, partition: int = 0, **batch) -> int:
        return self.broker.produce(self.topic, values, partition, **batch)

    def options(self, **given) -> dict[str, str]:
        base = {"kafka.bootstrap.servers": self.broker.bootstrap_servers, "subscribe": self.topic}
        if given.keys() & {"assign", "subscribePattern"}:
            del base["subscribe"]
        return {**base, **given}

    def read(self, **given):
        return self.session.read.format("thinconsumer").options(**self.options(**given)).load()

    def rows(self, **given):
        return sorted(self.read(**given).collect(), key=lambda row: (row.topic, row.partition, row.offset))

    def stream(self, **given):
        return self.session.readStream.format("thinconsumer").options(**self.options(**given)).load()

    def available(self, into: list, checkpoint: str = "checkpoint", **given) -> int:
        """Run an AvailableNow stream; add (batch, partition, offset) of each row; return the number of batches."""

        def keep(batch, number):
            into.extend((number, row.partition, row.offset) for row in batch.collect())

        writer = self.stream(**given).writeStream.foreachBatch(keep).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self.folder / checkpoint))

        def run() -> int:
            query = writer.start()
            try:
                query.awaitTermination(300)
                return len(query.recentProgress)
            finally:
                query.stop()

        return patient(run)

    def follow(self, name: str, **given):
        """Start a stream into a table in memory; return its query once it has caught up."""
        writer = self.stream(**given).writeStream.format("memory").queryName(name)

        def run():
            # The memory sink cannot restart from a checkpoint, so each attempt gets a new one.
            folder = self.folder / f"{name}-{next(self._names)}"
            query = writer.option("checkpointLocation", str(folder)).start()
            try:
                query.processAllAvailable()
            except BaseException:
                query.stop()
                raise
            return query

        return patient(run)

    @staticmethod
    def patiently(run):
        """Repeat ``run`` if a Python worker did not start in time."""
        return patient(run)


def patient(run):
    """Repeat ``run`` if a Python worker did not start within Spark's limit of ten seconds."""
    for _ in range(4):
        try:
            return run()
        except Exception as error:
            if "failed to connect back" not in str(error):
                raise
    return run()


@pytest.fixture
def kafka_topic(spark, broker, tmp_path) -> Kafka:
    return Kafka(spark, broker, tmp_path)
