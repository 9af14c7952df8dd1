"""The pages of docs/ as tests read them: their code blocks, and the scripts beside them, which are no package."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[1] / "docs"


@functools.cache
def load(name: str) -> ModuleType:
    """Import a script of docs/."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the code blocks of a page: the language and the code of each."""
    text = page.read_text(encoding="utf-8")
    return [(match["language"], match["body"]) for match in load("check").FENCE.finditer(text)]


def code(page: Path, language: str = "python") -> list[str]:
    """Return the code of the page's blocks in one language."""
    return [body for found, body in blocks(page) if found == language]
