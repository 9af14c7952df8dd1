"""The tutorials, step by step: every block of code on their pages is run, and prints what the page says."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pages import DOCS, blocks

pytestmark = [pytest.mark.once, pytest.mark.timeout(200)]

ROOT = Path(__file__).parents[1]
PATIENCE_S = 150.0


class Tutorial:
    """The blocks of one page. Each is used once; a program is saved under the name in its first line."""

    def __init__(self, name, folder):
        self.blocks = blocks(DOCS / "tutorials" / f"{name}.md")
        self.folder = folder
        self.server = "localhost:9092"
        self.running = []
        bin_folder = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        # Without the options of the pytest that runs this test: they would change what the tutorial's pytest prints.
        self.environ = {**os.environ, "PATH": bin_folder, "PYTHONUNBUFFERED": "1", "PYTEST_ADDOPTS": ""}

    def take(self, language, begins=""):
        """Return the next block, which has to be of this kind."""
        found, body = self.blocks.pop(0)
        assert found == language, body
        assert body.startswith(begins), body
        body = re.sub("(thinconsumer (produce|groups describe))", rf"\1 --bootstrap-server {self.server}", body)
        return body.replace("localhost:9092", self.server)

    def save(self):
        body = self.take("python", "# ")
        (self.folder / body.split()[1]).write_text(body, encoding="utf-8")

    def start(self, begins, add=""):
        """Start a command that runs until it is stopped, without the shell in between."""
        words = (self.take("sh", begins).strip() + add).split()
        pipe = subprocess.PIPE
        child = subprocess.Popen(words, cwd=self.folder, env=self.environ, stdout=pipe, text=True)
        self.running.append(child)
        return child

    def run(self, begins):
        command = ["bash", "-euc", self.take("sh", begins)]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_broker(self):
        child = self.start("python -m thinconsumer broker --topic orders:3", " --port 0")
        self.server = json.loads(child.stdout.readline())["bootstrap_servers"]

    def close(self):
        for child in self.running:
            child.kill()
            child.communicate()


@pytest.fixture
def tutorial(tmp_path):
    with contextlib.ExitStack() as stack:

        def open_one(name):
            found = Tutorial(name, tmp_path)
            stack.callback(found.close)
            return found

        yield open_one


def read_until(child, line):
    """Return the lines that a program prints up to this one."""
    lines, deadline = [], time.monotonic() + PATIENCE_S
    while not lines or lines[-1] != line:
        assert time.monotonic() < deadline, lines
        lines.append(child.stdout.readline().strip())
        assert lines[-1], lines
    return lines


def stop(child):
    """Stop a program by Ctrl-C; it ends without a traceback."""
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0


def test_the_first_consumer_and_the_first_group(tutorial):
    page = tutorial("consumer")
    page.take("sh", "python3 -m venv")
    page.start_broker()
    page.run("printf")
    page.save()
    printed = page.run("python read_orders.py")
    assert sorted(printed.splitlines()) == sorted(page.take("text").splitlines())
    page.save()
    following = page.start("python follow_orders.py")
    lines = [following.stdout.readline() for _ in range(3)]
    assert len(lines) == 3
    page.run("printf '10\\tcherries")
    assert following.stdout.readline().split()[2] == "cherries"
    stop(following)
    assert page.blocks == []

    page.blocks = tutorial("group").blocks
    page.save()
    first = page.start("python billing.py")
    expected = page.take("text").splitlines()
    printed = [first.stdout.readline().strip() for _ in expected]
    assert printed[0] == expected[0]
    assert sorted(printed) == sorted(expected)
    second = page.start("python billing.py")
    assert re.fullmatch(r"assigned \[[\d, ]+\]", second.stdout.readline().strip())
    assert read_until(first, "revoked [0, 1, 2]") == ["revoked [0, 1, 2]"]
    assert re.fullmatch(r"assigned \[[\d, ]+\]", first.stdout.readline().strip())
    assert re.fullmatch(r"assigned \[\d\]\n", page.take("text"))
    commands = page.take("sh", "python -m thinconsumer groups describe billing").splitlines()
    page.blocks[:0] = [("sh", command) for command in commands]
    shown = [page.run("python -m thinconsumer groups describe") for _ in commands]
    assert "orders" in shown[0]
    assert [row.split()[-1] for row in shown[1].splitlines()[1:]] == ["0", "0", "0"]
    stop(second)
    read_until(first, "assigned [0, 1, 2]")
    stop(first)
    assert page.blocks == []


def test_the_first_test(tutorial):
    page = tutorial("test")
    page.take("sh", "pip install pytest")
    for _ in range(3):
        page.save()
    printed = page.run("python -m pytest -q")
    assert page.take("text").strip() in printed
    page.save()
    assert "1 passed" in page.run("python -m pytest -q test_crash.py")
    assert page.blocks == []
