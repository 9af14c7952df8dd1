"""Cuts a connection's bytes into frames: four bytes of size, then that many bytes.

Small frames are received together into one shared buffer and copied out of it; a large one gets a buffer of its own,
which the driver receives into, so that its body is copied once, from the kernel. Either way a frame handed out is
not written to again for as long as anybody holds a slice of it: records may. When nobody does any more, the next large
frame goes there, since fresh memory costs as much as receiving does: the system clears its pages, and Python does, too.

Sizes are the peer's claims. One over the limit ends the connection, and one within it is believed only as far as bytes
have come: the buffer of a large frame starts small and grows by doubling, unless this connection has sent as much
before. Knows nothing of messages, but recognises what servers that do not speak Kafka say first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ..errors import KafkaProtocolError

#: The shared buffer; frames that fit into it are small.
SHARED_BYTES = 64 * 1024
#: First allocation for a large frame. Its pages are written to (zeroed) at once, whatever comes of the frame. What
#: max_partition_fetch_bytes lets a broker send by default, and room for what is around it: were it a little too small,
#: nearly every answer would be moved into a buffer of twice its size in the end.
FIRST_BYTES = 1024 * 1024 + 64 * 1024
#: Bodies of large frames that are used again: one is being read while the next one is received. Larger ones are not
#: kept, as a connection that has nothing to do any more keeps these.
KEPT_BODIES, KEPT_BYTES = 2, 4 * 1024 * 1024 + 64 * 1024
SIZE_BYTES = 4
#: A response has at least a correlation id.
LEAST_FRAME = 4

Frame = bytes | memoryview

_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16
#: First four bytes of some other protocols. As sizes they are all over half a gigabyte.
_FOREIGN = {
    b"HTTP": "an HTTP server",
    b"<htm": "an HTTP server",
    b"<!DO": "an HTTP server",
    b"SSH-": "an SSH server",
    b"220 ": "a mail or FTP server",
    b"-ERR": "a Redis or POP3 server",
}


class Frames:
    """The receiving half of one connection. ``buffer`` is for the driver; :meth:`received` yields finished frames."""

    __slots__ = ("_believed", "_bodies", "_body", "_filled", "_first", "_limit", "_shared", "_size", "_view")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shared = bytearray()  #: Allocated when the first bytes are expected.
        self._filled = 0  #: Bytes in the shared buffer, or in the large frame's body while there is one.
        self._size = 0  #: Of the large frame.
        self._believed = FIRST_BYTES  #: What is allocated for a claim; as large as the largest that came true.
        self._body: bytearray | None = None
        self._bodies: list[bytearray] = []  #: Of frames that were handed out last; some may be free again.
        self._view: memoryview | None = None
        self._first = True

    @property
    def partial(self) -> bool:
        """Whether a frame has begun to arrive and is not complete."""
        return self._body is not None or self._filled > 0

    def buffer(self) -> memoryview:
        """Return where the next bytes go; never empty."""
        if self._view is None:
            if not self._shared:
                self._shared = bytearray(SHARED_BYTES)
            if self._body is None:
                self._view = memoryview(self._shared)[self._filled :]
            else:
                self._view = memoryview(self._body)[self._filled : self._size]
        return self._view

    def received(self, size: int) -> Iterator[Frame]:
        """Take ``size`` bytes received into the front of :meth:`buffer`; yield the frames that are complete now.

        To be exhausted, or the connection given up: what follows a frame is looked at after it was taken.

        Raises:
            KafkaProtocolError: a size is impossible, or over the limit, or this is not Kafka at all.
        """
        self._view = None
        self._filled += size
        if self._body is None:
            yield from self._cut_shared()
        elif self._filled == self._size:
            # Records are slices of this: read-only, so that nobody changes under one reader what another one sees.
            body, self._body = self._body, None
            frame = memoryview(body)[: self._size].toreadonly()
            if len(body) <= KEPT_BYTES:
                self._bodies = [*self._bodies[1 - KEPT_BODIES :], body]
            self._filled = 0
            self._believed = max(self._believed, self._size)
            yield frame
        elif self._filled == len(self._body):
            self._body = _doubled(self._body, min(self._size, 2 * len(self._body)))

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
            # In place: a slice of a bytearray assigned to another of its length moves bytes and nothing else.
            shared[: end - start] = shared[start:end]
            self._filled = end - start

    def _begin_body(self, size: int, start: int, end: int) -> None:
        body = self._free_body(size)
        if body is None:
            _have_memory_kept()
            body = bytearray(min(size, self._believed))
        body[: end - start] = memoryview(self._shared)[start:end]
        self._body = body
        self._size = size
        self._filled = end - start

    def _free_body(self, size: int) -> bytearray | None:
        """Return a body that nobody holds any more, with room for so much, and little more: it counts as so much."""
        for index, body in enumerate(self._bodies):
            if 3 * len(body) // 4 <= size <= len(body) and _is_free(body):
                del self._bodies[index]
                return body
        return None

    def _checked(self, prefix: bytes | bytearray) -> int:
        size = int.from_bytes(prefix, "big", signed=True)
        if self._first:
            self._first = False
            _refuse_foreigners(bytes(prefix))
        if not LEAST_FRAME <= size <= self._limit:
            _refuse_foreigners(bytes(prefix))
            raise KafkaProtocolError(
                f"a response claims {size} bytes, but receive_message_max_bytes={self._limit}: "
                "broken, not Kafka, or the limit is too low"
            )
        return size


@cache
def _have_memory_kept() -> None:
    """Have a block of memory be allocated and freed, once.

    glibc gives what is freed back to the system at once until something large was: not so from then on. Bodies are not
    freed, and what is copied out of them comes in pieces: without this, every value of some kilobytes would be copied
    into fresh pages, at half the speed.
    """
    bytes(KEPT_BYTES)


def _is_free(body: bytearray) -> bool:
    """Whether there is no slice of it left, nor an array over one: only then does Python let its size be changed."""
    try:
        body.append(body.pop())
    except BufferError:
        return False
    return True


def _doubled(body: bytearray, size: int) -> bytearray:
    """Return the body with twice its room, or ``size`` if that is less."""
    try:
        # In place, and without a second buffer of zeros beside it; what it is filled with is overwritten.
        body *= 2
        del body[size:]
    except BufferError:
        # The driver still holds a slice of it; moving house costs a copy, failing would cost the connection.
        body = body + bytes(size - len(body))
    return body


def _refuse_foreigners(prefix: bytes) -> None:
    """Raise when a connection's first bytes are those of another protocol.

    As a size of a first response they would be absurd: it answers ApiVersions, and these are 350 MB at least.
    """
    if prefix[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and prefix[1] == 3:
        raise KafkaProtocolError("the peer answers in TLS: the port expects TLS (set security_protocol='SSL')")
    for signature, server in _FOREIGN.items():
        if prefix == signature:
            raise KafkaProtocolError(f"not Kafka: {server} answers at this port (check host and port)")
