"""The pipeline example: exact results after a kill, and no process left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

import thinconsumer

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
        environment = {**os.environ, "PYTHONPATH": str(Path(thinconsumer.__file__).parents[1])}
        command = [sys.executable, PIPELINE, "--folder", tmp_path / "run", "--picture", tmp_path / "run.svg", *words]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        children.append(subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True, **streams))
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

    lags = [json.loads(line) for line in (tmp_path / "run" / "lag.jsonl").read_text().splitlines()]
    assert {lag["query"] for lag in lags} == {"totals", "windows"}
    assert processes_in(tmp_path) == []


def test_ctrl_c_ends_all_processes(start, tmp_path):
    """Also while Spark starts: all processes have ended when the program has."""
    child = start()
    for line in child.stdout:
        if line.startswith("Spark starts"):
            break
    deadline = time.monotonic() + 60
    while not any("java" in line for line in processes_in(tmp_path)):
        assert time.monotonic() < deadline, "no JVM has come up"
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)  # a terminal sends it to the whole group
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 130, out
    assert "Traceback" not in out
    assert processes_in(tmp_path) == []
