"""Pages that are made from the code say what the code says."""

import re
from pathlib import Path

import pytest

import thinconsumer
from tests.pages import load

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent


def test_the_states_page_is_what_the_tables_say():
    """``python docs/generate_states.py`` was run after the last change of a table."""
    module = load("generate_states")
    assert module.PAGE.read_text(encoding="utf-8") == module.page()


def test_every_state_has_a_meaning():
    """A state without a comment behind it would leave a hole in the page."""
    module = load("generate_states")
    for _, _, kind, moves in module.MACHINES:
        assert set(module.meanings(kind)) == {state.name for state in kind}
        assert set(moves) == set(kind)


def test_the_original_design_is_compared_with_what_exists():
    """Names in the columns of docs/original_design.txt that say what is here are those of the code."""
    folders = ("thinconsumer", "testing", "tests/swarm/lab", "examples")
    files = [path for name in folders for path in (ROOT / name).rglob("*.py")]
    known = "\n".join(path.read_text(encoding="utf-8") for path in files)
    rows = re.findall(r"^\|[^|]*\|(.*)\|$", load("generate_states").TAIL, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w./]+)[^`]*`", row) if not name.startswith("tests/")}
    assert len(named) > 80
    assert {name for name in named if not exists(name, known, files)} == set()


def exists(name: str, known: str, files: list[Path]) -> bool:
    """Return whether the code has a file, an attribute of a class, an option or another word like this."""
    if name.endswith(".py"):
        return any(path.as_posix().endswith(f"/{name}") for path in files)
    owner, _, attribute = name.partition(".")
    found = getattr(thinconsumer, owner, None)
    if attribute and isinstance(found, type):
        return hasattr(found, attribute)
    return re.search(rf"\b{name.replace('.', '_')}\b", known) is not None or name in known


def test_the_errors_page_is_what_the_tables_say():
    """``python docs/generate_errors.py`` was run after the last change of a table."""
    module = load("generate_errors")
    assert module.PAGE.read_text(encoding="utf-8") == module.page()


def test_the_errors_page_names_every_error():
    """docs/errors.md has a row for each public error, and for nothing else."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w*Error|NoBrokersAvailable)` \|", page, re.MULTILINE))
    public = {n for n in thinconsumer.__all__ if isinstance(getattr(thinconsumer, n), type)}
    assert named == {n for n in public if issubclass(getattr(thinconsumer, n), thinconsumer.KafkaError)}


def test_pages_of_promises_name_existing_tests_and_files():
    """Rename a test or file there, too."""
    module = load("check")
    for page in (ROOT / "docs" / name for name in ("design.md", "invariants.md", "workers.md")):
        text = page.read_text(encoding="utf-8")
        assert [*module.test_errors(page, text), *module.file_errors(page, text)] == []


def test_an_invariant_is_one_line_or_two_and_names_the_tests_that_hold_it():
    module, text = load("check"), (ROOT / "docs" / "invariants.md").read_text(encoding="utf-8")
    invariants = [part.split("\n\n")[0] for part in re.split(r"^\* ", text, flags=re.MULTILINE)[1:]]
    assert len(invariants) > 80
    for invariant in invariants:
        assert module.TEST.search(invariant)
        assert len([line for line in invariant.splitlines() if not line.startswith("  `tests/")]) <= 2, invariant


@pytest.mark.parametrize(("name", "most"), [("README.md", 100), ("docs/design.md", 300)])
def test_introductions_stay_short(name, most):
    assert (ROOT / name).read_text(encoding="utf-8").count("\n") <= most


def test_a_missing_test_or_file_is_an_error():
    module, page = load("check"), ROOT / "docs" / "design.md"
    text = "`tests/test_docs.py::test_nothing` `tests/no.py::test_a` `tests/pages.py::load` `fetch/no.py` `wire/`"
    found = [*module.test_errors(page, text), *module.file_errors(page, text)]
    assert [line.split(": ")[1].split(";")[0] for line in found] == [
        "there is no tests/test_docs.py::test_nothing",
        "there is no tests/no.py::test_a",
        "there is no file fetch/no.py in the package",
    ]


def test_all_figures_about_reading_are_those_of_one_run():
    """``python benchmarks/pages.py`` was run after the last change of ``benchmarks/figures.json``."""
    assert list(load("check").figures().errors()) == []


@pytest.mark.parametrize("name", ["README.md", "benchmarks/README.md", "docs/columns.md", "docs/reading.svg"])
def test_a_changed_figure_is_an_error(name):
    pages = load("check").figures()
    texts = {path: path.read_text(encoding="utf-8") for path in (*pages.PAGES, pages.CHART)}
    part = pages.PART.search(texts[ROOT / name])
    figure = re.search(r"[1-9]\d+(?= \[| \||\) \[|\)</text)", part[0] if part else texts[ROOT / name])
    assert figure is not None
    at = (part.start() if part else 0) + figure.start()
    texts[ROOT / name] = texts[ROOT / name][:at] + "9" + texts[ROOT / name][at:]
    assert [line.split(":")[0] for line in pages.errors(texts)] == [name]


def test_a_page_without_its_figures_is_an_error():
    pages = load("check").figures()
    texts = {path: path.read_text(encoding="utf-8") for path in (*pages.PAGES, pages.CHART)}
    texts[ROOT / "README.md"] = pages.PART.sub("", texts[ROOT / "README.md"])
    assert [line.split(" of figures")[0] for line in pages.errors(texts)] == [
        "the pages have the parts ['reading', 'columns']"
    ]
