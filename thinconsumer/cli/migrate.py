"""Print what to change in programs that use the consumer of kafka-python, confluent-kafka or aiokafka.

Nothing is changed or run. The exit code is 0 if nothing is to be changed, 1 if something is, 2 if a file cannot be
read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..migration import Finding, scan
from .cluster import notify
from .output import counted, print_rows
from .parsing import Parser, from_file

HEADS = ("file", "line", "what", "instead", "why", "also")
NOTHING, SOMETHING, UNREADABLE = 0, 1, 2


def describe(parser: Parser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="Python files, or folders: all .py files in them")
    parser.add_argument("--json", action="store_true", help="print a JSON object per change")


def run(options: argparse.Namespace) -> int:
    code, files, changed, changes = NOTHING, 0, 0, 0
    for path in _paths(options.files):
        files += 1
        try:
            found = from_file(str(path), scan)
        except argparse.ArgumentTypeError as error:
            notify(f"error: {error}")
            code = UNREADABLE
            continue
        changed += bool(found)
        changes += len(found)
        if options.json:
            print_rows(HEADS, [(str(path), *one) for one in found], as_json=True)
        else:
            sys.stdout.writelines(f"{path}:{one.line}: {_words(one)}\n" for one in found)
    notify(f"{counted(files, 'file')} read, {counted(changes, 'change')} in {counted(changed, 'file')}")
    return code or (SOMETHING if changes else NOTHING)


def _paths(names: Iterable[str]) -> Iterator[Path]:
    """Yield the files, and of folders those that end in .py; none in hidden folders or among installed packages."""
    for path in map(Path, names):
        if not path.is_dir():
            yield path
            continue
        for found in sorted(path.rglob("*.py")):
            inside = found.relative_to(path).parts
            if "site-packages" not in inside and not any(part.startswith(".") for part in inside):
                yield found


def _words(one: Finding) -> str:
    why = f" ({one.why})" if one.why else ""
    also = f" [also line {', '.join(map(str, one.also))}]" if one.also else ""
    return f"{one.what} -> {one.instead}{why}{also}"
