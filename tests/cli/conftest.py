"""A cluster for the commands, and fixtures that run them in this process or in one of their own."""

import itertools
import subprocess
import sys

import pytest

from thinconsumer.cli import main
from thinconsumer_testing.broker.process import BrokerProcess

NUMBERS = itertools.count(1)


class Commands:
    """Runs commands in processes, in a folder without a thinconsumer package."""

    def __init__(self, folder):
        self.folder = folder
        self.children = []

    def start(self, *words, warnings="error", **streams):
        """Start a command; its streams are text pipes by default."""
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        child = subprocess.Popen(
            [sys.executable, "-W", warnings, "-m", "thinconsumer", *map(str, words)],
            cwd=self.folder,
            text=True,
            **options,
        )
        self.children.append(child)
        return child

    def run(self, *words, given=""):
        """Run a command; return exit code, standard output and standard error."""
        child = self.start(*words)
        out, err = child.communicate(given, timeout=50)
        return child.returncode, out, err

    def close(self):
        for child in self.children:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()


@pytest.fixture
def commands(tmp_path, compiled_once):
    made = Commands(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def cluster(compiled_once):
    """Return three brokers, shared by all tests of this folder."""
    with BrokerProcess(3) as process:
        yield process
        assert process.bugs() == []


@pytest.fixture
def topic(cluster):
    name = f"cli-{next(NUMBERS)}"
    cluster.create_topic(name, 3)
    return name


def only_an_error(code, out, err):
    """Check that a failed command has printed one line, on standard error; return its exit code and that line."""
    assert out == "" and err.count("\n") == 1
    return code, err


@pytest.fixture
def fail(capsys):
    """Return a function that runs a failing command in this process; it returns the exit code and the error."""
    return lambda *words: only_an_error(main([*map(str, words)]), *capsys.readouterr())


@pytest.fixture
def fail_on_cluster(say):
    """Return a function like that of ``fail``, for a command that uses the cluster."""
    return lambda *words, given="": only_an_error(*say(*words, given=given))


@pytest.fixture
def say(cluster, capsys, monkeypatch, tmp_path):
    """Return a function that runs a command in this process on the cluster; ``given`` is its standard input."""

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
