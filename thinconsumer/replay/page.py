"""Draw the story of a trace as one HTML page that needs no server and loads nothing.

The page is the template ``page.html`` with the story as JSON. Names in it come from brokers: the template puts them on
the page as text only, and a policy forbids all scripts but its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from typing import Any

from .messages import counted
from .story import Bar, Happening, Story

#: So many bars are in a lane, points in a series, lines in the list and partitions: of more, neighbours become one, or
#: the rest is left out. A browser draws so many at once.
BARS_MAX, POINTS_MAX, LINES_MAX, PARTITIONS_MAX = 5_000, 2_000, 10_000, 40
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def page(story: Story) -> str:
    """Return the page of a story."""
    template = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    script = _SCRIPT.search(template)
    assert script is not None, "the template has a script"
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    text = json.dumps(_data(story), separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return template.replace("SCRIPT_HASH", digest, 1).replace("STORY_AS_JSON", text, 1)


def _data(story: Story) -> dict[str, Any]:
    notes: list[str] = []
    requests: dict[str, list[Bar]] = {}
    for bar in story.requests:
        requests.setdefault(bar.lane, []).append(bar)
    lanes = [("calls", story.calls)]
    lanes += sorted(
        ((f"requests to {name}", requests.get(address, [])) for address, name in story.brokers.items()),
        key=lambda lane: lane[0],
    )
    lanes.append(("member of the group", story.states))
    moved = sorted(story.positions.items(), key=lambda one: -len(one[1]))
    if len(moved) > PARTITIONS_MAX:
        notes.append(f"{len(moved) - PARTITIONS_MAX} partitions whose positions have moved least are not shown")
    series: list[tuple[str, Sequence[tuple[float, int | None]]]] = [("records buffered", story.buffered)]
    series += [(f"position of {name}", found) for name, found in sorted(moved[:PARTITIONS_MAX], key=_by_number)]
    lines = _lines(story.happenings)
    if len(lines) < len(story.happenings):
        notes.append(f"{len(story.happenings) - len(lines)} lines about calls and requests without errors are left out")
    return {
        "about": story.about,
        "lasted": story.lasted,
        "wall": story.wall,
        "lanes": [[name, [*map(_bar, _thinned(bars, notes, name))]] for name, bars in lanes if bars],
        "series": [[name, _points(points)] for name, points in series if points],
        "lines": [[one.place, _time(one.at), one.depth, int(one.is_error), one.words] for one in lines],
        "notes": notes,
    }


def _by_number(one: tuple[str, Any]) -> tuple[str, int]:
    topic, _, number = one[0].rpartition("-")
    return topic, int(number)


def _time(at: float) -> float:
    return round(at, 6)


def _bar(bar: Bar) -> list[Any]:
    ended = None if bar.ended is None else _time(bar.ended)
    return [_time(bar.began), ended, bar.kind, int(bar.is_error), bar.words]


def _thinned(bars: Sequence[Bar], notes: list[str], name: str) -> list[Bar]:
    """Return at most :data:`BARS_MAX` bars: of more, those that follow each other become one, with their number."""
    bars = sorted(bars, key=lambda bar: bar.began)
    size = -(-len(bars) // BARS_MAX)
    if size < 2:
        return bars
    notes.append(f"{name}: a bar stands for up to {size} that follow each other")
    return [_one(bars[at : at + size]) for at in range(0, len(bars), size)]


def _one(bars: Sequence[Bar]) -> Bar:
    kinds, errors = Counter(bar.kind for bar in bars), sum(bar.is_error for bar in bars)
    words = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    ended = None if any(bar.ended is None for bar in bars) else max(bar.ended or 0.0 for bar in bars)
    shown = next((bar for bar in bars if bar.is_error), bars[0])
    words += f", {counted(errors, 'error')}; the first of them: {shown.words}" if errors else f"; {shown.words}"
    return Bar(bars[0].lane, kinds.most_common(1)[0][0], bars[0].began, words, ended, errors > 0)


def _points(points: Sequence[tuple[float, int | None]]) -> list[list[Any]]:
    """Return at most :data:`POINTS_MAX` points: of neighbours the last, unless one of them is a gap."""
    size = -(-len(points) // POINTS_MAX)
    groups = (points[at : at + size] for at in range(0, len(points), size or 1))
    return [[_time(at), value] for group in groups for at, value in {id(p): p for p in _kept(group)}.values()]


def _kept(group: Sequence[tuple[float, int | None]]) -> list[tuple[float, int | None]]:
    return [*(point for point in group if point[1] is None), group[-1]]


def _lines(happenings: Sequence[Happening]) -> Sequence[Happening]:
    """Return at most :data:`LINES_MAX` happenings: of more, at first those that are neither calls nor requests."""
    if len(happenings) <= LINES_MAX:
        return happenings
    is_small = {id(one) for one in happenings if one.kind in ("request", "response", "call", "returned")}
    is_small -= {id(one) for one in happenings if one.is_error}
    room = max(0, LINES_MAX - (len(happenings) - len(is_small)))
    found = []
    for one in happenings:
        if id(one) in is_small:
            if room <= 0:
                continue
            room -= 1
        found.append(one)
    return found[:LINES_MAX]
