"""The bar chart of the README: one group of bars for each topic, one bar for each client.

Each bar is the median rate of reading every field of each record, with a lighter end up to the rate of reading the
values alone, and the range of all rounds with every field as a line.
"""

from __future__ import annotations

from statistics import median
from typing import Any
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 760, 175, 115, 17, 26, 52
COLORS = {
    "thinconsumer": "#1f6feb",
    "kafka-python": "#8b949e",
    "aiokafka": "#b08800",
    "confluent-kafka tuned": "#57606a",
}


def draw(measured: dict[str, Any], topics: dict[str, dict[str, Any]], every_field: str) -> str:
    """Return the chart as the text of an SVG file; ``every_field`` ends the names of readers that read every field."""
    rates = {
        (topic, reader): sorted(run["per_second"] / 1e3 for run in rounds)
        for topic, found in measured["results"].items()
        for reader, rounds in found.items()
    }
    shown = [rates[topic, reader + end] for topic in topics for reader in COLORS for end in ("", every_field)]
    scale = (WIDTH - LEFT - RIGHT) / max(max(found[-1], median(found)) for found in shown)
    parts = [
        text(WIDTH / 2, 20, "thousand records per second, higher is better", anchor="middle", bold=True),
        text(WIDTH / 2, 38, "key, value, headers, offset and timestamp read; light: the values alone", anchor="middle"),
    ]
    y = TOP
    for topic in topics:
        y += GAP
        parts.append(text(LEFT, y - 7, topics[topic]["what"], color="#57606a"))
        for reader, color in COLORS.items():
            all_fields, values = rates[topic, reader + every_field], median(rates[topic, reader])
            middle, rate = y + BAR / 2, median(all_fields)
            low, high = LEFT + all_fields[0] * scale, LEFT + all_fields[-1] * scale
            parts += [
                text(LEFT - 8, middle + 4, reader, anchor="end", bold=reader == "thinconsumer"),
                bar(y, values * scale, color, ' fill-opacity="0.35"'),
                bar(y, rate * scale, color),
                f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="#24292f" stroke-width="1.5"/>',
                text(max(high, LEFT + max(rate, values) * scale) + 6, middle + 4, f"{rate:,.0f} ({values:,.0f})"),
            ]
            y += BAR
    rounds = f"{measured['rounds']} rounds; lines: slowest to fastest round; in brackets: the values alone"
    parts.append(text(LEFT, y + 20, rounds, color="#57606a"))
    height = y + 32
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def bar(y: float, width: float, color: str, more: str = "") -> str:
    """Return an SVG bar."""
    return f'<rect x="{LEFT}" y="{y + 1}" width="{width:.1f}" height="{BAR - 2}" fill="{color}"{more}/>'


def text(x: float, y: float, words: str, *, anchor: str = "start", bold: bool = False, color: str = "#24292f") -> str:
    """Return an SVG text element."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"{weight}>{escape(words)}</text>'
