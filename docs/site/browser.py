"""Open every page of the built site in headless Chromium: ``python docs/site/browser.py HTML [SHOTS]``.

Each page is shown 1280 and 390 pixels wide, light and dark. Errors are: a page, picture or script that is not there, an
error on the console, a page that scrolls sideways, and a search without a result. With SHOTS, a screenshot of the
beginning of each goes into that folder. ``tox -e browser`` builds the site and runs this.
Chromium is the system's (``apt-get install chromium``); without one this fails.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import TimeoutError as Late

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
PATIENCE_MS = 120_000
#: What of a page sticks out to the right without a scroll bar of its own.
WIDER = """() => document.documentElement.scrollWidth <= window.innerWidth ? [] :
    [...document.querySelectorAll("article *")].filter(e => e.getBoundingClientRect().right > window.innerWidth + 1)
    .map(e => e.tagName + " " + e.textContent.trim().slice(0, 60)).slice(0, 3).concat("scrolls sideways")"""
BROKEN_PICTURES = (
    "() => [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => 'no picture ' + i.src)"
)


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves the site without a line for each request."""

    def log_message(self, *args: object) -> None:
        pass


class Site(http.server.ThreadingHTTPServer):
    """Pages that are left before all of their files are read end connections, which is no error."""

    def handle_error(self, *args: object) -> None:
        pass


def visit(page: Page, address: str, shots: Path | None) -> Iterator[str]:
    """Yield the errors of one page at each size and in both themes."""
    page.goto(address, wait_until="load")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 1200})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            errors = page.evaluate(WIDER) + page.evaluate(BROKEN_PICTURES)
            yield from (f"{width} {scheme}: {error}" for error in errors)
            if shots is not None:
                name = address.split("/", 3)[3].replace("/", "-").removesuffix(".html")
                page.screenshot(path=shots / f"{name}-{width}-{scheme}.png")


def search_errors(page: Page, address: str) -> Iterator[str]:
    """Yield why the search does not find what every site about consumers has."""
    page.goto(f"{address}/search.html?q=heartbeat")
    try:
        page.wait_for_selector("ul.search li a")
    except Late as error:
        yield f"search.html: no result for 'heartbeat': {error}"


def check(browser: Browser, site: Path, address: str, shots: Path | None) -> list[str]:
    """Return the errors of all pages."""
    page, errors, now = browser.new_page(), list[str](), "search.html"
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda said: errors.append(f"{now}: console: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(f"{now}: {error}"))
    page.on("response", lambda got: errors.append(f"{now}: {got.status} {got.url}") if got.status >= 400 else None)
    errors += search_errors(page, address)
    for path in sorted(site.rglob("*.html")):
        now = path.relative_to(site).as_posix()
        errors += [f"{now}: {error}" for error in visit(page, f"{address}/{now}", shots)]
    return errors


def chromium() -> str:
    """Return the path of the system's Chromium; without one, end with an error."""
    names = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    return next(filter(None, names), None) or sys.exit("no Chromium: install it with 'apt-get install chromium'")


def main(site: Path, shots: Path | None = None) -> int:
    """Return the exit code."""
    if shots is not None:
        shots.mkdir(parents=True, exist_ok=True)
    handler = functools.partial(Server, directory=str(site))
    with Site(("127.0.0.1", 0), handler) as server, sync_playwright() as play:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # Root, as in a container, may not use Chromium's sandbox. The pages are our own.
        browser = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        errors = check(browser, site, f"http://127.0.0.1:{server.server_port}", shots)
        browser.close()
        server.shutdown()
    print("\n".join(errors) or f"{len(list(site.rglob('*.html')))} pages in Chromium, no errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(*(Path(word).resolve() for word in sys.argv[1:])))
