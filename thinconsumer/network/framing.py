"""Cut the bytes of a connection into frames: four bytes of size, then that many bytes.

Small frames are received together into one shared buffer and copied out of it. A large frame gets a buffer of its own,
into which the driver receives all but its beginning: those bytes are copied only once, from the kernel. Once no slice
of the frame (such as a record) exists any more, another frame can use its buffer: allocating a new buffer takes as long
as receiving, since both the system and Python fill it with zeros.

A size comes from the peer and is not trusted: the buffer starts with at most :data:`FIRST_BYTES`, or the size of the
largest frame that this connection has received, and doubles as bytes arrive.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import cache

from ..errors import KafkaProtocolError

#: Size of the shared buffer. A frame is small if it fits into this buffer, otherwise large.
SHARED_BYTES = 64 * 1024
#: First allocation for a large frame: the default of max_partition_fetch_bytes, and some room for the rest of the
#: response. A slightly smaller buffer would have to be enlarged for many Fetch responses.
FIRST_BYTES = 1024 * 1024 + 64 * 1024
#: Up to this many buffers, each up to this size, are kept for later large frames: one holds the frame being decoded
#: while another is filled. Larger buffers are freed, since an idle connection would keep its buffers.
KEPT_BODIES, KEPT_BYTES = 2, 4 * 1024 * 1024 + 64 * 1024
SIZE_BYTES = 4
_SIZE = struct.Struct(">i")
#: Minimum size of a frame: the correlation id, without anything after it.
LEAST_FRAME = 4

Frame = bytes | memoryview

_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16
#: By the first four bytes that a server of another protocol sends: the name of such a server.
_OTHER_PROTOCOLS = {
    b"HTTP": "an HTTP server",
    b"<htm": "an HTTP server",
    b"<!DO": "an HTTP server",
    b"SSH-": "an SSH server",
    b"220 ": "a mail or FTP server",
    b"-ERR": "a Redis or POP3 server",
}


class TlsAnswerError(KafkaProtocolError):
    """The peer has answered in TLS, so its port expects TLS. Connections report it as SslAuthenticationFailedError."""


class Frames:
    """The frames that one connection receives: the driver fills :meth:`buffer`, :meth:`received` returns the frames."""

    __slots__ = (
        "_bodies", "_body", "_filled", "_first", "_limit", "_shared", "_shared_view", "_size", "_trusted_bytes",
        "_view",
    )  # fmt: skip

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shared = bytearray()  #: The buffer for small frames; empty until the first bytes are expected.
        self._shared_view = memoryview(self._shared)
        #: Number of bytes received into the shared buffer; while a large frame arrives, into ``_body``.
        self._filled = 0
        self._size = 0  #: Size of the large frame that arrives, without the four bytes that hold the size.
        #: Maximum bytes to allocate at once for a large frame: the size of the largest frame received so far, at least
        #: :data:`FIRST_BYTES`.
        self._trusted_bytes = FIRST_BYTES
        self._body: bytearray | None = None
        #: Buffers of the last large frames; each can be used again once no slice of it exists.
        self._bodies: list[bytearray] = []
        self._view: memoryview | None = None
        self._first = True

    @property
    def partial(self) -> bool:
        """Whether a part of a frame has arrived."""
        return self._body is not None or self._filled > 0

    @property
    def beginning(self) -> bytes:
        """The size and the correlation id of the frame of which a part has arrived, as far as they have."""
        if self._body is None:
            return bytes(self._shared[: min(self._filled, SIZE_BYTES + LEAST_FRAME)])
        return self._size.to_bytes(SIZE_BYTES, "big") + self._body[:LEAST_FRAME]

    def buffer(self) -> memoryview:
        """Return the buffer into which the driver must receive the next bytes; never empty."""
        if self._view is None:
            if not self._shared:
                self._shared = bytearray(SHARED_BYTES)
                self._shared_view = memoryview(self._shared)
            if self._body is None:
                self._view = self._shared_view[self._filled :] if self._filled else self._shared_view
            else:
                self._view = memoryview(self._body)[self._filled : self._size]
        return self._view

    def received(self, size: int) -> Iterable[Frame]:
        """Take note of ``size`` bytes received into :meth:`buffer`; return an iterable of the frames now complete.

        The caller must iterate to the end, or close the connection.

        Raises:
            KafkaProtocolError: a size is negative, too small or over the limit, or the bytes are of another protocol.
        """
        self._view = None
        self._filled += size
        if self._body is None:
            end = self._filled
            if end >= SIZE_BYTES + LEAST_FRAME and not self._first:
                (frame_size,) = _SIZE.unpack_from(self._shared)
                if frame_size == end - SIZE_BYTES <= self._limit:
                    # Nearly always, one small frame has arrived, all of it and nothing else.
                    self._filled = 0
                    return (bytes(self._shared_view[SIZE_BYTES:end]),)
                if end - SIZE_BYTES < frame_size <= min(self._limit, SHARED_BYTES - SIZE_BYTES):
                    return ()  # a broker writes a response in parts: the front of it, its records, and the rest
            return self._cut_shared()
        if self._filled == self._size:
            # The frame is read-only: otherwise a deserializer, which gets a slice of it, could change other records.
            body, self._body = self._body, None
            frame = memoryview(body)[: self._size].toreadonly()
            if len(body) <= KEPT_BYTES:
                self._bodies = [*self._bodies[1 - KEPT_BODIES :], body]
            self._filled = 0
            self._trusted_bytes = max(self._trusted_bytes, self._size)
            return (frame,)
        if self._filled == len(self._body):
            self._body = _doubled(self._body, min(self._size, 2 * len(self._body)))
        return ()

    def _cut_shared(self) -> Iterator[Frame]:
        shared = self._shared
        start, end = 0, self._filled
        while end - start >= SIZE_BYTES:
            size = self._checked(shared[start : start + SIZE_BYTES])
            if SIZE_BYTES + size > SHARED_BYTES:
                self._begin_body(size, start + SIZE_BYTES, end)
                return
            stop = start + SIZE_BYTES + size
            if stop > end:
                break
            yield bytes(memoryview(shared)[start + SIZE_BYTES : stop])
            start = stop
        if start:
            # Move the incomplete frame to the front. A slice of the same length does not resize the bytearray.
            shared[: end - start] = shared[start:end]
            self._filled = end - start

    def _begin_body(self, size: int, start: int, end: int) -> None:
        body = self._free_body(size)
        if body is None:
            _make_glibc_keep_memory()
            body = bytearray(min(size, self._trusted_bytes))
        body[: end - start] = memoryview(self._shared)[start:end]
        self._body = body
        self._size = size
        self._filled = end - start

    def _free_body(self, size: int) -> bytearray | None:
        """Return a kept buffer without slices for ``size`` bytes, at most a third larger than that, or None."""
        for index, body in enumerate(self._bodies):
            if 3 * len(body) // 4 <= size <= len(body) and _is_free(body):
                del self._bodies[index]
                return body
        return None

    def _checked(self, prefix: bytes | bytearray) -> int:
        size = int.from_bytes(prefix, "big", signed=True)
        if self._first:
            self._first = False
            _reject_other_protocols(bytes(prefix))
        if not LEAST_FRAME <= size <= self._limit:
            _reject_other_protocols(bytes(prefix))
            raise KafkaProtocolError(
                f"a response claims {size} bytes, but receive_message_max_bytes={self._limit}: "
                "the response is malformed, the peer is not Kafka, or the limit is too low"
            )
        return size


@cache
def _make_glibc_keep_memory() -> None:
    """Allocate and free a large block once: until then, glibc returns freed memory to the system at once.

    Otherwise each copy of a few kilobytes out of a frame would need new pages from the system, which halves the speed.
    """
    bytes(KEPT_BYTES)


def _is_free(body: bytearray) -> bool:
    """Return whether no slice or array refers to the body: while one does, Python refuses to resize it."""
    try:
        body.append(body.pop())
    except BufferError:
        return False
    return True


def _doubled(body: bytearray, size: int) -> bytearray:
    """Return the body, enlarged to ``size`` bytes, at most twice its size; a copy if it cannot be resized."""
    try:
        body *= 2  # resizes in place, without filling the new half with zeros first
        del body[size:]
    except BufferError:
        # The driver still has the slice from ``buffer()``.
        body = body + bytes(size - len(body))
    return body


def _reject_other_protocols(prefix: bytes) -> None:
    """Raise if a frame begins with four bytes of another protocol; as a size, they would be 350 MB or more."""
    if prefix[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and prefix[1] == 3:
        raise TlsAnswerError("the peer answers in TLS")
    for signature, server in _OTHER_PROTOCOLS.items():
        if prefix == signature:
            raise KafkaProtocolError(f"not Kafka: {server} answers at this port (check host and port)")
