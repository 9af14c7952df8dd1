"""The broker that benchmarks run on: a given one, or one of our own for as long as the run takes.

Owns the way from ``--bootstrap`` to a cluster, and what all readers share: names, order and environment. The runner
itself is the tests' one.
"""

from __future__ import annotations

import compileall
import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
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
    return {**os.environ, "PYTHONPATH": str(root)}


@cache
def _compile(root: Path) -> None:
    """Compile the library, as pip compiles what it installs: compiling takes longer than reading the first records."""
    done = [compileall.compile_dir(root / name, quiet=2) for name in ("thinconsumer", "pyspark_thinconsumer")]
    if not all(done):
        print(f"{root} cannot be compiled: readers compile what they use, which counts", file=sys.stderr)
