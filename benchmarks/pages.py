"""Make every figure of the pages about reading from one run: ``python benchmarks/pages.py``.

``python benchmarks/compare.py --pages`` measures and writes ``benchmarks/figures.json``. This script draws
``docs/reading.svg`` from that file, and writes the parts of the README, of ``benchmarks/README.md`` and of
``docs/columns.md`` that stand between ``<!-- figures: NAME -->`` and ``<!-- end of figures -->``. ``docs/check.py``
fails where a page differs from what this makes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import chart
from readers import EVERY_FIELD

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "benchmarks" / "figures.json"
CHART = ROOT / "docs" / "reading.svg"
PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md", ROOT / "docs" / "columns.md")
PART = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
#: A run with fewer rounds or records, or on a busier machine, is published with a warning.
LOAD_MAX, ROUNDS_MIN, RECORDS_MIN = 1.0, 3, 300_000
COMMAND = "python benchmarks/pages.py"

ROWS, COLUMNS, KAFKA_PYTHON, AIOKAFKA = "thinconsumer", "thinconsumer columns", "kafka-python", "aiokafka"
CONFLUENT, RAW, FLOOR = "confluent-kafka tuned", "thinconsumer raw", "floor"
CLIENTS = (ROWS, COLUMNS, KAFKA_PYTHON, AIOKAFKA, CONFLUENT)
READERS_SHOWN = (*(f"{client}{end}" for client in CLIENTS for end in (EVERY_FIELD, "")), RAW, FLOOR)
#: The topics of the README's table, with their headings there.
FEW = {
    "documents": "one partition, uncompressed",
    "documents-lz4": "six partitions, lz4",
    "documents-zstd": "six partitions, zstd",
}
JSON = (*FEW, "headers")


class Figures:
    """One run: what was measured, and medians of its rounds."""

    def __init__(self, measured: dict[str, Any]) -> None:
        self.measured = measured
        #: Topics by name: those of JSON documents first.
        self.topics: dict[str, dict[str, Any]] = dict(
            sorted(measured["topics"].items(), key=lambda topic: topic[1]["content"] == "constant")
        )
        self.versions: dict[str, str] = measured["versions"]

    def all(self, topic: str, reader: str, figure: str = "per_second") -> list[float]:
        """Return what was measured in each round, in ascending order."""
        return sorted(float(run[figure]) for run in self.measured["results"][topic][reader])

    def rate(self, topic: str, reader: str) -> float:
        """Return the median rate."""
        return median(self.all(topic, reader))

    def cpu(self, topic: str, reader: str) -> float:
        """Return the median of CPU seconds per million records."""
        return median(self.all(topic, reader, "cpu_per_million"))

    def cell(self, topic: str, reader: str, *, spread: bool = False) -> str:
        """Return a table's cell: the rate in thousands, its range on demand, and CPU seconds in brackets."""
        found = [f"{rate / 1e3:,.0f}" for rate in self.all(topic, reader)]
        between = f" ({found[0]} to {found[-1]})" if spread else ""
        return f"{self.rate(topic, reader) / 1e3:,.0f}{between} [{self.cpu(topic, reader):.2f}]"

    def ratios(self, one: str, other: str, topics: tuple[str, ...], figure: str = "per_second") -> list[float]:
        """Return the ratios of two readers' medians, in ascending order."""
        return sorted(median(self.all(topic, one, figure)) / median(self.all(topic, other, figure)) for topic in topics)

    def conditions(self) -> str:
        """Return when and on what the run took place."""
        measured = self.measured
        return (
            f"{measured['date']}, {measured['machine']}, shared with one broker (Kafka {measured['kafka']}); "
            f"CPython {self.versions['Python']}, without TLS"
        )

    def doubts(self) -> Iterator[str]:
        """Yield a line that says so if other programs used the machine during the run, or if it was too short."""
        load, rounds, records = (self.measured[name] for name in ("load_before", "rounds", "records"))
        if load > LOAD_MAX or rounds < ROUNDS_MIN or records < RECORDS_MIN:
            yield ""
            yield "**These figures say little**: other programs used the machine, or the run was short"
            yield f"(load {load} before it, {rounds} rounds of {records:,} records)."


def readme(figures: Figures) -> Iterator[str]:
    """Yield the lines of the README's part."""
    labels = {
        ROWS: "thinconsumer[fast], rows",
        COLUMNS: "thinconsumer[fast], columns (to Arrow)",
        KAFKA_PYTHON: f"kafka-python {figures.versions['kafka-python']}",
        AIOKAFKA: f"aiokafka {figures.versions['aiokafka']} (C extension)",
        CONFLUENT: f"confluent-kafka {figures.versions['confluent-kafka']} (C), tuned for throughput",
    }
    best = figures.ratios(COLUMNS + EVERY_FIELD, ROWS + EVERY_FIELD, JSON)
    yield "JSON documents of 150 to 600 bytes with keys and some headers. A loop reads key, value, headers, offset and"
    yield "timestamp of each record. Thousand records per second, in brackets CPU seconds per million records:"
    yield ""
    yield f"| reader | {' | '.join(FEW.values())} |"
    yield "|---" * (1 + len(FEW)) + "|"
    for client, label in labels.items():
        yield f"| {label} | {' | '.join(figures.cell(topic, client + EVERY_FIELD) for topic in FEW)} |"
    for client in (ROWS, CONFLUENT):
        yield f"| {client}, values alone | {' | '.join(figures.cell(topic, client) for topic in FEW)} |"
    yield ""
    yield f"Columns are {times(best)} as fast as rows on JSON documents of this size. Medians of"
    yield f"{figures.measured['rounds']} interleaved runs: {figures.conditions()}."
    yield from figures.doubts()


def reading(figures: Figures) -> Iterator[str]:
    """Yield the lines of the part of ``benchmarks/README.md``."""
    measured = figures.measured
    versions = ", ".join(f"{name} {version}" for name, version in figures.versions.items() if name != "Python")
    yield f"`{measured['command']}`: {measured['records']:,} records in each topic, one in twenty of that for 20 kB,"
    yield f"{measured['rounds']} rounds. {figures.conditions()}; load before the run {measured['load_before']}."
    yield f"{versions}."
    yield from figures.doubts()
    yield ""
    yield "**Every field**: key, value, headers, offset and timestamp of each record; columns as Arrow with headers."
    yield "Thousand records per second, medians (minimum to maximum); in brackets CPU seconds per million records."
    yield ""
    yield from table(figures, {client: client + EVERY_FIELD for client in CLIENTS})
    yield ""
    yield "**Values alone**: a loop that reads nothing but values, so that thinconsumer decodes no headers; columns as"
    yield "numpy arrays, of which only the lengths of the values are read. The floor decodes nothing."
    yield ""
    yield from table(figures, {**{client: client for client in CLIENTS}, FLOOR: FLOOR})
    yield ""
    yield from words(figures)


def table(figures: Figures, readers: dict[str, str]) -> Iterator[str]:
    """Yield a table with one line for each topic and one column for each reader."""
    heads = {ROWS: "rows", COLUMNS: "columns", AIOKAFKA: "aiokafka (C)", CONFLUENT: "confluent-kafka tuned (C)"}
    yield f"| | {' | '.join(heads.get(client, client) for client in readers)} |"
    yield "|---" * (1 + len(readers)) + "|"
    for topic, shape in figures.topics.items():
        cells = [figures.cell(topic, reader, spread=True) for reader in readers.values()]
        yield f"| {shape['what']} ({shape['batch_records']} records a batch) | {' | '.join(cells)} |"


def words(figures: Figures) -> Iterator[str]:
    """Yield what the tables say of the JSON topics, in words."""
    every = {client: figures.ratios(ROWS + EVERY_FIELD, client + EVERY_FIELD, JSON) for client in CLIENTS}
    values = figures.ratios(ROWS, CONFLUENT, JSON)
    cpu = figures.ratios(ROWS + EVERY_FIELD, CONFLUENT + EVERY_FIELD, JSON, "cpu_per_million")
    python, aio, confluent = every[KAFKA_PYTHON], every[AIOKAFKA], every[CONFLUENT]
    yield "On JSON documents of 150 to 600 bytes, with every field, rows are"
    yield f"{times(aio)} as fast as aiokafka's and {times(python)} as fast as kafka-python's."
    yield f"They reach {percent(confluent)} of confluent-kafka tuned, and {percent(values)} with the values alone;"
    yield f"their CPU time is {percent(cpu)} of its, which includes building the client and importing numpy."


def times(ratios: list[float]) -> str:
    """Return the range of some factors."""
    return f"{ratios[0]:.1f} to {ratios[-1]:.1f} times"


def percent(ratios: list[float]) -> str:
    """Return the range of some ratios."""
    return f"{100 * ratios[0]:.0f} to {100 * ratios[-1]:.0f} %"


def columns(figures: Figures) -> Iterator[str]:
    """Yield the lines of the part of ``docs/columns.md``."""
    yield f"Thousand records per second ({figures.conditions()}):"
    yield ""
    heads = {
        COLUMNS + EVERY_FIELD: "columns to Arrow",
        ROWS + EVERY_FIELD: "rows, every field",
        CONFLUENT + EVERY_FIELD: "confluent-kafka tuned, every field",
        COLUMNS: "columns, values alone",
        RAW: "whole batches",
        FLOOR: "floor",
    }
    yield f"| | {' | '.join(heads.values())} |"
    yield "|---" * (1 + len(heads)) + "|"
    for topic, shape in figures.topics.items():
        yield f"| {shape['what']} | {' | '.join(f'{figures.rate(topic, each) / 1e3:,.0f}' for each in heads)} |"
    faster = [
        shape["what"]
        for topic, shape in figures.topics.items()
        if figures.rate(topic, CONFLUENT + EVERY_FIELD) > figures.rate(topic, COLUMNS + EVERY_FIELD)
    ]
    if faster:
        yield ""
        yield f"confluent-kafka (C) is faster on: {'; '.join(faster)}."
    yield from figures.doubts()


PARTS = {"readme": readme, "reading": reading, "columns": columns}


def made(figures: Figures, texts: dict[Path, str]) -> dict[Path, str]:
    """Return the text of each page as it should be, from the text that it has."""

    def part(match: re.Match[str]) -> str:
        return match[1] + "\n".join(PARTS[match[2]](figures)) + "\n" + match[3]

    pages = {path: PART.sub(part, texts[path]) for path in PAGES}
    return {**pages, CHART: chart.draw(figures.measured, figures.topics, EVERY_FIELD)}


def errors(texts: dict[Path, str] | None = None) -> Iterator[str]:
    """Yield a line for each page whose figures are not those of the run, or that lacks its part.

    ``texts`` are the pages and the chart; by default they are read.
    """
    if texts is None:
        texts = {path: path.read_text(encoding="utf-8") for path in (*PAGES, CHART)}
    found = [match[2] for path in PAGES for match in PART.finditer(texts[path])]
    if sorted(found) != sorted(PARTS):
        yield f"the pages have the parts {found} of figures, and not each of {list(PARTS)} once"
        return
    for path, text in made(load(), texts).items():
        if texts[path] != text:
            yield f"{path.relative_to(ROOT)}: its figures are not those of {FIGURES.relative_to(ROOT)}; run {COMMAND}"


def load() -> Figures:
    """Return the committed run."""
    return Figures(json.loads(FIGURES.read_text(encoding="utf-8")))


def main() -> None:
    """Write all pages."""
    texts = {path: path.read_text(encoding="utf-8") for path in PAGES}
    for path, text in made(load(), texts).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
