"""The broker that benchmarks run on: a given one, or one of our own for as long as the run takes.

Owns the way from ``--bootstrap`` to a cluster, and what all benchmarks share: names, order, environment, processes and
words. The runner itself is the tests' one.
"""

from __future__ import annotations

import compileall
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parent
ROOT = BENCHMARKS.parent
sys.path.append(str(ROOT / "tests" / "real"))
if importlib.util.find_spec("thinconsumer") is None:
    sys.path += [str(ROOT), str(ROOT / "testing")]  # not installed: the checkout

from realkafka import Administration, new_cluster  # noqa: E402


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[Administration]:
    """Yield the given cluster, or start a broker with a heap and a compiler as in production."""
    if bootstrap:
        yield Administration(bootstrap)
        return
    with new_cluster(heap="1g", quick=False) as cluster:
        yield cluster


def unique(stem: str) -> str:
    """Return a topic name that was not used before."""
    return f"benchmark-{stem}-{os.getpid()}-{int(time.time())}"


def rotated(names: list[str], turn: int) -> list[str]:
    """Return the names in the order of one round: each round begins with the second one of the round before."""
    begin = turn % max(len(names), 1)
    return names[begin:] + names[:begin]


def environment(tree: str | None = None) -> dict[str, str]:
    """Return the environment for readers: they find the same library as we do, or that of another checkout."""
    import thinconsumer

    root = Path(tree) if tree else Path(thinconsumer.__file__).parents[1]
    _compile(root)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "testing")])}


def child(*command: object, seconds: float = 600, tree: str | None = None) -> Any:
    """Run a Python program in a fresh process, and return the JSON of its last line. Raises: RuntimeError."""
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(
        words, env=environment(tree), capture_output=True, text=True, timeout=seconds, check=False, cwd=BENCHMARKS
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[1:])}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def say(line: str) -> None:
    """Write a line about the progress to stderr: stdout has the results."""
    print(line, file=sys.stderr, flush=True)


def verdict(held: bool, line: str) -> bool:
    """Print one line, and whether it is held."""
    print(f"{'held' if held else 'NOT HELD'}: {line}", flush=True)
    return held


def memory_mb(of: str = "VmRSS", process: int | str = "self") -> float:
    """Return the memory of a process now, or with ``VmHWM`` its peak (Linux only). Raises: OSError, if it has ended."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.split(f"{of}:")[1].split()[0]) * 1024 / 1e6


@cache
def _compile(root: Path) -> None:
    """Compile the library, as pip compiles what it installs: compiling takes longer than reading the first records."""
    done = [compileall.compile_dir(root / name, quiet=2) for name in ("thinconsumer", "pyspark_thinconsumer")]
    if not all(done):
        print(f"{root} cannot be compiled: readers compile what they use, which counts", file=sys.stderr)
