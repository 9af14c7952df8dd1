"""The first checksum loads the C extension of the package crc32c; later ones call the extension directly."""

import subprocess
import sys
from importlib.machinery import PathFinder
from types import ModuleType

import crc32c
import pytest

from thinconsumer.records import checksum

CHECK_VALUE = 0xE3069283  # of CRC-32C, for b"123456789"
FIRST = """
import sys
from thinconsumer.records import checksum
print(checksum.crc32c(b"123456789"), "crc32c" in sys.modules, "importlib.metadata" in sys.modules)
import crc32c
print(checksum.crc32c(memoryview(b"123456789")), crc32c.crc32c(b"123456789"), len(crc32c.__version__) > 0)
"""


def test_the_first_checksum_installs_the_native_function(monkeypatch):
    monkeypatch.setattr(checksum, "crc32c", checksum._load_and_compute)
    assert checksum.crc32c(b"123456789") == CHECK_VALUE
    assert checksum.crc32c is crc32c.crc32c
    assert checksum.crc32c(memoryview(b"123456789")) == CHECK_VALUE


def test_a_caller_that_has_kept_the_first_function_loads_nothing_again(monkeypatch):
    loaded = []
    monkeypatch.setattr(checksum, "crc32c", checksum._load_and_compute)
    monkeypatch.delitem(sys.modules, "crc32c")
    monkeypatch.setattr(checksum, "_extension", lambda: loaded.append(1) or crc32c)
    kept = checksum.crc32c
    assert [kept(b"123456789") for _ in range(3)] == [CHECK_VALUE] * 3
    assert len(loaded) == 1


def test_only_the_extension_is_loaded_and_the_package_can_be_imported_after_it():
    """The package would take 25 ms for its own version, before the first record."""
    output = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True).stdout.split()
    assert output == [str(CHECK_VALUE), "False", "False", str(CHECK_VALUE), str(CHECK_VALUE), "True"]


@pytest.mark.parametrize("missing", ["crc32c", "crc32c._crc32c"])
def test_a_package_without_that_extension_is_imported_whole(monkeypatch, missing):
    class Finder:
        @staticmethod
        def find_spec(name, *path):
            return None if name == missing else PathFinder.find_spec(name, *path)

    monkeypatch.setattr(checksum, "PathFinder", Finder)
    monkeypatch.delitem(sys.modules, "crc32c")
    assert checksum._extension() is None
    monkeypatch.setattr(checksum, "crc32c", checksum._load_and_compute)
    assert checksum.crc32c(b"123456789") == CHECK_VALUE


def test_a_package_that_another_thread_is_importing_is_not_used(monkeypatch):
    """Its module is there, but has no functions yet."""
    monkeypatch.setitem(sys.modules, "crc32c", ModuleType("crc32c"))
    monkeypatch.setattr(checksum, "crc32c", checksum._load_and_compute)
    assert checksum.crc32c(b"123456789") == CHECK_VALUE


def test_the_description_names_the_version():
    assert checksum.describe().startswith("native, in ")
    assert crc32c.__version__ in checksum.describe()
