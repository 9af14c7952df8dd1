"""Fixtures of both swarms: sums of counts over all worlds of a run, and the trace of a seed in a process of its own."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

#: Runs a seed, and prints the digest of its trace.
CHILD = """
from lab import {swarm}
swarm = {swarm}(7, traced=True)
swarm.run()
print(swarm.sim.trace.digest())
"""


@pytest.fixture
def digest_in_child() -> Callable[[str, str], str]:
    """``digest_in_child(swarm, hash_seed)``: run seed 7 in another process, and return its trace's digest."""

    def run(swarm: str, hash_seed: str) -> str:
        paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
        code = CHILD.format(swarm=swarm)
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert child.returncode == 0, child.stderr
        return child.stdout.strip()

    return run


@pytest.fixture
def summed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """``summed(run, part, parts, counts, minimums)``: the test that runs last compares the sum of all parts.

    Tests come in any order, and each of xdist's workers sees only its own.
    """
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def add(run: str, part: int, parts: int, counts: Counter[str], minimums: dict[str, int]) -> None:
        mine = folder / f"{run}-{part}.json"
        mine.with_suffix(".part").write_text(json.dumps(counts), encoding="utf-8")
        mine.with_suffix(".part").replace(mine)  # whole, or not there
        found = list(folder.glob(f"{run}-*.json"))
        if len(found) < parts:
            return
        total = sum((Counter(json.loads(path.read_text(encoding="utf-8"))) for path in found), Counter[str]())
        print(", ".join(f"{name} {count}" for name, count in sorted(total.items())))
        empty = {name: (total[name], least) for name, least in minimums.items() if total[name] < least}
        assert not empty, f"these worlds have become too quiet (what happened, the least there should be): {empty}"

    return add
