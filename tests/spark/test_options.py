"""The source's options: meanings of the official connector, error messages, and checks for batches and streams."""

import re
from pathlib import Path

import pytest

from thinconsumer import KafkaConfigurationError, TopicPartition
from thinconsumer.config import OPTIONS as CONSUMER_OPTIONS
from thinconsumer.config import dotted
from thinconsumer.produce import ProducerSettings
from thinconsumer.spark import writing
from thinconsumer.spark.options import (
    NAMES,
    REFUSED,
    AtCommitted,
    AtOffsets,
    AtTimes,
    Selection,
    consumer_config,
    parse,
)

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
EARLIEST, LATEST = AtOffsets(-2), AtOffsets(-1)


def options(**more):
    return parse({**BASE, **more})


def refused(given, **more) -> str:
    with pytest.raises(KafkaConfigurationError) as error:
        parse({**given, **more})
    return str(error.value)


def test_defaults_are_those_of_the_official_connector():
    found = options()
    assert found.selection == Selection(names=("a",))
    assert (found.batch_start(), found.batch_end(), found.stream_start()) == (EARLIEST, LATEST, LATEST)
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
        ("startingOffsetsByTimestampStrategy", "Latest", "no_match", "latest"),
        ("commitGroup", "g", "commit_group", "g"),
        ("subscribe", " b , a,,b ", "selection", Selection(names=("a", "b"))),
        ("startingOffsets", " Earliest ", "starting", EARLIEST),
        ("startingOffsets", '{"a":{"0":23,"1":-2}}', "starting", AtOffsets({A0: 23, A1: -2})),
        ("startingOffsets", "committed: billing", "starting", AtCommitted("billing")),
        ("startingTimestamp", "1700000000000", "starting", AtTimes(1_700_000_000_000)),
        ("startingOffsetsByTimestamp", '{"a":{"0":5}}', "starting", AtTimes({A0: 5})),
        ("endingOffsets", '{"a":{"0":-1}}', "ending", AtOffsets({A0: -1})),
        ("endingTimestamp", "0", "ending", AtTimes(0)),
    ],
)
def test_options_are_parsed_and_not_case_sensitive(name, text, field, value):
    assert getattr(options(**{name: text}), field) == value
    assert getattr(parse({key.lower(): v for key, v in {**BASE, name: text}.items()}), field) == value


def test_writer_and_group_options_are_ignored():
    found = options(topic="out", groupIdPrefix="p", **{"kafka.group.id": "g"})
    assert consumer_config(found.kafka) == {"bootstrap.servers": "localhost:9092", "ordered.delivery": "off"}


def test_every_kafka_option_of_a_producer_is_ignored():
    """Their values are not checked here: the writer does that."""
    producers = {dotted(name) for name in ProducerSettings.options()} | writing.REFUSED.keys()
    producers |= {"acks", "enable.idempotence", "linger.ms", "retries"}
    consumers = {dotted(name) for name in CONSUMER_OPTIONS} | REFUSED.keys()
    shared = {f"kafka.{name}": "x" for name in producers - consumers}
    assert {"kafka.compression.type", "kafka.delivery.timeout.ms", "kafka.acks", "kafka.linger.ms"} <= shared.keys()
    assert consumer_config(options(**shared).kafka) == {
        "bootstrap.servers": "localhost:9092",
        "ordered.delivery": "off",
    }


def test_pattern_matches_whole_names():
    found = parse({"kafka.bootstrap.servers": "h:1", "subscribePattern": "a.*"}).selection
    assert found.pattern.fullmatch("abc")
    assert not found.pattern.fullmatch("xabc")


def test_assign_selects_partitions():
    found = parse({"kafka.bootstrap.servers": "h:1", "assign": '{"a":[1,0]}'})
    assert found.selection == Selection(partitions=(A0, A1))


@pytest.mark.parametrize("which", ["starting", "ending"])
def test_precedence_is_timestamp_then_timestamps_by_partition_then_offsets(which):
    offsets, times, time = f"{which}Offsets", f"{which}OffsetsByTimestamp", f"{which}Timestamp"
    some = {offsets: '{"a":{"0":1}}', times: '{"a":{"0":2}}', time: "3"}
    assert getattr(options(**some), which) == AtTimes(3)
    del some[time]
    assert getattr(options(**some), which) == AtTimes({A0: 2})
    del some[times]
    assert getattr(options(**some), which) == AtOffsets({A0: 1})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"subscribe": " , "}, "names no topic"),
        ({"assign": '{"a":[0]}'}, "set exactly one of subscribe, subscribePattern, assign, not subscribe and assign"),
        ({"failOnDataLoss": "yes"}, "must be 'true' or 'false'"),
        ({"minPartitions": "0"}, "must be at least 1"),
        ({"maxRecordsPerPartition": "-1"}, "must be at least 1"),
        ({"maxOffsetsPerTrigger": "1e6"}, "must be a whole number"),
        ({"maxOffsetsPerTrigger": "9223372036854775808"}, "must be at most 9223372036854775807"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is more than maxOffsetsPerTrigger=8"),
        ({"maxTriggerDelay": "soon"}, "write a duration such as 30s"),
        ({"maxBytesPerTrigger": "0"}, "write a size such as 500m"),
        ({"startingOffsets": "earlist"}, "write earliest, latest, committed:GROUP or JSON; did you mean 'earliest'?"),
        ({"startingOffsets": "committed:"}, "must not be empty"),
        ({"endingOffsets": "committed:g"}, "write earliest, latest or JSON"),
        ({"startingOffsets": '{"a":{"0":"x"}}'}, "startingOffsets: a-0"),
        ({"startingTimestamp": "yesterday"}, "must be a whole number"),
        ({"startingOffsetsByTimestampStrategy": "warn"}, "must be one of 'error', 'latest'"),
        ({"subscribe_": "a"}, "unknown option 'subscribe_'; did you mean 'subscribe'?"),
        ({"maxoffsetpertrigger": "1"}, "unknown option 'maxoffsetpertrigger'; did you mean 'maxOffsetsPerTrigger'?"),
        ({"bootstrap.servers": "h:1"}, "did you mean 'kafka.bootstrap.servers'?"),
        ({"group_id": "g"}, "did you mean 'kafka.group.id'?"),
        ({"path": "x"}, "load() takes no path"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset is refused"),
        ({"kafka.enable.auto.commit": "true"}, "commitGroup"),
        ({"kafka.key.deserializer": "x"}, "DataFrame operations"),
        ({"kafka.interceptor.classes": "x"}, "interceptors are not supported"),
        ({"kafka.security.protocol": "SASL"}, "security.protocol='SASL': must be one of"),
        ({"kafka.ssl.truststore.type": "JKS"}, "keytool -importkeystore"),
        ({"kafka.fetch.min.byte": "1"}, "unknown option 'fetch.min.byte'; did you mean 'fetch.min.bytes'?"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
    ],
)
def test_wrong_options_are_refused_with_advice(more, words):
    assert words in refused(BASE, **more)


def test_wrong_pattern_is_refused():
    assert "Python's re" in refused({"kafka.bootstrap.servers": "h:1", "subscribePattern": r"\p{Alpha}+"})
    assert "it is empty" in refused({"kafka.bootstrap.servers": "h:1", "subscribePattern": " "})


def test_all_problems_are_reported_at_once():
    words = refused({"subscribe": "a", "minPartitions": "x", "startingOffsets": "?"})
    assert words.startswith("3 options are wrong:\n")
    for part in ("minPartitions", "startingOffsets", "kafka.bootstrap.servers"):
        assert part in words


def test_messages_and_repr_contain_no_secrets():
    assert "hunter2" not in refused(
        BASE, **{"kafka.sasl.jaas.config": 'password="hunter2"', "kafka.sasl.mechanism": ""}
    )
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
def test_bounds_that_a_batch_cannot_have_are_refused_for_batches_only(more, words):
    found = options(**more)
    with pytest.raises(KafkaConfigurationError) as error:
        found.batch_start()
    assert words in str(error.value)
    if not any(name.startswith("ending") for name in more):
        assert found.stream_start()


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_ending_options_are_refused_for_streams(name):
    found = options(**{name: '{"a":{"0":4}}' if name != "endingTimestamp" else "4"})
    assert found.batch_start()
    with pytest.raises(KafkaConfigurationError, match=f"{name} is for batch reads"):
        found.stream_start()


def test_limits_are_ignored_in_batches():
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger"):
        found = options(**{name: "5"})
        assert found.is_limited
        assert found.ignored_in_batch() == [name]
    assert options(commitGroup="g").ignored_in_batch() == ["commitGroup"]


def test_every_option_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    table = page.split("## Options")[1].split("\n## ")[0]
    assert set(NAMES.values()) - {"topic"} <= set(re.findall(r"`(\w[\w.]*)`", table))
