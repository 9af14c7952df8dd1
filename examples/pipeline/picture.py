"""Draw throughput, lag, kills and restarts of a run as SVG.

Owns the drawing; its input are plain numbers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise, product

WIDTH, HEIGHT = 960, 600
LEFT, RIGHT = 76, 24
INK, FAINT, GRID = "#24292f", "#6e7781", "#e7eaee"
WRITTEN, COUNTED, LAG, KILL = "#8c959f", "#1f77b4", "#e08214", "#cf222e"
#: Colours of the two queries' lag.
DOTS = {"totals": "#8250df", "windows": "#2da44e"}
NOTE_EVERY_S = 0.5
FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


@dataclass
class Story:
    """The events of a run. Times are seconds since its beginning."""

    counts: list[tuple[float, int, int]] = field(default_factory=list)  #: Time, orders written, orders in the totals.
    lags: list[tuple[float, str, int]] = field(default_factory=list)  #: Time, query, lag in offsets.
    kills: list[float] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)

    def batches(self) -> list[float]:
        """Return the times of new totals."""
        return [after[0] for before, after in pairwise(self.counts) if after[2] > before[2]]

    def count(self, at: float, written: int, counted: int) -> None:
        """Record both numbers if one changed, or if some time has passed."""
        last_at, _, last = self.counts[-1] if self.counts else (-math.inf, 0, 0)
        if counted != last:
            self.counts += [(at, written, last), (at, written, counted)]
        elif at >= last_at + NOTE_EVERY_S:
            self.counts.append((at, written, counted))

    def outages(self) -> Iterator[tuple[float, float]]:
        """Yield for each kill its time and the time of the next new total."""
        for kill in self.kills:
            before = max((counted for at, _, counted in self.counts if at <= kill), default=0)
            yield kill, min((at for at, _, counted in self.counts if at > kill and counted > before), default=self.end)

    @property
    def end(self) -> float:
        """Time of the last event."""
        return max((at for at, *_ in self.counts), default=1.0)


@dataclass(frozen=True)
class Panel:
    """A part of the picture with its own axes."""

    top: int
    height: int
    x_max: float
    y_max: float

    def x(self, value: float) -> float:
        """Return the x coordinate of a time."""
        return round(LEFT + (WIDTH - LEFT - RIGHT) * value / self.x_max, 1)

    def y(self, value: float) -> float:
        """Return the y coordinate of a value."""
        return round(self.top + self.height * (1 - value / self.y_max), 1)

    def axes(self, title: str) -> Iterator[str]:
        """Yield grid lines and labels."""
        yield _text(LEFT, self.top - 12, title, weight=600)
        for value in _ticks(self.y_max):
            y = self.y(value)
            yield _line(LEFT, y, WIDTH - RIGHT, y, FAINT if value == 0 else GRID)
            yield _text(LEFT - 8, y + 4, f"{value:,.0f}", anchor="end", color=FAINT)
        for value in _ticks(self.x_max):
            x = self.x(value)
            yield _line(x, self.top, x, self.top + self.height, GRID)
            yield _text(x, self.top + self.height + 18, f"{value:,.0f} s", anchor="middle", color=FAINT)


def draw(story: Story, title: str, subtitle: str) -> str:
    """Return the picture as SVG."""
    width_s = _bar_width(story.batches())
    bars = list(_rates([(at, counted) for at, _, counted in story.counts], width_s, story.end))
    paced = list(_rates([(at, written) for at, written, _ in story.counts], width_s, story.end))
    behind = [(at, max(0, written - counted)) for at, written, counted in story.counts]
    rate_max = _above(rate for *_, rate in [*bars, *paced])
    lag_max = _above(lag for _, lag in [*behind, *((at, lag) for at, _, lag in story.lags)])
    rates = Panel(112, 180, story.end, rate_max)
    lags = Panel(372, 180, story.end, lag_max)
    parts = [
        *_headline(title, subtitle),
        *(_band(panel, outage) for panel in (rates, lags) for outage in story.outages()),
        *rates.axes("Throughput, orders per second"),
        *(_bar(rates, *bar) for bar in bars),
        _steps(rates, paced),
        *lags.axes("Lag, orders"),
        *_area(lags, behind),
        *(_dot(lags, at, name, lag) for at, name, lag in story.lags),
        *_moments(story, rates, lags),
        *_legend(rates.top - 12, [("in the totals", COUNTED, "bar"), ("written", WRITTEN, "line")]),
        *_legend(
            lags.top - 12,
            [
                ("written and not in the totals", LAG, "line"),
                *((f"Spark's listener: {name}", color, "dot") for name, color in DOTS.items()),
            ],
        ),
    ]
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' {FONT}>"
    return "\n".join([head, f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>", *parts, "</svg>\n"])


# -- computing


def _rates(counts: Sequence[tuple[float, int]], width_s: float, end: float) -> Iterator[tuple[float, float, float]]:
    """Yield begin, end and rate per second of each bar. The last bar takes the remaining width."""
    bars = max(1, round(end / width_s))
    edges = [*(number * width_s for number in range(bars)), end]
    for begin, until in pairwise(edges):
        yield begin, until, max(0.0, _count_at(counts, until) - _count_at(counts, begin)) / (until - begin)


def _count_at(counts: Sequence[tuple[float, int]], at: float) -> float:
    """Return the count at a time, interpolated linearly."""
    place = bisect_right(counts, at, key=lambda count: count[0])
    before = counts[place - 1] if place else (0.0, 0)
    after = counts[place] if place < len(counts) else before
    share = (at - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 0.0
    return before[1] + share * (after[1] - before[1])


def _bar_width(batches: Sequence[float]) -> float:
    """Return the width of a bar in seconds, wide enough for one or two micro-batches."""
    gaps = sorted(after - before for before, after in pairwise(batches))
    usual = gaps[len(gaps) // 2] if gaps else 0.0
    return next((width for width in (2.0, 5.0, 10.0) if width >= 1.2 * usual), 20.0)


def _above(values: Iterable[float]) -> float:
    return max([1.0, *values]) * 1.08


def _ticks(top: float) -> Iterator[float]:
    """Yield four to eight round numbers from 0 to ``top``."""
    unit = 10 ** math.floor(math.log10(max(top, 1e-9)))
    step = next(unit * part for part in (0.1, 0.2, 0.25, 0.5, 1, 2) if top / (unit * part) <= 8)
    for number in range(int(top / step) + 1):
        yield number * step


# -- drawing


def _headline(title: str, subtitle: str) -> Iterator[str]:
    yield _text(LEFT, 36, title, size=20, weight=600)
    yield _text(LEFT, 60, subtitle, color=FAINT)


def _band(panel: Panel, outage: tuple[float, float]) -> str:
    left, right = map(panel.x, outage)
    return _rect(left, panel.top, right - left, panel.height, KILL, opacity=0.07)


def _bar(panel: Panel, begin: float, until: float, rate: float) -> str:
    left, top = panel.x(begin), panel.y(rate)
    width = max(0.5, panel.x(until) - left - 2)
    return _rect(left + 1, top, width, panel.top + panel.height - top, COUNTED, opacity=0.75)


def _steps(panel: Panel, rates: Sequence[tuple[float, float, float]]) -> str:
    points = [(at, rate) for begin, until, rate in rates for at in (begin, until)]
    return _polyline(panel, points, WRITTEN)


def _area(panel: Panel, points: Sequence[tuple[float, float]]) -> Iterator[str]:
    if points:
        closed = [(points[0][0], 0), *points, (points[-1][0], 0)]
        yield f"<polygon points='{_points(panel, closed)}' fill='{LAG}' fill-opacity='0.18'/>"
        yield _polyline(panel, points, LAG)


def _dot(panel: Panel, at: float, name: str, lag: int) -> str:
    color = DOTS.get(name, INK)
    return f"<circle cx='{panel.x(min(at, panel.x_max))}' cy='{panel.y(lag)}' r='3' fill='{color}' fill-opacity='0.8'/>"


def _moments(story: Story, *panels: Panel) -> Iterator[str]:
    marks = [(at, KILL, "6 3") for at in story.kills] + [(at, FAINT, "2 3") for at in story.restarts]
    for panel, (at, color, dash) in product(panels, marks):
        x = panel.x(at)
        yield _line(x, panel.top, x, panel.top + panel.height, color, width=1.5, dash=dash)
    panel = panels[0]
    for kill, back in story.outages():
        yield _text(panel.x(kill) - 5, panel.top + 14, "kill -9", anchor="end", color=KILL, weight=600)
        middle = (panel.x(kill) + panel.x(back)) / 2
        yield _text(middle, panel.top - 4, f"{back - kill:.1f} s", anchor="middle", color=KILL)
    for at in story.restarts:
        yield _text(panel.x(at) + 5, panel.top + 14, "started again", color=FAINT)


def _legend(y: int, entries: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    x = WIDTH - RIGHT
    for name, color, kind in reversed(entries):
        x -= 7 * len(name) + 26
        if kind == "bar":
            yield _rect(x, y - 9, 14, 10, color, opacity=0.75)
        elif kind == "line":
            yield _line(x, y - 4, x + 14, y - 4, color, width=2)
        else:
            yield f"<circle cx='{x + 7}' cy='{y - 4}' r='3.5' fill='{color}'/>"
        yield _text(x + 20, y, name, color=FAINT)


def _text(
    x: float, y: float, words: str, *, size: int = 13, anchor: str = "start", color: str = INK, weight: int = 400
) -> str:
    style = f"font-size='{size}' text-anchor='{anchor}' fill='{color}' font-weight='{weight}'"
    return f"<text x='{round(x, 1)}' y='{round(y, 1)}' {style}>{escape(words)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, color: str, *, width: float = 1, dash: str = "none") -> str:
    style = f"stroke='{color}' stroke-width='{width}' stroke-dasharray='{dash}'"
    return f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' {style}/>"


def _rect(x: float, y: float, width: float, height: float, color: str, *, opacity: float) -> str:
    size = f"width='{round(width, 1)}' height='{round(height, 1)}'"
    return f"<rect x='{round(x, 1)}' y='{round(y, 1)}' {size} fill='{color}' fill-opacity='{opacity}'/>"


def _polyline(panel: Panel, points: Sequence[tuple[float, float]], color: str) -> str:
    return f"<polyline points='{_points(panel, points)}' fill='none' stroke='{color}' stroke-width='1.8'/>"


def _points(panel: Panel, points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{panel.x(at)},{panel.y(value)}" for at, value in points)
