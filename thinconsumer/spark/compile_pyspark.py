"""Add compiled code to PySpark's archive: ``python -m thinconsumer.spark.compile_pyspark``.

Spark's Python processes import PySpark from ``pyspark.zip``. It holds source code only, and Python does not write
compiled code into an archive, so that each of these processes compiles PySpark again: 0.5 s of the second that a
streaming query takes to start.
"""

from __future__ import annotations

import os
import py_compile
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile


def archive_path() -> Path:
    """Return the path of the archive that Spark's processes import PySpark from, or raise ``FileNotFoundError``."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        found = find_spec("pyspark")
        home = os.path.dirname(found.origin) if found is not None and found.origin is not None else ""
    path = Path(home, "python", "lib", "pyspark.zip")
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: set SPARK_HOME to the folder of Spark")
    return path


def compile_archive(path: Path) -> int:
    """Add each module's code, compiled for this version of Python; return the number of modules.

    Other versions of Python import the source code, as before. The archive is replaced in one step. A second run
    replaces the compiled code.
    """
    count = 0
    with tempfile.TemporaryDirectory(prefix=".compile-", dir=path.parent) as folder:
        source, code, target = Path(folder, "source.py"), Path(folder, "code.pyc"), Path(folder, path.name)
        with ZipFile(path) as before, ZipFile(target, "w", ZIP_DEFLATED) as after:
            for entry in before.infolist():
                if entry.filename.endswith(".pyc"):
                    continue
                data = before.read(entry)
                after.writestr(entry, data)
                if entry.filename.endswith(".py"):
                    source.write_bytes(data)
                    try:
                        # Unchecked: the archive as a whole is replaced, and a check would read the source each time.
                        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
                        py_compile.compile(
                            str(source), str(code), f"{path}/{entry.filename}", doraise=True, invalidation_mode=mode
                        )
                    except py_compile.PyCompileError:  # a module for another version of Python
                        continue
                    after.write(code, f"{entry.filename}c")
                    count += 1
        shutil.copymode(path, target)
        os.replace(target, path)
    return count


def main() -> None:
    path = archive_path()
    count = compile_archive(path)
    sys.stdout.write(f"{path}: added the code of {count} modules for Python {sys.version.split()[0]}\n")


if __name__ == "__main__":
    main()
