"""Install the built wheels on other Pythons without a compiler, and read a record of each codec there.

``python .ci/interpreters.py FOLDER_OF_WHEELS``. Looks for the Pythons of ``TARGETS`` on the PATH, in pyenv's folder and
in those of THINCONSUMER_PYTHONS. For one that is not found, pip has to find wheels of all that is needed there.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement

#: The oldest supported Python, the last one with lz4 and zstandard, and all newer ones, with and without a GIL.
TARGETS = ("3.10", "3.13", "3.14", "3.14t", "3.15", "3.15t")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: The program that each Python runs. Its input has a batch for each codec, by another client.
READ = """
import base64, json, sys
import thinconsumer, thinconsumer.testing
from thinconsumer.records.batches import split
from thinconsumer.records.compression import available, compress, decompress
for number, (codec, data) in enumerate(json.load(sys.stdin).items()):
    (batch,), error = split(memoryview(base64.b64decode(data)))
    (record,) = batch.decode("topic", 0)
    assert record.value == codec.encode() * 100, record
    if number:
        assert decompress(number, memoryview(compress(number, b"again" * 100))) == b"again" * 100
gil = getattr(sys, "_is_gil_enabled", lambda: True)()
assert gil or sys.version_info >= (3, 14), "an extension has enabled the GIL"
print(sys.version.split()[0], "" if gil else "without a GIL", available())
"""


def batches() -> dict[str, str]:
    """Return a batch of one record for each codec, as aiokafka writes it, in base64."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    found = {}
    for number, codec in enumerate(CODECS):
        builder = DefaultRecordBatchBuilder(2, number, 0, -1, -1, -1, 1 << 20)
        builder.append(0, 1_700_000_000_000, b"key", codec.encode() * 100, [])
        found[codec] = base64.b64encode(builder.build()).decode()
    return found


def find(version: str) -> str | None:
    """Return the path of a Python of this version; pyenv's shims may name some that do not start."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    folders = os.environ.get("THINCONSUMER_PYTHONS", "").split(os.pathsep)
    folders += [str(folder / "bin") for folder in sorted(pyenv.glob(f"{version.removesuffix('t')}.*"))]
    for folder in filter(None, (*folders, *os.environ["PATH"].split(os.pathsep))):
        found = shutil.which(f"python{version}", path=folder)
        if found and not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
            return found
    return None


def pip(*words: str | Path) -> str:
    """Run pip; return its errors, none if it succeeded. It may use wheels only, and no compiler."""
    command = [sys.executable, "-m", "pip", *map(str, words)]
    environment = {**os.environ, "CC": "false", "CXX": "false"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stderr.strip() or f"exit code {done.returncode}" if done.returncode else ""


def install_and_read(python: str, wheels: list[Path], folder: Path, records: str) -> Iterator[str]:
    """Yield what is wrong with the wheels on a Python that is here."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    inside = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    named = [f"{wheel}[snappy]" if "testing" not in wheel.name else str(wheel) for wheel in wheels]
    if problem := pip("--python", inside, "install", "--quiet", "--only-binary=:all:", *named):
        yield problem
        return
    words = [inside, "-W", "error", "-c", READ]
    done = subprocess.run(words, cwd=folder, input=records, capture_output=True, text=True, check=False)
    print(f"    {done.stdout.strip()}")
    if done.returncode:
        yield done.stderr


def requirements(wheel: Path, version: str, extra: str = "") -> Iterator[Requirement]:
    """Yield what a wheel needs on a Python of this version. pip would take its own Python for the markers."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    for line in metadata.get_all("Requires-Dist", []):
        one = Requirement(line)
        wanted = one.marker is None or one.marker.evaluate({"python_version": version, "extra": extra})
        if wanted:
            one.marker = None
            yield one


def download(version: str, wheels: list[Path], folder: Path) -> Iterator[str]:
    """Yield what is wrong on a Python that is not here: no wheel, for Linux on x86-64, of something that it needs."""
    major, minor = version.removesuffix("t").split(".")
    abi = f"cp{major}{minor}{'t' if version.endswith('t') else ''}"
    words = ["download", "--quiet", "--only-binary=:all:", "--implementation=cp", f"--python-version={major}.{minor}"]
    words += [f"--abi={name}" for name in (abi, "abi3", "none")]
    words += [f"--platform=manylinux{name}_x86_64" for name in ("_2_28", "_2_17", "2014")]
    names = [one for wheel in wheels for one in requirements(wheel, f"{major}.{minor}", "snappy")]
    needed = [str(one) for one in names if one.name != "thinconsumer"]
    if problem := pip(*words, "--no-deps", f"--dest={folder}", *needed):
        yield problem
    else:
        print(*(f"    {wheel.name}" for wheel in sorted(folder.glob("*-cp*.whl"))), sep="\n")


def main(dist: Path) -> int:
    """Return the exit code."""
    wheels, records, failures = sorted(dist.glob("*.whl")), json.dumps(batches()), 0
    for version in TARGETS:
        started, python = time.monotonic(), find(version)
        print(f"{version}: {python or 'NOT HERE; the wheels of what it needs:'}", flush=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            check = install_and_read(python, wheels, folder, records) if python else download(version, wheels, folder)
            for problem in check:
                failures += 1
                print(problem)
        print(f"    {time.monotonic() - started:.1f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
