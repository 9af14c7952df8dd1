"""Programs beside this one: started so that whatever they start can be found, and ended so that nothing is left.

Owns children and their children. Each program gets a session of its own (POSIX): Ctrl-C is for whoever started it, and
what belongs to it can be told by the session, also when the program itself is gone. Spark's Python workers make process
groups of their own, so a group would not do.
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

#: How long a program may take to end when it is asked to; seconds.
PATIENCE_S = 10.0


class Program:
    """A program that runs, in ``folder``. Its standard error goes to ``log``, as its output does without ``output``."""

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
        """Where to write what it reads."""
        assert self._child.stdin is not None
        return self._child.stdin

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._child.poll()

    @property
    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    def wait(self, seconds: float) -> int:
        """Close its input, and wait until it ends by itself; return its exit code. Ends it if that takes longer."""
        self._close_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)
        self.end()
        return self._child.returncode

    def kill(self) -> None:
        """As ``kill -9`` of it and of what shares its process group: with a Spark job, the JVM."""
        os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def left(self) -> list[int]:
        """Return what runs in its session, by process id."""
        self._child.poll()  # or it would be found for as long as nobody asks how it ended
        listed = subprocess.run(["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True).stdout
        running = [int(pid) for pid, state in map(str.split, listed.splitlines()) if not state.startswith("Z")]
        return [pid for pid in running if _session(pid) == self._child.pid]

    def end(self, patience_s: float = PATIENCE_S) -> None:
        """End it and all that is left of it: a JVM tidies up when whoever has started it is gone."""
        if self._is_over:
            return  # its number may be another process's by now
        if self._child.poll() is None:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(patience_s)
        self._close_input()
        deadline = time.monotonic() + patience_s
        while left := self.left():
            if time.monotonic() > deadline:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        self._is_over = True

    def _close_input(self) -> None:
        if self._child.stdin is not None:
            with contextlib.suppress(OSError):  # what was not flushed has nobody who reads it
                self._child.stdin.close()


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None
