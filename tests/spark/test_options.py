"""The source's options: the official connector's meanings, refusals that say what to do, batch and stream apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from thinconsumer import KafkaConfigurationError, TopicPartition
from thinconsumer.config import OPTIONS as CONSUMER_OPTIONS
from thinconsumer.config import dotted
from thinconsumer.produce import ProducerSettings
from thinconsumer.spark import write_options
from thinconsumer.spark.options import (
    FIELDS,
    REFUSED,
    Assigned,
    AtOffsets,
    AtTime,
    AtTimes,
    Committed,
    Mark,
    Topics,
    consumer_config,
    parse,
)

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
EARLIEST, LATEST = Mark(-2), Mark(-1)


def options(**more):
    return parse({**BASE, **more})


def refused(given, **more) -> str:
    with pytest.raises(KafkaConfigurationError) as error:
        parse({**given, **more})
    return str(error.value)


def test_defaults_are_the_official_ones():
    found = options()
    assert found.selection == Topics(("a",))
    assert (found.start_of_batch(), found.end_of_batch(), found.start_of_stream()) == (EARLIEST, LATEST, LATEST)
    assert found.fail_on_data_loss is True
    assert found.include_headers is False
    assert found.max_trigger_delay_ms == 900_000
    assert (found.fetch_offset_num_retries, found.fetch_offset_retry_interval_ms) == (3, 1000)
    assert (found.min_partitions, found.max_records_per_partition, found.max_offsets_per_trigger) == (None,) * 3
    assert not found.is_limited


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("failOnDataLoss", "FALSE", "fail_on_data_loss", False),
        ("includeheaders", " true ", "include_headers", True),
        ("MINPARTITIONS", "12", "min_partitions", 12),
        ("maxRecordsPerPartition", "1000", "max_records_per_partition", 1000),
        ("maxOffsetsPerTrigger", "5000000000", "max_offsets_per_trigger", 5_000_000_000),
        ("minOffsetsPerTrigger", "7", "min_offsets_per_trigger", 7),
        ("maxTriggerDelay", "90s", "max_trigger_delay_ms", 90_000),
        ("maxTriggerDelay", "15min", "max_trigger_delay_ms", 900_000),
        ("maxTriggerDelay", "250", "max_trigger_delay_ms", 250),
        ("maxBytesPerTrigger", "1g", "max_bytes_per_trigger", 2**30),
        ("maxBatchBytes", "512 KB", "max_batch_bytes", 524_288),
        ("kafkaConsumer.pollTimeoutMs", "500", "poll_timeout_ms", 500),
        ("fetchOffset.numRetries", "9", "fetch_offset_num_retries", 9),
        ("fetchOffset.retryIntervalMs", "0", "fetch_offset_retry_interval_ms", 0),
        ("startingOffsetsByTimestampStrategy", "Latest", "no_match_is_latest", True),
        ("commitGroup", "g", "commit_group", "g"),
        ("subscribe", " b , a,,b ", "selection", Topics(("a", "b"))),
        ("startingOffsets", " Earliest ", "starting", EARLIEST),
        ("startingOffsets", '{"a":{"0":23,"1":-2}}', "starting", AtOffsets({A0: 23, A1: -2})),
        ("startingOffsets", "committed: billing", "starting", Committed("billing")),
        ("startingTimestamp", "1700000000000", "starting", AtTime(1_700_000_000_000)),
        ("startingOffsetsByTimestamp", '{"a":{"0":5}}', "starting", AtTimes({A0: 5})),
        ("endingOffsets", '{"a":{"0":-1}}', "ending", AtOffsets({A0: -1})),
        ("endingTimestamp", "0", "ending", AtTime(0)),
    ],
)
def test_each_option_is_read_whatever_its_case(name, text, field, value):
    assert getattr(options(**{name: text}), field) == value
    assert getattr(parse({key.lower(): v for key, v in {**BASE, name: text}.items()}), field) == value


def test_writers_and_groups_options_pass_since_jobs_share_them():
    found = options(topic="out", groupIdPrefix="p", **{"kafka.group.id": "g"})
    assert consumer_config(found.kafka) == {"bootstrap.servers": "localhost:9092"}


def test_whatever_a_writer_takes_for_kafka_passes_a_reader_and_goes_nowhere():
    """Values are not looked at: the writer does."""
    producers = {dotted(name) for name in ProducerSettings.options()}
    writers = producers | write_options.REFUSED.keys() | write_options.WITHOUT_EFFECT | {"acks", "enable.idempotence"}
    ours = {dotted(name) for name in CONSUMER_OPTIONS} | REFUSED.keys()
    shared = {f"kafka.{name}": "x" for name in writers - ours}
    assert {"kafka.compression.type", "kafka.delivery.timeout.ms", "kafka.acks", "kafka.linger.ms"} <= shared.keys()
    assert consumer_config(options(**shared).kafka) == {"bootstrap.servers": "localhost:9092"}


def test_pattern_matches_whole_names():
    found = parse({"kafka.bootstrap.servers": "h:1", "subscribePattern": "a.*"}).selection
    assert found.pattern.fullmatch("abc")
    assert not found.pattern.fullmatch("xabc")


def test_assign_names_partitions():
    found = parse({"kafka.bootstrap.servers": "h:1", "assign": '{"a":[1,0]}'})
    assert found.selection == Assigned((A0, A1))


@pytest.mark.parametrize("which", ["starting", "ending"])
def test_a_time_for_all_counts_before_times_and_they_before_offsets(which):
    offsets, times, time = f"{which}Offsets", f"{which}OffsetsByTimestamp", f"{which}Timestamp"
    some = {offsets: '{"a":{"0":1}}', times: '{"a":{"0":2}}', time: "3"}
    assert getattr(options(**some), which) == AtTime(3)
    del some[time]
    assert getattr(options(**some), which) == AtTimes({A0: 2})
    del some[times]
    assert getattr(options(**some), which) == AtOffsets({A0: 1})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"subscribe": " , "}, "names no topic"),
        ({"assign": '{"a":[0]}'}, "exactly one of subscribe, subscribePattern, assign says what to read; not"),
        ({"failOnDataLoss": "yes"}, "write true or false"),
        ({"minPartitions": "0"}, "whole number from 1 on"),
        ({"maxRecordsPerPartition": "-1"}, "whole number from 1 on"),
        ({"maxOffsetsPerTrigger": "1e6"}, "whole number from 1 on"),
        ({"maxOffsetsPerTrigger": "9223372036854775808"}, "whole number from 1 on"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is more than maxOffsetsPerTrigger=8"),
        ({"maxTriggerDelay": "soon"}, "a duration is wanted, such as 30s"),
        ({"maxBytesPerTrigger": "0"}, "a size is wanted"),
        ({"startingOffsets": "earlist"}, "write earliest, latest, committed:GROUP or JSON; did you mean 'earliest'?"),
        ({"startingOffsets": "committed:"}, "the name of a consumer group is wanted"),
        ({"endingOffsets": "committed:g"}, "write earliest, latest or JSON"),
        ({"startingOffsets": '{"a":{"0":"x"}}'}, "startingOffsets: a-0"),
        ({"startingTimestamp": "yesterday"}, "whole number from 0 on"),
        ({"startingOffsetsByTimestampStrategy": "warn"}, "write error or latest"),
        ({"subscribe_": "a"}, "unknown option 'subscribe_'; did you mean 'subscribe'?"),
        ({"maxoffsetpertrigger": "1"}, "unknown option 'maxoffsetpertrigger'; did you mean 'maxOffsetsPerTrigger'?"),
        ({"bootstrap.servers": "h:1"}, "did you mean 'kafka.bootstrap.servers'?"),
        ({"group_id": "g"}, "did you mean 'kafka.group.id'?"),
        ({"path": "x"}, "load() takes no path"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset is refused"),
        ({"kafka.enable.auto.commit": "true"}, "commitGroup"),
        ({"kafka.key.deserializer": "x"}, "DataFrame operations"),
        ({"kafka.interceptor.classes": "x"}, "none would be called"),
        ({"kafka.security.protocol": "SASL_SSL"}, "TLS is not supported yet"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "SASL logins are not supported yet"),
        ({"kafka.fetch.min.byte": "1"}, "unknown option 'fetch.min.byte'; did you mean 'fetch.min.bytes'?"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
    ],
)
def test_what_is_wrong_is_refused_with_what_to_do(more, words):
    assert words in refused(BASE, **more)


def test_wrong_pattern_is_refused():
    assert "Python's re" in refused({"kafka.bootstrap.servers": "h:1", "subscribePattern": r"\p{Alpha}+"})
    assert "it is empty" in refused({"kafka.bootstrap.servers": "h:1", "subscribePattern": " "})


def test_everything_wrong_is_said_at_once():
    words = refused({"subscribe": "a", "minPartitions": "x", "startingOffsets": "?"})
    assert words.startswith("3 options are wrong:\n")
    for part in ("minPartitions", "startingOffsets", "kafka.bootstrap.servers"):
        assert part in words


def test_secrets_are_in_no_text():
    assert "hunter2" not in refused(BASE, **{"kafka.sasl.jaas.config": 'password="hunter2"'})
    assert "localhost" not in repr(options())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"startingOffsets": "latest"}, "can't be latest in a batch read"),
        ({"startingOffsets": '{"a":{"0":0,"1":-1}}'}, "can't be latest for a-1"),
        ({"endingOffsets": "earliest"}, "can't be earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "can't be earliest for a-0"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'}, "a-0 would begin at 5"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"1":9}}'}, "only one names a-0, a-1"),
        (
            {"startingOffsetsByTimestamp": '{"a":{"0":5}}', "endingOffsetsByTimestamp": '{"a":{"0":4}}'},
            "startingOffsetsByTimestamp",
        ),
    ],
)
def test_what_makes_no_sense_in_a_batch_is_refused_there_and_only_there(more, words):
    found = options(**more)
    with pytest.raises(KafkaConfigurationError) as error:
        found.start_of_batch()
    assert words in str(error.value)
    if not any(name.startswith("ending") for name in more):
        assert found.start_of_stream()


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_streams_have_no_end(name):
    found = options(**{name: '{"a":{"0":4}}' if name != "endingTimestamp" else "4"})
    assert found.start_of_batch()
    with pytest.raises(KafkaConfigurationError, match=f"{name} is for batch reads"):
        found.start_of_stream()


def test_limits_are_told_and_are_streams_only():
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger"):
        found = options(**{name: "5"})
        assert found.is_limited
        assert found.ignored_in_batch() == [name]
    assert options(commitGroup="g").ignored_in_batch() == ["commitGroup"]


def test_every_option_is_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    table = page.split("## Options")[1].split("\n## ")[0]
    assert set(FIELDS) - {"topic"} <= set(re.findall(r"`(\w[\w.]*)`", table))
