"""Processes of a cluster: started so that they die with the test run, and ended each by its own id.

Owns starting, killing, pausing. Knows nothing of Kafka. ``Process`` runs a local Java; ``containers`` has the other
kind with the same methods.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from . import jars

LAUNCHER = Path(__file__).with_name("dies_with_parent.py")


class Process:
    """One Java program with its output in a file.

    It dies with the thread that started it (that is what Linux offers), so start it from one that stays.
    """

    def __init__(self, arguments: list[str], log: Path) -> None:
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                java_command(arguments), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=log.parent
            )
        self._paused = False

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def terminate(self, seconds: float) -> None:
        """Ask it to end; kill it if it has not by then."""
        if self.running:
            self.resume()
            self._child.terminate()
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL: no goodbye, no flush, sockets closed by the kernel."""
        if self.running:
            self._child.kill()
        self._child.wait()
        self._paused = False

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, from when this returns."""
        self._child.send_signal(signal.SIGSTOP)
        self._paused = True
        # Threads stop one after the other, and may answer until they do. An end, too, is something to wait for.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """SIGCONT, if paused."""
        if self._paused:
            self._child.send_signal(signal.SIGCONT)
            self._paused = False


def run(arguments: list[str], seconds: float = 60) -> str:
    """Run a Java program to its end and return what it printed; raise with its errors if it failed."""
    done = subprocess.run(java_command(arguments), capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def java_command(arguments: list[str]) -> list[str]:
    return [sys.executable, "-ISE", str(LAUNCHER), str(os.getpid()), jars.java(), *arguments]
