"""Spare PySpark's worker processes what they would otherwise repeat for each task.

PySpark calls ``importlib.invalidate_caches()`` at the start of each task and of each planning step. Python then reads
the directory of an archive again for each folder in it that modules were imported from (3.10 and 3.11), or once for the
next import (3.12 and newer). PySpark is imported from ``pyspark.zip`` and searched for in a jar, so that this takes
100 ms per task: more than reading 50,000 records.

After each task and planning step, a worker process calls ``gc.collect()``. This collection visits the objects of all
modules that the process has imported (numpy, pandas, pyarrow, PySpark), which takes another 80 ms.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from zipimport import zipimporter

__all__ = ["prepare"]

#: The module that runs as the main one in processes which collect garbage after each task.
DAEMON = "pyspark.daemon"


def prepare() -> None:
    """Prepare the process for the next ``importlib.invalidate_caches()`` and ``gc.collect()``.

    Without effect outside of PySpark's workers.
    """
    keep_directories()
    exempt_modules()


def exempt_modules() -> None:
    """Exempt the objects that exist now from garbage collection; once per process, and only in PySpark's workers."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name == DAEMON:
        _freeze_once()


@cache
def _freeze_once() -> None:
    # Not ``if not gc.get_freeze_count()``, which would visit all of these objects in each task to count them.
    gc.freeze()


def keep_directories() -> None:
    """Hide the importers of PySpark's archives from the next ``importlib.invalidate_caches()`` of this process.

    The next import creates them again, with the directory that Python has in memory. These archives do not change
    while a process runs. Archives of the user keep their importers, since those may be replaced between tasks.
    """
    loaders = (getattr(sys.modules.get(name), "__loader__", None) for name in ("pyspark", "py4j"))
    archives = {loader.archive for loader in loaders if isinstance(loader, zipimporter)}
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and (importer.archive in archives or importer.archive.endswith(".jar")):
            sys.path_importer_cache.pop(path, None)
