"""Run tests with brokers in containers: ``python .ci/containers.py pytest ...``. Nothing of it stays on the machine.

Uses the Docker engine that answers, or else an engine of its own, which Debian's docker.io is installed for (as root).
If that engine has no image of Kafka, one is made of the local Java and of Kafka's jars, so that no registry is needed,
and removed again. Without an engine, the tests are skipped, and this says why; with ``THINCONSUMER_REQUIRE_KAFKA=1``
that is a failure. A container that the tests leave behind is a failure, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "real"))
from realkafka import containers, debian, jars
from realkafka.processes import LAUNCHER

IMAGE = f"{containers.IMAGE}:{jars.CURRENT}"
#: Where the image has Java; ``containers.CLASS_PATH`` names the place of the jars.
JAVA = "/opt/java"
#: Parts of a JDK that no broker needs.
UNUSED = {"demo", "include", "jmods", "legal", "man", "src.zip"}
#: Libraries that native code in Kafka's jars is linked with.
LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1")
START_SECONDS = 60


class NoEngine(Exception):
    """No Docker engine can be had here; the message says why."""


def main(command: list[str]) -> int:
    """Return the exit code of the command, or 1 if it leaves containers behind."""
    try:
        with engine() as environment, image(environment):
            before = all_containers(environment)
            code = subprocess.run(command, env=environment, check=False).returncode
            left = all_containers(environment) - before
            if left:
                print(f"CONTAINERS LEFT BEHIND: {' '.join(sorted(left))}")
                docker(environment, "rm", "--force", "--volumes", *sorted(left))
            return code or int(bool(left))
    except (NoEngine, debian.CannotInstall, jars.NoJars) as error:
        print(f"NO CONTAINERS: their tests are skipped. {error}")
        return int(os.environ.get("THINCONSUMER_REQUIRE_KAFKA") == "1")


@contextlib.contextmanager
def engine() -> Iterator[dict[str, str]]:
    """Yield an environment in which a Docker engine answers: the one there is, or one of our own."""
    environment = dict(os.environ)
    if shutil.which("docker") and not docker(environment, "info", check=False).returncode:
        yield environment
        return
    if sys.platform != "linux" or os.geteuid() != 0:
        raise NoEngine("no Docker engine answers, and only root on Linux can start one")
    if not shutil.which("dockerd") or not shutil.which("docker"):
        debian.install("docker.io")
    with tempfile.TemporaryDirectory(prefix="thinconsumer-docker-", ignore_cleanup_errors=True) as folder:
        environment["DOCKER_HOST"] = f"unix://{folder}/socket"
        with own_engine(Path(folder), environment):
            yield environment


@contextlib.contextmanager
def own_engine(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Run a Docker engine that keeps all its files in ``folder`` and changes nothing of the machine's network."""
    options = [
        "--host", environment["DOCKER_HOST"], "--data-root", folder / "data", "--exec-root", folder / "exec",
        "--pidfile", folder / "pid", "--bridge", "none", "--iptables=false",
    ]  # fmt: skip
    # The engine dies with this program, also if that is killed.
    command = [sys.executable, "-ISE", LAUNCHER, os.getpid(), shutil.which("dockerd"), *options]
    log = folder / "log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_SECONDS
        while docker(environment, "info", check=False).returncode:
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise NoEngine(f"dockerd does not start: {log.read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.2)
        yield
    finally:
        daemon.terminate()
        daemon.wait()
        unmount(folder)


def unmount(folder: Path) -> None:
    """Unmount what the engine has left mounted (its network namespace), so that the folder can be removed."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    for mount in reversed([mount for mount in mounts if mount.startswith(f"{folder}/")]):
        subprocess.run(["umount", mount], check=False)


@contextlib.contextmanager
def image(environment: dict[str, str]) -> Iterator[None]:
    """Provide Kafka's image: the engine's, or one made of what this machine has, which is removed at the end."""
    if not docker(environment, "image", "inspect", IMAGE, check=False).returncode:
        yield
        return
    importing = ["docker", "import", "--change", f"ENV PATH={JAVA}/bin", "-", IMAGE]
    with subprocess.Popen(importing, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment) as process:
        assert process.stdin is not None
        with process.stdin, tarfile.open(fileobj=process.stdin, mode="w|", dereference=True) as tar:
            fill(tar)
    if process.returncode:
        raise NoEngine(f"docker import failed: exit code {process.returncode}")
    try:
        yield
    finally:
        docker(environment, "image", "rm", "--force", IMAGE)


def fill(tar: tarfile.TarFile) -> None:
    """Write what a broker needs: Java, the libraries that it is linked with, Kafka's jars, users and a folder /tmp."""
    java = Path(jars.java()).resolve()
    for name in sorted(set(os.listdir(java.parents[1])) - UNUSED):
        add(tar, java.parents[1] / name, f"{JAVA}/{name}")
    for library in sorted(linked_libraries([java, *java.parents[1].glob("lib/**/*.so")])):
        add(tar, library, str(library))
    for jar in sorted(Path(jars.class_path(jars.CURRENT)).parent.iterdir()):
        add(tar, jar, f"{Path(containers.CLASS_PATH).parent}/{jar.name}")
    users = b"root:x:0:0:root:/tmp:/none\n"
    entry = tarfile.TarInfo("etc/passwd")
    entry.size = len(users)
    tar.addfile(entry, BytesIO(users))
    folder = tarfile.TarInfo("tmp")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
    tar.addfile(folder)


def add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Write a file, or a folder with what is in it; links are followed, and those that lead nowhere left out."""
    if path.is_dir():
        for inside in sorted(path.iterdir()):
            add(tar, inside, f"{name}/{inside.name}")
    elif path.is_file():
        tar.add(path, name.lstrip("/"))


def linked_libraries(programs: Iterable[Path]) -> set[Path]:
    """Return the shared libraries outside of Java that these are linked with, and the loader."""
    command = ["ldd", *map(str, programs)]
    linked = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = {Path(place) for place in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", linked, re.MULTILINE)}
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    for name in LIBRARIES:
        found |= {Path(place) for place in re.findall(rf"^\s+{re.escape(name)} .*=> (/\S+)$", cache, re.MULTILINE)[:1]}
    home = Path(jars.java()).resolve().parents[1]
    return {path for path in found if not path.resolve().is_relative_to(home)}


def all_containers(environment: dict[str, str]) -> set[str]:
    """Return the ids of all containers of the engine, also of those that have ended."""
    return set(docker(environment, "ps", "--all", "--quiet", "--no-trunc").stdout.split())


def docker(environment: dict[str, str], *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the docker client, by default raising an error if it fails."""
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, env=environment, check=check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
