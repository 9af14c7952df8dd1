"""What no reader in Python can beat: receive, check CRC32C, decompress, and decode nothing.

A plain socket and a Fetch request made by hand (version 4), with the next request sent before the last answer is worked
on, as a good client does. It also reads off the log how large batches are. It owns no client code on purpose: a mistake
in the library must not move the floor.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import crc32c
import lz4.frame
import zstandard

PARTITION_BYTES, TOTAL_BYTES = 1 << 20, 50 << 20
#: Larger than any batch of the benchmarks: the frames that producers write do not name their size.
ZSTD_BYTES_MAX = 4 << 20


def unpack_zstd(data: memoryview, decompressor: zstandard.ZstdDecompressor = zstandard.ZstdDecompressor()) -> bytes:  # noqa: B008
    """Decompress one frame."""
    return decompressor.decompress(data, max_output_size=min(ZSTD_BYTES_MAX, 16 * len(data) + 65536))


CODECS = {0: bytes, 3: lz4.frame.decompress, 4: unpack_zstd}
HEADER = 61


class Floor:
    """One connection to the only broker, reading some partitions of a topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        self.topic = topic.encode()
        self.offsets = dict.fromkeys(range(partitions), 0)
        self._sock = socket.create_connection((host, int(port)))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffers = [bytearray(1 << 20), bytearray(1 << 20)]

    def send(self) -> None:
        """Ask for what comes next in every partition."""
        partitions = b"".join(
            struct.pack(">iqi", partition, offset, PARTITION_BYTES) for partition, offset in self.offsets.items()
        )
        body = b"".join(
            (
                struct.pack(">hhih", 1, 4, 0, -1),
                struct.pack(">iiiib", -1, 500, 1, TOTAL_BYTES, 0),
                struct.pack(">ih", 1, len(self.topic)) + self.topic,
                struct.pack(">i", len(self.offsets)) + partitions,
            )
        )
        self._sock.sendall(struct.pack(">i", len(body)) + body)

    def receive(self) -> memoryview:
        """Return the answer; it is valid until the one after the next."""
        buffer = self._buffers.pop(0)
        size = struct.unpack(">i", self._exactly(memoryview(bytearray(4))))[0]
        if size > len(buffer):
            buffer = bytearray(size)
        self._buffers.append(buffer)
        return self._exactly(memoryview(buffer)[:size])

    def _exactly(self, view: memoryview) -> memoryview:
        filled = 0
        while filled < len(view):
            got = self._sock.recv_into(view[filled:])
            if not got:
                raise ConnectionError("the broker hung up")
            filled += got
        return view

    def batches(self, answer: memoryview) -> Iterator[memoryview]:
        """Yield every whole batch of an answer, and move the offsets past it."""
        at = 4 + 4 + 4  # correlation id, throttle time, one topic
        at += 2 + struct.unpack_from(">h", answer, at)[0]
        (count,) = struct.unpack_from(">i", answer, at)
        at += 4
        for _ in range(count):
            partition, error, _high, _stable, aborted = struct.unpack_from(">ihqqi", answer, at)
            at += 26 + 16 * max(aborted, 0)
            (size,) = struct.unpack_from(">i", answer, at)
            at += 4
            if error:
                raise RuntimeError(f"partition {partition}: error {error}")
            end = at + max(size, 0)
            while at + HEADER <= end:
                base, length = struct.unpack_from(">qi", answer, at)
                if at + 12 + length > end:
                    break
                batch = answer[at : at + 12 + length]
                self.offsets[partition] = base + struct.unpack_from(">i", batch, 23)[0] + 1
                yield batch
                at += 12 + length
            at = end

    def close(self) -> None:
        """Hang up."""
        self._sock.close()


def unpack(batch: memoryview) -> tuple[int, int]:
    """Check the batch and decompress it; return how many records and bytes are in it."""
    crc, attributes = struct.unpack_from(">Ih", batch, 17)
    if crc32c.crc32c(batch[21:]) != crc:
        raise RuntimeError("CRC")
    codec = attributes & 7
    size = len(CODECS[codec](batch[HEADER:])) if codec else len(batch) - HEADER
    return struct.unpack_from(">i", batch, 57)[0], size


def batch_sizes(bootstrap: str, topic: str, partitions: int, batches: int = 400) -> tuple[int, int]:
    """Return the median (records, bytes before compression) of the topic's first batches."""
    floor = Floor(bootstrap, topic, partitions)
    seen: list[tuple[int, int]] = []
    while len(seen) < batches:
        floor.send()
        found = [unpack(batch) for batch in floor.batches(floor.receive())]
        if not found:
            break
        seen += found
    floor.close()
    middle = len(seen) // 2
    return sorted(records for records, _ in seen)[middle], sorted(size for _, size in seen)[middle]
