"""The CRC-32C of record batches, by the C extension of the package crc32c, loaded when the first checksum is needed.

The package itself imports argparse, email and importlib.metadata to know its own version, which would take 25 ms, a
fifth of the time until the first record.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

from ..support.imports import import_uninterrupted

Crc32c = Callable[["bytes | bytearray | memoryview"], int]


def _load_and_compute(data: bytes | bytearray | memoryview) -> int:
    global crc32c
    if crc32c is _load_and_compute:  # not in a second call, by a caller that has kept a reference to this function
        module: Any = sys.modules.get("crc32c")
        if not hasattr(module, "crc32c"):  # not imported, or another thread is still importing it
            module = _extension() or import_uninterrupted("crc32c")
        crc32c = module.crc32c
    return crc32c(data)


def _extension() -> ModuleType | None:
    """Return the package's C extension; None if it is not where it is expected, as in another version."""
    package = PathFinder.find_spec("crc32c")
    if package is None or not package.submodule_search_locations:
        return None
    spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module if hasattr(module, "crc32c") else None


#: Return the CRC-32C of ``data``. Call it as an attribute of this module: the first call replaces it with the package's
#: own function, so that later calls have no overhead.
crc32c: Crc32c = _load_and_compute


def describe() -> str:
    """Return the implementation in use, for the log."""
    package = import_uninterrupted("crc32c")
    return f"native, in {'hardware' if package.hardware_based else 'software'} (crc32c {package.__version__})"
