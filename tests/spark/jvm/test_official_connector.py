"""Spark's own Kafka connector and this source on one real broker: equal rows, tasks, offsets and refusals.

Needs the PySpark version that the connector's jars fit. Both read in one session.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections import defaultdict
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from proving.topics import TOPICS, fill
from realkafka import KafkaCluster, produce

pytestmark = pytest.mark.real

OFFICIAL, OURS = SOURCES = ("kafka", "thinconsumer")
#: All kinds of topics, except those that differ from others only by the producer.
KINDS = [name for name in TOPICS if name != "large" and not name.startswith("kafka-python")]
ISOLATIONS = ("read_uncommitted", "read_committed")
COUNT = 1000


class Both:
    """Runs the same read with both sources."""

    def __init__(self, session, cluster) -> None:
        self.session = session
        self.cluster = cluster

    def options(self, **given) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.cluster.bootstrap, **{key: str(value) for key, value in given.items()}}

    def read(self, source: str, **given):
        return self.session.read.format(source).options(**self.options(**given)).load()

    def rows(self, source: str, **given) -> list:
        return in_order(self.read(source, **given).collect())

    def tasks(self, source: str, **given) -> list:
        from pyspark.sql.functions import spark_partition_id

        found = defaultdict(list)
        for row in self.read(source, **given).select("topic", "partition", "offset", spark_partition_id()).collect():
            found[row[3]].append(row[:3])
        return sorted(sorted(task) for task in found.values())

    def stream(self, source: str, folder: Path, checkpoint: Path, **given) -> None:
        frame = self.session.readStream.format(source).options(**self.options(**given)).load()
        writer = frame.writeStream.format("parquet").option("path", str(folder)).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()

    def parquet(self, folder: Path) -> list:
        return in_order(self.session.read.parquet(str(folder)).collect())


def in_order(rows: list) -> list:
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))


@pytest.fixture(scope="module")
def both(connector_jars, request) -> Both:
    if not connector_jars:
        pytest.skip("there are no jars of Spark's own connector for this PySpark")
    return Both(request.getfixturevalue("spark"), request.getfixturevalue("kafka"))


@pytest.fixture(scope="module")
def names(both) -> dict[str, str]:
    run = uuid.uuid4().hex[:6]
    ours = isinstance(both.cluster, KafkaCluster)
    found = {kind: f"official-{kind}-{run}" for kind in KINDS if ours or not kind.startswith("compacted")}
    fill(both.cluster, found)
    return found


@pytest.fixture(scope="module")
def everything(both, names) -> dict[tuple[str, str, str], list]:
    """Rows by source, isolation level and topic; all topics are read at once, which is faster than one by one."""
    found = defaultdict(list)
    for source in SOURCES:
        for level in ISOLATIONS:
            given = {"subscribe": ",".join(names.values()), "includeHeaders": "true", "kafka.isolation.level": level}
            for row in both.rows(source, **given):
                found[source, level, row.topic].append(row)
    return found


@pytest.fixture(scope="module")
def plain(both) -> str:
    """Return a topic of three partitions with rising timestamps; the last partition is empty."""
    name = both.cluster.create_topic(f"official-plain-{uuid.uuid4().hex[:6]}", 3, config={"retention.ms": -1})
    records = [produce.New(b"%d" % n, timestamp=1_700_000_000_000 + n * 1000, partition=n % 2) for n in range(COUNT)]
    produce.with_confluent(both.cluster.bootstrap, name, records)
    return name


@pytest.mark.parametrize("headers", ["true", "false"])
def test_schemas_are_equal(both, plain, headers):
    official, ours = (both.read(source, subscribe=plain, includeHeaders=headers) for source in SOURCES)
    assert ours.schema == official.schema


@pytest.mark.parametrize("level", ISOLATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_equal(everything, names, kind, level):
    if kind not in names:
        pytest.skip("needs a cluster of our own")
    expected = everything[OFFICIAL, level, names[kind]]
    assert everything[OURS, level, names[kind]] == expected
    assert len(expected) >= (0 if kind == "empty" else 50), "there is too little to compare"


def test_the_topics_contain_every_special_case(everything, names):
    def rows(kind, level="read_uncommitted"):
        return everything[OFFICIAL, level, names[kind]]

    assert len(rows("transactions", "read_committed")) < 0.9 * len(rows("transactions"))
    assert {row.timestampType for row in rows("log-append-time")} == {1}
    everyone = [row for kind in names for row in rows(kind)]
    assert {row.headers is None for row in everyone} == {True, False}
    assert {(row.key is None, row.value is None) for row in everyone} >= {(True, True), (True, False), (False, True)}
    odd = [header.key for row in rows("odd-headers") for header in row.headers]
    assert any("\ufffd" in key for key in odd)
    assert any(header.value is None for row in everyone for header in row.headers or ())


def per_partition(*numbers: int):
    return lambda topic: json.dumps({topic: dict(enumerate(numbers))})


LAST = 1_700_000_000_000 + (COUNT - 1) * 1000
MIDDLE, LATER = 1_700_000_300_500, 1_700_000_700_000
BOUNDS = {
    "offsets": {"startingOffsets": per_partition(17, -2, -2), "endingOffsets": per_partition(-1, 300, 0)},
    "nothing": {"startingOffsets": per_partition(7, 8, 0), "endingOffsets": per_partition(7, 8, 0)},
    "a time": {"startingTimestamp": MIDDLE, "endingTimestamp": LATER, "startingOffsetsByTimestampStrategy": "latest"},
    "times": {
        "startingOffsetsByTimestamp": per_partition(MIDDLE, 0, 0),
        "endingOffsetsByTimestamp": per_partition(LATER, MIDDLE, LATER),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "a time that the last record has": {"startingTimestamp": LAST, "startingOffsetsByTimestampStrategy": "latest"},
    "times that no record has": {
        "startingOffsetsByTimestamp": per_partition(LAST + 1, MIDDLE, 5),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "an end that no record has": {"endingTimestamp": LAST + 1},
    "the time counts": {
        "startingTimestamp": LATER,
        "startingOffsetsByTimestamp": per_partition(0, 0, 0),
        "startingOffsets": per_partition(-2, -2, -2),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "many tasks": {"minPartitions": 7},
    "many small tasks": {
        "startingOffsets": per_partition(3, 100, 0),
        "endingOffsets": per_partition(500, 123, 0),
        "minPartitions": 9,
    },
    "short tasks": {
        "startingOffsets": per_partition(3, 100, 0),
        "endingOffsets": per_partition(500, 123, 0),
        "maxRecordsPerPartition": 100,
    },
    "short tasks and many": {
        "startingOffsets": per_partition(0, 0, 0),
        "endingOffsets": per_partition(500, 400, 0),
        "maxRecordsPerPartition": 300,
        "minPartitions": 11,
    },
    "some partitions": {"assign": lambda topic: json.dumps({topic: [1, 2]})},
    "a pattern": {"subscribePattern": lambda topic: topic[:-2] + ".."},
}


def options_for(topic: str, given: dict) -> dict:
    found = {name: value(topic) if callable(value) else value for name, value in given.items()}
    return found if found.keys() & {"assign", "subscribePattern"} else {"subscribe": topic, **found}


@pytest.mark.parametrize("bounds", BOUNDS)
def test_tasks_read_the_same_offsets(both, plain, bounds):
    given = options_for(plain, BOUNDS[bounds])
    assert both.tasks(OURS, **given) == both.tasks(OFFICIAL, **given)


def test_max_records_per_partition_splits_unbounded_reads_only_here(both, plain):
    """The official connector does not look up the log ends here, and so does not split."""
    given = {"subscribe": plain, "maxRecordsPerPartition": 100}
    official, ours = (both.tasks(source, **given) for source in (OFFICIAL, OURS))
    assert sorted(itertools.chain(*ours)) == sorted(itertools.chain(*official))
    assert [len(task) for task in official] == [500, 500]
    assert [len(task) for task in ours] == [100] * 10


REFUSED = {
    "no record is as young": {"startingTimestamp": LAST + 1},
    "no record of one partition is as young": {"startingOffsetsByTimestamp": per_partition(0, LAST + 1, 0)},
    "a partition is left out": {"startingOffsets": per_partition(0, 0)},
    "a partition too many": {"startingOffsets": per_partition(0, 0, 0, 0)},
    "a start at the end": {"startingOffsets": "latest"},
    "an end at the start": {"endingOffsets": "earliest"},
    "nothing between": {"startingOffsets": per_partition(9, 0, 0), "endingOffsets": per_partition(8, 0, 0)},
    "two of one": {"assign": lambda topic: json.dumps({topic: [1]}), "subscribe": lambda topic: topic},
    "a deserializer": {"kafka.value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer"},
    "commits": {"kafka.enable.auto.commit": "true"},
    "no partitions": {"minPartitions": 0},
    "no such strategy": {"startingTimestamp": 0, "startingOffsetsByTimestampStrategy": "earliest"},
}


@pytest.mark.parametrize("refused", REFUSED)
def test_both_refuse(both, plain, refused):
    for source in SOURCES:
        with pytest.raises(Exception):  # noqa: B017 - each source has its own message
            both.rows(source, **options_for(plain, REFUSED[refused]))


def test_deleted_records_are_data_loss_in_both(both, names):
    given = {"subscribe": names["deleted-records"], "startingOffsets": per_partition(0, 0)(names["deleted-records"])}
    official, ours = (both.rows(source, **given, failOnDataLoss="false") for source in SOURCES)
    assert ours == official
    assert min(row.offset for row in ours if row.partition == 0) == 77
    for source in SOURCES:
        with pytest.raises(Exception, match=r"77|lost"):
            both.rows(source, **given)


@pytest.mark.parametrize("level", ISOLATIONS)
def test_streams_read_the_same_rows(both, names, everything, tmp_path, level):
    given = {"subscribe": ",".join(names.values()), "includeHeaders": "true", "kafka.isolation.level": level}
    both.stream(OURS, tmp_path / "rows", tmp_path / "checkpoint", **given, startingOffsets="earliest")
    expected = [row for name in sorted(names.values()) for row in everything[OFFICIAL, level, name]]
    assert both.parquet(tmp_path / "rows") == expected


# -- checkpoints


class Followed:
    """A growing topic, and streams over it that stop and restart."""

    def __init__(self, both: Both, folder: Path) -> None:
        self.both = both
        self.folder = folder
        self.topic = both.cluster.create_topic(f"official-followed-{uuid.uuid4().hex[:6]}", 2)
        self.written = 0

    def grow(self, count: int = 10) -> None:
        records = [produce.New(b"%d" % (self.written + n)) for n in range(count)]
        produce.with_confluent(self.both.cluster.bootstrap, self.topic, records)
        self.written += count

    def run(self, source: str, name: str = "query") -> list[tuple[int, int]]:
        """Run an AvailableNow stream; return the micro-batch and the offset of each record."""
        found: list[tuple[int, int]] = []

        def keep(frame, number: int) -> None:
            found.extend((number, row.offset) for row in frame.select("offset").collect())

        options = self.both.options(subscribe=self.topic, startingOffsets="earliest")
        frame = self.both.session.readStream.format(source).options(**options).load()
        writer = frame.writeStream.foreachBatch(keep).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.folder / f"{name}-checkpoint")).start()
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        return sorted(found)

    def forget_last_commit(self, name: str = "query") -> None:
        """Change the checkpoint as if Spark had been killed before the end of the last micro-batch."""
        folder = self.folder / f"{name}-checkpoint" / "commits"
        last = max(int(file.name) for file in folder.iterdir() if file.name.isdigit())
        for file in (folder / f"{last}", folder / f".{last}.crc"):
            file.unlink()

    def offsets(self, name: str = "query") -> list:
        files = [file for file in (self.folder / f"{name}-checkpoint" / "offsets").iterdir() if file.name.isdigit()]
        lines = [file.read_text().splitlines()[-1] for file in sorted(files, key=lambda file: int(file.name))]
        return [json.loads(line) for line in lines]


@pytest.fixture
def followed(both, tmp_path) -> Followed:
    return Followed(both, tmp_path)


def test_checkpoints_hold_the_same_offsets(followed):
    """Except for the first micro-batch, with which this source stores the start; the connector has a file for it."""
    for _ in range(2):
        followed.grow()
        for source in SOURCES:
            followed.run(source, source)
    official, ours = followed.offsets(OFFICIAL), followed.offsets(OURS)
    assert official[-1] == ours[-1] == {followed.topic: {"0": 20, "1": 0}}
    assert ours[0] == {**official[0], "@start": {followed.topic: {"0": 0, "1": 0}}}


@pytest.mark.parametrize("batches", [1, 2])
def test_a_checkpoint_of_the_official_connector_can_be_continued(followed, batches):
    for _ in range(batches):
        followed.grow()
        followed.run(OFFICIAL)
    assert followed.run(OURS) == []
    followed.grow()
    assert [offset for _, offset in followed.run(OURS)] == list(range(10 * batches, 10 * batches + 10))
    assert followed.run(OURS) == []


def test_the_last_batch_of_the_official_connector_is_repeated_unchanged(followed):
    """In PySpark 4.0 the first run reads only that batch; the second run reads the rest."""
    for _ in range(2):
        followed.grow()
        followed.run(OFFICIAL)
    followed.forget_last_commit()
    followed.grow()
    rows = followed.run(OURS) + followed.run(OURS)
    assert [offset for number, offset in rows if number == 1] == list(range(10, 20))
    assert [offset for _, offset in rows] == list(range(10, 30))


def test_an_unfinished_first_batch_of_the_official_connector_is_refused(followed):
    """The offsets lack its start, so its records would be skipped silently."""
    followed.grow()
    followed.run(OFFICIAL)
    followed.forget_last_commit()
    with pytest.raises(Exception, match="lacks the start of the first batch"):
        followed.run(OURS)


def test_the_official_connector_can_continue_this_sources_checkpoint(followed):
    rows = []
    for source in (OURS, OURS, OFFICIAL):
        followed.grow()
        rows += followed.run(source)
    assert rows == [(number // 10, number) for number in range(30)]


def test_the_official_connector_cannot_continue_this_sources_first_batch(followed):
    """The connector cannot parse the stored start."""
    followed.grow()
    followed.run(OURS)
    followed.grow()
    with pytest.raises(Exception):  # noqa: B017 - the connector has its own message
        followed.run(OFFICIAL)
