"""The command ``produce``."""

import json
import os
import re
import signal
import time

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.cli.produce import InputRecord, bytes_left, parse_json, parse_text


@pytest.fixture
def read(cluster, topic):
    """Return all records of the topic, partition by partition."""

    def read_all():
        with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, number) for number in range(3)])
            return sorted(consumer.read_to_end(10_000), key=lambda record: (record.partition, record.offset))

    return read_all


@pytest.fixture
def write(say, topic):
    def run(given, *words):
        return say("produce", topic, *words, given=given)

    return run


def test_lines_become_records(write, read, topic):
    words = ("--partition", 1)
    code, out, err = write("one\n\ntwo\nlast without an end", *words)
    assert (code, out) == (0, "") and re.fullmatch(rf"4 records written to {topic} in [\d.]+ s\n", err)
    records = read()
    assert [(record.key, record.value) for record in records] == [
        (None, b"one"),
        (None, b""),
        (None, b"two"),
        (None, b"last without an end"),
    ]
    assert {record.partition for record in records} == {1}
    assert abs(records[0].timestamp / 1000 - time.time()) < 60


def test_keys_decide_the_partition(write, read):
    assert (
        write("".join(f"k{n % 7}\tv{n}\n" for n in range(70)), "--key-separator", "\t", "--compression", "lz4")[0] == 0
    )
    records = read()
    assert len(records) == 70
    for key in {record.key for record in records}:
        of_key = [record for record in records if record.key == key]
        assert len({record.partition for record in of_key}) == 1
        assert [int(record.value[1:]) for record in of_key] == sorted(int(record.value[1:]) for record in of_key)


def test_the_json_of_consume_can_be_produced(write, read, say, topic):
    line = {
        "key": {"base64": "/w=="},
        "value": None,
        "headers": [["a", "ü"], ["b", None]],
        "partition": 2,
        "timestamp": 1_700_000_000_000,
    }
    assert write(json.dumps(line) + "\n" + json.dumps({"value": {"nested": 1}, "partition": 0}), "--json")[0] == 0
    _, lines, _ = say("consume", topic, "--until-end", "--json")
    assert write(lines, "--json")[0] == 0
    records = read()
    assert [record.value for record in records] == [b'{"nested":1}'] * 2 + [None] * 2
    assert records[3].key == b"\xff"
    assert records[3].headers == (("a", "ü".encode()), ("b", None))
    assert records[2].timestamp == records[3].timestamp == 1_700_000_000_000


def test_many_lines_at_once(write, read):
    """More lines than a pipe, a read and a batch hold."""
    assert write("".join(f"{number} {'x' * 90}\n" for number in range(30_000)))[0] == 0
    assert sorted(int(record.value.split()[0]) for record in read()) == list(range(30_000))


def test_progress_has_the_share_of_a_file_that_is_acknowledged(write, topic, monkeypatch):
    monkeypatch.setattr("thinconsumer.cli.output.REPEAT_S", 0)
    code, _, err = write("".join(f"{number}\n" for number in range(2000)), "--progress")
    *lines, last = err.splitlines()
    assert code == 0 and last.startswith(f"2,000 records written to {topic} in ")
    shares = {line.partition(" ")[0]: line.rpartition("/s, ")[2] for line in lines}
    assert shares["0"] == "0 %" and shares["2,000"] == "100 %"  # the whole file is read before an acknowledgement


def test_the_number_of_records_is_not_reported_without_progress(write):
    assert write("one\n", "--no-progress") == (0, "", "")


def test_a_pipe_has_no_share():
    reading, writing = os.pipe()
    assert bytes_left(reading) == 0
    os.close(reading)
    os.close(writing)


def test_records_are_sent_before_the_input_ends(commands, cluster, topic):
    """A program that pipes its output in must not have to write more before its lines are sent."""
    child = commands.start("produce", topic, "--bootstrap-server", cluster.bootstrap_servers)
    child.stdin.write("first\n")
    child.stdin.flush()
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(3)])
        (records,) = consumer.poll(20_000).values()
    assert [record.value for record in records] == [b"first"]
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=50)
    assert child.returncode == 130
    # The acknowledgement may be under way when the signal comes.
    assert err.partition(" in ")[0] in (f"{words} written to {topic}" for words in ("0 records", "1 record"))


@pytest.mark.parametrize(
    ("given", "words", "said"),
    [
        ("a=1\nb\nc=2\n", ["--key-separator", "="], "line 2: there is no '=' between key and value (the line before"),
        ("a=1\nb=2\nc\n", ["--key-separator", "="], "line 3: there is no '=' between key and value (the 2 lines"),
        ("[" * 100_000, ["--json"], "line 1: the JSON is nested too deeply (no line is written)"),
        ('{"value": "a"}\nnonsense\n', ["--json"], "line 2: not JSON"),
        ('{"valeu": "a"}\n', ["--json"], "line 1: a record has no field 'valeu'"),
        ('{"value": "a", "partition": 9}\n', ["--json"], "has no partition 9 (no line is written)"),
        ("x" * 2_000_000, ["--property", "max.request.size=5000000"], "line 1 could not be written (no line is"),
    ],
)
def test_a_line_that_cannot_be_written_is_named(fail_on_cluster, topic, given, words, said):
    code, err = fail_on_cluster("produce", topic, *words, "--no-progress", given=given)
    assert code == 1 and said in err


def test_lines_before_an_invalid_one_are_written(write, read):
    code, _, err = write("a=1\nb=2\nc\nd=4\n", "--key-separator", "=")
    assert code == 1 and err.startswith("2 records written to ")
    assert sorted(record.value for record in read()) == [b"1", b"2"]


def test_missing_topics_and_partitions_are_errors_with_advice(fail_on_cluster, topic):
    code, err = fail_on_cluster("produce", f"{topic}x")
    assert code == 1 and f"there is no topic '{topic}x'; did you mean '{topic}'?" in err
    code, err = fail_on_cluster("produce", topic, "--partition", 3)
    assert code == 1 and "its partitions are 0 to 2" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "--key-separator", "="], "not allowed with"),
        (["--key-separator", ""], "--key-separator"),
        (["--compression", "zst"], "did you mean 'zstd'?"),
        (["--property", "btch.size=1"], "did you mean 'batch.size'?"),
    ],
)
def test_wrong_usage_exits_with_2(fail_on_cluster, topic, words, said):
    code, err = fail_on_cluster("produce", topic, *words)
    assert code == 2 and said in err


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'{"value": "v"}', InputRecord(b"v")),
        (b'{"value": "v", "offset": 5, "topic": "other", "timestamp": -1}', InputRecord(b"v")),
        (b"{}", InputRecord(None)),
        (b'{"key": "k", "headers": [], "partition": 0, "timestamp": 0}', InputRecord(None, b"k", (), 0, 0)),
    ],
)
def test_json_lines_are_parsed(data, line):
    assert parse_json(data) == line


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"partition": -1}',
        b'{"partition": true}',
        b'{"partition": 1.5}',
        b'{"timestamp": "now"}',
        b'{"headers": [["a"]]}',
        b'{"headers": [{"a": "b"}]}',
        b'{"headers": 5}',
        b'{"value": {"base64": "?"}}',
    ],
)
def test_json_that_is_not_a_record_is_refused(data):
    with pytest.raises(ValueError):
        parse_json(data)


def test_text_is_split_at_the_first_separator():
    assert parse_text(b"::")(b"a::b::c") == InputRecord(b"b::c", b"a")
    assert parse_text(None)(b"a::b") == InputRecord(b"a::b")
