"""PySpark's archive with compiled code: the same modules, imported without compiling them."""

import subprocess
import sys
import zipfile

import pytest

from thinconsumer.spark.compile_pyspark import archive_path, compile_archive

MODULES = {
    "pyspark/__init__.py": "NAME = 'package'",
    "pyspark/plain.py": "NAME = 'plain'",
    "pyspark/later.py": "this is the syntax of another Python",
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return the folder of a Spark with a small archive."""
    library = tmp_path / "python" / "lib"
    library.mkdir(parents=True)
    with zipfile.ZipFile(library / "pyspark.zip", "w") as archive:
        for name, text in MODULES.items():
            archive.writestr(name, text)
        archive.writestr("pyspark/py.typed", "")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return tmp_path


def run(*command):
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def where(archive):
    code = "import sys; sys.path.insert(0, sys.argv[1]); import pyspark.plain as p; print(p.NAME, p.__file__)"
    return run("-c", code, str(archive))


def test_modules_are_imported_from_compiled_code(home):
    archive = archive_path()
    assert where(archive) == ["plain", f"{archive}/pyspark/plain.py"]
    assert compile_archive(archive) == 2
    assert where(archive) == ["plain", f"{archive}/pyspark/plain.pyc"]


def test_the_source_remains_and_compiling_again_changes_nothing(home):
    archive = archive_path()
    found = []
    for _ in range(2):
        compile_archive(archive)
        with zipfile.ZipFile(archive) as opened:
            found.append(opened.namelist())
            assert {name: opened.read(name).decode() for name in MODULES} == MODULES
    assert found[0] == found[1]
    assert sorted(found[0]) == sorted([*MODULES, "pyspark/py.typed", "pyspark/__init__.pyc", "pyspark/plain.pyc"])
    assert [path.name for path in archive.parent.iterdir()] == ["pyspark.zip"]


def test_a_module_compiled_for_another_python_is_imported_from_its_source(home):
    archive = archive_path()
    compile_archive(archive)
    with zipfile.ZipFile(archive) as opened:
        entries = {name: opened.read(name) for name in opened.namelist()}
    with zipfile.ZipFile(archive, "w") as changed:
        for name, data in entries.items():
            changed.writestr(name, b"\0\0\r\n" + data[4:] if name.endswith(".pyc") else data)
    assert where(archive) == ["plain", f"{archive}/pyspark/plain.py"]


def test_the_command_says_what_it_did(home):
    printed = run("-m", "thinconsumer.spark.compile_pyspark")
    assert printed[:7] == [f"{archive_path()}:", "added", "the", "code", "of", "2", "modules"]


def test_without_an_archive_the_error_names_the_path(home):
    archive = archive_path()
    archive.unlink()
    with pytest.raises(FileNotFoundError, match="pyspark.zip does not exist: set SPARK_HOME"):
        archive_path()
