"""A proxy before one broker: it changes responses, refuses requests, breaks connections, or falls silent.

A client reaches it at ``port``, or with :meth:`Proxy.resolve` as the option ``resolver``, also at the address that the
broker advertises, which must be a name then.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable

from thinconsumer.driver import Address

#: Called with API key, version, correlation id and frame of each response; returns the frame to pass on.
Edit = Callable[[int, int, int, bytes], bytes]
#: Called with the same of each request; returns None to forward it, the frame of a response in the broker's place, or
#: one of the words below.
Decide = Callable[[int, int, int, bytes], bytes | str | None]
#: The connection is reset at once, or when the response comes; from here on no byte of the connection is passed.
RESET, LOST, SILENCE = "reset", "answer lost", "silence"
FRAME_MAX = 2**26


class Proxy:
    """Forwards the frames of connections to the broker at ``target``, from entering the ``with`` block to its end."""

    def __init__(
        self,
        target: tuple[str, int],
        edit: Edit = lambda api, version, correlation_id, frame: frame,
        decide: Decide = lambda api, version, correlation_id, frame: None,
    ) -> None:
        self._target = target
        self.edit = edit
        self.decide = decide
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._links: list[_Link] = []
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def accepted(self) -> int:
        return len(self._links)

    def resolve(self, host: str, port: int) -> list[Address]:
        return [Address(int(socket.AF_INET), self._listener.getsockname())]

    def forget_all(self) -> None:
        """Pass no more bytes of the connections that exist now, and close none of them."""
        for link in self._links:
            link.is_forgotten = True

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        starting = asyncio.start_server(self._serve, sock=self._listener, limit=FRAME_MAX)
        server = self._loop.run_until_complete(starting)
        self._loop.run_forever()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))  # tasks and transports end
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, writer)
        self._links.append(link)
        from_broker, to_broker = await asyncio.open_connection(*self._target, limit=FRAME_MAX)
        self._writers += [writer, to_broker]
        await asyncio.gather(
            link.forward(reader, to_broker, link.request), link.forward(from_broker, writer, link.response)
        )


class _Link:
    """One connection, and its requests without a response yet, in order."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._pending: deque[tuple[int, int, int, bytes | str | None]] = deque()
        self.is_forgotten = False

    def request(self, frame: bytes) -> list[bytes]:
        """Return what goes to the broker."""
        about = struct.unpack_from(">hhi", frame)
        fate = self._proxy.decide(*about, frame)
        if fate == RESET:
            self._reset()
        self.is_forgotten = self.is_forgotten or fate == SILENCE
        self._pending.append((*about, fate))
        if not isinstance(fate, bytes):
            return [frame] if fate in (None, LOST) else []
        for own in self._own_responses():
            self._client.write(len(own).to_bytes(4, "big") + own)
        return []

    def response(self, frame: bytes) -> list[bytes]:
        """Return what goes to the client."""
        *about, fate = self._pending.popleft()
        if fate == LOST:
            self._reset()
            return []
        return [self._proxy.edit(*about, frame), *self._own_responses()]

    def _own_responses(self) -> list[bytes]:
        found = []
        while self._pending and isinstance(own := self._pending[0][3], bytes):
            found.append(own)
            self._pending.popleft()
        return found

    def _reset(self) -> None:
        # Without lingering a close is a reset.
        linger = struct.pack("ii", 1, 0)
        self._client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._client.transport.abort()

    async def forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], list[bytes]]
    ) -> None:
        """Pass frames on until one side has hung up."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                for changed in [] if self.is_forgotten else change(frame):
                    writer.write(len(changed).to_bytes(4, "big") + changed)
        if not self.is_forgotten:
            writer.close()
