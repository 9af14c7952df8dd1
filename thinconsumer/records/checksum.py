"""The CRC-32C of record batches, computed by the package crc32c, which is imported when the first checksum is needed.

The package imports argparse, email and importlib.metadata, which would take a quarter of the client's start.
"""

from collections.abc import Callable

from ..imports import import_uninterrupted


def _import_and_compute(data: bytes | bytearray | memoryview) -> int:
    global crc32c
    crc32c = import_uninterrupted("crc32c").crc32c
    return crc32c(data)


#: Return the CRC-32C of ``data``. Call it as an attribute of this module: the first call replaces it with the package's
#: own function, so that later calls have no overhead.
crc32c: Callable[[bytes | bytearray | memoryview], int] = _import_and_compute


def describe() -> str:
    """Return the implementation in use, for ``Consumer.health()``."""
    import crc32c as package

    return f"native, in {'hardware' if package.hardware_based else 'software'} (crc32c {package.__version__})"
