"""The pages of the site as they are in the repository, where their links lead there, and the links of the result."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from os.path import relpath
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Files outside of docs/ that are pages of the site, with their names there. README.md is the first page.
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/pipeline/README.md": "examples/pipeline.md",
}
LANGUAGES = {".py": "python", ".java": "java", ".json": "json"}
#: A fence, which stays as it is, or a link or an image.
LINK = re.compile(r"^ *```.*?^ *```|(?P<text>\[[^\]]*\]\()(?P<target>[^)\s]+)\)", re.DOTALL | re.MULTILINE)
#: A section of docs/index.md, and one of its pages.
SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
ENTRY = re.compile(r"^\* \[([^\]]+)\]\(([^)]+)\): (.*)$", re.MULTILINE)


def place(path: Path) -> PurePosixPath:
    """Return where a file of the repository is on the site."""
    name = path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()
    return PurePosixPath(ELSEWHERE.get(name, name if path.suffix in (".md", ".svg", ".png") else f"{name}.md"))


def moved(text: str, page: Path) -> tuple[str, list[Path]]:
    """Return a page's text with links that hold on the site, and the files that it links."""
    files: list[Path] = []

    def link(match: re.Match[str]) -> str:
        if match["target"] is None or re.match(r"[a-z]+:|#", match["target"]):
            return match[0]
        name, mark, anchor = match["target"].partition("#")
        path = (page.parent / name).resolve()
        files.append(path)
        return f"{match['text']}{relpath(place(path), place(page).parent)}{mark}{anchor})"

    return LINK.sub(link, text), files


def sections(index: str) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield each section of docs/index.md, with the title, the target and the description of its pages."""
    _, *parts = SECTION.split(index)
    for title, text in zip(parts[::2], parts[1::2]):
        yield title, ENTRY.findall(text)


def unlisted(index: str) -> list[str]:
    """Return a list entry for each page of docs/ that docs/index.md does not name."""
    named = {target for _, pages in sections(index) for _, target, _ in pages} | {"index.md"}
    found = []
    for path in sorted(DOCS.rglob("*.md")):
        if (name := place(path).as_posix()) not in named:
            title = path.read_text(encoding="utf-8").removeprefix("# ").partition("\n")[0]
            found.append(f"* [{title}]({name}): not sorted yet\n")
    return found


def with_contents(index: str) -> str:
    """Return docs/index.md with the pages of the API and those that it does not name, and with tables of contents."""
    if more := unlisted(index):
        index += "\n## More\n\n" + "".join(more)
    entries = "".join(f"* [{title}]({name}): {says}\n" for name, title, says in reference.ENTRIES)
    index = index.replace("\n## Explanation", f"\nThe public classes and functions:\n\n{entries}\n## Explanation")
    for title, pages in sections(index):
        names = "\n".join(f"{name} <{target}>" for name, target, _ in pages)
        index += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{names}\n```\n"
    return index


def write_pages(folder: Path) -> None:
    """Fill the folder that Sphinx reads."""
    waiting = [*DOCS.rglob("*.md"), *DOCS.rglob("*.svg")]
    texts: dict[PurePosixPath, str] = {PurePosixPath(name): text for name, text in reference.pages()}
    for path in waiting:
        if place(path) in texts or path == ROOT / "README.md":
            continue
        if path.suffix == ".png":
            (folder / place(path)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / place(path))
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            text, linked = moved(text, path)
            waiting += linked
        elif path.suffix != ".svg":
            text = f"# {path.name}\n\n```{LANGUAGES.get(path.suffix, '')}\n{text}```\n"
        if place(path).parts[0] in ("examples", "grafana", "tests") and path.suffix != ".svg":
            text = f"---\norphan: true\n---\n\n{text}"
        texts[place(path)] = with_contents(text) if path == DOCS / "index.md" else text
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def llms(index: str) -> str:
    """Return llms.txt: what the site is about, and each page as text, for programs that read pages."""
    head = " ".join(index.split("\n\n")[1].split())
    lines = [f"# thinconsumer\n\n> {head}"]
    for title, pages in sections(index):
        lines.append(f"\n## {title}\n")
        for name, target, says in pages:
            at = f"_sources/{target}.txt" if target.endswith(".md") else target.replace(".rst", ".html")
            lines.append(f"- [{name}]({at}): {says}")
    return "\n".join(lines) + "\n"


class Links(HTMLParser):
    """The targets of one page's links, and the places in it that links can name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            elif name == "id" and value:
                self.places.add(value)


def link_errors(site: Path) -> Iterator[str]:
    """Yield the links of all pages whose target does not exist. Links to other sites are not followed."""
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for page, links in pages.items():
        for target in dict.fromkeys(links.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not path.is_file():
                yield f"{page.relative_to(site)}: there is no {target}"
            elif path in pages and parts.fragment and unquote(parts.fragment) not in pages[path].places:
                yield f"{page.relative_to(site)}: {target} has no such place"
