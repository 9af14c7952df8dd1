"""What all worlds of a run have brought about together, although they may run in several processes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable

import pytest


@pytest.fixture
def summed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """``summed(run, part, parts, counts, minimums)``: whoever comes last looks at the sum of all parts of a run.

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
