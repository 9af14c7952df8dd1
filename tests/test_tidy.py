"""House rules as tests: the order of imports, the places of clocks and sockets, the length of files and functions.

The checkers are plain functions over source text, tried on good and bad samples first; then on every file there is.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from textwrap import dedent

import pytest

from thinconsumer import __version__

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "thinconsumer"
#: The second distribution. Its files are named relative to the folder: ``thinconsumer_testing/broker/log/log.py``.
TESTING = ROOT / "testing"
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Rooms in which each module with code has a test file of its own: formats, and pure functions over tables.
MIRRORED = {"wire", "records", "assignors", "config"}

#: Imports go one way: a room may import from the rungs before its own, which are the lower ones, and from itself.
#: Errors name partitions, so ``types`` comes before them.
LADDER = (
    {"types", "_version"},
    {"errors"},
    {"support"},
    {"metrics", "linear_hashing", "wire"},
    {"failures", "partitioning", "deserializers"},
    {"records", "assignors"},
    {"config", "driver", "positions"},
    {"network"},
    {"sasl"},
    {"engine"},
    {"group", "fetch", "produce"},
    {"admin", "ordered"},
    {"sockets", "telemetry"},
    {"consumer"},
    {"member"},
    {"aio"},
    {"workers", "replay", "migration"},
    {"cli", "opentelemetry", "polars", "prometheus", "spark"},
    {"compat"},
)
MAY_IMPORT = {room: set(chain(*LADDER[:rung])) for rung, rooms in enumerate(LADDER) for room in rooms}
MAY_IMPORT["__main__"] = {"cli"}
#: The two modules with the public names of thinconsumer_testing, which is installed or not.
MAY_IMPORT["testing"] = MAY_IMPORT["broker"] = {"support", "thinconsumer_testing", "thinconsumer_testing.broker"}
#: A second opinion on the protocol, and no echo of the client: it shares the codec and nothing else.
MAY_IMPORT["thinconsumer_testing.broker"] = {"support", "wire", "records", "types", "errors"}
MAY_IMPORT["thinconsumer_testing"] = {*chain(*LADDER), "thinconsumer_testing.broker"}
#: All other rooms reach the gatekeepers through the port, ``fetch/gatekeeper.py``.
for _room in MAY_IMPORT.keys() - {"consumer", "spark"}:
    MAY_IMPORT[_room].discard("ordered")

#: What mentions ordered delivery, and the files of the client outside ``ordered`` that may: options, wiring, Spark's
#: planner, the page of the protocol's extensions, and the partitioner for other clients.
ORDERED = re.compile(r"ordered.?deliver|KIP-253|\bbarriers?\b|\bgates?\b|(from|import) [\w.]*ordered\b", re.IGNORECASE)
MAY_MENTION_ORDERED = {
    "config/options.py", "config/typed.py", "consumer/managers.py", "partitioning.py", "spark/order.py",
    "wire/extensions.py",
}  # fmt: skip

#: Modules that tell the time, draw lots, wait or talk to the world.
WORLD = {
    "asyncio", "concurrent", "datetime", "multiprocessing", "os", "queue", "random", "sched", "secrets", "select",
    "selectors", "signal", "socket", "socketserver", "ssl", "subprocess", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
#: Where they belong. Everything else takes time and randomness as arguments, so that a test can replay it.
MAY_TOUCH_THE_WORLD = {
    "support/imports.py", "support/files.py", "support/interval_timer.py", "support/held_logs.py",
    "consumer/keep_alive.py", "sockets", "engine/guard.py", "aio/loops.py", "spark", "cli",
    "compat/aiokafka/consumer.py", "compat/aiokafka/options.py", "compat/aiokafka/shared_consumer.py",
    "thinconsumer_testing",
    "thinconsumer_testing/broker/server.py", "thinconsumer_testing/broker/process.py",
    "thinconsumer_testing/broker/directory.py", "thinconsumer_testing/broker/channel.py",
    "thinconsumer_testing/broker/tls_channel.py",
    "sasl/aws_msk_iam.py",  # Formats a given time.
    "workers/processes.py", "workers/running.py", "workers/tasks.py", "workers/threads.py",
    "opentelemetry",  # Collections and spans have times of their own.
    "replay/trace_file.py",  # Its file is the owner's alone.
    "deserializers/columns.py",  # Waits for schemas outside of polls.
    "deserializers/lookups.py",  # Its threads wait for registries, as polls must not.
    "deserializers/plain.py",  # Makes a UUID of its text.
    "partitioning.py",  # Runs in producers of other clients.
}  # fmt: skip

#: Written apart, so that this file does not find itself.
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "XX" + "X")


def room_of(path: str) -> str:
    """Return the room of a file that is named relative to the package, or to the second distribution's folder."""
    first, *rest = path.removesuffix(".py").split("/")
    return f"{first}.broker" if first == "thinconsumer_testing" and rest[0] == "broker" else first


def room_of_import(name: str) -> str | None:
    """Return the room of an absolute name in one of the two packages; None for any other module."""
    head, *rest = name.split(".")
    if head == "thinconsumer_testing":
        return room_of("/".join([head, *rest, ""]))
    return rest[0] if head == "thinconsumer" and rest else None


def imports(tree: ast.AST, package: list[str]) -> Iterator[tuple[str, int]]:
    """Yield (absolute name, line) of whatever is imported anywhere in it, in functions and for types only too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            heads = [node.module] if node.module else [alias.name for alias in node.names]
            for head in heads:
                yield ".".join([*base, head]), node.lineno
            if node.module in ("thinconsumer", "thinconsumer_testing") and not node.level:
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", node.lineno


def import_errors(path: str, source: str) -> Iterator[str]:
    """Yield what this file imports and must not; ``path`` is relative to the package."""
    room = room_of(path)
    package = path.split("/")[:-1]
    if not room.startswith("thinconsumer_testing"):
        package.insert(0, "thinconsumer")
    if room == "__init__":
        return  # the façade re-exports from everywhere
    if room not in MAY_IMPORT:
        yield f"{path}: the room {room!r} is on no rung: add it to the ladder, and to docs/design.md"
        return
    for name, line in imports(ast.parse(source), package):
        head = name.split(".")[0]
        imported = room_of_import(name)
        if imported is not None and imported not in MAY_IMPORT[room] | {room}:
            yield f"{path}:{line}: {room} may not import {imported}"
        if head in WORLD and not {room, path} & MAY_TOUCH_THE_WORLD:
            yield f"{path}:{line}: {room} may not touch the world, which {head} does"
        if head == "pyspark" and room != "spark":
            yield f"{path}:{line}: only spark may import pyspark"


def size_errors(path: str, source: str) -> Iterator[str]:
    """Yield the file and its functions where they are longer than allowed."""
    if (lines := source.count("\n")) > FILE_LINES_MAX:
        yield f"{path}: {lines} lines, at most {FILE_LINES_MAX}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, FUNCTIONS):
            assert node.end_lineno is not None
            if (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES_MAX:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"


def text_errors(path: str, source: str) -> Iterator[str]:
    for number, line in enumerate(source.splitlines(), start=1):
        for mark in UNFINISHED:
            if mark in line:
                yield f"{path}:{number}: {mark}: do it, or write down why not"


def errors_of_mentions(path: str, source: str) -> Iterator[str]:
    """Yield the lines of a client's file that mention ordered delivery, unless the file may."""
    if path in MAY_MENTION_ORDERED or room_of(path) == "ordered":
        return
    for number, line in enumerate(source.splitlines(), start=1):
        if ORDERED.search(line):
            yield f"{path}:{number}: mentions ordered delivery: call it through fetch/gatekeeper.py"


def docstring_errors(path: str, source: str) -> Iterator[str]:
    if not (ast.get_docstring(ast.parse(source)) or "").strip():
        yield f"{path}: no docstring that says what it owns"


def has_code(source: str) -> bool:
    """Return whether there is anything to test apart from data: a function, or a method other than in a Protocol."""
    tree = ast.parse(source)
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    protocols = [node for node in classes if any("Protocol" in ast.unparse(base) for base in node.bases)]
    promises = set(chain.from_iterable(ast.walk(protocol) for protocol in protocols))
    return any(isinstance(node, FUNCTIONS) and node not in promises for node in ast.walk(tree))


def errors_of_missing_tests(path: str, source: str, tests: set[str]) -> Iterator[str]:
    """Yield a module of the rooms in ``MIRRORED`` that has code and no test file of its own, ``wire/test_fetch.py``.

    ``tests`` are paths relative to the tests' folder. Modules that are data only are tested as rows of a table. Tests
    of other rooms are arranged by behaviour, so that code can move between their modules.
    """
    *folders, file = path.split("/")
    own = "/".join([*folders, f"test_{file.removesuffix('.py').lstrip('_')}.py"])
    if folders and folders[0] in MIRRORED and file != "__init__.py" and own not in tests and has_code(source):
        yield f"{path}: no tests/{own}"


def repeated_classes(sources: Mapping[str, str]) -> Iterator[str]:
    """Yield the classes of which the modules (source text by path) have two of one name."""
    places: dict[str, list[str]] = {}
    for path, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    for name, found in places.items():
        if len(found) > 1:
            yield f"{name}: {', '.join(found)}: name each after what it is"


def sources(folder: Path, *patterns: str) -> list[Path]:
    """Return the files below it that match, without what tools leave behind."""
    found = chain.from_iterable(folder.rglob(pattern) for pattern in patterns)
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def check(errors_in, folder: Path, base: Path, *more: set[str]) -> None:
    """Fail with every error that the checker finds below the folder."""
    files = sources(folder, "*.py")
    assert files, f"nothing to check in {folder}"
    errors = []
    for file in files:
        path = file.relative_to(base).as_posix()
        errors += errors_in(path, file.read_text(encoding="utf-8"), *more)
    assert not errors, "\n" + "\n".join(errors)


# -- the checkers, on samples


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("fetch/planner.py", "from ..positions.partitions import Cursor"),
        ("fetch/planner.py", "from . import sessions"),
        ("fetch/planner.py", "from .sessions import Session"),
        ("group/classic/leader.py", "from ...assignors import range"),
        ("consumer/managers.py", "from ..fetch.planner import Planner\nfrom .. import network"),
        ("sockets/clock.py", "import time\nfrom ..driver import Driver"),
        ("thinconsumer_testing/broker/server.py", "import selectors"),
        ("thinconsumer_testing/clock.py", "import random\nfrom thinconsumer.consumer import Consumer"),
        ("thinconsumer_testing/broker/topics.py", "from .image import Image\nfrom thinconsumer.wire import fetch"),
        ("broker.py", "from .support.imports import import_testing\nfrom thinconsumer_testing.broker import *"),
        ("spark/reader.py", "import pyspark"),
        ("wire/source.py", "import struct\nimport math"),
    ],
)
def test_imports_that_flow_downhill_pass(path, source):
    assert list(import_errors(path, source)) == []


@pytest.mark.parametrize(
    ("path", "source", "word"),
    [
        ("fetch/planner.py", "from ..group import members", "group"),
        ("fetch/planner.py", "from .. import sockets", "sockets"),
        ("group/state.py", "import thinconsumer.fetch.planner", "fetch"),
        ("group/state.py", "from thinconsumer import fetch", "fetch"),
        ("wire/fetch.py", "def f():\n    from ..records import batch", "records"),
        ("wire/fetch.py", "if TYPE_CHECKING:\n    from ..consumer import Consumer", "consumer"),
        ("group/classic/leader.py", "from ...consumer import Consumer", "consumer"),
        ("config/options.py", "from ..driver import Driver", "driver"),
        ("fetch/planner.py", "from thinconsumer_testing.clock import VirtualClock", "thinconsumer_testing"),
        ("fetch/planner.py", "from ..broker import BrokerProcess", "broker"),
        ("thinconsumer_testing/broker/topics.py", "from thinconsumer.fetch import planner", "fetch"),
        ("thinconsumer_testing/broker/topics.py", "from ..clock import VirtualClock", "thinconsumer_testing"),
        ("thinconsumer_testing/broker/topics.py", "import selectors", "selectors"),
        ("engine/engine.py", "import time", "time"),
        ("engine/engine.py", "from time import monotonic", "time"),
        ("network/sasl.py", "import secrets", "secrets"),
        ("fetch/planner.py", "import os.path", "os"),
        ("consumer.py", "def f():\n    import random", "random"),
        ("engine/engine.py", "import pyspark.sql", "pyspark"),
        ("cli/topics.py", "from ..ordered.gates import START", "ordered"),
        ("attic.py", "", "attic"),
    ],
)
def test_imports_that_flow_uphill_or_touch_the_world_are_found(path, source, word):
    (error,) = import_errors(path, source)
    assert error.startswith(path)
    assert word in error


def test_no_room_can_import_itself_through_others():
    """The rule has no cycle: following it from any room never leads back there."""
    for room in MAY_IMPORT:
        reached, todo = set(), set(MAY_IMPORT[room])
        while todo:
            reached.add(found := todo.pop())
            todo |= MAY_IMPORT[found] - reached
        assert room not in reached


def test_the_design_page_shows_the_ladder():
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```\n(types, _version.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert tuple(set(re.findall(r"\w+", rung)) for rung in block.split("→")) == LADDER


def test_sizes_are_measured_at_their_limits():
    body = "    pass\n" * (FUNCTION_LINES_MAX - 1)
    assert list(size_errors("a.py", f"def f():\n{body}")) == []
    assert "f has 71 lines" in next(size_errors("a.py", f"def f():\n{body}    pass\n"))
    assert "f has 71 lines" in next(size_errors("a.py", f"async def f():\n{body}    pass\n"))
    assert list(size_errors("a.py", "a = 1\n" * FILE_LINES_MAX)) == []
    assert "601 lines" in next(size_errors("a.py", "a = 1\n" * (FILE_LINES_MAX + 1)))


def test_unfinished_work_and_missing_docstrings_are_found():
    assert "a.py:2" in next(text_errors("a.py", f"a = 1\nb = 2  # {UNFINISHED[0]}: c"))
    assert list(text_errors("a.py", "a = 1  # todos os dias")) == []
    assert list(docstring_errors("a.py", "a = 1"))
    assert list(docstring_errors("a.py", '""" """\n'))
    assert list(docstring_errors("a.py", '"""Owns a."""\n')) == []


@pytest.mark.parametrize(
    ("path", "source", "tests", "missing"),
    [
        ("wire/schema.py", "def f(): ...", {"wire/test_schema.py"}, False),
        ("wire/schema.py", "def f(): ...", {"records/test_schema.py", "test_schema.py"}, True),
        ("records/columnar/walk.py", "def f(): ...", {"records/test_walk.py"}, True),
        ("wire/fetch.py", "class Fetch:\n    a: int", set(), False),
        ("wire/fetch.py", "class Fetch:\n    def f(self): ...", set(), True),
        ("wire/source.py", "class Source(Protocol):\n    def f(self): ...", set(), False),
        ("wire/source.py", "class Source(Protocol):\n    def f(self): ...\ndef g(): ...", set(), True),
        ("wire/__init__.py", "def f(): ...", set(), False),
        ("engine/engine.py", "def f(): ...", set(), False),
        ("engine.py", "def f(): ...", set(), False),
    ],
)
def test_modules_without_tests_are_found(path, source, tests, missing):
    assert bool(list(errors_of_missing_tests(path, dedent(source), tests))) is missing


@pytest.mark.parametrize(
    ("path", "source", "found"),
    [
        ("fetch/planner.py", "# KIP-253", True),
        ("fetch/planner.py", "from ..ordered import holds", True),
        ("cli/topics.py", "a = 'topics with ordered delivery'", True),
        ("group/group.py", "self.barrier = None", True),
        ("fetch/planner.py", "from .gatekeeper import Gatekeeper  # in an ordered list", False),
        ("consumer/managers.py", "from ..ordered import holds", False),
        ("ordered/holds.py", "# KIP-253", False),
    ],
)
def test_mentions_of_ordered_delivery_are_found(path, source, found):
    assert bool(list(errors_of_mentions(path, source))) is found


def test_classes_of_one_name_are_found():
    two = {"a.py": "class A: ...\nclass B: ...", "b/c.py": "\nclass A:\n    class B: ..."}
    assert list(repeated_classes(two)) == ["A: a.py:1, b/c.py:2: name each after what it is"]


# -- the checkers, on what is there


def test_imports_go_one_way_and_clocks_and_sockets_stay_in_their_rooms():
    check(import_errors, PACKAGE, PACKAGE)
    check(import_errors, TESTING, TESTING)


def test_six_files_of_the_client_mention_ordered_delivery():
    check(errors_of_mentions, PACKAGE, PACKAGE)
    assert len(MAY_MENTION_ORDERED) <= 6
    for path in MAY_MENTION_ORDERED:
        assert ORDERED.search((PACKAGE / path).read_text(encoding="utf-8")), f"{path} is off the list: remove it"


@pytest.mark.parametrize("folder", ["thinconsumer", "testing", "tests", "benchmarks", "examples", "docs", ".ci"])
def test_files_and_functions_stay_short(folder):
    check(size_errors, ROOT / folder, ROOT)


@pytest.mark.parametrize("folder", ["thinconsumer", "testing", "tests", "benchmarks", "examples", "docs", ".ci"])
def test_nothing_is_left_unfinished(folder):
    check(text_errors, ROOT / folder, ROOT)


@pytest.mark.parametrize("folder", ["thinconsumer", "testing", "tests", "benchmarks", "examples", "docs", ".ci"])
def test_every_module_says_what_it_owns(folder):
    check(docstring_errors, ROOT / folder, ROOT)


def test_every_module_of_formats_and_tables_has_a_test_file_of_its_own():
    tests = {file.relative_to(ROOT / "tests").as_posix() for file in sources(ROOT / "tests", "test_*.py")}
    check(errors_of_missing_tests, PACKAGE, PACKAGE, tests)


def test_both_distributions_have_one_version_and_need_each_other_at_it():
    """thinconsumer_testing uses internals of the client: with another version it would break in odd places."""
    files = ["testing/thinconsumer_testing/_version.py", "testing/pyproject.toml", "pyproject.toml"]
    patterns = ['__version__ = "(.+)"', '"thinconsumer==(.+)"', '"thinconsumer-testing==(.+)"']
    found = [re.findall(pattern, (ROOT / file).read_text()) for file, pattern in zip(files, patterns)]
    assert found == [[__version__]] * 3
    assert (TESTING / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_no_two_classes_of_the_client_and_the_broker_have_one_name():
    files = [*sources(PACKAGE, "*.py"), *sources(TESTING, "*.py")]
    found = repeated_classes({file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files})
    assert not (errors := list(found)), "\n" + "\n".join(errors)
