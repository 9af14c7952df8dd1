"""A Kafka cluster of our own: started from its jars, killed, paused and restarted at will.

Starts and ends the processes. Their properties are in ``layout``, requests to brokers in ``admin``.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from . import jars, layout, processes
from .admin import Administration, wait_for
from .metadata import Picture, ask
from .security import DEBUG_LOGGERS, Security

#: Without -Xshare and the first compiler alone a broker takes two seconds longer to start; benchmarks want the second.
QUICK = ("-XX:TieredStopAtLevel=1", "-Xshare:auto")
#: Three brokers take 6 s, and over a minute while other programs keep the processors busy. Tests have 180 s in all.
START_SECONDS = 100


class KafkaCluster(Administration):
    """Brokers 1 to ``brokers`` on 127.0.0.1, at ``bootstrap``, from :meth:`start` to :meth:`stop`.

    Use it in a ``with`` block. ``config`` is added to every broker's properties. ``quick=False`` lets Java optimise
    fully, for benchmarks. ``start_process`` is how Java programs are run: in containers, for instance. ``security``
    adds listeners to PLAINTEXT, which stays (versions 3.5 and newer).

    Raises:
        NoJars: there is no Java, or Kafka could not be downloaded.
    """

    def __init__(
        self,
        version: str = jars.CURRENT,
        brokers: int = 1,
        *,
        config: Mapping[str, object] | None = None,
        heap: str = "512m",
        quick: bool = True,
        start_process: Callable[[list[str], Path], processes.Process] = processes.Process,
        class_path: str | None = None,
        security: Security | None = None,
    ) -> None:
        nodes = range(1, brokers + 1)
        names = [each.name for each in security.listeners] if security else []
        first, *others = layout.free_ports(1 + (2 + len(names)) * brokers)
        ports = others[len(names) * brokers :]
        self.version = version
        self.ports = dict(zip(nodes, ports, strict=False))
        self._controllers = dict(zip(nodes, ports[brokers:], strict=False))
        self._zookeeper_port = first
        self.security = security
        self.listener_ports = {node: dict(zip(names, others[index::brokers])) for index, node in enumerate(nodes)}
        self._config = dict(config or {})
        self._options = [f"-Xmx{heap}", "-XX:+UseSerialGC", *(QUICK if quick else ())]
        self._loads_archive = quick and start_process is processes.Process and not jars.is_legacy(version)
        self._start_process = start_process
        self._class_path = class_path
        self._processes: dict[int, processes.Process] = {}
        self._zookeeper: processes.Process | None = None
        self.folder = Path()
        super().__init__(",".join(f"{layout.HOST}:{port}" for port in self.ports.values()))

    # -- life

    def start(self) -> KafkaCluster:
        """Start all brokers and wait until they form a cluster."""
        if self._class_path is None:
            self._class_path = jars.class_path(self.version)
        if self._loads_archive:
            self._options += archived_classes(self.version, self._class_path)
        self.folder = Path(tempfile.mkdtemp(prefix=f"thinconsumer-kafka-{self.version}-"))
        try:
            self._write_files()
            if jars.is_legacy(self.version):
                self._start_zookeeper()
            else:
                self._format()
            for node in self.ports:
                self._start_node(node)
            self.wait_for_nodes()
        except BaseException:
            self.stop(keep_logs=True)
            raise
        return self

    def stop(self, *, keep_logs: bool = False) -> Path | None:
        """End every process and delete the data. Returns where the logs are, if they were to be kept."""
        for process in [*self._processes.values(), *([self._zookeeper] if self._zookeeper else [])]:
            process.kill()  # the data go too, so there is nothing to flush, and goodbyes take seconds
        self._processes.clear()
        self._zookeeper = None
        if not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)
            return None
        for data in self.folder.glob("data-*"):
            shutil.rmtree(data, ignore_errors=True)
        return self.folder

    def __enter__(self) -> KafkaCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- what may happen to a broker

    def kill(self, node: int) -> None:
        """SIGKILL: the broker flushes nothing, and the controller notices only by its silence."""
        self._processes[node].kill()

    def pause(self, node: int) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        self._processes[node].pause()

    def resume(self, node: int) -> None:
        """SIGCONT after :meth:`pause`."""
        self._processes[node].resume()

    def restart(self, node: int, *, wait: bool = True) -> None:
        """Start a broker again on its port and data: after a clean stop if it is running, else as it was left.

        ``wait`` until it takes part again.
        """
        self._processes[node].terminate(20)
        self._start_node(node)
        if wait:
            self.wait_for_nodes({node})

    def running(self, node: int) -> bool:
        """Return whether the broker's process is there (paused ones are)."""
        return self._processes[node].running

    def pids(self) -> list[int]:
        everything = [*self._processes.values(), *([self._zookeeper] if self._zookeeper else [])]
        return [process.pid for process in everything if process.running]

    def log(self, node: int) -> str:
        return self._log_file(node).read_text(encoding="utf-8", errors="replace")

    def address(self, listener: str) -> str:
        return ",".join(f"localhost:{ports[listener]}" for ports in self.listener_ports.values())

    def client_options(self, listener: str, mechanism: str = "", user: str = "alice") -> dict[str, Any]:
        """Return the options by which a client uses a secured listener, under kafka-python's names."""
        assert self.security is not None
        return {"bootstrap_servers": self.address(listener), **self.security.client(listener, mechanism, user)}

    def data_folder(self, node: int, topic: str, partition: int) -> Path:
        return self.folder / f"data-{node}" / f"{topic}-{partition}"

    # -- inside

    def _archive_classes(self, archive: Path) -> None:
        """Start the brokers and end them, so that Java writes the classes that they have loaded to a file."""
        self._loads_archive = False
        self._options.append(f"-XX:ArchiveClassesAtExit={archive}")
        with self:
            for process in self._processes.values():
                process.terminate(START_SECONDS)

    def _write_files(self) -> None:
        loggers = DEBUG_LOGGERS if self.security else ()
        (self.folder / "log4j2.xml").write_text(layout.log4j2(*loggers), encoding="utf-8")
        (self.folder / "log4j.properties").write_text(layout.LOG4J1, encoding="utf-8")
        (self.folder / "zookeeper.properties").write_text(
            layout.text(layout.zookeeper(self._zookeeper_port, str(self.folder / "data-zookeeper"))), encoding="utf-8"
        )
        for node in self.ports:
            data = str(self.folder / f"data-{node}")
            if jars.is_legacy(self.version):
                properties = layout.with_zookeeper(node, self.ports, self._zookeeper_port, data)
            else:
                properties = layout.kraft(node, self.ports, self._controllers, data)
            if self.security is not None:
                properties = self.security.properties(properties, self.listener_ports[node], self._secrets)
            self._properties(node).write_text(layout.text({**properties, **self._config}), encoding="utf-8")

    def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

        def storage_tool(node: int) -> None:
            log = self.folder / f"format-{node}.log"
            # In one word: one id in sixty-four begins with "-", which would be taken for an option.
            arguments = ["format", f"--cluster-id={cluster_id}", "-c", str(self._properties(node))]
            if self.security is not None:
                arguments += self.security.format_options()
            process = self._java("kafka.tools.StorageTool", *arguments, log=log)
            wait_for(lambda: not process.running, START_SECONDS, f"formatting the folder of node {node}")
            if not (self.folder / f"data-{node}" / "meta.properties").exists():
                raise RuntimeError(f"formatting failed: {log.read_text(encoding='utf-8')[-2000:]}")

        with ThreadPoolExecutor() as pool:
            list(pool.map(storage_tool, self.ports))

    def _start_zookeeper(self) -> None:
        self._zookeeper = self._java(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.folder / "zookeeper.properties"),
            log=self.folder / "zookeeper.log",
        )
        wait_for(lambda: _listening(self._zookeeper_port), START_SECONDS, "ZooKeeper")

    def _start_node(self, node: int) -> None:
        self._processes[node] = self._java("kafka.Kafka", str(self._properties(node)), log=self._log_file(node))

    def _java(self, *arguments: str, log: Path) -> processes.Process:
        assert self._class_path is not None
        logging = [
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}",
            f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}",
        ]
        secured = self.security.java_options(self._secrets) if self.security else []
        return self._start_process([*self._options, *logging, *secured, "-cp", self._class_path, *arguments], log)

    def wait_for_nodes(self, nodes: Set[int] | None = None) -> None:
        """Wait until the metadata of each of these nodes (default: all) names all of them: it lacks a fenced broker."""
        wanted = set(self.ports) if nodes is None else nodes

        def all_there() -> bool:
            for node in wanted:
                if not self.running(node):
                    raise RuntimeError(f"node {node} ended while starting:\n{self.log(node)[-3000:]}")
            pictures = [_picture(self.ports[node]) for node in wanted]
            return all(wanted <= set(picture.nodes) for picture in pictures if picture) and all(pictures)

        wait_for(all_there, START_SECONDS, f"nodes {wanted} of {self.folder} in the cluster")

    @property
    def _secrets(self) -> Path:
        return self.folder / "security"

    def _properties(self, node: int) -> Path:
        return self.folder / f"node-{node}.properties"

    def _log_file(self, node: int) -> Path:
        return self.folder / f"node-{node}.log"


def archived_classes(version: str, class_path: str) -> list[str]:
    """Return the options by which Java loads Kafka's classes from an archive, and make the archive if there is none.

    To load and verify some eight thousand classes is most of what a broker does while it starts.
    """
    jar_folder = Path(class_path).parent
    java = hashlib.sha256(str(Path(jars.java()).resolve()).encode()).hexdigest()[:8]  # another Java ignores the archive
    archive = jar_folder.with_name(f"{jar_folder.name}-{java}.jsa")
    with jars.alone(jar_folder.parent / ".lock-archive"):
        if not archive.exists():
            unfinished = archive.with_suffix(".unfinished")
            KafkaCluster(version, class_path=class_path)._archive_classes(unfinished)
            unfinished.rename(archive)
    return [f"-XX:SharedArchiveFile={archive}"]


def _picture(port: int) -> Picture | None:
    try:
        return ask(layout.HOST, port, seconds=1)
    except OSError:
        return None


def _listening(port: int) -> bool:
    try:
        socket.create_connection((layout.HOST, port), timeout=1).close()
    except OSError:
        return False
    return True
