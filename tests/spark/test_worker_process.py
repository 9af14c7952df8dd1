"""Archives of PySpark are read once per process, those of the user for each task; modules are no garbage."""

import gc
import importlib
import importlib.machinery
import sys
import types
import zipfile
import zipimport
from functools import cache

import pytest

from thinconsumer.spark.worker_process import exempt_modules, keep_directories


@pytest.fixture
def reads(monkeypatch):
    """Return the paths of all archives with a directory that has been read."""
    found: list[str] = []
    read = zipimport._read_directory
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: found.append(path) or read(path))
    return found


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Return a function that puts an archive with a package on the path, and imports a module from it."""

    def make(file: str, package: str) -> str:
        path = tmp_path / file
        with zipfile.ZipFile(path, "w") as target:
            for name in ("__init__", "first", "second"):
                target.writestr(f"{package}/{name}.py", f"NAME = {name!r}")
        monkeypatch.syspath_prepend(str(path))
        importlib.import_module(f"{package}.first")
        return str(path)

    before = set(sys.modules)
    yield make
    for name in set(sys.modules) - before:
        del sys.modules[name]
    for path in [path for path in sys.path_importer_cache if path.startswith(str(tmp_path))]:
        del sys.path_importer_cache[path]


def is_pyspark(monkeypatch, path: str) -> None:
    """Have PySpark come from this archive."""
    module = types.ModuleType("pyspark")
    module.__loader__ = zipimport.zipimporter(path)
    monkeypatch.setitem(sys.modules, "pyspark", module)


def test_pysparks_archive_and_jars_are_not_read_again(archive, reads, monkeypatch):
    python, jar = archive("pyspark.zip", "zipped_spark"), archive("spark-core.jar", "zipped_jar")
    is_pyspark(monkeypatch, python)
    keep_directories()
    reads.clear()
    importlib.invalidate_caches()
    assert importlib.import_module("zipped_spark.second").NAME == "second"
    assert importlib.import_module("zipped_jar.second").NAME == "second"
    assert reads == []
    # The imports have made importers, which the next task hides again.
    assert any(path.startswith(python) for path in sys.path_importer_cache)
    keep_directories()
    assert not any(path.startswith((python, jar)) for path in sys.path_importer_cache)


def test_archives_of_the_user_are_read_again(archive, reads, monkeypatch):
    spark, mine = archive("pyspark.zip", "zipped_spark"), archive("job.zip", "zipped_job")
    is_pyspark(monkeypatch, spark)
    keep_directories()
    with zipfile.ZipFile(mine, "a") as target:
        target.writestr("zipped_job/third.py", "NAME = 'third'")
    reads.clear()
    importlib.invalidate_caches()
    assert importlib.import_module("zipped_job.third").NAME == "third"
    assert set(reads) == {mine}


def test_pyspark_installed_as_a_folder_changes_nothing(archive, monkeypatch):
    path = archive("job.zip", "zipped_job")
    monkeypatch.setitem(sys.modules, "pyspark", types.ModuleType("pyspark"))
    before = dict(sys.path_importer_cache)
    keep_directories()
    assert sys.path_importer_cache == before
    assert path in before


@pytest.mark.parametrize(("main", "calls"), [("pyspark.daemon", 1), ("pytest.__main__", 0), (None, 0)])
def test_modules_are_exempt_from_garbage_collection_once_and_in_workers_only(monkeypatch, main, calls):
    made = []
    monkeypatch.setattr(gc, "freeze", lambda: made.append(1))
    exempt = cache(exempt_modules.__wrapped__)
    module = types.ModuleType("__main__")
    module.__spec__ = None if main is None else importlib.machinery.ModuleSpec(main, None)
    monkeypatch.setitem(sys.modules, "__main__", module)
    for _ in range(3):
        exempt()
    assert len(made) == calls
