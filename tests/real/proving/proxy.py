"""A proxy before one broker that can change responses, and fall silent like a load balancer that forgets connections.

A client reaches it with :meth:`Proxy.resolve` as the option ``resolver``, also at the address that the broker
advertises, which must be a name.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from thinconsumer.driver import Address

#: Called with API key, version, correlation id and frame of each response; returns the frame to pass on.
Edit = Callable[[int, int, int, bytes], bytes]


class Proxy:
    """Forwards the frames of connections to the broker at ``target``, from entering the ``with`` block to its end."""

    def __init__(self, target: tuple[str, int], edit: Edit = lambda api, version, correlation_id, frame: frame) -> None:
        self._target = target
        self._edit = edit
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._links: list[dict[str, bool]] = []
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def accepted(self) -> int:
        return len(self._links)

    def resolve(self, host: str, port: int) -> list[Address]:
        return [Address(int(socket.AF_INET), self._listener.getsockname())]

    def forget_all(self) -> None:
        """Pass no more bytes of the connections that exist now, and close none of them."""
        for link in self._links:
            link["forgotten"] = True

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._listener))
        self._loop.run_forever()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))  # tasks and transports end
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = {"forgotten": False}
        self._links.append(link)
        apis: dict[int, tuple[int, int]] = {}
        from_broker, to_broker = await asyncio.open_connection(*self._target)
        self._writers += [writer, to_broker]

        def request(frame: bytes) -> bytes:
            api, version, correlation_id = struct.unpack_from(">hhi", frame)
            apis[correlation_id] = api, version
            return frame

        def response(frame: bytes) -> bytes:
            (correlation_id,) = struct.unpack_from(">i", frame)
            return self._edit(*apis.pop(correlation_id), correlation_id, frame)

        await asyncio.gather(
            self._forward(link, reader, to_broker, request), self._forward(link, from_broker, writer, response)
        )

    async def _forward(
        self,
        link: dict[str, bool],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        change: Callable[[bytes], bytes],
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                if not link["forgotten"]:
                    changed = change(frame)
                    writer.write(len(changed).to_bytes(4, "big") + changed)
        if not link["forgotten"]:
            writer.close()
