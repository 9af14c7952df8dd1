"""Runs the test suite of another client against one of our consumers and the embedded broker.

The suite is not part of this repository. It is read from a folder, and copied to a temporary one with a conftest.py of
ours in place of its own: that has the fixtures which start a broker, and puts our class into the peer's module.
"""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: The reasons for which a test need not pass.
PRODUCER = "producer or admin"
PRIVATE = "a private attribute"
DIFFERENCE = "a difference that docs/migrating.md explains"
REASONS = (PRODUCER, PRIVATE, DIFFERENCE)
#: The share of the tests of the public consumer that pass.
SHARE = 0.85


@dataclass(frozen=True)
class Outcomes:
    """How the tests of a suite have ended: by ``module.class.test``, an empty text or the failure."""

    failures: dict[str, str]
    skipped: set[str]

    def check(self, reasons: dict[str, str]) -> None:
        """Fail unless each failed test is listed with one of the reasons, and enough of the others pass.

        Tests that concern a producer or a private attribute do not touch the public consumer.
        """
        assert set(reasons.values()) <= set(REASONS)
        unexplained = {name: text for name, text in self.failures.items() if text and name not in reasons}
        assert not unexplained, "\n\n".join(f"{name}: {text[-2000:]}" for name, text in unexplained.items())
        public = [name for name in self.failures if reasons.get(name) not in (PRODUCER, PRIVATE)]
        passed = [name for name in public if not self.failures[name]]
        print(f"{len(passed)} of {len(public)} tests of the public consumer pass")
        assert len(passed) >= SHARE * len(public) > 0
        gone = reasons.keys() - self.failures.keys() - self.skipped
        assert not gone, f"listed, but not in the suite: {gone}"


def folder(name: str, example: str) -> Path:
    """Return a peer's sources; skip the test loudly if they are not there."""
    parent = os.environ.get("THINCONSUMER_PEER_TESTS")
    if not parent:
        pytest.skip(f"not promised: THINCONSUMER_PEER_TESTS names no folder with {name}/{example}")
    found = Path(parent) / name
    if not (found / example).exists():
        pytest.fail(f"THINCONSUMER_PEER_TESTS has no {name}/{example}")
    return found


def run(
    sources: Path,
    copied: list[str],
    tests: list[str],
    conftest: Path,
    target: Path,
    *,
    options: tuple[str, ...] = (),
    seconds: float = 1200,
) -> Outcomes:
    """Copy files and folders of the suite to ``target``, with our ``conftest``, and run its ``tests``."""
    for name in copied:
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (sources / name).is_dir() else shutil.copy)(sources / name, place)
    shutil.copy(conftest, target / "conftest.py")
    (target / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    report = target / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
    ]
    paths = [ROOT, ROOT / "testing", *sys.path]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [*command, *options, *tests],
        cwd=target,
        env=environ,
        timeout=seconds,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), done.stdout[-4000:] + done.stderr[-4000:]
    return read(report)


def read(report: Path) -> Outcomes:
    """Return the outcomes in a JUnit file."""
    failures, skipped = {}, set()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.attrib['classname']}.{case.attrib['name']}"
        problems = [part for part in case if part.tag in ("failure", "error")]
        if any(part.tag == "skipped" for part in case):
            skipped.add(name)
        else:
            failures[name] = "\n".join((part.text or part.attrib.get("message", "")) or "?" for part in problems)
    return Outcomes(failures, skipped)
