"""The examples that need nothing but this package and its tests' own tools, run as a reader would run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import thinconsumer

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_example_of_a_users_test_passes(tmp_path):
    """In a folder of its own, where no configuration of ours is in force."""
    shutil.copytree(EXAMPLES / "testing", tmp_path / "testing")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "testing"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(thinconsumer.__file__).parents[1]),
            "PYTEST_ADDOPTS": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_pool_of_workers_settles_four_times(tmp_path):
    """Twelve shards, each with one worker after each change; the last one waits for a session to end."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "worker_pool.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(thinconsumer.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [
        "two workers",
        "a strong third one",
        "bob leaves",
        "cid is not heard of again",
    ]
