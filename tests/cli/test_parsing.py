"""Parsing of command lines, and one-line errors with suggestions."""

import argparse
import datetime
import time

import pytest

from thinconsumer.cli import parsing
from thinconsumer.cli.parsing import Parser, PartitionsOf, Start, UsageError, one_of


def parser():
    made = Parser(prog="thin read")
    made.add_argument("topic")
    made.add_argument("--from", dest="start", type=parsing.start)
    made.add_argument("--isolation", type=one_of("read_committed", "read_uncommitted"))
    return made


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["t", "--form", "1"], "no option --form; did you mean '--from'?"),
        (["t", "--form=1"], "no option --form; did you mean '--from'?"),
        (["t", "--zzz"], "no option --zzz; 'thin read --help'"),
        (["t", "--fro", "1"], "no option --fro; did you mean '--from'?"),
        (["t", "u"], "unexpected argument 'u'"),
        ([], "topic"),
        (["t", "--isolation", "read_commited"], "did you mean 'read_committed'?"),
        (["t", "--from", "earlest"], "did you mean 'earliest'?"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_a_suggestion(words, said):
    with pytest.raises(UsageError) as error:
        parser().parse(words)
    assert said in str(error.value)
    assert str(error.value).startswith("thin read: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("earliest", Start("earliest")),
        ("latest", Start("latest")),
        ("0", Start("offset", 0)),
        ("1700000000000", Start("offset", 1700000000000)),
        ("-10", Start("last", 10)),
        ("2023-11-14T22:13:20Z", Start("time", 1_700_000_000_000)),
        ("2023-11-14T23:13:20+01:00", Start("time", 1_700_000_000_000)),
        ("1960-01-01T00:00:00Z", Start("time", 0)),
        ("2023-11-14 22:13:20+00:00", Start("time", 1_700_000_000_000)),
    ],
)
def test_start_is_parsed(text, value):
    assert parsing.start(text) == value


@pytest.mark.parametrize("text", ["2026-01-31+02:00", "2026-01-31-02:00", "2026-01-31Z", "2026-01-31x10:00"])
def test_a_zone_without_a_time_is_refused(text):
    """Python would read the zone as the time of the day."""
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time"):
        parsing.moment(text)


def test_a_time_without_a_zone_is_local():
    here = datetime.datetime(2024, 2, 29).astimezone()
    assert parsing.start("2024-02-29") == Start("time", round(here.timestamp() * 1000))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h", 3600),
        ("90m", 5400),
        ("2d", 172_800),
        ("1d2h3m4.5s", 93_784.5),
        ("1H30M", 5400),
        ("PT1H30M", 5400),
        ("P2D", 172_800),
        ("p1dt0.5s", 86_400.5),
        ("+PT1,5S", 1.5),
        ("0s", 0),
        ("999999999d", 1_000_000),  # before 1970
    ],
)
def test_durations_are_parsed(text, seconds):
    assert parsing.ago(text, lambda: 1_000_000.0) == Start("time", round((1_000_000 - seconds) * 1000))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "T",
        "PT",
        "P1DT",
        "P1M",
        "1",
        "1w",
        "-1h",
        "1h ",
        "30m1h",
        "1.h",
        "1.5h",
        "PT1D",
        "٣h",
        "٣d",
        "9" * 5000 + "d",
    ],
)
def test_invalid_durations_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a duration"):
        parsing.ago(text)


def test_a_start_may_be_a_duration():
    before = time.time()
    assert before - 3600 <= parsing.start("1h").number / 1000 + 0.001 <= time.time() - 3600 + 0.002
    assert parsing.start("1h").kind == "time"


@pytest.mark.parametrize("text", ["", "--10", "tomorrow", "2024-02-30", "9" * 19, "0001-01-01", "2026-01-31+02:00"])
def test_invalid_starts_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not earliest, latest"):
        parsing.start(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("orders", PartitionsOf("orders", None)),
        ("orders:0", PartitionsOf("orders", (0,))),
        ("orders:3-5,0,4", PartitionsOf("orders", (0, 3, 4, 5))),
    ],
)
def test_topics_with_partitions_are_parsed(text, value):
    assert parsing.topic_and_partitions(text) == value


@pytest.mark.parametrize(
    "text", ["", ":0", "orders:", "orders:a", "orders:1-", "orders:-1", "orders:1,,2", "orders:5-2", "orders:0-9999999"]
)
def test_invalid_partitions_are_refused(text):
    """A typo must not build a set of billions either."""
    with pytest.raises(argparse.ArgumentTypeError):
        parsing.topic_and_partitions(text)


@pytest.mark.parametrize(("text", "value"), [("a", ("a", 1)), ("a.b:12", ("a.b", 12))])
def test_topics_to_create_are_parsed(text, value):
    assert parsing.topic_and_count(text) == value


@pytest.mark.parametrize("text", ["", ":3", "a:", "a:0", "a:-1", "a:x"])
def test_invalid_topics_to_create_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        parsing.topic_and_count(text)


def test_names_with_values_and_numbers_are_parsed():
    assert parsing.name_and_value("a=b=c") == ("a", "b=c")
    assert parsing.name_and_value("a=") == ("a", "")
    assert parsing.positive("7") == 7
    for wrong in ("a", "=b"):
        with pytest.raises(argparse.ArgumentTypeError):
            parsing.name_and_value(wrong)
    for wrong in ("0", "-1", "x", "1.5"):
        with pytest.raises(argparse.ArgumentTypeError):
            parsing.positive(wrong)


def test_properties_override_options_under_dotted_or_python_names():
    file = {"check.crcs": "true", "fetch.max.wait.ms": "7", "compression.type": "lz4", "bootstrap.servers": "file:1"}
    file["bootstrap_servers"] = "file:2"
    properties = [("fetch_min_bytes", "5"), ("check.crcs", "false")]
    options = argparse.Namespace(bootstrap_server="a:1", command_config=file, property=properties)
    config = parsing.client_config(options, check_crcs=True, isolation_level="read_committed")
    assert config == {
        "bootstrap.servers": "a:1",
        "bootstrap.timeout.ms": parsing.BOOTSTRAP_TIMEOUT_MS,
        "default.api.timeout.ms": parsing.API_TIMEOUT_MS,
        "check.crcs": "false",
        "isolation.level": "read_committed",
        "fetch.min.bytes": "5",
        "fetch.max.wait.ms": "7",
    }


@pytest.mark.parametrize(
    ("named", "file", "expected"),
    [
        (None, {}, "localhost:9092"),
        (None, {"bootstrap.servers": "file:1"}, "file:1"),
        ("a:1", {"bootstrap.servers": "file:1"}, "a:1"),
    ],
)
def test_the_command_line_names_the_servers_before_the_file(named, file, expected):
    assert parsing.servers(argparse.Namespace(bootstrap_server=named, command_config=file)) == expected
