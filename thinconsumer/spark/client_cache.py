"""Clients that a worker process keeps between tasks, since connecting takes longer than a small task.

A client serves one task at a time. It is closed instead of kept when its task fails, and left alone after a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")

#: Free clients that one process keeps; a job that reads from more clusters than that reconnects now and then.
CACHED_MAX = 4


class ClientCache(Generic[T]):
    """The free clients of this process, by their options."""

    def __init__(self, close_client: Callable[[T], object]) -> None:
        self._close_client = close_client
        self._pid = os.getpid()
        self._free: list[tuple[dict[str, str], T]] = []

    @contextmanager
    def borrow(self, config: Mapping[str, str], connect: Callable[[], T], *, fresh: bool = False) -> Iterator[T]:
        """Lend a client with these options to one task; ``connect`` makes one if none is free.

        ``fresh`` closes a free client and connects anew: a repeated task may have failed because of the cached one.
        """
        client = self._take(dict(config), connect, fresh=fresh)
        try:
            yield client
        except BaseException:
            # GeneratorExit of a cancelled task, too: responses to its requests may still be under way.
            self._close_client(client)
            raise
        self._free.append((dict(config), client))
        if len(self._free) > CACHED_MAX:
            self._close_client(self._free.pop(0)[1])

    def _take(self, config: dict[str, str], connect: Callable[[], T], *, fresh: bool) -> T:
        if self._pid != os.getpid():
            # The sockets are the parent's: closing a client here would end the parent's connections.
            self._pid, self._free = os.getpid(), []
        for index, (options, client) in enumerate(self._free):
            if options == config:
                del self._free[index]
                if not fresh:
                    return client
                self._close_client(client)
                break
        return connect()
