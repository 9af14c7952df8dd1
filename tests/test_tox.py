"""Every unit test runs in some environment of tox: once, or on each interpreter."""

import configparser
import re
import shlex
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
#: Tests that environments of their own run: real clusters, Spark with a JVM, simulated worlds.
ELSEWHERE = {"tests/real", "tests/swarm", "tests/group/matrix", "tests/spark/jvm"}
MARK = re.compile(r"\bpytest\.mark\.once\b")


@pytest.fixture(scope="module")
def tox() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini", encoding="utf-8")
    return parser


def words_of(tox: configparser.ConfigParser, environment: str) -> list[str]:
    (command,) = tox[environment]["commands"].replace("\\\n", " ").strip().splitlines()
    return shlex.split(command)


def marked() -> set[Path]:
    """Return every file with marked tests, and the folder of every ``conftest.py`` that marks its tests."""
    files = [file for file in TESTS.rglob("*.py") if MARK.search(file.read_text(encoding="utf-8"))]
    return {file.parent if file.name == "conftest.py" else file for file in files}


def test_each_interpreter_runs_all_tests_that_are_not_marked(tox):
    words = words_of(tox, "testenv")
    assert words[words.index("-m") + 1] == "not real and not once"
    assert {word.removeprefix("--ignore=") for word in words if word.startswith("--ignore")} == ELSEWHERE
    assert [word for word in words if word.startswith("tests")] == []
    names = [name for name in tox if re.fullmatch(r"testenv:py3\S*", name)]
    assert names == ["testenv:py3{10,11,12,13,14}"]
    assert "commands" not in tox[names[0]]


def test_marked_tests_run_in_one_environment(tox):
    words = words_of(tox, "testenv:once")
    assert words[words.index("-m") + 1] == "once and not real"
    assert [word for word in words if word.startswith(("--ignore", "--deselect", "-k"))] == []
    named = [ROOT / word for word in words if word.startswith("tests")]
    assert [path for path in named if not path.exists()] == []
    unreached = {path for path in marked() if not any(path.is_relative_to(name) for name in named)}
    assert unreached == set(), "these tests are marked, and tox's environment named once does not run them"
    assert "once" in tox["tox"]["env_list"].replace(",", " ").split()


def test_tests_with_an_environment_of_their_own_are_not_marked():
    assert {path for path in marked() if any(path.is_relative_to(ROOT / folder) for folder in ELSEWHERE)} == set()
