"""Brokers in containers instead of from jars, where a Docker engine answers.

One class with the methods of ``processes.Process``, over testcontainers. Containers use the host's network, so that
addresses are the same as for local processes: an engine on Linux, that is. A container is removed when its program
ends, and ``container_guard`` removes those of a run that is killed, so that Ryuk is not needed.
"""

import atexit
import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import container_guard

IMAGE = "apache/kafka"
CLASS_PATH = "/opt/kafka/libs/*"
PROBE_SECONDS = 3
GUARD = Path(container_guard.__file__)


def engine_answers() -> bool:
    try:
        import testcontainers.core.container  # noqa: F401

        found = subprocess.run(["docker", "info"], capture_output=True, timeout=PROBE_SECONDS, check=False)
    except (ImportError, OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0


@functools.cache
def label() -> str:
    """Return the label of this process's containers, KEY=VALUE; a guard that removes them is started first."""
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.labels import LABEL_SESSION_ID, SESSION_ID

    testcontainers_config.ryuk_disabled = True
    found = f"{LABEL_SESSION_ID}={SESSION_ID}"
    # A session of its own: Ctrl-C in the terminal would end the guard together with the run.
    guard = subprocess.Popen([sys.executable, "-ISE", str(GUARD), found], stdin=subprocess.PIPE, start_new_session=True)
    atexit.register(guard.communicate, container_guard.ORDERLY)
    return found


class Container:
    """One Java program in a container of Kafka's own image; the container is removed when the program has ended."""

    def __init__(self, version: str, arguments: list[str], log: Path) -> None:
        from testcontainers.core.container import DockerContainer

        label()
        self._log = log
        self._earlier_log = log.read_bytes() if log.exists() else b""
        folder = str(log.parent)
        container = DockerContainer(f"{IMAGE}:{version}", network_mode="host", entrypoint="java", user=f"{os.getuid()}")
        self._started = container.with_volume_mapping(folder, folder, "rw").with_command(arguments).start()
        self._paused = False
        self._removed = False

    @property
    def _container(self) -> Any:
        found = self._started.get_wrapped_container()
        found.reload()
        return found

    @property
    def pid(self) -> int:
        return int(self._container.attrs["State"]["Pid"])

    @property
    def running(self) -> bool:
        if self._removed:
            return False
        container = self._container
        self._log.write_bytes(self._earlier_log + container.logs())
        if container.status in ("running", "paused", "created"):
            return True
        self._remove()
        return False

    def terminate(self, seconds: float) -> None:
        """Ask it to end; the engine kills it if it has not by then."""
        if self.running:
            self.resume()
            self._container.stop(timeout=int(seconds))
            self._remove()

    def kill(self) -> None:
        """SIGKILL."""
        if self.running:
            self.resume()
            self._container.kill()
            self._container.wait()
            self._remove()

    def _remove(self) -> None:
        """Keep the log and remove the container, which has ended."""
        self._log.write_bytes(self._earlier_log + self._container.logs())
        self._started.stop()
        self._removed = True

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        self._container.pause()
        self._paused = True

    def resume(self) -> None:
        if self._paused and not self._removed:
            self._container.unpause()
        self._paused = False
