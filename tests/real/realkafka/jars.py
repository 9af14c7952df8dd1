"""Kafka's jars, and those of Spark's connector, kept in a cache folder outside the checkout; and the Java to run them.

Owns downloading, by Maven, and class paths. Knows nothing of brokers. The cache is ``$THINCONSUMER_CACHE`` or
``~/.cache/thinconsumer``; a version is downloaded once per machine, in a few seconds.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two workers may download at the same time
    fcntl = None  # type: ignore[assignment]

#: The default version of brokers, and an old one with ZooKeeper, old API versions and old record formats.
CURRENT, OLD = "4.3.0", "2.8.2"
#: The command line tools of this version talk to every broker from 2.1 on, so one class path serves all clusters.
TOOLS = "4.3.0"
#: Spark's own connector is compared with ours on this version, the newest that is on Maven Central with all it needs.
SPARK = "4.0.0"
CONNECTOR = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{SPARK}",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
#: Java's counterpart of our workers, for benchmarks.
PARALLEL_CONSUMER = "io.confluent.parallelconsumer:parallel-consumer-core:0.5.3.3"
LOG4J2 = ("org.apache.logging.log4j:log4j-core:2.24.3", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3")


class NoJars(Exception):
    """Kafka cannot be run from its jars here; the message says what is missing."""


def cache_folder() -> Path:
    if named := os.environ.get("THINCONSUMER_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "thinconsumer"


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise NoJars("there is no java on the PATH (Java 17 or newer runs Kafka 4)")
    return found


def class_path(version: str) -> str:
    return f"{_folder(f'kafka-{version}', _artifacts(version))}/*"


def tools_class_path() -> str:
    return class_path(TOOLS)


def connector_jars() -> list[Path]:
    """Return the jars of Spark's own Kafka connector, for a PySpark of the version ``SPARK``."""
    return sorted(_folder(f"spark-kafka-{SPARK}", CONNECTOR, "-DexcludeTransitive=true").glob("*.jar"))


def parallel_consumer_class_path() -> str:
    return f"{_folder('parallel-consumer-0.5.3.3', (PARALLEL_CONSUMER,))}/*"


def is_legacy(version: str) -> bool:
    return int(version.split(".")[0]) < 3


def _artifacts(version: str) -> tuple[str, ...]:
    broker = f"org.apache.kafka:kafka_2.13:{version}"
    if is_legacy(version):
        return (broker, "org.slf4j:slf4j-reload4j:1.7.36")  # ZooKeeper comes along
    if version == TOOLS:
        return (broker, f"org.apache.kafka:kafka-tools:{version}", *LOG4J2)
    return (broker, *LOG4J2)


def _folder(name: str, artifacts: tuple[str, ...], *options: str) -> Path:
    # The name depends on the artifacts, so that a change of them does not use an outdated cache.
    folder = cache_folder() / "jars" / f"{name}-{hashlib.sha256(repr(artifacts).encode()).hexdigest()[:8]}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise NoJars(f"{name} is not in {folder}, and there is no mvn on the PATH to download it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with alone(folder.parent / ".lock"):
        if not folder.is_dir():
            _download(maven, name, folder, artifacts, options)
    return folder


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Wait until no other process is in here: Maven's own cache is not made for two, and once is enough."""
    with lock.open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(maven: str, name: str, folder: Path, artifacts: tuple[str, ...], options: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as temporary:
        work = Path(temporary)
        (work / "pom.xml").write_text(_pom(artifacts), encoding="utf-8")
        command = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={work / 'jars'}", *options]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise NoJars(f"Maven could not download {name}: {(done.stdout + done.stderr)[-2000:]}")
        try:
            # Whole or not at all: another run may be downloading the same, or be interrupted.
            (work / "jars").rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _pom(artifacts: tuple[str, ...]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in (artifact.split(":") for artifact in artifacts)
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>thinconsumer</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>\n"
    )
