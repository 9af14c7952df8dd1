"""Fail if a public name's type is not known completely, as pyright sees it: ``python .ci/completeness.py``.

Public are the names in ``__all__`` of the public modules, with all that belongs to them or that they refer to; those of
thinconsumer-testing among them. ``pyright --verifytypes`` also counts every other module without an underscore.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = [str(ROOT), str(ROOT / "testing")]
PUBLIC = (
    *("", ".aio", ".assignors", ".broker", ".compat.aiokafka", ".compat.kafka"),
    *(".config", ".partitioning", ".testing", ".workers"),
)


def public_names() -> list[str]:
    """Return the public names with their modules."""
    sys.path[:0] = FOLDERS
    modules = [f"thinconsumer{suffix}" for suffix in PUBLIC]
    return [f"{name}.{item}" for name in modules for item in importlib.import_module(name).__all__]


def symbols() -> list[dict[str, Any]]:
    """Return what pyright says of each symbol."""
    pyright = Path(sys.executable).with_name("pyright")
    words = [str(pyright), "--verifytypes", "thinconsumer", "--ignoreexternal", "--outputjson"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(FOLDERS)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    return found


def main() -> int:
    """Return the exit code, and print what is not known."""
    found = symbols()
    by_name = {name: one for one in found for name in (one["name"], *one.get("alternateNames", ()))}
    names = [name for name in public_names() if name in by_name]  # all but __version__
    unknown = [name for name in names if not by_name[name]["isTypeKnown"] or by_name[name]["isTypeAmbiguous"]]
    for name in unknown:
        print(f"not known completely: {name}")
        canonical = by_name[name]["name"]
        for one in found:
            if one["diagnostics"] and f"{one['name']}.".startswith(f"{canonical}."):
                print(*(f"    {one['name']}: {each['message']}" for each in one["diagnostics"]), sep="\n")
    print(f"{len(names) - len(unknown)} of {len(names)} public names have types that are known completely")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
