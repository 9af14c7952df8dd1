"""Persistent storage of a cluster, so that an embedded broker continues where it was stopped.

Owns the directory: one folder per partition, ``orders-0/00000000000000000000.log``, in Kafka's own format (batches back
to back), and ``meta.json`` for everything else, which is replaced as a whole. Appends are written immediately, so that
they survive the process; nothing is synced, so they may not survive a crash of the machine. Must not know the contents
of batches beyond headers and checksums.

On a full disk, appends are rejected. Changes of the metadata take effect in memory, and are written once there is room:
a metadata change that is rejected half-way would leave the cluster inconsistent.
"""

from __future__ import annotations

import json
import logging
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import crc32c as _crc32c

from thinconsumer.errors import IllegalArgumentError, IllegalStateError
from thinconsumer.records.batch import CRC_COVERS_FROM, HEADER, HEADER_SIZE, LOG_OVERHEAD, OFFSET_MAX
from thinconsumer.types import TopicPartition

from .acl.bindings import acl_from_json, acl_to_json
from .image import PartitionImage, StoredCluster, TopicImage
from .log.stored import LoadedLog
from .login.scram_credentials import credential_from_json, credential_to_json
from .ordered.stored import add_ordered_to_json, with_ordered_from_json

log = logging.getLogger(__name__)

LOG_NAME = f"{0:020}.log"
META_NAME = "meta.json"
LOCK_NAME = ".lock"
META_VERSION = 1
#: The number of log files kept open: macOS often limits a process to 256 file descriptors, shared with sockets.
OPEN_FILES_MAX = 64
#: A write failure is logged only if at least this many writes have succeeded since the failure before.
WRITES_BEFORE_NEXT_WARNING = 1000


class NodeDirectory:
    """The directory of one broker, created if missing and locked against other processes. Raises IllegalStateError if
    it is in use, or if ``meta.json`` cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock: FileIO | None = _lock(self.path / LOCK_NAME)
        self._files: OrderedDict[PartitionFile, FileIO] = OrderedDict()
        self._logs: dict[TopicPartition, PartitionFile] = {}
        self._starts: dict[str, int] = {}
        self.cluster: StoredCluster = StoredCluster()  #: The metadata last saved, by this process or an earlier one.
        self._has_unwritten_meta = False  #: Whether writing ``meta.json`` has failed and must be tried again.
        #: The number of successful writes since the last failed one; high at first, so the first failure is logged.
        self._writes_since_failure = WRITES_BEFORE_NEXT_WARNING
        try:
            self._read_meta()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<NodeDirectory {str(self.path)!r}{'' if self._lock else ' closed'}>"

    def save(self, cluster: StoredCluster) -> None:
        """Save the metadata after a change, and delete the logs of partitions that no longer exist.

        A topic that was deleted and created again has another id, so its old logs are deleted, too.
        """
        for name, topic in self.cluster.topics.items():
            successor = cluster.topics.get(name)
            kept = len(successor.partitions) if successor and successor.topic_id == topic.topic_id else 0
            for row in topic.partitions[kept:]:
                self._delete_log(row.tp)
        self.cluster = cluster
        self._write_meta()

    def log_store(self, tp: TopicPartition) -> PartitionFile:
        """Return the store of a partition's log, with the contents of its file.

        If this process has opened the same log before, its replica was removed in between. The records then belong to
        the removed replica, so the file is emptied and the new replica copies everything from the leader.
        """
        self._check_open()
        before = self._logs.get(tp)
        if before is not None:
            before.retire()
        store = self._logs[tp] = PartitionFile(self, self.path / _partition_folder(tp), str(_partition_folder(tp)))
        if before is not None:
            store.truncate(0)
            store.start_at(0)
        return store

    def close(self) -> None:
        """Write ``meta.json`` if the last attempt has failed, close all files, and release the lock; idempotent."""
        if self._has_unwritten_meta and self._lock is not None:
            self._write_meta()
        for store in self._logs.values():
            store.retire()
        self._logs.clear()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def open_file(self, store: PartitionFile) -> FileIO:
        """Return a partition's file, opened for appending; beyond OPEN_FILES_MAX the least recently used is closed."""
        file = self._files.get(store)
        if file is None:
            self._check_open()
            if len(self._files) >= OPEN_FILES_MAX:
                self._files.popitem(last=False)[1].close()
            store.path.parent.mkdir(exist_ok=True)
            file = self._files[store] = FileIO(store.path, "a")
        else:
            self._files.move_to_end(store)
        return file

    def close_file(self, store: PartitionFile) -> None:
        file = self._files.pop(store, None)
        if file is not None:
            file.close()

    def log_start(self, name: str) -> int:
        return self._starts.get(name, 0)

    def set_log_start(self, name: str, offset: int) -> None:
        if self._starts.get(name, 0) != offset:
            self._starts[name] = offset
            self._write_meta()

    def report_write_failure(self, what: Path, error: OSError) -> None:
        """Log a failed write, unless another write has failed shortly before, as happens on a full disk."""
        if self._writes_since_failure >= WRITES_BEFORE_NEXT_WARNING:
            log.warning("cannot write %s: %s", what, error.strerror or error)
        self._writes_since_failure = 0

    def report_write_success(self) -> None:
        """Count a successful write. If writing ``meta.json`` has failed before, try it again now."""
        self._writes_since_failure += 1
        if self._has_unwritten_meta:
            self._write_meta()

    def _check_open(self) -> None:
        if self._lock is None:
            raise IllegalStateError(f"{self!r} is closed")

    def _delete_log(self, tp: TopicPartition) -> None:
        store = self._logs.pop(tp, None)
        if store is not None:
            store.retire()
        folder = self.path / _partition_folder(tp)
        (folder / LOG_NAME).unlink(missing_ok=True)
        self._starts.pop(folder.name, None)
        try:
            folder.rmdir()
        except OSError as error:
            # The folder does not exist, or it contains files that were not written by this broker and must be kept.
            if folder.exists():
                log.warning("%r cannot remove the folder %s: %s", self, folder, error)

    def _write_meta(self) -> None:
        self._check_open()
        cluster = self.cluster
        meta = {
            "version": META_VERSION,
            "cluster_id": cluster.cluster_id,
            "next_producer_id": cluster.next_producer_id,
            "topics": [_topic_to_json(topic) for topic in cluster.topics.values()],
            "scram_credentials": [credential_to_json(*item) for item in cluster.scram_credentials.items()],
            "acls": [acl_to_json(binding) for binding in cluster.acls],
            "log_start_offsets": self._starts,
        }
        path = self.path / META_NAME
        fresh = path.with_suffix(".tmp")
        try:
            fresh.write_text(json.dumps(meta, indent=1), encoding="utf-8")
            os.replace(fresh, path)
        except OSError as error:
            self._has_unwritten_meta = True
            self.report_write_failure(path, error)
        else:
            self._has_unwritten_meta = False

    def _read_meta(self) -> None:
        path = self.path / META_NAME
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            raise IllegalStateError(f"cannot read {path}: {error}") from error
        try:
            meta = json.loads(text)
            if meta["version"] != META_VERSION:
                raise IllegalStateError(
                    f"{path} has version {meta['version']}; only version {META_VERSION} is supported"
                )
            topics = [_topic_from_json(row) for row in meta["topics"]]
            self._starts = {str(name): _offset(at) for name, at in meta["log_start_offsets"].items()}
            self.cluster = StoredCluster(
                str(meta["cluster_id"]),
                _offset(meta["next_producer_id"]),
                {topic.name: topic for topic in topics},
                # A ``meta.json`` of an earlier release has neither SCRAM credentials nor ACLs.
                dict(credential_from_json(row) for row in meta.get("scram_credentials", ())),
                tuple(acl_from_json(row) for row in meta.get("acls", ())),
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise IllegalStateError(
                f"{path} is invalid ({error!r}): repair it, or start with an empty directory"
            ) from error


class ClusterDirectory:
    """The directory of a cluster: ``node-1``, ``node-2``, ... with the data of each broker. Raises IllegalStateError if
    it is in use or cannot be read, or if a partition has a replica on a broker with an id above ``nodes``.
    """

    def __init__(self, path: str | os.PathLike[str], nodes: int) -> None:
        self._stores: dict[int, NodeDirectory] = {}
        try:
            for node_id in range(1, nodes + 1):
                self._stores[node_id] = NodeDirectory(Path(path) / f"node-{node_id}")
            for topic in self.load().topics.values():
                most = max(replica for row in topic.partitions for replica in row.replicas)
                if most > nodes:
                    raise IllegalStateError(
                        f"{path} holds a cluster of {most} or more brokers, but only {nodes} are started"
                    )
        except BaseException:
            self.close()
            raise

    def load(self) -> StoredCluster:
        return self._stores[1].cluster

    def save(self, cluster: StoredCluster) -> None:
        """Save the metadata in every broker's directory, and delete the logs of partitions that no longer exist."""
        for store in self._stores.values():
            store.save(cluster)

    def log_store(self, node_id: int, tp: TopicPartition) -> PartitionFile:
        """Return the store of one replica's log; see :meth:`NodeDirectory.log_store`."""
        return self._stores[node_id].log_store(tp)

    def close(self) -> None:
        for store in self._stores.values():
            store.close()


class PartitionFile:
    """The file with the batches of one partition's log; an append extends the file, compaction replaces it."""

    def __init__(self, owner: NodeDirectory, folder: Path, name: str) -> None:
        self.path: Path = folder / LOG_NAME
        self._owner = owner
        self._name = name
        self._is_retired = False
        self._size = self.path.stat().st_size if self.path.exists() else 0

    def load(self) -> LoadedLog:
        """Return the valid batches; as in Kafka's log recovery, the first invalid batch and the rest are cut off."""
        if not self._size:
            return LoadedLog(self._owner.log_start(self._name))
        data = self.path.read_bytes()
        good, problem = valid_prefix(data)
        if problem:
            log.warning(
                "%s: %s after %d bytes; truncating the %d bytes from there on",
                self.path, problem, good, len(data) - good,
            )  # fmt: skip
            self.truncate(good)
            data = data[:good]
        return LoadedLog(self._owner.log_start(self._name), data)

    def append(self, data: bytes) -> None:
        """Append a batch. Raises: OSError; the file is then unchanged."""
        if self._is_retired:
            return  # The log's topic was deleted, or the directory is closed.
        view = memoryview(data)
        try:
            file = self._owner.open_file(self)
            while view:
                view = view[file.write(view) or 0 :]
        except OSError as error:
            if self.path.exists():
                # Part of the batch may be in the file. Recovery ends at the first incomplete batch, so it would drop
                # all batches appended later.
                os.truncate(self.path, self._size)
            self._owner.report_write_failure(self.path, error)
            raise
        self._size += len(data)
        self._owner.report_write_success()

    def truncate(self, size: int) -> None:
        if self._is_retired:
            return
        self._owner.close_file(self)
        if self._size:  # The file is created by the first append, so it may not exist while the log is empty.
            os.truncate(self.path, size)
        self._size = size

    def rewrite(self, batches: Iterable[bytes]) -> None:
        """Replace the file atomically. Raises: OSError; the file is then unchanged."""
        if self._is_retired:
            return
        self._owner.close_file(self)
        fresh = self.path.with_suffix(".tmp")
        try:
            self.path.parent.mkdir(exist_ok=True)
            with fresh.open("wb") as file:
                file.writelines(batches)
            size = fresh.stat().st_size
            os.replace(fresh, self.path)
        except OSError as error:
            self._owner.report_write_failure(fresh, error)
            with suppress(OSError):
                fresh.unlink()  # The disk may be full, and the incomplete copy would take up space on it.
            raise
        self._size = size

    def start_at(self, offset: int) -> None:
        if not self._is_retired:
            self._owner.set_log_start(self._name, offset)

    def retire(self) -> None:
        """Ignore all later writes of this log: its replica was removed, or the directory is closed."""
        self._is_retired = True
        self._owner.close_file(self)


def valid_prefix(data: bytes) -> tuple[int, str]:
    """Return the size in bytes of the valid batches at the beginning of ``data``, and the error after them, or ""."""
    view = memoryview(data)
    pos, next_offset = 0, 0
    while pos < len(view):
        if len(view) - pos < HEADER_SIZE:
            return pos, "an incomplete batch header"
        base, length, _, magic, crc, _, delta, *_ = HEADER.unpack_from(view, pos)
        stop = pos + LOG_OVERHEAD + length
        if magic != 2 or length < HEADER_SIZE - LOG_OVERHEAD:
            return pos, "an invalid batch header"
        if stop > len(view):
            return pos, "an incomplete batch"
        if _crc32c.crc32c(view[pos + CRC_COVERS_FROM : stop]) != crc:
            return pos, "a batch with a wrong checksum"
        if not next_offset <= base < OFFSET_MAX or delta < 0:
            return pos, f"a batch with base offset {base} and last offset delta {delta} after offset {next_offset - 1}"
        pos, next_offset = stop, base + delta + 1
    return pos, ""


def _partition_folder(tp: TopicPartition) -> Path:
    folder = Path(f"{tp.topic}-{tp.partition}")
    if not tp.topic or len(folder.parts) != 1 or "\0" in tp.topic or "\\" in tp.topic or ":" in tp.topic:
        raise IllegalArgumentError(f"the topic name {tp.topic!r} is not valid as a folder name")
    return folder


def _topic_to_json(topic: TopicImage) -> dict[str, Any]:
    stored: dict[str, Any] = {
        "name": topic.name,
        "topic_id": topic.topic_id.hex(),
        "internal": topic.internal,
        "configs": dict(topic.configs),
        "partitions": [
            {"leader": row.leader, "leader_epoch": row.leader_epoch, "replicas": row.replicas, "isr": row.isr}
            for row in topic.partitions
        ],
    }
    add_ordered_to_json(stored, topic)
    return stored


def _topic_from_json(row: Mapping[str, Any]) -> TopicImage:
    name, topic_id = str(row["name"]), bytes.fromhex(row["topic_id"])
    if len(topic_id) != 16:
        raise ValueError(f"the topic id of {name!r} has {len(topic_id)} bytes, not 16")
    partitions = [
        PartitionImage(
            name, topic_id, number, int(one["leader"]), int(one["leader_epoch"]),
            tuple(int(node) for node in one["replicas"]), tuple(int(node) for node in one["isr"]),
        )
        for number, one in enumerate(row["partitions"])
    ]  # fmt: skip
    for partition in partitions:
        _partition_folder(partition.tp)
    configs = {str(key): str(value) for key, value in row["configs"].items()}
    topic = TopicImage(name, topic_id, tuple(partitions), configs, bool(row["internal"]))
    return with_ordered_from_json(topic, row)


def _offset(value: Any) -> int:
    number = int(value)
    if not 0 <= number < OFFSET_MAX:
        raise ValueError(f"the offset {number} is not from 0 to {OFFSET_MAX - 1}")
    return number


def _lock(path: Path) -> FileIO:
    """Return the lock file, open and locked; closing it or the end of the process releases the lock."""
    file = FileIO(path, "a")
    try:
        try:
            import fcntl
        except ImportError:
            import msvcrt  # Windows

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise IllegalStateError(
            f"{path.parent} is used by another broker: stop that one first, or use another directory"
        ) from None
    return file
