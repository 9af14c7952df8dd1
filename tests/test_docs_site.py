"""The site: every page and every public name has its place, links hold there, and broken ones are found."""

import importlib
import sys
from pathlib import Path, PurePosixPath

import pytest

import thinconsumer

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def load():
    """Import scripts of docs/ and docs/site/, which import those beside them."""
    folders = [str(DOCS), str(DOCS / "site")]
    sys.path += folders
    yield importlib.import_module
    for folder in folders:
        sys.path.remove(folder)


def test_every_page_is_in_one_section_of_the_index(load):
    """Those that docs/index.md does not name are in a last one."""
    sources, text = load("sources"), (DOCS / "index.md").read_text(encoding="utf-8")
    text = text.replace("* [Workers](workers.md)", "* Workers")
    text = sources.moved(text, DOCS / "index.md")[0]
    assert "* [Workers: in parallel, in order by key](workers.md): not sorted yet\n" in sources.unlisted(text)
    listed = [target for _, pages in sources.sections(sources.with_contents(text)) for _, target, _ in pages]
    assert len(listed) == len(set(listed))
    here = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert here - set(listed) == {"index.md"}


def test_every_public_name_is_in_the_reference(load):
    named = [name for _, _, _, modules in load("reference").PAGES for name in modules.get("thinconsumer", [])]
    assert sorted(named) == sorted({*thinconsumer.__all__} - {"__version__"})


def test_links_lead_to_where_their_targets_are_on_the_site(load):
    sources = load("sources")
    page = DOCS / "tutorials" / "group.md"
    text = "[a](../groups.md#commits) ![b](../scale.svg) [c](../../examples/long_work.py)\n"
    text += "[d](../../README.md) [e](#here) [f](../../benchmarks/README.md) [g](https://kafka.apache.org)\n```python\nx[0](y)\n```\n"
    moved, files = sources.moved(text, page)
    assert moved == (
        "[a](../groups.md#commits) ![b](../scale.svg) [c](../examples/long_work.py.md)\n"
        "[d](../index.md) [e](#here) [f](../benchmarks.md) [g](https://kafka.apache.org)\n```python\nx[0](y)\n```\n"
    )
    assert ROOT / "examples" / "long_work.py" in files
    assert sources.place(ROOT / "CHANGELOG.md") == PurePosixPath("changes.md")


def test_broken_links_of_the_built_site_are_found(load, tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#one"></a><a href="b.html#two"></a><img src="c.svg">', "utf-8")
    (tmp_path / "b.html").write_text(
        '<p id="one"><a href="#one"></a><a href="https://kafka.apache.org/x"></a>', "utf-8"
    )
    assert list(load("sources").link_errors(tmp_path)) == [
        "a.html: b.html#two has no such place",
        "a.html: there is no c.svg",
    ]


def test_llms_txt_names_the_text_of_each_page(load):
    sources = load("sources")
    text = sources.llms(sources.with_contents((DOCS / "index.md").read_text(encoding="utf-8")))
    assert text.startswith("# thinconsumer\n\n> A Kafka consumer in pure Python")
    assert "- [Options](_sources/options.md.txt): every option" in text
    assert "- [Exceptions](api/errors.html): each" in text


def test_the_pictures_are_what_the_tables_say(load):
    """``python docs/generate_diagrams.py`` was run after the last change of a table."""
    made = load("generate_diagrams").pictures()
    folder = DOCS / "diagrams"
    assert {path.name for path in folder.iterdir()} == set(made)
    for name, picture in made.items():
        assert (folder / name).read_text(encoding="utf-8") == picture
