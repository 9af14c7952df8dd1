"""Check every page: links, anchors, and the tests and files that it names exist; examples compile; sessions (>>>) hold;
the figures about reading are those of one run.

``python docs/check.py``. Links to other sites are not followed, so that no network is needed.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import sys
import textwrap
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)
#: A test in a code span, as pytest names it.
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
#: A file or folder of the package in a code span of the design pages: ``fetch/answers.py``, ``wire/``.
PACKAGE_FILE = re.compile(r"`((?:\w+/)*\w+(?:\.py|/))`")
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)


def pages() -> list[Path]:
    """Return all pages."""
    return sorted(chain(ROOT.glob("*.md"), *((ROOT / name).rglob("*.md") for name in ("docs", "examples", "testing"))))


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub derives from a page's headings."""
    plain = FENCE.sub("", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(plain)}


def link_errors(page: Path, text: str) -> Iterator[str]:
    """Yield links to files and headings that do not exist."""
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.exists():
            yield f"{page.relative_to(ROOT)}: there is no {target}"
        elif anchor and place.suffix == ".md" and anchor not in anchors(place.read_text(encoding="utf-8")):
            yield f"{page.relative_to(ROOT)}: {target} has no such heading"


def example_errors(page: Path, text: str) -> Iterator[str]:
    """Yield Python examples that do not compile, and sessions with another output than shown."""
    for match in FENCE.finditer(text):
        if match["language"] not in ("python", "pycon"):
            continue
        line = text.count("\n", 0, match.start()) + 2
        body = textwrap.dedent(match["body"])
        where = f"{page.relative_to(ROOT)}:{line}"
        if ">>>" in body:
            test = doctest.DocTestParser().get_doctest(body, {}, where, str(page), line)
            failed, _ = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test)
            if failed:
                yield f"{where}: the output of the session differs"
            continue
        try:
            compile(body, where, "exec")
        except SyntaxError as error:
            yield f"{where}: {error}"


def test_errors(page: Path, text: str) -> Iterator[str]:
    """Yield tests that the page names and the repository does not have."""
    known: dict[str, set[str]] = {}
    for path, name in TEST.findall(text):
        if path not in known:
            source = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
            known[path] = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
        if name not in known[path]:
            yield f"{page.relative_to(ROOT)}: there is no {path}::{name}; name the test that checks this now"


def file_errors(page: Path, text: str) -> Iterator[str]:
    """Yield files and folders that the design pages name and none of the packages and the broker has."""
    if page.name not in ("design.md", "invariants.md"):
        return
    testing = ROOT / "testing" / "thinconsumer_testing"
    folders = (ROOT / "thinconsumer", testing.parent, testing, testing / "broker", ROOT)
    for name in dict.fromkeys(PACKAGE_FILE.findall(FENCE.sub("", text))):
        if not any((folder / name).exists() for folder in folders):
            yield f"{page.relative_to(ROOT)}: there is no file {name} in the package"


def figures() -> ModuleType:
    """Return the script that makes the figures of the pages; the modules that it imports are beside it."""
    folder = str(ROOT / "benchmarks")
    sys.path.append(folder)
    try:
        return importlib.import_module("pages")
    finally:
        sys.path.remove(folder)


def main() -> int:
    """Return the exit code."""
    errors = [*figures().errors()]
    for page in pages():
        text = page.read_text(encoding="utf-8")
        errors += [*link_errors(page, text), *example_errors(page, text)]
        errors += [*test_errors(page, text), *file_errors(page, text)]
    print("\n".join(errors) or f"{len(pages())} pages, no errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
