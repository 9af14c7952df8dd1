"""Build the site: ``python docs/site/build.py FOLDER`` (``tox -e site``). Its first page is FOLDER/html/index.html.

GitHub shows the pages where they are in the repository. Sphinx wants them in one folder: they are copied to
FOLDER/pages, with their links changed to where the targets are there. A linked file that is no page, such as an
example, becomes one. Sections and order are those of docs/index.md, to which the reference of the API is added.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import sources
from sphinx.cmd.build import build_main


def main(folder: Path) -> int:
    """Return the exit code."""
    source, site = folder / "pages", folder / "html"
    for old in (source, site):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(Path(__file__).parent, source, ignore=shutil.ignore_patterns("__pycache__"))
    sources.write_pages(source)
    options = ["-q", "-n", "-W", "--keep-going", "-b", "html", "-d", str(folder / "doctrees")]
    if status := build_main([*options, str(source), str(site)]):
        return status
    (site / "llms.txt").write_text(sources.llms((source / "index.md").read_text(encoding="utf-8")), encoding="utf-8")
    errors = list(sources.link_errors(site))
    print("\n".join(errors) or f"{site / 'index.html'}: {len(list(site.rglob('*.html')))} pages, no broken link")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
