"""The small Java programs beside this file, run from source against Kafka's own client library."""

from __future__ import annotations

from pathlib import Path

from realkafka import processes
from realkafka.jars import tools_class_path


def run_java(program: str, *arguments: str, seconds: float = 240) -> str:
    """Run ``program`` and return what it printed."""
    source = Path(__file__).with_name(program)
    # Log lines of the client library go to standard output and would stand between the records.
    quiet = "-Dlog4j2.level=OFF"
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", quiet, "-cp", tools_class_path()]
    return processes.run([*options, str(source), *arguments], seconds)
