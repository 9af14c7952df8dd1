"""Leaves out one call of the client's schedule at a time, and looks whether a test or a swarm notices what never comes.

    python tests/mutation/omissions.py cover --work DIR      which tests pass which calls
    python tests/mutation/omissions.py run --work DIR        draw, run, and print the table
    python tests/mutation/omissions.py check "NAME" TEST...  whether tests notice that the call of this name is missing

A call of the schedule makes something due: an :class:`thinconsumer.support.agenda.Alarm` is set, the agenda or an
alarm is touched or joined, or a partition reports a change. They are found in the syntax of the client, and become
conditions when the client is imported, so that one of them can be left out with its arguments. Each drawn call gets
the tests that pass it, the fastest first, and then a few worlds of each swarm.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import redirect_stdout
from functools import cache, partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from io import StringIO
from pathlib import Path
from types import CodeType

import pytest
from mutants import COMMON, FIRST, LOADED, NO_PLANTED_BUGS, ROOT, WITHOUT_CLOCK, Work, first_failure, forked
from mutating import FUNCTIONS

PACKAGE = ROOT / "thinconsumer"
#: Fixed before the first run.
SEED, COUNT = 20261128, 50
SUITES = (
    "network", "fetch", "group", "ordered", "positions", "engine", "sasl", "consumer", "behaviour", "produce", "admin",
    "sockets", "testing", "test_member.py", "test_driver.py", "failures", "cli",
)  # fmt: skip
WORLDS = {"readers": 8, "groups": 4, "consumer-groups": 4, "order": 4}  #: The seeds 1, 2, ... of each swarm.
BUDGET_S = 20.0  #: The recorded seconds of the last tests that a call gets.
ARGUMENTS = (*COMMON, *LOADED, *NO_PLANTED_BUGS, "-n", "0", *(f"tests/{suite}" for suite in SUITES))

passed: set[str] = set()  #: The calls that were passed, by name.
omitted = ""  #: The name of the call that is left out now.


def is_kept(name: str) -> bool:
    """Return whether a call is made, and note that it was reached."""
    passed.add(name)
    return name != omitted


def is_scheduling(node: ast.Call) -> bool:
    """Return whether a call makes something due, by its name and arguments."""
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "set":  # others than alarms have keys
        return len(node.args) == 1
    if node.func.attr == "join":  # others than the agenda's join text
        return ast.unparse(node.func.value).endswith("agenda")
    return node.func.attr in ("set_earlier", "touch", "report_change")


class Conditions(ast.NodeTransformer):
    """Makes each call of the schedule in a module conditional, and names them."""

    def __init__(self, path: Path) -> None:
        self.names: list[str] = []
        self._path = path.relative_to(PACKAGE).as_posix()
        self._scope: list[str] = []
        self._count: Counter[str] = Counter()

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return super().visit(node)
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Name a call by its place, without a line number, which the next change of the file would move."""
        self.generic_visit(node)
        if not is_scheduling(node):
            return node
        name = f"{self._path} {'.'.join(self._scope)}: {ast.unparse(node.func)}"
        self._count[name] += 1
        self.names.append(f"{name} #{self._count[name]}" if self._count[name] > 1 else name)
        kept = ast.Call(ast.Name(is_kept.__name__, ast.Load()), [ast.Constant(self.names[-1])], [])
        condition = ast.IfExp(kept, node, ast.Constant(None))
        return ast.fix_missing_locations(ast.copy_location(condition, node))


def conditional(path: Path) -> tuple[ast.Module, list[str]]:
    """Return a module of the client with conditional calls, and their names. The agenda itself has none."""
    tree, conditions = ast.parse(path.read_bytes()), Conditions(path)
    if path.name != "agenda.py":
        conditions.visit(tree)
    return tree, conditions.names


class Loader(SourceFileLoader):
    """Imports a module of the client with conditional calls."""

    def get_code(self, fullname: str) -> CodeType:
        return compile(conditional(Path(self.path))[0], self.path, "exec")


class Finder:
    """Finds the modules of the client for :class:`Loader`."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name.split(".")[0] == "thinconsumer" else None  # type: ignore[arg-type]
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


class Recorder:
    """A plugin of pytest that writes which calls each test passes, and how long it takes."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("w", encoding="utf-8")
        self._has_passed = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        passed.clear()
        self._has_passed, began = True, time.perf_counter()
        result = yield
        if self._has_passed and passed:
            row = {"test": item.nodeid, "seconds": time.perf_counter() - began, "passed": sorted(passed)}
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._has_passed = self._has_passed and report.passed


def without(name: str, work: Work) -> Work:
    """Return work in which one call is left out."""

    def run() -> int:
        global omitted
        omitted = name
        return work()

    return run


@cache
def is_sound(test: str) -> bool:
    """Return whether a test passes if nothing is left out."""
    return "::" not in test or not first_failure(ROOT, [test])[0]


def failing_test(name: str, tests: list[str]) -> str:
    """Return a test that fails without the call, twice if it uses real time, and passes with it; empty if none does."""
    wrong: list[str] = []
    while found := first_failure(ROOT, tests, wrong, lambda work: without(name, work))[0]:
        is_steady = "::" not in found or found.startswith(WITHOUT_CLOCK)
        fails_again = is_steady or first_failure(ROOT, [found], (), lambda work: without(name, work))[0]
        if found == "exit code 4":  # a test that does not exist
            raise SystemExit(f"pytest cannot run {tests}")
        if fails_again and is_sound(found):
            return found
        wrong += ["--deselect", found]
    return ""


def failing_world(name: str) -> str:
    """Return the first world of a swarm that fails without the call, and passes with it; empty if there is none."""
    from lab.__main__ import run_one

    def run(kind: str, seed: int) -> int:
        words = run_one(seed, kind=kind)[2]
        print(words)
        return bool(words)

    for kind, count in WORLDS.items():
        for seed in range(1, count + 1):
            work = partial(run, kind, seed)
            code, words = forked(ROOT, without(name, work))
            if code and not forked(ROOT, work)[0]:
                return f"{kind} {seed}: {words.strip()[:200]}"
    return ""


def catcher(name: str, rows: list[tuple[float, str, set[str]]]) -> str:
    """Return the test or world that notices that a call is missing; empty if none does.

    First come tests of its room, then others, the fastest first, then swarms, then slower tests.
    """
    room = f"tests/{name.split('/')[0]}/"
    mine = [(seconds, test) for seconds, test, names in rows if name in names]
    own = [one for one in mine if one[1].startswith(room)]
    others = [one for one in mine if not one[1].startswith(room)]
    spent, rest = 0.0, []
    for seconds, test in own[FIRST:] + others[FIRST:]:
        spent += seconds
        rest += [test] if spent < BUDGET_S else []
    found = (failing_test(name, [test for _, test in tests[:FIRST]]) for tests in (own, others))
    return next(filter(None, found), "") or failing_world(name) or failing_test(name, rest)


def run(work: Path, seed: int, count: int) -> None:
    """Run the drawn calls that have no outcome yet, and print the table."""
    every = sorted(name for path in PACKAGE.rglob("*.py") for name in conditional(path)[1])
    with redirect_stdout(StringIO()) as printed:  # the child processes find the modules of the tests imported
        pytest.main([*ARGUMENTS, "--collect-only"])
    tests = {line for line in printed.getvalue().splitlines() if "\\" not in line}  # pytest does not find such ids
    found = map(json.loads, (work / "passed.jsonl").open(encoding="utf-8"))
    rows = sorted((row["seconds"], row["test"], set(row["passed"])) for row in found if row["test"] in tests)
    file = work / "omissions.json"
    outcomes = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    draw = random.Random(seed).sample(every, min(count, len(every)))
    for number, name in enumerate(draw, 1):
        if name not in outcomes:
            outcomes[name] = catcher(name, rows)
            file.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
        print(f"{number} {'caught' if outcomes[name] else 'SURVIVED'} {name} | {outcomes[name]}", flush=True)
    caught = sum(bool(outcomes[name]) for name in draw)
    print(f"{len(every)} calls, {len(draw)} drawn, {caught} caught, {len(draw) - caught} not")


def main() -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("cover", "run", "check"))
    parser.add_argument("about", nargs="*", help="for check: the name as printed by run, and tests")
    parser.add_argument("--work", type=Path, help="a folder for results")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "testing"), str(ROOT / "tests" / "swarm")]
    setattr(builtins, is_kept.__name__, is_kept)
    sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
    import thinconsumer.testing  # noqa: F401 - for all child processes

    if options.command == "check":
        return not failing_test(options.about[0], options.about[1:])
    options.work.mkdir(parents=True, exist_ok=True)
    if options.command == "run":
        run(options.work.resolve(), options.seed, options.count)
        return 0
    recorder = Recorder(options.work.resolve() / "passed.jsonl")
    return int(pytest.main([*ARGUMENTS], plugins=[recorder]))


if __name__ == "__main__":
    sys.exit(main())
