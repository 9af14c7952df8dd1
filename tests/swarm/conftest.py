"""What all worlds of a run have brought about together, although they may run in several processes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable

import pytest


@pytest.fixture
def summed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Counter[str] | None]:
    """``summed(run, part, parts, counts)``: the sum of all parts of a run, for whoever comes last; None before.

    Tests come in any order, and each of xdist's workers sees only its own.
    """
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def add(run: str, part: int, parts: int, counts: Counter[str]) -> Counter[str] | None:
        mine = folder / f"{run}-{part}.json"
        mine.with_suffix(".part").write_text(json.dumps(counts), encoding="utf-8")
        mine.with_suffix(".part").replace(mine)  # whole, or not there
        found = list(folder.glob(f"{run}-*.json"))
        if len(found) < parts:
            return None
        return sum((Counter(json.loads(path.read_text(encoding="utf-8"))) for path in found), Counter())

    return add
