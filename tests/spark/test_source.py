"""The data source and its readers, called as Spark calls them: offsets as JSON, readers pickled; without a JVM."""

import json
import pickle
import re
import subprocess
import sys
import zipfile
import zipimport
from functools import partial

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.0 and 4.1 have no limits to test with")

from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from thinconsumer import KafkaConfigurationError, TopicPartition
from thinconsumer.records.builder import NewRecord
from thinconsumer.spark.planner import DataLossError
from thinconsumer.spark.reading import read
from thinconsumer.spark.source import KafkaBatchReader, KafkaDataSource, KafkaStreamReader, spark_schema
from thinconsumer.spark.worker_process import ClientCache
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SCHEMA = spark_schema(include_headers=False)
DDL = "key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"


def source(**given):
    return KafkaDataSource(CaseInsensitiveDict({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given}))


def ranges(partitions):
    partitions = pickle.loads(pickle.dumps(partitions))
    return sorted((*p.value.tp, p.value.start, p.value.until) for p in partitions)


class Query:
    """A stream as Spark runs it: offsets are stored and compared as text."""

    def __init__(self, cluster, limit="default", **given):
        self.clock = cluster.kafka.clock
        options = cluster.options(startingOffsets="earliest", **given) if "startingOffsets" not in given else None
        options = options or cluster.options(**given)
        self.reader = KafkaStreamReader(options, ("value",), cluster.client(**given), self.clock.now)
        self.limit = self.reader.getDefaultReadLimit() if limit == "default" else limit
        self.at = json.dumps(self.reader.initialOffset())
        self.log = []

    def trigger(self):
        """Return the ranges of the next micro-batch, or None if there is none."""
        end = json.dumps(self.reader.latestOffset(json.loads(self.at), self.limit))
        if end == self.at:
            return None
        self.log.append((self.at, end))
        self.at = end
        return self.replay(-1)

    def replay(self, index):
        start, end = map(json.loads, self.log[index])
        return ranges(self.reader.partitions(start, end))


# -- load()


def test_the_schema_is_that_of_the_official_connector():
    assert KafkaDataSource.name() == "thinconsumer"
    assert source().schema().simpleString() == f"struct<{DDL}>"
    headers = "headers:array<struct<key:string,value:binary>>"
    assert source(includeHeaders="true").schema().simpleString() == f"struct<{DDL},{headers}>"
    assert all(one.nullable for one in source(includeHeaders="true").schema())


def test_wrong_options_are_refused_by_schema():
    with pytest.raises(KafkaConfigurationError, match="did you mean 'startingOffsets'"):
        source(startingOffset="latest").schema()


def test_a_user_schema_may_leave_columns_out_but_not_add_or_retype_them():
    reader = source().reader(schema=StructType().add("offset", LongType()).add("value", BinaryType()))
    assert reader._columns == ("offset", "value")
    for name, kind, words in [
        ("value", StringType(), "must have the type binary"),
        ("headers", IntegerType(), "no column"),
    ]:
        with pytest.raises(KafkaConfigurationError, match=f"{name}.*{words}|{words} '{name}'"):
            source().streamReader(schema=StructType().add(name, kind))


def test_batch_and_stream_refuse_each_others_bounds():
    with pytest.raises(KafkaConfigurationError, match="can't be latest"):
        source(startingOffsets="latest").reader(schema=SCHEMA)
    with pytest.raises(KafkaConfigurationError, match="a stream has no end"):
        source(endingOffsets="latest").streamReader(schema=SCHEMA)


def test_readers_can_be_pickled():
    for reader in (source().reader(schema=SCHEMA), source(subscribe="u").streamReader(schema=SCHEMA)):
        pickle.loads(pickle.dumps(reader))


def test_the_partition_that_spark_adds_to_an_empty_plan_yields_nothing():
    reader = source().reader(schema=SCHEMA)
    assert [list(reader.read(handed)) for handed in (None, InputPartition(None))] == [[], []]


# -- batch


def test_a_batch_is_planned_in_one_round_trip(cluster):
    c = cluster(holds=[b"a", b"b", b"c"])
    reader = KafkaBatchReader(c.options(), ("value",), c.client())
    assert ranges(reader.partitions()) == [("t", 0, 0, 3)]
    assert len(c.requests(ListOffsetsRequest)) == 2


def test_a_batch_between_timestamps_and_offsets(cluster):
    c = cluster()
    for timestamp in (1000, 2000, 3000):
        c.append(NewRecord(b"v", timestamp=timestamp))
    given = {"startingTimestamp": "1500", "endingTimestamp": "2500", "assign": '{"t":[0]}'}
    assert ranges(KafkaBatchReader(c.options(**given), (), c.client(**given)).partitions()) == [("t", 0, 1, 2)]
    given = {"startingOffsets": '{"t":{"0":-2,"1":0}}', "endingOffsets": '{"t":{"0":2,"1":-1}}'}
    assert ranges(KafkaBatchReader(c.options(**given), (), c.client(**given)).partitions()) == [("t", 0, 0, 2)]
    given = {"startingOffsets": '{"t":{"0":1}}'}
    with pytest.raises(KafkaConfigurationError, match="startingOffsets must name exactly the partitions that are read"):
        KafkaBatchReader(c.options(**given), (), c.client(**given)).partitions()


def test_a_batch_is_split_into_tasks(cluster):
    c = cluster(holds=[b"v"] * 10)
    given = {"maxRecordsPerPartition": "4", "minPartitions": "2"}
    assert len(KafkaBatchReader(c.options(**given), (), c.client(**given)).partitions()) == 3


@pytest.mark.parametrize("then", ["deleted", "recreated"])
@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_deleted_or_recreated_between_planning_and_reading_a_batch_is_data_loss(
    cluster, monkeypatch, caplog, then, fails
):
    c = cluster({"t": 1}, holds=[b"old"] * 5)
    reader = KafkaBatchReader(c.options(failOnDataLoss=fails), ("value",), c.client())
    (task,) = pickle.loads(pickle.dumps(reader.partitions()))
    c.kafka.delete_topic("t")
    if then == "recreated":
        c.kafka.create_topic("t", 1)
        c.append(*[b"new"] * 20)
    monkeypatch.setattr(
        "thinconsumer.spark.source.read",
        partial(read, cache=ClientCache(lambda consumer: None), make=c.connect, clock=c.kafka.clock.now),
    )
    words = f"t-0 [0, 5): the topic was deleted{' and created again' * (then == 'recreated')}"
    if fails == "true":
        with pytest.raises(DataLossError, match=re.escape(words)):
            list(reader.read(task))
    else:
        assert list(reader.read(task)) == []
        assert words in caplog.text


# -- stream


def test_a_stream_begins_at_the_start_and_has_no_batch_without_data(cluster):
    c = cluster(holds=[b"a", b"b"])
    query = Query(c)
    assert query.trigger() == [("t", 0, 0, 2)]
    assert query.trigger() is None
    c.append(b"c")
    assert query.trigger() == [("t", 0, 2, 3)]
    assert query.at == '{"t": {"0": 3, "1": 0}}'
    assert query.trigger() is None
    assert query.reader.reportLatestOffset() == {"t": {"0": 3, "1": 0}}


def test_a_stream_from_latest_repeats_its_first_batch_unchanged(cluster):
    """After a crash the latest offset has moved: the end of the first batch holds its start."""
    c = cluster(holds=[b"a"])
    query = Query(c, startingOffsets="latest")
    assert query.trigger() == []
    c.append(b"b", b"c")
    assert query.trigger() == [("t", 0, 1, 3)]
    again = Query(c, startingOffsets="latest")
    again.log = query.log
    assert again.replay(0) == []
    assert again.replay(1) == [("t", 0, 1, 3)]


def test_limited_batches_leave_no_gaps(cluster):
    c = cluster(holds=[b"v"] * 90)
    c.append(*[b"v"] * 10, partition=1)
    query = Query(c, maxOffsetsPerTrigger="20")
    first, second = query.trigger(), query.trigger()
    assert first == [("t", 0, 0, 18), ("t", 1, 0, 2)]
    assert second == [("t", 0, 18, 36), ("t", 1, 2, 4)]
    while query.trigger():
        pass
    assert json.loads(query.at) == {"t": {"0": 90, "1": 10}}


def test_available_now_ends_at_the_log_ends_of_its_start(cluster):
    c = cluster(holds=[b"v"] * 10)
    query = Query(c, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="5")
    query.reader.prepareForTriggerAvailableNow()
    assert query.trigger() == [("t", 0, 0, 6)]
    c.append(*[b"v"] * 10)
    assert query.trigger() == [("t", 0, 6, 10)]
    assert query.trigger() is None


def test_trigger_once_ignores_limits(cluster):
    c = cluster(holds=[b"v"] * 10)
    assert Query(c, limit=ReadAllAvailable(), maxOffsetsPerTrigger="6").trigger() == [("t", 0, 0, 10)]


def test_a_trigger_waits_for_the_minimum_until_the_maximum_delay(cluster):
    c = cluster(holds=[b"v"])
    query = Query(c, minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    assert query.trigger() == [("t", 0, 0, 1)]  # the first trigger never waits
    c.append(b"v")
    assert query.trigger() is None
    c.append(*[b"v"] * 4)
    assert query.trigger() == [("t", 0, 1, 6)]
    c.append(b"v")
    c.kafka.clock.advance(9)
    assert query.trigger() is None
    c.kafka.clock.advance(2)
    assert query.trigger() == [("t", 0, 6, 7)]


def test_bytes_per_trigger_are_estimated_by_samples(cluster):
    c = cluster(holds=[b"x" * 1000] * 100)
    query = Query(c, maxBytesPerTrigger="10000")
    assert query.trigger() == [("t", 0, 0, 10)]
    fetches = len(c.requests(FetchRequest))
    assert query.trigger() == [("t", 0, 10, 20)]
    assert len(c.requests(FetchRequest)) == fetches  # the sample is reused
    c.append(*[b"x" * 100] * 400)
    query.at = json.dumps({"t": {"0": 100, "1": 0}})
    c.kafka.clock.advance(60)
    assert query.trigger() == [("t", 0, 100, 200)]


def test_bytes_per_trigger_work_where_records_were_deleted(cluster):
    c = cluster({"t": 1}, holds=[b"v"] * 10)
    c.append(*[b"v"] * 10)
    c.kafka.delete_records(("t", 0), 10)
    query = Query(c, maxBytesPerTrigger="1m", failOnDataLoss="false")
    query.at = '{"t": {"0": 3}}'
    assert query.trigger() == [("t", 0, 10, 20)]


TIMES = {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}


def requests_since(cluster):
    """Return how many ListOffsets each broker received, and how many Metadata requests all did, since the last call."""
    found = [len(cluster.kafka.received(ListOffsetsRequest, node)) for node in cluster.kafka.nodes]
    metadata = len(cluster.requests(MetadataRequest))
    cluster.kafka.requests.clear()
    return found, metadata


@pytest.mark.parametrize(("given", "times"), [({}, 2), ({**TIMES, "endingTimestamp": "9"}, 4)])
def test_a_batch_of_a_thousand_partitions_needs_one_list_offsets_per_broker_and_timestamp(cluster, given, times):
    """A batch needs the beginning of each log, its end, and each timestamp."""
    c = cluster({"t": 1000}, nodes=3)
    c.append(b"v", partition=999)
    KafkaBatchReader(c.options(**given), (), c.client(**given)).partitions()
    assert requests_since(c) == ([times] * 3, 2)  # one for the topic, one for the leaders


@pytest.mark.parametrize(("given", "times"), [({}, 2), ({"startingOffsets": "latest"}, 2), (TIMES, 3)])
def test_a_stream_of_a_thousand_partitions_needs_one_list_offsets_per_broker_and_timestamp(cluster, given, times):
    c = cluster({"t": 1000}, nodes=3)
    query = Query(c, maxOffsetsPerTrigger="1000000", **given)
    end = query.reader.latestOffset({}, query.limit)
    assert requests_since(c) == ([times] * 3, 2)
    assert query.reader.latestOffset(end, query.limit) == end
    assert requests_since(c) == ([1] * 3, 1)  # an idle trigger looks up the partitions and the log ends
    for number in range(1000):
        c.append(b"v", partition=number)
    later = query.reader.latestOffset(end, query.limit)
    assert len(query.reader.partitions(end, later)) == 1000
    assert requests_since(c) == ([2] * 3, 2)  # a trigger with new data also looks up the log starts


def test_an_added_partition_is_read_from_its_start(cluster):
    c = cluster({"t": 1}, holds=[b"a"])
    query = Query(c)
    query.trigger()
    c.kafka.expand("t", 2)
    c.append(b"x", b"y", partition=1)
    query.reader._cluster.close()
    assert query.trigger() == [("t", 1, 0, 2)]


def test_records_deleted_past_the_checkpoint_are_data_loss(cluster, caplog):
    c = cluster(holds=[b"v"] * 10)
    for fails in ("true", "false"):
        query = Query(c, failOnDataLoss=fails, maxOffsetsPerTrigger="2")
        query.at = '{"t": {"0": 3, "1": 0}}'
        c.kafka.delete_records(("t", 0), 0)
        c.append(*[b"v"] * 10)
        c.kafka.delete_records(("t", 0), 10)
        if fails == "true":
            with pytest.raises(DataLossError, match=r"t-0 \[3, 5\): deleted; the log begins at 10"):
                query.trigger()
            continue
        while (found := query.trigger()) == []:
            pass
        assert found == [("t", 0, 10, 11)]
        assert "t-0 [3, 5): deleted" in caplog.text


@pytest.mark.parametrize("given", [{"subscribe": "t,u"}, {"assign": '{"t":[0],"u":[0]}'}])
def test_a_topic_deleted_before_its_batch_is_planned_is_data_loss_and_gets_no_task(cluster, caplog, given):
    c = cluster({"t": 1, "u": 1}, holds=[b"v"])
    c.append(b"v", topic="u")
    start, end = {"t": {"0": 0}, "u": {"0": 0}}, {"t": {"0": 1}, "u": {"0": 1}}
    c.kafka.delete_topic("u")
    with pytest.raises(DataLossError, match=r"u-0 \[0, 1\): the partition was deleted"):
        Query(c, **given).reader.partitions(start, end)
    query = Query(c, failOnDataLoss="false", **given)
    assert ranges(query.reader.partitions(start, end)) == [("t", 0, 0, 1)]
    assert "u-0 [0, 1): the partition was deleted" in caplog.text


def test_a_recreated_topic_that_is_shorter_is_data_loss(cluster, caplog):
    """The offsets have gone back, which shows that the topic is another one; reading goes on at its end."""
    c = cluster({"t": 1}, holds=[b"v"] * 10)
    log = {}
    for fails in ("true", "false"):
        log[fails] = Query(c, failOnDataLoss=fails)
        log[fails].trigger()
    c.kafka.delete_topic("t")
    c.kafka.create_topic("t", 1)
    c.append(*[b"w"] * 3)
    words = r"t-0 [3, 10): the log ended at 10 before and ends at 3 now"
    with pytest.raises(DataLossError, match=re.escape(words)):
        log["true"].trigger()
    assert log["false"].trigger() == []
    assert words in caplog.text
    c.append(b"w")
    assert log["false"].trigger() == [("t", 0, 3, 4)]


def test_a_topic_deleted_between_batches_is_data_loss(cluster):
    c = cluster({"t": 1, "u": 1})
    c.append(b"v", topic="u")
    query = Query(c, subscribe="t,u")
    query.trigger()
    c.kafka.delete_topic("u")
    query.reader._cluster.close()
    with pytest.raises(DataLossError, match=r"u-0 \[1, \?\): the partition was deleted"):
        query.trigger()


def test_a_stream_without_topics_begins_when_one_is_created(cluster):
    c = cluster({"u": 1})
    query = Query(c, subscribePattern="t.*")
    assert query.trigger() == []
    assert query.trigger() is None
    c.kafka.create_topic("t1", 1)
    c.append(b"a", topic="t1")
    assert query.trigger() == [("t1", 0, 0, 1)]


def test_a_stream_that_starts_before_its_log_is_data_loss(cluster):
    c = cluster({"t": 1}, holds=[b"v"] * 10)
    c.kafka.delete_records(("t", 0), 5)
    given = {"startingOffsets": '{"t":{"0":1}}'}
    with pytest.raises(DataLossError, match=r"t-0 \[1, "):
        Query(c, **given).trigger()
    assert Query(c, **given, failOnDataLoss="false").trigger() == [("t", 0, 5, 10)]


def test_latest_offset_without_arguments_goes_on_from_the_last_end(cluster):
    """PySpark 4.0 and 4.1: the reader remembers the last end offset, after a restart too."""
    c = cluster({"t": 1}, holds=[b"a"])
    reader = KafkaStreamReader(c.options(startingOffsets="earliest"), (), c.client())
    assert reader.initialOffset() == {}
    first = reader.latestOffset()
    assert ranges(reader.partitions({}, first)) == [("t", 0, 0, 1)]
    assert reader.latestOffset() == first
    c.append(b"b")
    second = reader.latestOffset()
    assert second == {"t": {"0": 2}}
    again = KafkaStreamReader(c.options(startingOffsets="earliest"), (), c.client())
    again.partitions(second, second)  # Spark calls this on a restart
    assert again.latestOffset() == second


WITHOUT_LIMITS = """
import sys
from pyspark.sql.datasource import CaseInsensitiveDict
sys.modules["pyspark.sql.streaming.datasource"] = None
from pyspark_thinconsumer import DefaultSource
from thinconsumer.spark.source import KafkaStreamReader, spark_schema

def reader(**given):
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given}
    return DefaultSource(CaseInsensitiveDict(options)).streamReader(schema=spark_schema(include_headers=False))

assert type(reader()) is KafkaStreamReader
try:
    reader(maxOffsetsPerTrigger="5")
except ValueError as error:
    print(error)
"""


def test_limit_options_are_refused_by_a_pyspark_without_read_limits():
    """PySpark 4.0 and 4.1 would ignore the limit and read everything in one batch."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_LIMITS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "maxOffsetsPerTrigger: this PySpark has no read limits" in done.stdout


def test_the_default_read_limit_reflects_the_options(cluster):
    assert Query(cluster(), maxOffsetsPerTrigger="6").limit == ReadMaxRows(6)
    assert Query(cluster()).limit == ReadAllAvailable()


def test_commit_group_is_not_a_batch_behind_when_the_stream_is_idle_or_available_now_ends(cluster):
    """Spark calls commit() for a batch only when it plans the next one, but asks for the latest offset before that."""
    c = cluster({"t": 1}, holds=[b"v"] * 5)
    query = Query(c, commitGroup="g")
    commits = []
    query.reader._cluster.commit = lambda group, offsets: commits.append((group, offsets)) or True
    assert query.trigger() == [("t", 0, 0, 5)]
    assert commits == []  # the batch may still be running
    assert query.trigger() is None
    assert query.trigger() is None
    assert commits == [("g", {TopicPartition("t", 0): 5})]
    c.append(b"v")
    assert query.trigger() == [("t", 0, 5, 6)]
    query.reader.commit(json.loads(query.log[0][1]))
    assert len(commits) == 1


def test_a_failed_commit_is_repeated_while_the_stream_is_idle(cluster):
    c = cluster({"t": 1}, holds=[b"v"])
    query = Query(c, commitGroup="g")
    results = [False, True]
    query.reader._cluster.commit = lambda group, offsets: results.pop(0)
    for _ in range(4):
        query.trigger()
    assert results == []


def test_commit_needs_a_commit_group(cluster):
    c = cluster()
    Query(c).reader.commit({"t": {"0": 1}})
    assert not c.made
    query = Query(c, commitGroup="g", **{"kafka.default.api.timeout.ms": "100"})
    query.reader.commit({"t": {"0": 1}, "@start": {}})
    assert query.reader._cluster.committed("g", [T0]) == {T0: 1}


def test_an_unfinished_first_batch_of_the_official_connector_is_refused(cluster):
    """Its checkpoint lacks the start of that batch, so its records would be skipped silently."""
    c = cluster({"t": 1}, holds=[b"a", b"b"])
    reader = KafkaStreamReader(c.options(), ("value",), c.client())
    with pytest.raises(KafkaConfigurationError, match="lacks the start of the first batch"):
        reader.partitions({}, {"t": {"0": 2}})
    assert reader.partitions({}, {}) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda: source().schema(),
        lambda: source().reader(SCHEMA),
        lambda: source().streamReader(SCHEMA),
        lambda: list(source().reader(SCHEMA).read(None)),
    ],
)
def test_each_step_in_a_process_of_spark_hides_the_importers_of_its_archives(call, tmp_path, monkeypatch):
    """Otherwise the next step or task of that process reads the archives' directories again, for 100 ms."""
    jar = str(tmp_path / "spark.jar")
    zipfile.ZipFile(jar, "w").close()
    monkeypatch.setitem(sys.path_importer_cache, jar, zipimport.zipimporter(jar))
    call()
    assert jar not in sys.path_importer_cache
