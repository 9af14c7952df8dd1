"""Brokers in containers instead of from jars, where a Docker engine answers.

One class with the methods of ``processes.Process``, over testcontainers, which removes containers of a killed run.
Containers use the host's network, so that addresses are the same as for local processes: an engine on Linux, that is.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

IMAGE = "apache/kafka"
CLASS_PATH = "/opt/kafka/libs/*"
PROBE_SECONDS = 3


def engine_answers() -> bool:
    """Return whether there is an engine to ask, and testcontainers to ask it with."""
    try:
        import testcontainers.core.container  # noqa: F401

        found = subprocess.run(["docker", "info"], capture_output=True, timeout=PROBE_SECONDS, check=False)
    except (ImportError, OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0


class Container:
    """One Java program in a container of Kafka's own image."""

    def __init__(self, version: str, arguments: list[str], log: Path) -> None:
        from testcontainers.core.container import DockerContainer

        self._log = log
        folder = str(log.parent)
        container = DockerContainer(f"{IMAGE}:{version}", network_mode="host", entrypoint="java", user=f"{os.getuid()}")
        self._started = container.with_volume_mapping(folder, folder, "rw").with_command(arguments).start()
        self._paused = False

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
        container = self._container
        self._log.write_bytes(container.logs())
        return bool(container.status in ("running", "paused", "created"))

    def terminate(self, seconds: float) -> None:
        """Ask it to end; the engine kills it if it has not by then."""
        self.resume()
        self._container.stop(timeout=int(seconds))

    def kill(self) -> None:
        """SIGKILL."""
        if self.running:
            self.resume()
            self._container.kill()
            self._container.wait()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        self._container.pause()
        self._paused = True

    def resume(self) -> None:
        """Let it go on, if paused."""
        if self._paused:
            self._container.unpause()
            self._paused = False
