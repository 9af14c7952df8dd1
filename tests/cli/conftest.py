"""A cluster for the commands to talk to, and ways to run them: here, or in a process of their own as users do."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import thinconsumer
from thinconsumer.broker.process import BrokerProcess
from thinconsumer.cli import main

NUMBERS = itertools.count(1)


class Commands:
    """Runs commands in processes, from a folder where no other thinconsumer is."""

    def __init__(self, folder):
        self.folder = folder
        self.children = []

    def start(self, *words, warnings="error", **streams):
        """Start one; its streams are pipes of text unless told otherwise."""
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        child = subprocess.Popen(
            [sys.executable, "-W", warnings, "-m", "thinconsumer", *map(str, words)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(thinconsumer.__file__).parents[1])},
            text=True,
            **options,
        )
        self.children.append(child)
        return child

    def run(self, *words, given=""):
        """Run one to its end: exit code, output, errors."""
        child = self.start(*words)
        out, err = child.communicate(given, timeout=50)
        return child.returncode, out, err

    def close(self):
        """End what still runs."""
        for child in self.children:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()


@pytest.fixture
def commands(tmp_path, compiled_once):
    """Run commands in processes of their own."""
    made = Commands(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def cluster(compiled_once):
    """Three brokers for all tests of this folder."""
    with BrokerProcess(3) as process:
        yield process
        assert process.bugs() == []


@pytest.fixture
def topic(cluster):
    """A topic of three partitions with a name of its own."""
    name = f"cli-{next(NUMBERS)}"
    cluster.create_topic(name, 3)
    return name


@pytest.fixture
def say(cluster, capsys, monkeypatch, tmp_path):
    """Run a command here, on the cluster: exit code, output, errors. ``given`` is its standard input."""

    def run(*words, given=""):
        source = tmp_path / "given"
        source.write_bytes(given.encode())
        with source.open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            return run_here(*words)

    def run_here(*words):
        code = main([*map(str, words), "--bootstrap-server", cluster.bootstrap_servers])
        out, err = capsys.readouterr()
        return code, out, err

    return run
