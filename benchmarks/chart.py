"""Draw a bar chart of what compare.py has measured: ``python benchmarks/chart.py RESULTS.json docs/reading.svg``.

One group of bars for each topic, one bar for each client: the median rate, and the range of all rounds as a line.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

from topics import TOPICS

WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 760, 175, 70, 17, 26, 34
COLORS = {
    "thinconsumer": "#1f6feb",
    "kafka-python": "#8b949e",
    "aiokafka": "#b08800",
    "confluent-kafka tuned": "#57606a",
}


def main() -> None:
    """Read the results, write the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="a file that compare.py has written")
    parser.add_argument("chart", type=Path, help="the SVG file to write")
    arguments = parser.parse_args()
    measured = json.loads(arguments.results.read_text(encoding="utf-8"))
    arguments.chart.write_text(draw(measured), encoding="utf-8")


def draw(measured: dict[str, Any]) -> str:
    """Return the chart as the text of an SVG file."""
    results: dict[str, dict[str, list[dict[str, float]]]] = measured["results"]
    topics = sorted((topic for topic in TOPICS if topic.name in results), key=lambda topic: topic.content == "constant")
    rates = {
        (topic.name, reader): sorted(run["per_second"] / 1e3 for run in results[topic.name][reader])
        for topic in topics
        for reader in COLORS
        if reader in results[topic.name]
    }
    scale = (WIDTH - LEFT - RIGHT) / max(found[-1] for found in rates.values())
    parts = [text(WIDTH / 2, 20, "thousand records per second, higher is better", anchor="middle", bold=True)]
    y = TOP
    for topic in topics:
        y += GAP
        parts.append(text(LEFT, y - 7, topic.what, color="#57606a"))
        for reader, color in COLORS.items():
            found = rates.get((topic.name, reader))
            if found is None:
                continue
            middle = y + BAR / 2
            parts.append(text(LEFT - 8, middle + 4, reader, anchor="end", bold=reader == "thinconsumer"))
            parts.append(
                f'<rect x="{LEFT}" y="{y + 1}" width="{median(found) * scale:.1f}" height="{BAR - 2}" fill="{color}"/>'
            )
            low, high = LEFT + found[0] * scale, LEFT + found[-1] * scale
            parts.append(f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="#24292f" stroke-width="1.5"/>')
            parts.append(text(max(high, LEFT + median(found) * scale) + 6, middle + 4, f"{median(found):,.0f}"))
            y += BAR
    rounds = f"{measured['rounds']} rounds of {measured['records']:,} records; lines: slowest to fastest round"
    parts.append(text(LEFT, y + 20, rounds, color="#57606a"))
    height = y + 32
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def text(x: float, y: float, words: str, *, anchor: str = "start", bold: bool = False, color: str = "#24292f") -> str:
    """Return an SVG text element."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"{weight}>{escape(words)}</text>'


if __name__ == "__main__":
    main()
