"""Start child processes and end them together with all their descendants.

Each program gets its own session (POSIX), so that Ctrl-C does not reach it and its descendants can be found by their
session id, even after the program itself has ended. Process groups do not suffice: Spark's Python workers create their
own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

#: How long a program may take to end after SIGTERM; seconds.
TERMINATION_TIMEOUT_S = 10.0


class Program:
    """A running program in ``folder``. Standard error goes to ``log``, standard output to ``output`` or ``log``."""

    def __init__(
        self,
        *command: str | Path,
        log: Path,
        folder: Path | None = None,
        output: Path | None = None,
        takes_input: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        self._is_over = False
        with log.open("ab") as words, (output or log).open("ab") as lines:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
                stdout=lines,
                stderr=words,
                cwd=folder,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def input(self) -> IO[bytes]:
        """The program's standard input."""
        assert self._child.stdin is not None
        return self._child.stdin

    @property
    def code(self) -> int | None:
        """The exit code; None while the program runs."""
        return self._child.poll()

    @property
    def log_tail(self) -> str:
        """The last lines of the log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    def wait(self, seconds: float) -> int:
        """Close the input, wait until the program ends, and return its exit code. After ``seconds`` it is ended."""
        self._close_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)
        self.end()
        return self._child.returncode

    def kill(self) -> None:
        """Send SIGKILL to the program's process group, which contains a Spark job's JVM."""
        os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def left(self) -> list[int]:
        """Return the ids of the running processes of its session."""
        self._child.poll()  # reap it, or it would be listed as a zombie
        listed = subprocess.run(["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True).stdout
        running = [int(pid) for pid, state in map(str.split, listed.splitlines()) if not state.startswith("Z")]
        return [pid for pid in running if _session(pid) == self._child.pid]

    def end(self, timeout_s: float = TERMINATION_TIMEOUT_S) -> None:
        """End the program and all remaining processes of its session."""
        if self._is_over:
            return  # the process id may be reused by now
        if self._child.poll() is None:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout_s)
        self._close_input()
        deadline = time.monotonic() + timeout_s
        while left := self.left():
            if time.monotonic() > deadline:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        self._is_over = True

    def _close_input(self) -> None:
        if self._child.stdin is not None:
            with contextlib.suppress(OSError):  # unflushed input of an ended program
                self._child.stdin.close()


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None
