"""Worlds whose consumers are an ``AsyncConsumer``, wrapped in an object with the plain calls of ``Consumer``.

The wrapper runs each call in an event loop, until the call is over. A listener of a test is plain code, too, and calls
the wrapper: it runs in a greenlet, which hands the coroutine of such a call to the listener's own coroutine.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import greenlet

from thinconsumer.aio import AsyncConsumer
from thinconsumer.consumer.group_calls import LISTENER_METHODS

from .base import SocketWorld
from .embedded import EmbeddedWorld
from .real import RealWorld


class AsyncioRunner:
    """Runs coroutines in an asyncio loop, which stands still between two calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def run(self, call: Callable[[], Any]) -> Any:
        """Return the result of a function, awaited if it is a coroutine, in the loop."""
        return self._loop.run_until_complete(_result(call))

    def close(self) -> None:
        """Close the loop, in which no task may be left."""
        self.run(partial(asyncio.sleep, 0))
        left = asyncio.all_tasks(self._loop)
        self._loop.close()
        assert not left


class TrioRunner:
    """Runs coroutines in a loop of trio, by anyio, in a thread of its own."""

    def __init__(self) -> None:
        from anyio.from_thread import start_blocking_portal

        self._context = start_blocking_portal("trio")
        self._portal = self._context.__enter__()

    def run(self, call: Callable[[], Any]) -> Any:
        return self._portal.call(_result, call)

    def close(self) -> None:
        self._context.__exit__(None, None, None)


async def _result(call: Callable[[], Any]) -> Any:
    found = call()
    return await found if inspect.isawaitable(found) else found


def new_runner(loop: str) -> Any:
    """Return a runner for ``"asyncio"``, ``"uvloop"`` or ``"trio"``."""
    if loop == "trio":
        return TrioRunner()
    if loop == "uvloop":
        import uvloop

        return AsyncioRunner(uvloop.new_event_loop())
    return AsyncioRunner(asyncio.new_event_loop())


class PlainListener:
    """A listener with coroutines, which run the methods of a plain one that may call a :class:`Face`."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._listener, name)
        return partial(self._run, method) if name in LISTENER_METHODS else method

    async def _run(self, method: Any, *args: Any) -> Any:
        running = greenlet.greenlet(method)
        found = running.switch(*args)
        while not running.dead:
            try:
                result = await found
            except Exception as error:  # noqa: BLE001 - the listener's to handle
                found = running.throw(error)
            else:
                found = running.switch(result)
        return found


class Face:
    """An :class:`AsyncConsumer` with plain calls."""

    def __init__(self, runner: Any, consumer: AsyncConsumer[Any, Any]) -> None:
        self._runner = runner
        self._consumer = consumer

    def _run(self, call: Callable[[], Any]) -> Any:
        listener = greenlet.getcurrent().parent
        if listener is None:
            return self._runner.run(call)
        return listener.switch(_result(call))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._consumer, name)
        return (lambda *args, **kwargs: self._run(partial(found, *args, **kwargs))) if callable(found) else found

    def __repr__(self) -> str:
        return repr(self._consumer)

    def subscribe(self, *args: Any, listener: Any = None, **kwargs: Any) -> None:
        kwargs["listener"] = None if listener is None else PlainListener(listener)
        self._run(partial(self._consumer.subscribe, *args, **kwargs))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._run(self._consumer.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def read_to_end(self, timeout_ms: float | None = None) -> Iterator[Any]:
        found = self._consumer.read_to_end(timeout_ms)
        while True:
            try:
                record = self._run(found.__anext__)
            except StopAsyncIteration:
                return
            yield record

    def __enter__(self) -> Face:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._run(partial(self._consumer.__aexit__, *raised))


class LoopWorld(SocketWorld):
    """The part of a world that makes consumers in an event loop."""

    def __init__(self, cluster: Any, loop: str) -> None:
        self._runner = new_runner(loop)
        super().__init__(cluster)  # type: ignore[call-arg]

    def consumer(self, **options: Any) -> Any:
        return Face(self._runner, AsyncConsumer(bootstrap_servers=self.bootstrap_servers, **options))

    def close(self) -> None:
        super().close()
        self._runner.close()


class EmbeddedLoopWorld(LoopWorld, EmbeddedWorld):
    """The embedded broker, and consumers in an event loop."""


class RealLoopWorld(LoopWorld, RealWorld):
    """A real cluster, and consumers in an event loop."""
