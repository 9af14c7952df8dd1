"""The pipeline example: exact results after a kill, and no process left behind."""

import contextlib
import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import uuid
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

import thinconsumer
from thinconsumer.records.builder import NewRecord

PIPELINE = Path(__file__).parents[3] / "examples" / "pipeline"

pytestmark = [
    pytest.mark.skipif(
        tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="its batches are limited: PySpark 4.2"
    ),
    pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="it is looked for where Linux has it"),
]


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the example in a new folder; interrupt it after the test."""
    children = []

    def start_one(*words) -> subprocess.Popen:
        command = [sys.executable, PIPELINE, "--folder", tmp_path / "run", "--picture", tmp_path / "run.svg", *words]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        children.append(subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **streams))
        return children[-1]

    yield start_one
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)


def processes_in(folder) -> list[str]:
    """Return the command lines of processes that run in this folder or name it."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    found = []
    for line in listed.splitlines():
        place = Path("/proc") / line.split()[0] / "cwd"
        with contextlib.suppress(OSError):
            if str(folder) in line or str(folder) in os.readlink(place):
                found.append(line)
    return found


def test_a_killed_job_computes_the_same_sums(start, tmp_path, request):
    """In Kafka and in Parquet, which Spark reads back here."""
    child = start("--seconds", "12", "--rate", "500")
    out, _ = child.communicate(timeout=500)
    assert child.returncode == 0, out
    assert "kill -9" in out
    assert "have ended by themselves" in out
    assert out.splitlines()[-1] == "OK: to the cent, in Kafka and in Parquet", out

    words = [shape.text for shape in ET.parse(tmp_path / "run.svg").iter() if shape.tag.endswith("text")]
    assert {"kill -9", "started again"} <= set(words)

    revenue = request.getfixturevalue("spark").read.parquet(str(tmp_path / "run" / "revenue"))
    orders = int(words[0].split()[0].replace(",", "")) - 1  # the last order is in a window that never closes
    assert revenue.selectExpr("sum(orders)").first()[0] == orders
    assert revenue.count() == revenue.select("start", "category").distinct().count()

    lags = (tmp_path / "run" / "lag.jsonl").read_text()  # the kill may have cut a line short
    assert '"query": "totals"' in lags and '"query": "windows"' in lags
    assert processes_in(tmp_path) == []


def test_ctrl_c_ends_all_processes(start, tmp_path):
    """Also while Spark starts: all processes have ended when the program has."""
    child = start()
    for line in child.stdout:
        if line.startswith("Spark starts"):
            break
    deadline = time.monotonic() + 240
    while not any("java" in line for line in processes_in(tmp_path)):
        assert time.monotonic() < deadline, "no JVM has come up"
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)  # a terminal sends it to the whole group
    out, _ = child.communicate(timeout=240)
    assert child.returncode == 130, out
    assert "Traceback" not in out
    assert processes_in(tmp_path) == []


class Shop:
    """The topics of a new shop, and the rows that its job makes of the orders."""

    def __init__(self, job, session, broker, folder) -> None:
        self._session, self._broker, self._folder = session, broker, folder
        self._job = job
        self._prefix = f"shop{uuid.uuid4().hex[:8]}"
        self._numbers = itertools.count()
        self._query = None
        self._options = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        for name in ("orders", "products", "dead-letters"):
            broker.create_topic(f"{self._prefix}.{name}", 1)

    def price(self, product: str, cents: int, partition: int = 0) -> None:
        value = json.dumps({"category": "tea", "cents": cents}).encode()
        time.sleep(0.002)  # timestamps, which order the prices, are milliseconds
        self._broker.produce(f"{self._prefix}.products", [NewRecord(value, product.encode())], partition)

    def order(self, product: str) -> bytes:
        number = next(self._numbers)
        order = {"number": number, "product": product, "quantity": 2, "at": f"2026-01-05T09:00:{number:02}.000+00:00"}
        return self.write(json.dumps(order).encode())

    def write(self, value: bytes | None) -> bytes | None:
        self._broker.produce(f"{self._prefix}.orders", [NewRecord(value, b"key")])
        return value

    def read(self):
        topics = f"{self._prefix}.orders", f"{self._prefix}.products"
        return self._job.read_orders(self._session, self._options, *topics)

    def rows(self) -> list[dict]:
        """Return the rows of all orders so far, from a stream that was started by the first call and goes on."""
        if self._query is None:
            self._query = self.read().writeStream.format("memory").queryName(self._prefix).start()
        self._query.processAllAvailable()
        return [row.asDict() for row in self._session.table(self._prefix).collect()]

    def reject(self) -> list[thinconsumer.ConsumerRecord]:
        topic = f"{self._prefix}.dead-letters"
        self._job.write_dead_letters(self.read(), self._options, topic, str(self._folder))
        for query in self._session.streams.active:
            query.processAllAvailable()
        options = {"bootstrap_servers": self._broker.bootstrap_servers, "auto_offset_reset": "earliest"}
        with thinconsumer.Consumer(**options) as consumer:
            consumer.assign([thinconsumer.TopicPartition(topic, 0)])
            return list(consumer.read_to_end())


@pytest.fixture
def shop(spark, broker, tmp_path):
    found = importlib.util.spec_from_file_location("pipeline_job", PIPELINE / "job.py")
    job = importlib.util.module_from_spec(found)
    found.loader.exec_module(job)
    spark.sparkContext.addPyFile(str(PIPELINE / "products.py"))
    yield Shop(job, spark, broker, tmp_path)
    for query in spark.streams.active:
        query.stop()


def test_products_and_prices_that_come_while_the_job_runs_count(shop):
    """An order before them is not lost: it has no amount, but a reason, in each query and whenever that runs."""
    shop.price("green tea", 100)
    shop.order("green tea")
    early = shop.order("white tea")
    assert [(row["cents"], row["reason"]) for row in shop.rows()] == [(200, None), (None, "unknown product")]
    shop.price("white tea", 300)
    shop.price("green tea", 110)
    shop.order("white tea")
    shop.order("green tea")
    assert [(row["cents"], row["reason"]) for row in shop.rows()[2:]] == [(600, None), (220, None)]
    assert [record.value for record in shop.reject()] == [early]


def test_malformed_orders_are_counted_and_kept(shop, capsys):
    shop.price("green tea", 100)
    bad = [shop.write(value) for value in (b"{", b"[]", b'{"number": 7}', b"\xff\x00", None)]
    shop.order("green tea")
    unknown = shop.order("coffee")
    records = shop.reject()
    assert [record.value for record in records] == [*bad, unknown]
    reasons = ["malformed"] * len(bad) + ["unknown product"]
    places = [f"0@{number}" for number in (*range(len(bad)), len(bad) + 1)]
    assert [dict(record.headers) for record in records] == [
        {"reason": reason.encode(), "place": place.encode()} for reason, place in zip(reasons, places)
    ]
    lines = [json.loads(line)["rejected"] for line in capsys.readouterr().out.splitlines() if "rejected" in line]
    assert lines == [{"malformed": len(bad), "unknown product": 1}]
