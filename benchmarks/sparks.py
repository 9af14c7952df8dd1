"""The Spark session of the benchmarks: two cores, this Python for the workers, otherwise Spark's defaults."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clusters import environment


@contextmanager
def session(memory: str, jars: Sequence[Path] = ()) -> Iterator[tuple[Any, str]]:
    """Yield a session with a heap of this size, and a temporary folder."""
    from pyspark.sql import SparkSession

    os.environ.update(environment(), PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    with tempfile.TemporaryDirectory(prefix="benchmark-spark-") as folder:
        builder = SparkSession.builder.master("local[2]").appName("benchmark")
        if jars:
            builder = builder.config("spark.jars", ",".join(map(str, jars)))
        spark = (
            builder.config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", memory)
            .config("spark.local.dir", folder)
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark, folder
        finally:
            spark.stop()
