"""Debian packages that tests need and pip cannot install.

Owns calls of apt-get. Only the standard library is used: tox runs this before anything else is installed.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no apt-get either
    fcntl = None  # type: ignore[assignment]

SECONDS = 300


class CannotInstall(Exception):
    """The packages cannot be installed here; the message says why and names the command."""


def install(*packages: str) -> None:
    """Install the packages with apt-get; raise ``CannotInstall`` without root, apt-get or the package."""
    command = f"apt-get install {' '.join(packages)}"
    program = shutil.which("apt-get")
    if program is None:
        raise CannotInstall(f"{' and '.join(packages)} are missing, and there is no apt-get to install them")
    if os.geteuid() != 0:
        raise CannotInstall(f"{' and '.join(packages)} are missing, and only root can install them: {command}")
    options = ["-y", "-q", "--no-install-recommends"]
    with _alone():
        done = _run(program, "install", *options, *packages)
        if done.returncode:  # a new machine has no package lists, an old one has outdated ones
            _run(program, "update", "-q")
            done = _run(program, "install", *options, *packages)
    if done.returncode:
        raise CannotInstall(f"{command} failed: {done.stdout[-2000:]}")


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotInstall(f"{' '.join(command)}: not within {SECONDS} s") from error


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Wait for another worker that installs: apt-get itself would fail at dpkg's lock."""
    with (Path(tempfile.gettempdir()) / f"thinconsumer-apt-{os.getuid()}.lock").open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
