"""Build what would be published, and check it as a user would get it: ``python .ci/package.py FOLDER``.

Builds both distributions, and checks their metadata and contents. Installs the client alone first: it has no broker,
and says what installs one. Then both: the demo, testing/README's pytest example, tests and mypy, in folders that have
nothing of the checkout but the tests. Runs in an environment of its own: tox's ``package``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from interpreters import requirements
from wheels import ROOT, build


class Distribution(NamedTuple):
    """What a wheel has to contain and to say."""

    folder: Path
    packages: frozenset[str]
    required: dict[str, frozenset[str]]  #: By the version of Python.
    extras: frozenset[str]
    bytes_max: int


#: By the first part of the wheel's name. PySpark looks for thinconsumer in pyspark_thinconsumer.
DISTRIBUTIONS = {
    "thinconsumer": Distribution(
        ROOT,
        frozenset(("thinconsumer", "pyspark_thinconsumer")),
        {
            "3.13": frozenset(("crc32c", "lz4", "zstandard")),
            "3.14": frozenset(("crc32c", "cramjam")),
            "3.15": frozenset(("crc32c", "cramjam")),
        },
        frozenset(
            (
                "arrow",
                "avro",
                "fast",
                "gssapi",
                "msk-iam",
                "oidc",
                "opentelemetry",
                "pkcs12",
                "polars",
                "prometheus",
                "resolver",
                "schema-registry",
                "snappy",
                "spark",
                "telemetry",
                "testing",
                "top",
            )
        ),
        1_040_000,  # with the replay of traces and the tables of migrate, which are imported only if asked for
    ),
    "thinconsumer_testing": Distribution(
        ROOT / "testing",
        frozenset(("thinconsumer_testing",)),
        {"3.13": frozenset(("thinconsumer",))},
        frozenset(),
        500_000,
    ),
}
#: A part of the tests: every tox environment tests the installed wheels, this one that they need no checkout.
TESTS = ("conftest.py", "test_exports.py", "records", "typing")
ADVICE = "pip install thinconsumer-testing\n"
#: The function of testing/README's example that stands for the user's program.
BILL = """
from thinconsumer import Consumer

def bill(servers, topic):
    with Consumer(topic, bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest") as consumer:
        return len(list(consumer.read_to_end(10_000)))
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> None:
    """Run it, and end with its exit code if it fails."""
    words = [str(word) for word in command]
    print("$", " ".join(words), flush=True)
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **environment}, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def complaints(wheel: Path) -> Iterator[str]:
    """Yield what is wrong with a wheel's name, size, contents and metadata."""
    dist = DISTRIBUTIONS[wheel.name.split("-")[0]]
    if not wheel.name.endswith("-py3-none-any.whl"):
        yield f"{wheel.name} is not for every platform"
    if (size := wheel.stat().st_size) > dist.bytes_max:
        yield f"{wheel.name} has {size} bytes, at most {dist.bytes_max}"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata_name,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(metadata_name).decode()
        entries = b"".join(archive.read(name) for name in names if name.endswith("entry_points.txt"))
    tops = {name.split("/")[0] for name in names}
    if strangers := {top for top in tops if top not in dist.packages and not top.endswith(".dist-info")}:
        yield f"{wheel.name} would install {sorted(strangers)}"
    source = {
        path.relative_to(dist.folder).as_posix()
        for name in dist.packages
        for path in (dist.folder / name).rglob("*.py")
    }
    if missing := (source | {f"{wheel.name.split('-')[0]}/py.typed"}) - names:
        yield f"not in {wheel.name}: {sorted(missing)}"
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        yield f"{wheel.name} has no license"
    if b"pytest11" in entries:
        yield f"{wheel.name} has an entry point of pytest, which would load a plugin in every project"
    head, _, page = metadata.partition("\n\n")
    lines = head.splitlines()
    for version, names in dist.required.items():
        required = {one.name for one in requirements(wheel, version)}
        if required != names:
            yield f"{wheel.name} requires {sorted(required)} on Python {version}, not {sorted(names)}"
    extras = {line.split(": ")[1] for line in lines if line.startswith("Provides-Extra: ")}
    if extras != dist.extras:
        yield f"{wheel.name} has extras {sorted(extras)}, not {sorted(dist.extras)}"
    if "Requires-Python: >=3.10" not in lines:
        yield f"{wheel.name} does not say which Pythons it is for"
    yield from link_complaints(wheel.name, lines, page)


def link_complaints(name: str, lines: list[str], page: str) -> Iterator[str]:
    """Yield what is wrong with the links in a wheel's metadata: PyPI shows them without the files beside the README."""
    urls = dict(line.removeprefix("Project-URL: ").split(", ") for line in lines if line.startswith("Project-URL: "))
    if set(urls) != {"Changelog", "Documentation", "Issues", "Repository"}:
        yield f"{name} has the URLs {urls}"
    for target in re.findall(r"\]\(([^)\s]+)\)", page) + list(urls.values()):
        if not re.match("https://|#", target):
            yield f"{name}: {target} is not an absolute link"
        file = re.match(re.escape(urls.get("Repository", "")) + r"/(?:blob|raw|tree)/main/([^#]+)", target)
        if file and not (ROOT / file[1]).exists():
            yield f"{name}: there is no {file[1]} in the repository"


def complaints_about_the_client_alone(python: Path, folder: Path) -> Iterator[str]:
    """Yield what is wrong with the commands and modules of an environment that has only the client."""
    for words, code in ((["--help"], 0), (["consume", "--help"], 0), (["demo"], 2), (["broker"], 2)):
        for command in ([python, "-W", "error", "-m", "thinconsumer"], [python.with_name("thinconsumer")]):
            done = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode != code or done.stderr.endswith(ADVICE) != (code == 2):
                yield f"{[*command, *words]} exits with {done.returncode}: {done.stdout}{done.stderr}"
    for name in ("thinconsumer.broker", "thinconsumer.testing", "thinconsumer.testing.fixtures"):
        done = subprocess.run([python, "-c", f"import {name}"], cwd=folder, capture_output=True, text=True, check=False)
        if not done.returncode or not done.stderr.endswith(ADVICE):
            yield f"import {name}: {done.stderr}"


def write_example(folder: Path) -> None:
    """Write the pytest example of testing/README.md as a project of its own."""
    text = (ROOT / "testing" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(pytest_plugins.*?)^```", text, re.DOTALL | re.MULTILINE)
    plugins, _, test = example.partition("\n")
    folder.mkdir()
    (folder / "conftest.py").write_text(plugins + "\n")
    (folder / "test_example.py").write_text(BILL + test)


def write_tests(folder: Path) -> None:
    """Copy the part of the tests that is run here."""
    for name in TESTS:
        place = ROOT / "tests" / name
        if place.is_dir():
            shutil.copytree(place, folder / "tests" / name)
        else:
            (folder / "tests").mkdir(parents=True, exist_ok=True)
            shutil.copy(place, folder / "tests")
    # tests/conftest.py offers the fixtures of real clusters to every folder.
    shutil.copytree(ROOT / "tests" / "real" / "realkafka", folder / "tests" / "real" / "realkafka")
    shutil.copy(ROOT / "pyproject.toml", folder)


def main(work: Path) -> int:
    """Return the exit code."""
    shutil.rmtree(work, ignore_errors=True)
    dist, elsewhere = work / "dist", work / "elsewhere"
    build(dist)
    python = sys.executable
    run(python, "-m", "twine", "check", "--strict", *sorted(dist.iterdir()), cwd=ROOT)
    client, testing = sorted(dist.glob("*.whl"))
    found = [*complaints(client), *complaints(testing)]
    write_tests(elsewhere)
    write_example(work / "example")
    venv.create(work / "client", with_pip=True)
    client_python = work / "client" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(client_python, "-m", "pip", "install", "--quiet", client, cwd=elsewhere)
    found += complaints_about_the_client_alone(client_python, elsewhere)
    if found:
        print("\n".join(found))
        return 1
    run(python, "-m", "pip", "install", "--quiet", "--force-reinstall", client, testing, cwd=elsewhere)
    pytest = Path(python).with_name("pytest")
    run(python, "-W", "error", "-m", "thinconsumer", "demo", "--seconds", "1", cwd=elsewhere)
    run(pytest, "-q", "-W", "error", cwd=work / "example", PYTEST_ADDOPTS="")
    run(pytest, "-q", "tests", "--ignore=tests/typing", cwd=elsewhere, THINCONSUMER_TEST_INSTALLED="1")
    run(python, "-m", "mypy", "--strict", "tests/typing", cwd=elsewhere)
    for wheel in (client, testing):
        print(f"{wheel.name}: {wheel.stat().st_size} bytes, well")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) / "package"))
