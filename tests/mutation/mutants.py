"""Draws changes of the client at random, and runs the tests that can see each: a change that no test sees needs one.

    python tests/mutation/mutants.py cover --work DIR        which tests execute which lines (once, and for long)
    python tests/mutation/mutants.py run --work DIR          draw, run, and print the table
    python tests/mutation/mutants.py check "NAME" TEST...    whether tests of the checkout see a mutant of this name

``run`` works on a copy of the last commit in ``DIR``, and goes on where it was interrupted. A mutant gets the tests
that execute the changed statement: those in the test file of its module first, then the fastest. The first test that
fails, twice if it uses real time, or that takes longer than ``TEST_S``, kills the mutant. Coverage may be from an
earlier commit: in a function that has changed since, all tests count that execute the function. The operators are in
``mutating.py``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import hypothesis.strategies  # noqa: F401 - loaded for the child processes
import pytest
from covering import ROOMS
from mutating import FUNCTIONS, Mutant, enumerations, mutants_of

ROOT = Path(__file__).resolve().parents[2]
#: Fixed before the first run, as the operators were.
SEED = 20261127
PER_ROOM = 30
#: The tests that may kill a mutant. Deliberate bugs of the tests are left out.
SUITES = ("network", "fetch", "group", "ordered", "consumer", "behaviour", "testing")
NO_PLANTED_BUGS = (
    "--deselect", "tests/ordered/test_liveness.py::test_a_bug_that_holds_a_partition_is_noticed",
    "--deselect", "tests/group/matrix",
)  # fmt: skip
COMMON = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", "not real", "-k", "not embedded")
LOADED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  #: Hypothesis is loaded before pytest begins.
#: Their tests use no real time, which a busy machine could make fail: one failure kills.
WITHOUT_CLOCK = ("tests/network/", "tests/fetch/", "tests/group/", "tests/ordered/")
RUN_S = 900  #: Seconds after which a run of tests counts as hanging.
MEMORY = 6 << 30  #: Bytes that a run may take.
TEST_S = 30  #: Seconds after which a test counts as hanging.
FIRST = 40  #: The number of tests in the first run of a mutant.
BUDGET_S = 60.0  #: The recorded seconds of all tests that a mutant gets.
Work = Callable[[], int]
KILLED, SURVIVED, NOT_COVERED = "killed", "survived", "not covered"


def pytest_command(tree: Path, *arguments: str, record: Path | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of one run of pytest in a copy of the repository."""
    plugin = str(tree / "tests" / "mutation")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([plugin, str(tree), str(tree / "testing")])}
    command = [sys.executable, "-m", "pytest", *COMMON, *arguments]
    if record is None:
        return command, {**environment, "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"MUTATION_COVERAGE": str(record), "MUTATION_PACKAGE": str(tree / "thinconsumer")}
    return [*command, "-p", "covering"], environment


def copy_of_head(target: Path) -> Path:
    """Return a copy of the last commit, compiled so that a changed file is always compiled anew."""
    if not target.exists():
        target.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "x", "-C", str(target)], input=archive, check=True)
        compile_all = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "thinconsumer", "testing"]
        subprocess.run([sys.executable, *compile_all], cwd=target, check=True)
        command, environment = pytest_command(target, "--collect-only", *(f"tests/{suite}" for suite in SUITES))
        environment.pop("PYTHONDONTWRITEBYTECODE")  # let pytest compile the tests
        subprocess.run(command, cwd=target, env=environment, stdout=subprocess.DEVNULL, check=True)
    return target


def forked(tree: Path, work: Work) -> tuple[int, str]:
    """Do some work of a copy of the repository in a child process; return its exit code and what it has printed.

    The child has pytest loaded already, which takes longer than most tests of one mutant. A negative code is a signal.
    """
    with tempfile.TemporaryFile() as file:
        pid = os.fork()
        if not pid:
            code = 3
            try:
                os.setsid()
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                os.chdir(tree)
                sys.path[:0] = [str(tree), str(tree / "testing"), str(tree / "tests" / "mutation")]
                os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:3])
                os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
                sys.dont_write_bytecode = True
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                code = work()
            except BaseException:  # noqa: BLE001 - the child ends here
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        ends = time.monotonic() + RUN_S
        while not (found := os.waitpid(pid, os.WNOHANG))[0]:
            if time.monotonic() > ends:
                os.killpg(pid, signal.SIGKILL)
            time.sleep(0.02)
        file.seek(0)
        return os.waitstatus_to_exitcode(found[1]), file.read().decode(errors="replace")


# --- the draw ---


def function_in(source: str, name: str) -> ast.AST | None:
    """Return the function of this qualified name; None if there is none."""
    body: list[ast.stmt] = ast.parse(source).body
    found: ast.AST | None = None
    for part in name.split("."):
        found = next((n for n in body if isinstance(n, (*FUNCTIONS, ast.ClassDef)) and n.name == part), None)
        if found is None:
            return None
        body = found.body
    return found


def mutants_in(package: Path, paths: Collection[Path]) -> Iterator[Mutant]:
    """Yield all mutants of these modules."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    common = enumerations(texts.values())
    for path in paths:
        yield from mutants_of(path.relative_to(package).as_posix(), texts[path], common)


def drawn(tree: Path, room: str, seed: int, count: int) -> list[Mutant]:
    """Return the mutants of a room, without those that do not compile."""
    package = tree / "thinconsumer"
    every = list(mutants_in(package, sorted((package / room).rglob("*.py"))))
    found: list[Mutant] = []
    for mutant in random.Random(f"{seed}/{room}").sample(every, len(every)):
        source = mutant.applied((package / mutant.path).read_text(encoding="utf-8"))
        try:
            compile(source, mutant.path, "exec")
        except SyntaxError:
            continue
        found.append(mutant)
        if len(found) == count:
            break
    return found


# --- which tests execute a line ---


@dataclass(frozen=True)
class Coverage:
    """What ``cover`` has recorded, and the sources from then."""

    file: Path
    old: Path  #: The package as it was recorded.
    tree: Path  #: The repository as it is mutated.

    @cached_property
    def _collected(self) -> frozenset[str]:
        """The tests that the repository has now: a run that names another one fails at once."""
        suites = [f"tests/{suite}" for suite in SUITES]
        arguments = [*COMMON, *LOADED, *NO_PLANTED_BUGS, "--collect-only", *suites]
        code, printed = forked(self.tree, lambda: int(pytest.main(arguments)))
        if code:
            raise SystemExit(printed[-2000:])
        return frozenset(line for line in printed.splitlines() if "::" in line)

    @cached_property
    def _tests(self) -> list[tuple[float, str, dict[str, frozenset[int]]]]:
        rows = (json.loads(line) for line in self.file.open(encoding="utf-8"))
        return sorted(
            (row["seconds"], row["test"], {path: frozenset(lines) for path, lines in row["lines"].items()})
            for row in rows
            if row["test"] in self._collected
        )

    def tests_of(self, mutant: Mutant) -> list[tuple[float, str]]:
        """Return (seconds, test) of the tests that execute the changed statement, fastest first."""
        lines = self._old_lines(mutant)
        found = [
            (seconds, test)
            for seconds, test, covered in self._tests
            if mutant.path in covered and (lines is None or not lines.isdisjoint(covered[mutant.path]))
        ]
        if found or mutant.function:
            return found
        # Only the import executes a module of tables: take the tests of the modules beside it, which use the tables.
        folder = mutant.path.rpartition("/")[0] + "/"
        return [(s, test) for s, test, covered in self._tests if any(path.startswith(folder) for path in covered)]

    def _old_lines(self, mutant: Mutant) -> frozenset[int] | None:
        """Return the lines of the recorded sources that stand for the mutant; None stands for the whole module."""
        path = self.old / mutant.path
        if not path.exists() or not mutant.function:
            return None
        now_source = (self.tree / "thinconsumer" / mutant.path).read_text(encoding="utf-8")
        before = function_in(path.read_text(encoding="utf-8"), mutant.function)
        now = function_in(now_source, mutant.function)
        if not isinstance(before, FUNCTIONS) or not isinstance(now, FUNCTIONS):
            return None
        if ast.dump(before) == ast.dump(now) and before.end_lineno - before.lineno == now.end_lineno - now.lineno:
            shift = before.lineno - now.lineno
            return frozenset(range(mutant.lines[0] + shift, mutant.lines[1] + shift + 1))
        return frozenset(range(before.body[0].lineno, (before.end_lineno or 0) + 1))

    def own_tests(self, mutant: Mutant) -> list[str]:
        """Return the test file that mirrors the module, if there is one."""
        folders, _, name = mutant.path.rpartition("/")
        own = f"tests/{folders}/test_{name}"
        return [own] if (self.tree / own).exists() else []


# --- one mutant ---


@dataclass(frozen=True)
class Outcome:
    """How the run of one mutant ended."""

    result: str
    killer: str = ""
    words: str = ""
    tests: int = 0


class MutantRun:
    """Runs tests in a copy of the repository that has one mutant at a time."""

    def __init__(self, tree: Path, coverage: Coverage) -> None:
        self._tree = tree
        self._coverage = coverage
        self._sound: dict[str, bool] = {}  #: Whether a test passes without any mutant.

    def failure_without_mutant(self) -> str:
        """Return why no outcome would count; empty if all is well."""
        return ": ".join(filter(None, first_failure(self._tree, ["tests/fetch/test_lookups.py", "tests/network"])))

    def outcome(self, mutant: Mutant) -> Outcome:
        """Return whether a test sees the mutant."""
        path = self._tree / "thinconsumer" / mutant.path
        source = path.read_text(encoding="utf-8")
        unsound: list[str] = []
        while True:
            path.write_text(mutant.applied(source), encoding="utf-8")
            try:
                outcome = self._outcome(mutant, unsound)
            finally:
                path.write_text(source, encoding="utf-8")
            killer = outcome.killer
            if "::" not in killer:
                return outcome
            if killer not in self._sound:
                self._sound[killer] = not first_failure(self._tree, [killer])[0]
            if self._sound[killer]:
                return outcome
            print(f"    {killer} fails without any mutant", flush=True)
            unsound += ["--deselect", killer]

    def _outcome(self, mutant: Mutant, unsound: Iterable[str]) -> Outcome:
        count = 0
        for tests in self._batches(mutant):
            count += len(tests)
            flaky = [*unsound]
            while True:
                killer, words = first_failure(self._tree, tests, flaky)
                if not killer:
                    break
                if "::" not in killer or killer.startswith(WITHOUT_CLOCK) or first_failure(self._tree, [killer])[0]:
                    return Outcome(KILLED, killer, words, count)
                print(f"    {killer} failed once, and then passed", flush=True)
                flaky += ["--deselect", killer]
        return Outcome(SURVIVED if count else NOT_COVERED, tests=count)

    def _batches(self, mutant: Mutant) -> Iterator[list[str]]:
        own = self._coverage.own_tests(mutant)
        covering = [(s, test) for s, test in self._coverage.tests_of(mutant) if test.split("::")[0] not in own]
        first = [test for _, test in covering[:FIRST]]
        if own or first:
            yield own + first
        seconds, rest = 0.0, []
        for took, test in covering[FIRST:]:
            seconds += took
            if seconds > BUDGET_S:
                break
            rest.append(test)
        if rest:
            yield rest


def first_failure(
    tree: Path, tests: list[str], flaky: Iterable[str] = (), around: Callable[[Work], Work] = lambda work: work
) -> tuple[str, str]:
    """Return the first test that fails, and why; two empty strings if all pass. ``around`` changes the child's work."""
    if not tests:
        return "", ""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(tests))
        file.flush()
        arguments = ["-x", "--timeout", str(TEST_S), "--tb=line", "-n", "0", *NO_PLANTED_BUGS, *flaky]
        code, printed = forked(tree, around(lambda: int(pytest.main([*COMMON, *LOADED, *arguments, f"@{file.name}"]))))
    return ("", "") if code in (0, 5) else _reason(printed, code)


def _reason(printed: str, code: int) -> tuple[str, str]:
    found = re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - (.*))?$", printed, re.MULTILINE)
    if found:
        return found[1], (found[2] or "")[:200]
    lines = [line for line in printed.splitlines() if line.strip()]
    return f"exit code {code}", lines[-1][:200] if lines else ""


# --- commands ---


def cover(work: Path) -> None:
    """Record which tests execute which lines."""
    tree = copy_of_head(work / "covered")
    suites = [f"tests/{suite}" for suite in SUITES]
    command, environment = pytest_command(
        tree, "-n", "0", "--timeout", "300", *NO_PLANTED_BUGS, *suites, record=work / "coverage.jsonl"
    )
    subprocess.run(command, cwd=tree, env=environment, check=False)


def run(work: Path, rooms: Iterable[str], seed: int, count: int) -> None:
    """Run the drawn mutants that have no outcome yet, and print the table."""
    tree = copy_of_head(work / "tree")
    coverage = Coverage(work / "coverage.jsonl", work / "covered" / "thinconsumer", tree)
    runner = MutantRun(tree, coverage)
    if failure := runner.failure_without_mutant():
        raise SystemExit(f"without any mutant: {failure}")
    file = work / "outcomes.json"
    outcomes = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    draws = {room: drawn(tree, room, seed, count) for room in rooms}
    for index in range(count):  # room by room in turns, so that an interrupted run has some of each
        for mutant in (draws[room][index] for room in rooms):
            if mutant.name in outcomes:
                continue
            began = time.perf_counter()
            outcome = runner.outcome(mutant)
            about = {"room": mutant.path.split("/")[0], "number": index + 1, "line": mutant.line}
            outcomes[mutant.name] = {**about, **vars(outcome)}
            file.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
            took = time.perf_counter() - began
            print(f"{index + 1} {outcome.result} {mutant.name} | {outcome.killer} ({took:.0f} s)", flush=True)
    for room in rooms:
        found = [one for one in outcomes.values() if one["room"] == room]
        killed = sum(one["result"] == KILLED for one in found)
        print(f"{room}: {len(found)} drawn, {killed} killed, {len(found) - killed} not")


def check(name: str, tests: list[str]) -> int:
    """Run tests of the checkout, as it is now, under the mutant of this name; return 0 if one of them fails."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        package = tree / "thinconsumer"
        path = package / name.split()[0]
        source = path.read_text(encoding="utf-8")
        found = [one for one in mutants_in(package, [path]) if one.name == name]
        if not found:
            raise SystemExit(f"no mutant {name}")
        path.write_text(found[0].applied(source), encoding="utf-8")
        command, environment = pytest_command(tree, "-x", "-n", "0", "--tb=short", *tests)
        return int(subprocess.run(command, cwd=tree, env=environment, check=False).returncode != 1)


def main() -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("cover", "run"):
        one = commands.add_parser(name)
        one.add_argument("--work", type=Path, required=True, help="a folder for copies and results")
    one.add_argument("--rooms", nargs="+", default=ROOMS, choices=ROOMS)
    one.add_argument("--seed", type=int, default=SEED)
    one.add_argument("--count", type=int, default=PER_ROOM, help="mutants of each room")
    one = commands.add_parser("check")
    one.add_argument("name", help="as printed by run")
    one.add_argument("tests", nargs="+")
    options = parser.parse_args()
    if options.command == "check":
        return check(options.name, options.tests)
    work: Path = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if options.command == "cover":
        cover(work)
    else:
        run(work, options.rooms, options.seed, options.count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
