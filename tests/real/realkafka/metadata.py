"""One broker's metadata of the cluster, requested with a Metadata request written by hand.

Owns one request, version 1, which every broker from 0.10 to 4.x answers. By hand, because clients ask whichever broker
they like, retry, cache, and are the thing under test; here one named broker says what it knows now.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

METADATA, VERSION, CORRELATION_ID = 3, 1, 7


@dataclass(frozen=True)
class Partition:
    """Leader, replicas and in-sync replicas of a partition; ``error`` is Kafka's code."""

    error: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class Picture:
    """Nodes that take part, with their addresses, and the partitions of each topic asked for that exists."""

    nodes: dict[int, tuple[str, int]]
    topics: dict[str, dict[int, Partition]] = field(default_factory=dict)


def ask(host: str, port: int, *topics: str, seconds: float = 5) -> Picture:
    """Return this broker's picture; raise ``OSError`` when it cannot be asked."""
    names = b"".join(_string(topic) for topic in topics)
    header = struct.pack(">hhi", METADATA, VERSION, CORRELATION_ID) + _string("tests")
    body = header + struct.pack(">i", len(topics)) + names
    with socket.create_connection((host, port), timeout=seconds) as sock:
        sock.sendall(struct.pack(">i", len(body)) + body)
        with sock.makefile("rb") as stream:
            (size,) = struct.unpack(">i", _exactly(stream, 4))
            reader = _Reader(_exactly(stream, size))
    if (found := reader.int32()) != CORRELATION_ID:
        raise ConnectionError(f"an answer to request {found}, which is not ours")
    nodes = {}
    for _ in range(reader.int32()):
        node, address, rack = reader.int32(), (reader.string() or "", reader.int32()), reader.string()
        nodes[node] = address
        del rack
    reader.int32()  # the controller: brokers of today name just any broker
    found_topics = dict(reader.topic() for _ in range(reader.int32()))
    return Picture(nodes, {name: partitions for name, partitions in found_topics.items() if partitions})


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _exactly(stream, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise ConnectionError(f"{len(data)} of {size} bytes, then the end")
    return data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _take(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def int32(self) -> int:
        return self._take(">i")

    def string(self) -> str | None:
        size = self._take(">h")
        if size < 0:
            return None
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def int32s(self) -> tuple[int, ...]:
        return tuple(self.int32() for _ in range(self.int32()))

    def topic(self) -> tuple[str, dict[int, Partition]]:
        self._take(">h")  # its error: without partitions it is not there
        name, _internal = self.string() or "", self._take(">b")
        partitions = {}
        for _ in range(self.int32()):
            error, index, leader = self._take(">h"), self.int32(), self.int32()
            partitions[index] = Partition(error, leader, self.int32s(), self.int32s())
        return name, partitions
