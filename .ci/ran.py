"""Fail if no interpreter ran the unit tests: ``python .ci/ran.py TOX_WORK_FOLDER``.

tox skips interpreters that are not there. All of them skipped looks like success, so each leaves a mark that this
collects and removes.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(folder: Path) -> int:
    """Return the exit code, and say who ran."""
    marks = sorted(folder.glob("ran-py*"))
    for mark in marks:
        mark.unlink()
    names = ", ".join(mark.name.removeprefix("ran-") for mark in marks)
    print(f"unit tests ran on: {names or 'NO INTERPRETER AT ALL'}")
    return 0 if marks else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
