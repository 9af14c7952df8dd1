"""Spare PySpark's worker processes what they would otherwise repeat for each task.

PySpark calls ``importlib.invalidate_caches()`` at the start of each task and of each planning step. Python then reads
the directory of an archive again for each folder in it that modules were imported from (3.10 and 3.11), or once for the
next import (3.12 and newer). With PySpark in ``pyspark.zip`` and a jar on the path, this takes 100 ms per task: more
than reading 50,000 records.

After each task and planning step, a worker process calls ``gc.collect()``. This collection visits the objects of all
modules that the process has imported (numpy, pandas, pyarrow, PySpark), which takes another 80 ms.

Connecting takes longer than a small task, so a process keeps its clients, too. A client serves one task at a time. It
is closed if its task fails. A forked process does not use its parent's clients.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Generic, TypeVar
from zipimport import zipimporter

#: The module that runs as the main one in processes which collect garbage after each task.
DAEMON = "pyspark.daemon"


def prepare() -> None:
    """Make the next ``importlib.invalidate_caches()`` and ``gc.collect()`` of this process cheap."""
    keep_directories()
    exempt_modules()


@cache  # asking ``gc.get_freeze_count()`` instead would visit all exempt objects in each task
def exempt_modules() -> None:
    """Exempt the objects that exist now from garbage collection; once per process, and only in PySpark's workers."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name == DAEMON:
        gc.freeze()


def keep_directories() -> None:
    """Hide the importers of PySpark's archives and of jars from the next ``importlib.invalidate_caches()``.

    The next import creates the importers again, with the directory that Python has in memory. These archives do not
    change while a process runs. Other archives keep their importers, since users may replace them between tasks.
    """
    loaders = (getattr(sys.modules.get(name), "__loader__", None) for name in ("pyspark", "py4j"))
    archives = {loader.archive for loader in loaders if isinstance(loader, zipimporter)}
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and (importer.archive in archives or importer.archive.endswith(".jar")):
            sys.path_importer_cache.pop(path, None)


T = TypeVar("T")

#: Maximum number of free clients in a :class:`ClientCache`. Beyond it, the client that was free for longest is closed.
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
            # The free clients were made before a fork: they share the parent's sockets, so they cannot be used here.
            self._pid, self._free = os.getpid(), []
        for index, (options, client) in enumerate(self._free):
            if options == config:
                del self._free[index]
                if not fresh:
                    return client
                self._close_client(client)
                break
        return connect()
