"""The small Java programs beside this file, run from source against Kafka's own client library."""

import os
from pathlib import Path

from realkafka import processes
from realkafka.jars import tools_class_path


def java_arguments(program: str, *arguments: str, classes: Path | None = None) -> list[str]:
    # Log lines of the client library go to standard output and would stand between the records.
    options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF"]
    source = Path(__file__).with_name(program)
    class_path = tools_class_path() + ("" if classes is None else os.pathsep + str(classes))
    return [*options, "-cp", class_path, str(source), *arguments]


def run_java(program: str, *arguments: str, seconds: float = 240, classes: Path | None = None) -> str:
    return processes.run(java_arguments(program, *arguments, classes=classes), seconds)


def compile_java(source: Path, folder: Path) -> None:
    """Compile a class that uses Kafka's client library into a folder."""
    jars = os.pathsep.join(map(str, Path(tools_class_path()).parent.glob("*.jar")))  # no "*" here, unlike in java's -cp
    processes.run(["-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", jars, "-d", str(folder), str(source)], 120)
