"""Functions shared by all members written in Python: they print events, and read commands.

A diary is a file of lines ``TIME WHAT NUMBERS...``; time is ``time.monotonic()``, which all processes of a machine
share. A line is written at once and whole, so that a member that is killed has said all it has done.
"""

import json
import os
import select
import sys
import time
from collections.abc import Iterable
from typing import Any


class Diary:
    """Appends to one member's file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def say(self, what: str, numbers: Iterable[object] = (), *, when: float | None = None) -> None:
        now = time.monotonic() if when is None else when
        os.write(self._file, f"{now:.6f} {what} {' '.join(map(str, numbers))}\n".encode())


def settings() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sys.argv[1])
    return found


def orders() -> list[str]:
    """Return the commands since the last call, without waiting; the end of standard input means to leave."""
    if not select.select([0], [], [], 0)[0]:
        return []
    said = os.read(0, 65536).decode()
    return said.split() if said else ["leave"]
