"""Replay traces in another process, whose sets and dicts of strings have another order."""

from __future__ import annotations

import subprocess
import sys

from thinconsumer.replay import Replayed

AGAIN = "import sys; from thinconsumer.replay import replay; [print(*replay(p)[1:5]) for p in sys.argv[1:]]"


def line_of(done: Replayed) -> str:
    """Return a replay's requests, records, calls and divergence as text."""
    return " ".join(map(str, done[1:5]))


def lines_elsewhere(paths: list[str], hash_seed: str) -> list[str]:
    """Return these lines of replays in a process with a ``PYTHONHASHSEED``."""
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, *paths], env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()
