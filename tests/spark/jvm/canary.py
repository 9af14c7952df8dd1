"""Use secrets in a Spark session that records all it can: ``python canary.py PLAN FOLDER``.

PLAN is a JSON file with the session's configuration and the options of each case. The session writes its event log, and
its log at level DEBUG, into FOLDER. Prints lines of JSON with what users see of a query: plans, progress, errors.
"""

from __future__ import annotations

import io
import json
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

plan, folder = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
builder = SparkSession.builder.master("local[2]")
for name, value in plan["conf"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()


def show(what: str, text: object) -> None:
    print(json.dumps([what, str(text)]), flush=True)


def explained(explain: Callable[[], object]) -> str:
    with redirect_stdout(io.StringIO()) as out:
        explain()
    return out.getvalue()


def attempt(what: str, run: Callable[[], object]) -> None:
    """Run, and print the result, or everything about the error; repeat if a Python worker did not start in time."""
    for _ in range(4):
        try:
            show(what, run())
            return
        except Exception as error:  # noqa: BLE001 - the test checks what is printed
            if "failed to connect back" not in str(error):
                show(f"{what}: error", "\n".join([repr(error), str(error), *traceback.format_exception(error)]))
                return


def read(options: dict[str, str]) -> str:
    frame = spark.read.format("thinconsumer").options(**options).load()
    for mode in ("extended", "formatted", "codegen"):
        show("plan", explained(partial(frame.explain, mode)))
    show("frame", repr(frame))
    return f"{frame.count()} rows"


def copy(name: str, options: dict[str, str]) -> str:
    frame = spark.readStream.format("thinconsumer").options(**options, startingOffsets="earliest").load()
    writer = frame.select("value").writeStream.format("thinconsumer").options(**options).trigger(availableNow=True)
    query = writer.option("topic", "out").option("checkpointLocation", str(folder / f"checkpoint-{name}")).start()
    try:
        query.awaitTermination(120)
    finally:
        query.stop()
        show("plan", explained(partial(query.explain, extended=True)))
        show("query", f"{query!r} {query.status} {query.exception()}")
        show("progress", "\n".join(report.json for report in query.recentProgress))
    return "ended"


def write(options: dict[str, str]) -> str:
    rows = spark.createDataFrame([("written",)], "value string").coalesce(1)
    rows.write.format("thinconsumer").mode("append").options(**options).option("topic", "out").save()
    return "written"


for name, options in plan["cases"].items():
    attempt(f"{name}: read", partial(read, options))
    attempt(f"{name}: copy", partial(copy, name, options))
    attempt(f"{name}: write", partial(write, options))
spark.stop()
