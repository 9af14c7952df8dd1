"""Clients that a worker process keeps between tasks, since connecting takes longer than a small task.

A client serves one task at a time. It is closed if its task fails. A forked process does not use its parent's clients.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")

#: Maximum of free clients that one process keeps. Beyond it, the client that was free for longest is closed, and the
#: next task with the options of that client connects anew.
CACHED_MAX = 4


class ClientCache(Generic[T]):
    """The clients of this process that no task is using, each with the options it was created with."""

    def __init__(self, close_client: Callable[[T], object]) -> None:
        self._close_client = close_client
        self._pid = os.getpid()
        self._free: list[tuple[dict[str, str], T]] = []

    @contextmanager
    def borrow(self, config: Mapping[str, str], connect: Callable[[], T], *, fresh: bool = False) -> Iterator[T]:
        """Lend a client with these options to one task: a free one, else a new one from ``connect``.

        ``fresh`` replaces a free client by a new one: a repeated task may have failed because of the old one.
        """
        client = self._take(dict(config), connect, fresh=fresh)
        try:
            yield client
        except BaseException:
            # A cancelled task raises GeneratorExit: if its client were kept, the next task could get its responses.
            self._close_client(client)
            raise
        self._free.append((dict(config), client))
        if len(self._free) > CACHED_MAX:
            self._close_client(self._free.pop(0)[1])

    def _take(self, config: dict[str, str], connect: Callable[[], T], *, fresh: bool) -> T:
        if self._pid != os.getpid():
            # After a fork, the parent still uses the sockets: closing a client would end the parent's connections.
            self._pid, self._free = os.getpid(), []
        for index, (options, client) in enumerate(self._free):
            if options == config:
                del self._free[index]
                if not fresh:
                    return client
                self._close_client(client)
                break
        return connect()
