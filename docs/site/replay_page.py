"""Open the page of a trace in headless Chromium: ``python docs/site/replay_page.py FOLDER [PICTURE]``.

The trace is of a member of a group in which another one joins, and of which a broker stops for a while. The page is
opened as a file, 1280 and 390 pixels wide, light and dark. Errors are: one on the console, a page that scrolls
sideways, a bar without details, a zoom without effect. FOLDER gets the page and its screenshots; PICTURE, such as
``docs/replay.png``, the one that docs/replay.md shows. ``tox -e browser`` runs this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from browser import PATIENCE_MS, SCHEMES, WIDER, WIDTHS, chromium
from playwright.sync_api import Page, sync_playwright

from thinconsumer import Consumer
from thinconsumer.replay.page import page
from thinconsumer.replay.telling import tell
from thinconsumer_testing.simulation import Simulation

#: Where something is in the lane of calls, from the corner of the chart.
CALLS_AT = {"x": 150, "y": 50}


def record(path: Path) -> None:
    """Write the trace. Two consumers need a simulation: in a MemoryCluster, one receives in a call of the other."""
    sim = Simulation(seed=7, brokers=3, topics={"orders": 6})
    options = {"bootstrap_servers": sim.bootstrap_servers, "group_id": "billing", "auto_offset_reset": "earliest"}
    options |= {"heartbeat_interval_ms": 300, "client_id": "<b>app</b>", "auto_commit_interval_ms": 700}
    options |= {"partition_assignment_strategy": ["cooperative-sticky"], "max_poll_records": 150}
    first = Consumer(trace=str(path), driver=sim.driver(), **options)
    second = Consumer(driver=sim.driver(), **options)
    first.subscribe(["orders"])
    for turn in range(60):
        for number in range(6):
            with suppress(LookupError):  # the partition may have no leader
                sim.produce("orders", number, [b"%d" % turn] * (20 + 7 * number))
        for _ in range(2):
            first.poll(60)
        if turn == 8:
            second.subscribe(["orders"])
        if turn == 36:
            sim.kill(2)
        if turn == 48:
            sim.start(2)
        if 8 <= turn < 54:
            second.poll(20)
    first.close()
    second.close()


def complaints(opened: Page) -> Iterator[str]:
    """Yield what does not work on the page as it is shown now."""
    yield from opened.evaluate(WIDER.replace("article *", "body *"))
    chart, span, tip = opened.locator("#chart"), opened.locator("#span"), opened.locator("#tip")
    chart.hover(position=CALLS_AT)
    opened.wait_for_timeout(100)
    if not tip.is_visible() or "poll(60)" not in tip.inner_text():
        yield f"a bar shows {tip.inner_text()!r}"
    whole, lines = span.inner_text(), opened.locator("#lines li").count()
    opened.click("#in")
    opened.click("#in")
    opened.wait_for_timeout(300)
    if span.inner_text() == whole or not 0 < opened.locator("#lines li").count() <= lines:
        yield f"zoomed in from {whole} it shows {span.inner_text()}"
    opened.fill("#find", "no such words")
    if opened.locator("#lines li").count():
        yield "lines without the words that are looked for"
    opened.fill("#find", "")
    opened.click("#whole")
    if span.inner_text() != whole:
        yield f"zoomed out it shows {span.inner_text()}, not {whole}"


def check(opened: Page, folder: Path) -> Iterator[str]:
    """Yield the errors of the page at each size and in both themes."""
    for width in WIDTHS:
        opened.set_viewport_size({"width": width, "height": 1000})
        for scheme in SCHEMES:
            opened.emulate_media(color_scheme=scheme)
            opened.goto((folder / "replay.html").as_uri())
            yield from (f"replay.html, {width} {scheme}: {error}" for error in complaints(opened))
            opened.locator("#chart").hover(position=CALLS_AT)
            opened.wait_for_timeout(100)
            opened.screenshot(path=folder / f"replay-{width}-{scheme}.png")


def main(folder: Path, picture: Path | None = None) -> int:
    """Return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    record(folder / "replay.trace")
    (folder / "replay.html").write_text(page(tell(str(folder / "replay.trace")).story), encoding="utf-8")
    errors: list[str] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        opened = browser.new_page()
        opened.set_default_timeout(PATIENCE_MS)
        opened.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.on("dialog", lambda dialog: errors.append(f"a name has run: {dialog.message}"))
        errors += check(opened, folder)
        if picture is not None:
            opened.set_viewport_size({"width": 1000, "height": 720})
            opened.emulate_media(color_scheme="light")
            opened.goto((folder / "replay.html").as_uri())
            opened.wait_for_timeout(300)
            opened.screenshot(path=picture)
        browser.close()
    print("\n".join(errors) or "the page of a trace in Chromium, no errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(*(Path(word).resolve() for word in sys.argv[1:])))
