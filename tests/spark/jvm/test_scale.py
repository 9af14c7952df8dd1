"""A thousand partitions on three brokers, which count the requests of Spark's driver."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException

from thinconsumer.spark.source import HAS_LIMITS
from thinconsumer.testing import BrokerProcess
from thinconsumer_testing.broker.faults import Pass

PARTITIONS, NODES, WRITTEN = 1000, (1, 2, 3), 12


class Counted:
    """Three brokers that count requests."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self._rules = {
            api: [process.on(api, Pass(), node=node) for node in NODES] for api in ("ListOffsets", "Metadata")
        }
        self._before: dict[str, list[int]] = {}
        self.requests_since()

    def requests_since(self) -> tuple[list[int], list[int]]:
        """Return how many ListOffsets and Metadata requests each broker received since the last call."""
        counts = {api: [rule.hits for rule in rules] for api, rules in self._rules.items()}
        before, self._before = self._before, counts
        lists, metadata = (
            [now - then for now, then in zip(counts[api], before.get(api, [0] * 3))]
            for api in ("ListOffsets", "Metadata")
        )
        return lists, metadata

    def options(self, **given: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.process.bootstrap_servers, "subscribe": "wide", **given}


@pytest.fixture(scope="module")
def brokers() -> Iterator[Counted]:
    with BrokerProcess(nodes=len(NODES), topics={"wide": PARTITIONS}) as process:
        for partition in range(WRITTEN):
            process.produce("wide", [b"v"] * 3, partition * 70)
        yield Counted(process)


LATER = {"startingTimestamp": "5", "endingTimestamp": "4000000000000"}


@pytest.mark.parametrize(("given", "times"), [({}, 2), (LATER, 4)])
def test_a_batch_needs_one_list_offsets_per_broker_and_timestamp(spark, brokers, given, times):
    """One for log starts, one for log ends, and one for each timestamp; tasks send none."""
    given = {**given, "startingOffsetsByTimestampStrategy": "latest"}
    brokers.requests_since()
    frame = spark.read.format("thinconsumer").options(**brokers.options(**given)).load()
    began = time.monotonic()
    assert frame.rdd.getNumPartitions() == WRITTEN
    print(f"planned in {time.monotonic() - began:.3f} s")
    lists, metadata = brokers.requests_since()
    assert lists == [times] * 3
    assert sum(metadata) <= 3
    assert frame.count() == 3 * WRITTEN
    assert brokers.requests_since()[0] == [0, 0, 0]


@pytest.mark.skipif(not HAS_LIMITS, reason="what is available now is one batch there")
@pytest.mark.parametrize(("given", "times"), [({"startingOffsets": "earliest"}, 2), ({"startingTimestamp": "5"}, 3)])
def test_a_stream_needs_one_list_offsets_per_broker_and_timestamp(spark, brokers, tmp_path, given, times):
    """The first micro-batch looks up start and end; each micro-batch looks up log starts to find deleted records."""
    given = {**given, "startingOffsetsByTimestampStrategy": "latest", "maxOffsetsPerTrigger": str(2 * WRITTEN)}
    frame = spark.readStream.format("thinconsumer").options(**brokers.options(**given)).load()

    def run():
        brokers.requests_since()
        checkpoint = str(tmp_path / uuid.uuid4().hex)
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query = writer.start()
        try:
            query.awaitTermination(240)
            return query.recentProgress
        finally:
            query.stop()

    for _ in range(4):
        with contextlib.suppress(StreamingQueryException):  # a Python worker did not start within ten seconds
            progress = run()
            break
    else:
        progress = run()
    assert sum(batch["numInputRows"] for batch in progress) == 3 * WRITTEN
    read = sum(batch["numInputRows"] > 0 for batch in progress)
    assert read >= 2
    assert brokers.requests_since()[0] == [times + read] * 3, f"{read} micro-batches"
