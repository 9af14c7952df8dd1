"""Count the source of one or more commits, and draw samples of it: ``python .ci/house.py [COMMIT ...]``.

Counted are all ``*.py`` files that a commit tracks, by part: the client, the part for tests (the embedded broker, the
simulation and the demo), this project's own tests, and the rest. In the client, what holds a schedule is counted, too:
lines that name NEVER, ``def wake_at``, and functions and attributes that return or hold the next time of something, as
far as their names, or NEVER as a value, show it. The engine's agenda is left out: that is where times belong.
``--list`` shows them.

``--draw`` prints five functions of the client, and sixty comments and docstrings of everything but ``wire``, drawn with
the hash of the commit as the seed. ``--wheel`` adds the size of a wheel, and whether it holds a server.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import subprocess
import tokenize
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("client", "testing", "tests", "rest")
#: What serves tests: a folder of its own, before it was moved there parts of the package.
_FOR_TESTS = re.compile(r"testing/")
_FOR_TESTS_BEFORE = re.compile(
    r"thinconsumer/(broker|testing)/"
    r"|thinconsumer/cli/(broker|customer_audit|demo\w*|order_audit|orders|picture|security_file)\.py$"
)
_AGENDA = re.compile(r"(^|/)agenda\.py$")
#: Names of next times. Times of past events (``sent_at``) and deadlines, which a caller gives, are none.
_NEXT_TIME = re.compile(
    r"(^|_)((wake|due|look|retry|next|dial|leave|heartbeat|look_up|ask_again|disturb|reauthenticate|forget|ends?)_at"
    r"|due|first_due|until|not_before|rejoin_by)$"
)
_DIRECTIVE = re.compile(r"#\s*(noqa|type:|fmt:|!|pragma)")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def parts_of(paths: Iterable[str]) -> dict[str, str]:
    """Return the part of the repository that each file belongs to."""
    for_tests = _FOR_TESTS if any(map(_FOR_TESTS.match, paths)) else _FOR_TESTS_BEFORE
    heads = {"thinconsumer": "client", "pyspark_thinconsumer": "client", "tests": "tests"}
    return {path: "testing" if for_tests.match(path) else heads.get(path.split("/")[0], "rest") for path in paths}


def git(*arguments: str, text: str = "") -> bytes:
    """Return the output of a git command in this repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, input=text.encode(), capture_output=True, check=True).stdout


def sources(commit: str) -> dict[str, str]:
    """Return the text of each Python file of a commit by its path, in the order of paths."""
    names = git("ls-tree", "-r", "-z", "--name-only", commit).decode().split("\0")
    paths = sorted(name for name in names if name.endswith(".py"))
    out, found, at = git("cat-file", "--batch", text="".join(f"{commit}:{path}\n" for path in paths)), {}, 0
    for path in paths:
        start = out.index(b"\n", at) + 1
        at = start + int(out[at:start].split()[2])
        found[path] = out[start:at].decode()
        at += 1
    return found


def next_times(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of what holds or returns a next time: by its name, or because it may be NEVER."""
    seen = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, FUNCTIONS):
            if node.returns is not None and "float" in ast.unparse(node.returns):
                yield from [(node.lineno, node.name)] if is_next_time(node.name, node.body) else []
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Attribute) and is_next_time(target.attr, [node]) and target.attr not in seen:
                    seen.add(target.attr)
                    yield node.lineno, target.attr


def is_next_time(name: str, body: Sequence[ast.AST]) -> bool:
    """Return whether a function or an attribute has the name of a next time, or statements that name NEVER."""
    nodes = list(chain.from_iterable(map(ast.walk, body)))
    past = {id(node.operand) for node in nodes if isinstance(node, ast.UnaryOp)}  # -NEVER: it has not happened yet
    named = [node for node in nodes if isinstance(node, ast.Name) and node.id == "NEVER" and id(node) not in past]
    return bool(named or _NEXT_TIME.search(name))


def figures(commit: str) -> dict[str, tuple[int, int] | int]:
    """Return the figures of a commit by their titles; (files, lines) of a part."""
    files = sources(commit)
    parts = parts_of(files)
    found: dict[str, tuple[int, int] | int] = {}
    for part in (*PARTS, "repository"):
        texts = [text for path, text in files.items() if part in (parts[path], "repository")]
        found[part] = len(texts), sum(text.count("\n") for text in texts)
    texts = [text for path, text in files.items() if parts[path] == "client" and not _AGENDA.search(path)]
    lines = [line for text in texts for line in text.splitlines()]
    found["lines that name NEVER"] = sum(bool(re.search(r"\bNEVER\b", line)) for line in lines)
    found["def wake_at"] = sum("def wake_at" in line for line in lines)
    found["next times"] = sum(1 for text in texts for _ in next_times(text))
    return found


def prose(path: str, source: str) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of each docstring and comment; adjacent comment lines count as one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and (text := ast.get_docstring(node)):
            yield f"{path}:{getattr(node, 'lineno', 1)} {getattr(node, 'name', '')}", text
    block: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or _DIRECTIVE.match(token.string):
            continue
        is_alone = not token.line[: token.start[1]].strip()
        if block and not (is_alone and token.start == (block[-1].start[0] + 1, block[-1].start[1])):
            yield f"{path}:{block[0].start[0]}", "\n".join(part.string for part in block)
            block = []
        block.append(token)
    if block:
        yield f"{path}:{block[0].start[0]}", "\n".join(part.string for part in block)


def draw(commit: str) -> None:
    """Print functions, comments and docstrings of a commit, drawn with its hash."""
    seed = git("rev-parse", f"{commit}^{{commit}}").decode().strip()
    files, rng = sources(commit), random.Random(seed)
    parts = parts_of(files)
    functions = [
        f"{path}:{node.lineno} {node.name}\n{ast.get_source_segment(text, node)}"
        for path, text in files.items()
        if parts[path] == "client"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, FUNCTIONS)
    ]
    shown = [path for path in files if parts[path] in ("client", "testing") and "/wire/" not in path]
    texts = [f"{place}\n{text}" for path in shown for place, text in prose(path, files[path])]
    print(f"seed {seed}: {len(functions)} functions, {len(texts)} comments and docstrings\n")
    for title, drawn in ("function", rng.sample(functions, 5)), ("text", rng.sample(texts, 60)):
        for number, text in enumerate(drawn, start=1):
            print(f"--- {title} {number}: {text}\n")


def print_wheel(path: str) -> None:
    """Print the size of a wheel and of the files in it, and whether a server is among them."""
    with zipfile.ZipFile(path) as wheel:
        size = sum(info.file_size for info in wheel.infolist())
        has_server = any(info.filename.endswith("broker/server.py") for info in wheel.infolist())
    server = "with" if has_server else "without"
    print(
        f"{Path(path).name}: {Path(path).stat().st_size / 1e6:.2f} MB, unpacked {size / 1e6:.2f} MB, {server} a server"
    )


def main() -> None:
    """Print a table with a column for each commit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("commits", nargs="*", default=["HEAD"], metavar="COMMIT")
    parser.add_argument("--wheel", action="append", default=[])
    parser.add_argument("--list", action="store_true", help="list the next times of the last commit")
    parser.add_argument("--draw", action="store_true", help="draw samples of the last commit")
    options = parser.parse_args()
    columns = [figures(commit) for commit in options.commits]
    print(f"{'':22}" + "".join(f"{commit[:12]:>18}" for commit in options.commits))
    for title in columns[0]:
        values = [column[title] for column in columns]
        cells = [f"{v[1]:,} in {v[0]}" if isinstance(v, tuple) else str(v) for v in values]
        print(f"{title:22}" + "".join(f"{cell:>18}" for cell in cells))
    for path in options.wheel:
        print_wheel(path)
    files = sources(options.commits[-1]) if options.list else {}
    for path, part in parts_of(files).items():
        if part == "client" and not _AGENDA.search(path):
            for line, name in next_times(files[path]):
                print(f"{path}:{line} {name}")
    if options.draw:
        draw(options.commits[-1])


if __name__ == "__main__":
    main()
