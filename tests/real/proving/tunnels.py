"""A SOCKS5 and HTTP CONNECT proxy for tests, which connects to addresses on this machine only."""

import asyncio
import base64
import contextlib
import socket
import threading


class ProxyServer:
    """A SOCKS5 and HTTP CONNECT proxy on a thread of its own. It resolves ``kafka.internal`` only."""

    def __init__(self, port=0, login=None, mute=False):
        self.asked = []  #: (host as it was asked for, port)
        self.answer = None  #: The bytes to send instead of connecting.
        self._login = login
        self._mute = mute
        self._writers = set()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._listener))
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self):
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self):
        self._server.close()
        await self._settle()  # accepted connections reach ``_serve``
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await self._settle()
        for writer in self._writers:
            writer.transport.abort()
        await self._settle()

    async def _settle(self):
        for _ in range(20):
            await asyncio.sleep(0)

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            first = await reader.readexactly(1)
            if self._mute:
                await asyncio.sleep(600)
            host, port, yes = await (self._socks if first == b"\x05" else self._connect)(reader, writer)
            self.asked.append((host, port))
            if self.answer is not None:
                writer.write(self.answer)
                raise PermissionError
            name = {"kafka.internal": "127.0.0.1", "localhost": "127.0.0.1"}.get(host, host)
            from_broker, to_broker = await asyncio.open_connection(name, port)
            self._writers.add(to_broker)
            writer.write(yes)
            await asyncio.gather(self._pump(reader, to_broker), self._pump(from_broker, writer))
        writer.transport.close()

    async def _socks(self, reader, writer):
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        method = 0 if self._login is None else 2
        if method not in methods:
            writer.write(b"\x05\xff")
            raise PermissionError
        writer.write(bytes((5, method)))
        if method:
            _, length = await reader.readexactly(2)
            user = await reader.readexactly(length)
            password = await reader.readexactly((await reader.readexactly(1))[0])
            writer.write(b"\x01" + bytes([(user, password) != self._login]))
            if (user, password) != self._login:
                raise PermissionError
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            host = socket.inet_ntoa(await reader.readexactly(4))
        return host, int.from_bytes(await reader.readexactly(2), "big"), b"\x05\x00\x00\x01" + bytes(6)

    async def _connect(self, reader, writer):
        request = await reader.readuntil(b"\r\n\r\n")
        basic = None if self._login is None else base64.b64encode(b":".join(self._login))
        if basic is not None and b"\r\nProxy-Authorization: Basic " + basic + b"\r\n" not in request:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x\r\n\r\n")
            raise PermissionError
        host, _, port = request.split()[1].decode().rpartition(":")
        return host, int(port), b"HTTP/1.1 200 Connection established\r\n\r\n"

    async def _pump(self, reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.transport.close()
