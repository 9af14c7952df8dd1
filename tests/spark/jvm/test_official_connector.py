"""Spark's own Kafka connector and ours make the same of the same topics on a real broker: rows, tasks, offsets, errors.

It needs PySpark of the version that the connector's jars are for. Both read in one session, from one broker.
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
#: Every kind of topic but those that differ only in who wrote them.
KINDS = [name for name in TOPICS if name != "large" and not name.startswith("kafka-python")]
ISOLATIONS = ("read_uncommitted", "read_committed")
COUNT = 1000


class Both:
    """The same question to both."""

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
        """Return the offsets of each task, by the first of them."""
        from pyspark.sql.functions import spark_partition_id

        found = defaultdict(list)
        for row in self.read(source, **given).select("topic", "partition", "offset", spark_partition_id()).collect():
            found[row[3]].append(row[:3])
        return sorted(sorted(task) for task in found.values())

    def stream(self, source: str, folder: Path, checkpoint: Path, **given) -> None:
        """Read what is available now into Parquet."""
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
    """What the topics are called, by kind."""
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
    """A topic of three partitions, the last of them empty, in which time goes by."""
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


def test_there_is_something_to_get_wrong(everything, names):
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


def asked(topic: str, given: dict) -> dict:
    found = {name: value(topic) if callable(value) else value for name, value in given.items()}
    return found if found.keys() & {"assign", "subscribePattern"} else {"subscribe": topic, **found}


@pytest.mark.parametrize("bounds", BOUNDS)
def test_tasks_read_the_same_offsets(both, plain, bounds):
    given = asked(plain, BOUNDS[bounds])
    assert both.tasks(OURS, **given) == both.tasks(OFFICIAL, **given)


def test_all_there_is_in_short_tasks(both, plain):
    """Here they differ: the official connector does not look up where the ends are, and so sees nothing to split."""
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
        with pytest.raises(Exception):  # noqa: B017 - the words are each one's own
            both.rows(source, **asked(plain, REFUSED[refused]))


def test_lost_data(both, names):
    given = {"subscribe": names["deleted-records"], "startingOffsets": per_partition(0, 0)(names["deleted-records"])}
    official, ours = (both.rows(source, **given, failOnDataLoss="false") for source in SOURCES)
    assert ours == official
    assert min(row.offset for row in ours if row.partition == 0) == 77
    for source in SOURCES:
        with pytest.raises(Exception, match=r"77|lost"):
            both.rows(source, **given)


@pytest.mark.parametrize("level", ISOLATIONS)
def test_streams_bring_the_same_rows(both, names, everything, tmp_path, level):
    given = {"subscribe": ",".join(names.values()), "includeHeaders": "true", "kafka.isolation.level": level}
    both.stream(OURS, tmp_path / "rows", tmp_path / "checkpoint", **given, startingOffsets="earliest")
    expected = [row for name in sorted(names.values()) for row in everything[OFFICIAL, level, name]]
    assert both.parquet(tmp_path / "rows") == expected


# -- checkpoints


class Followed:
    """A topic that grows, and streams over it that stop and go on."""

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
        """Read what is available now; return the micro-batch and the offset of each record."""
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
        """Leave the checkpoint as if Spark had been killed before the end of the last micro-batch."""
        folder = self.folder / f"{name}-checkpoint" / "commits"
        last = max(int(file.name) for file in folder.iterdir() if file.name.isdigit())
        for file in (folder / f"{last}", folder / f".{last}.crc"):
            file.unlink()

    def offsets(self, name: str = "query") -> list:
        """Return the offsets of every micro-batch, as they are in the checkpoint."""
        files = [file for file in (self.folder / f"{name}-checkpoint" / "offsets").iterdir() if file.name.isdigit()]
        lines = [file.read_text().splitlines()[-1] for file in sorted(files, key=lambda file: int(file.name))]
        return [json.loads(line) for line in lines]


@pytest.fixture
def followed(both, tmp_path) -> Followed:
    return Followed(both, tmp_path)


def test_checkpoints_hold_the_same_offsets(followed):
    """Only the first micro-batch differs: ours has to remember where it began, for which the other has a file."""
    for _ in range(2):
        followed.grow()
        for source in SOURCES:
            followed.run(source, source)
    official, ours = followed.offsets(OFFICIAL), followed.offsets(OURS)
    assert official[-1] == ours[-1] == {followed.topic: {"0": 20, "1": 0}}
    assert ours[0] == {**official[0], "@start": {followed.topic: {"0": 0, "1": 0}}}


@pytest.mark.parametrize("batches", [1, 2])
def test_checkpoint_of_the_official_connector_is_taken_over(followed, batches):
    for _ in range(batches):
        followed.grow()
        followed.run(OFFICIAL)
    assert followed.run(OURS) == []
    followed.grow()
    assert [offset for _, offset in followed.run(OURS)] == list(range(10 * batches, 10 * batches + 10))
    assert followed.run(OURS) == []


def test_last_batch_of_the_official_connector_is_repeated_as_it_was(followed):
    """In PySpark 4.0 what is available to ours then is that batch alone; the next run brings the rest."""
    for _ in range(2):
        followed.grow()
        followed.run(OFFICIAL)
    followed.forget_last_commit()
    followed.grow()
    rows = followed.run(OURS) + followed.run(OURS)
    assert [offset for number, offset in rows if number == 1] == list(range(10, 20))
    assert [offset for _, offset in rows] == list(range(10, 30))


def test_first_batch_of_the_official_connector_cannot_be_repeated(followed):
    """Where it began is not in the offsets: better no query than one that leaves it out."""
    followed.grow()
    followed.run(OFFICIAL)
    followed.forget_last_commit()
    with pytest.raises(Exception, match="where the first batch began"):
        followed.run(OURS)


def test_official_connector_takes_over_a_checkpoint_of_ours(followed):
    rows = []
    for source in (OURS, OURS, OFFICIAL):
        followed.grow()
        rows += followed.run(source)
    assert rows == [(number // 10, number) for number in range(30)]


def test_official_connector_cannot_take_over_the_first_batch_of_ours(followed):
    """What ours has to remember there is no offset to it."""
    followed.grow()
    followed.run(OURS)
    followed.grow()
    with pytest.raises(Exception):  # noqa: B017 - the words are its own
        followed.run(OFFICIAL)
