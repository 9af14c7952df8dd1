"""The small Java programs beside this file, run from source against Kafka's own client library."""

from pathlib import Path

from realkafka import processes
from realkafka.jars import tools_class_path


def java_arguments(program: str, *arguments: str) -> list[str]:
    """Return the arguments with which Java runs ``program``."""
    # Log lines of the client library go to standard output and would stand between the records.
    options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF"]
    source = Path(__file__).with_name(program)
    return [*options, "-cp", tools_class_path(), str(source), *arguments]


def run_java(program: str, *arguments: str, seconds: float = 240) -> str:
    """Run ``program`` and return what it printed."""
    return processes.run(java_arguments(program, *arguments), seconds)
