"""Build what would be published, and check it as a user would get it: ``python .ci/package.py FOLDER``.

Builds sdist and wheel, checks their metadata and contents, installs the wheel, and runs tests and mypy against it from
a folder that has nothing of the checkout but the tests. Runs in an environment of its own: tox's ``package``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What an import finds: the second is where PySpark looks for the first.
PACKAGES = {"thinconsumer", "pyspark_thinconsumer"}
REQUIRED = {"crc32c", "lz4", "zstandard"}
EXTRAS = {"arrow", "fast", "gssapi", "msk-iam", "oidc", "pkcs12", "resolver", "snappy", "spark"}
#: A part of the tests: every tox environment tests the installed wheel, this one that it needs no checkout beside it.
TESTS = ("conftest.py", "test_exports.py", "records", "typing")


def run(*command: str | Path, cwd: Path, **environment: str) -> None:
    """Run it, and end with its exit code if it fails."""
    words = [str(word) for word in command]
    print("$", " ".join(words), flush=True)
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **environment}, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def complaints(wheel: Path) -> Iterator[str]:
    """Yield what is wrong with a wheel's name, contents and metadata."""
    if not wheel.name.endswith("-py3-none-any.whl"):
        yield f"{wheel.name} is not for every platform"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata_name,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(metadata_name).decode()
    tops = {name.split("/")[0] for name in names}
    if strangers := {top for top in tops if top not in PACKAGES and not top.endswith(".dist-info")}:
        yield f"the wheel would install {sorted(strangers)}"
    source = {path.relative_to(ROOT).as_posix() for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    if missing := (source | {"thinconsumer/py.typed"}) - names:
        yield f"not in the wheel: {sorted(missing)}"
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        yield "the wheel has no license"
    lines = metadata.split("\n\n")[0].splitlines()
    needed = [line.split(": ")[1] for line in lines if line.startswith("Requires-Dist: ")]
    required = {line.split(">")[0].split("=")[0].strip() for line in needed if "extra ==" not in line}
    if required != REQUIRED:
        yield f"the wheel requires {sorted(required)}, not {sorted(REQUIRED)}"
    extras = {line.split(": ")[1] for line in lines if line.startswith("Provides-Extra: ")}
    if extras != EXTRAS:
        yield f"the wheel has extras {sorted(extras)}, not {sorted(EXTRAS)}"
    if "Requires-Python: >=3.10" not in lines:
        yield "the wheel does not say which Pythons it is for"


def main(work: Path) -> int:
    """Return the exit code."""
    shutil.rmtree(work, ignore_errors=True)
    dist = work / "dist"
    dist.mkdir(parents=True)
    python = sys.executable
    run(python, "-m", "build", "--outdir", dist, cwd=ROOT)  # the wheel from the sdist, as installers without wheels do
    run(python, "-m", "twine", "check", "--strict", *sorted(dist.iterdir()), cwd=ROOT)
    (wheel,) = dist.glob("*.whl")
    found = list(complaints(wheel))
    if found:
        print("\n".join(found))
        return 1
    elsewhere = work / "elsewhere"
    for name in TESTS:
        place = ROOT / "tests" / name
        if place.is_dir():
            shutil.copytree(place, elsewhere / "tests" / name)
        else:
            (elsewhere / "tests").mkdir(parents=True, exist_ok=True)
            shutil.copy(place, elsewhere / "tests")
    # tests/conftest.py offers the fixtures of real clusters to every folder.
    shutil.copytree(ROOT / "tests" / "real" / "realkafka", elsewhere / "tests" / "real" / "realkafka")
    shutil.copy(ROOT / "pyproject.toml", elsewhere)
    run(python, "-m", "pip", "install", "--quiet", "--force-reinstall", wheel, cwd=elsewhere)
    pytest = Path(python).with_name("pytest")
    run(pytest, "-q", "tests", "--ignore=tests/typing", cwd=elsewhere, THINCONSUMER_TEST_INSTALLED="1")
    run(python, "-m", "mypy", "--strict", "tests/typing", cwd=elsewhere)
    print(f"{wheel.name}: {wheel.stat().st_size} bytes, well")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) / "package"))
