"""Spark Connect: a client without a JVM reads and writes batches and streams without registering the format."""

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
pytest.importorskip("grpc_status", reason="Spark Connect needs pyspark[connect]")

from thinconsumer.testing import BrokerProcess

PROGRAM = Path(__file__).with_name("connected.py")
SCRIPT = Path(importlib.util.find_spec("pyspark").origin).parent / "sbin" / "start-connect-server.sh"
PATIENCE_S = 120.0


def activated() -> dict[str, str]:
    """Return the environment of a shell with this virtual environment activated and without Spark variables."""
    folder = Path(sys.executable).parent
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    if not (folder / "python3").exists():
        pytest.skip(f"no python3 in {folder}")
    # The optimising compiler costs more time than it saves in so short a run.
    quick = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    return {**quick, **bare, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def check(servers: str, remote: str, folder: Path, **more: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), servers, remote, str(folder)],
        env={**activated(), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [[partition, offset] for partition in (0, 1) for offset in range(5)]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "session": "pyspark.sql.connect.session",
        "batch": rows,
        "available now": rows,
        "followed": ["v"] * 10 + ["written"],
        "copied": 11,
        "on the client": [],
    }


@pytest.fixture
def servers() -> Iterator[str]:
    with BrokerProcess(topics={"in": 2, "out": 1}) as broker:
        for partition in (0, 1):
            broker.produce("in", [b"v"] * 5, partition)
        yield broker.bootstrap_servers


@pytest.fixture
def server(tmp_path) -> Iterator[str]:
    """Start a Spark Connect server with PySpark's own script."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    arguments = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    words = tmp_path / "server.txt"
    with words.open("wb") as output:
        process = subprocess.Popen(
            ["bash", str(SCRIPT), "--wait", "--master", "local[2]", *arguments],
            env={**activated(), "SPARK_LOG_DIR": str(tmp_path), "SPARK_PID_DIR": str(tmp_path)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, words.read_text()[-4000:]
            assert time.monotonic() < until, words.read_text()[-4000:]
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def test_a_client_of_a_server_reads_and_writes(servers, server, tmp_path):
    check(servers, server, tmp_path)


def test_a_session_with_its_own_server_reads_and_writes(servers, tmp_path):
    """SPARK_TESTING makes the session choose a free port."""
    check(servers, "local[2]", tmp_path, SPARK_TESTING="1")
