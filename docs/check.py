"""Check every page: links and anchors lead somewhere, Python examples compile, sessions (>>>) say what they say.

``python docs/check.py``. Owns nothing but the check; links to other sites are not followed, so it needs no network.
"""

from __future__ import annotations

import doctest
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)


def pages() -> list[Path]:
    """Return every page a reader may open."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def anchors(text: str) -> set[str]:
    """Return what GitHub makes of a page's headings."""
    plain = FENCE.sub("", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(plain)}


def link_errors(page: Path, text: str) -> Iterator[str]:
    """Yield links that lead nowhere."""
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
    """Yield Python examples that are not Python, or sessions that went otherwise."""
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
                yield f"{where}: the session went otherwise"
            continue
        try:
            compile(body, where, "exec")
        except SyntaxError as error:
            yield f"{where}: {error}"


def main() -> int:
    """Return the exit code."""
    errors = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        errors += [*link_errors(page, text), *example_errors(page, text)]
    print("\n".join(errors) or f"{len(pages())} pages, well")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
