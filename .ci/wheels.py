"""Build both distributions, each wheel from its sdist: ``python .ci/wheels.py FOLDER``.

What was in the folder is removed. Needs ``build`` and ``hatchling``. tox builds once for all environments, which
install the wheels.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build(folder: Path) -> None:
    """Fill the folder with two sdists and the wheels that are built from them; end with the exit code of a failure."""
    shutil.rmtree(folder, ignore_errors=True)
    for place in (ROOT, ROOT / "testing"):
        words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(place)]
        done = subprocess.run(words, cwd=ROOT, check=False)
        if done.returncode:
            sys.exit(done.returncode)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
