"""Clients that a worker process keeps between two tasks: Spark uses a worker for many, and a connection costs time.

Owns which of them are free, and that none of them is one of a parent process. A client is for one task at a time, and
may be lost at any moment, with its process. What has failed is not given back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")

#: How many one worker keeps; a job with more clusters than that connects anew now and then.
KEPT_MAX = 4


class Kept(Generic[T]):
    """Clients of this process that no task uses at the moment, by their options."""

    def __init__(self, hang_up: Callable[[T], object]) -> None:
        self._hang_up = hang_up
        self._pid = os.getpid()
        self._free: list[tuple[tuple[tuple[str, str], ...], T]] = []

    @contextmanager
    def lent(self, config: Mapping[str, str], connect: Callable[[], T], *, fresh: bool = False) -> Iterator[T]:
        """Lend a client to a task, see :meth:`take`; keep it if the task comes to its end, else hang up."""
        client = self.take(config, connect, fresh=fresh)
        try:
            yield client
        except BaseException:
            # Whatever ends a task early, its being killed included, leaves a client behind that nobody should trust.
            self._hang_up(client)
            raise
        self.give_back(config, client)

    def take(self, config: Mapping[str, str], connect: Callable[[], T], *, fresh: bool = False) -> T:
        """Return a client with these options, a new one if need be; ``fresh``: since a kept one may be what failed."""
        if self._pid != os.getpid():
            # Sockets of a parent process: to say goodbye on them would be to end its connections, too.
            self._pid, self._free = os.getpid(), []
        key = _key(config)
        for index, (found, client) in enumerate(self._free):
            if found == key:
                del self._free[index]
                if not fresh:
                    return client
                self._hang_up(client)
                break
        return connect()

    def give_back(self, config: Mapping[str, str], client: T) -> None:
        """Keep a client for the next task. It has nothing to do any more."""
        self._free.append((_key(config), client))
        if len(self._free) > KEPT_MAX:
            self._hang_up(self._free.pop(0)[1])

    def close(self) -> None:
        """Hang up everywhere."""
        while self._free:
            self._hang_up(self._free.pop()[1])


def _key(config: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(config.items()))
