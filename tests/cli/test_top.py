"""The command ``top``, on groups of both protocols."""

import io
import json
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from thinconsumer import Consumer, OffsetAndMetadata, TopicPartition
from thinconsumer.admin import CLASSIC, GroupDescription, MemberDescription
from thinconsumer.broker import BrokerProcess
from thinconsumer.cli import main, top
from thinconsumer.cli.watch import GroupAt, GroupWatch, Offsets

pytestmark = pytest.mark.once


def rows(out):
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def between(monkeypatch):
    """Set what happens between two rounds, in place of the wait."""

    def set_to(action):
        clock = SimpleNamespace(sleep=action, monotonic=time.monotonic, time=time.time)
        monkeypatch.setattr(top, "time", clock)

    return set_to


@pytest.fixture
def member(cluster, topic):
    """Return a function that starts a member of a group, which has read the first record of each partition."""
    consumers = []

    def start(group, protocol):
        for partition in range(3):
            cluster.produce(topic, [b"x"] * 10, partition)
        options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_protocol": protocol}
        consumer = Consumer(
            topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group, client_id="worker", **options
        )
        consumers.append(consumer)
        while len(consumer.assignment()) < 3:
            consumer.poll(100)
        consumer.commit({TopicPartition(topic, partition): partition for partition in range(3)})
        return consumer

    yield start
    for consumer in consumers:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_round_shows_lag_rates_and_owners(say, cluster, topic, member, between, protocol):
    group = f"{protocol}-of-{topic}"
    consumer = member(group, protocol)

    def advance(seconds):
        consumer.commit({TopicPartition(topic, 0): 5})
        cluster.produce(topic, [b"x"] * 4, 1)
        time.sleep(0.05)

    between(advance)
    code, out, err = say("top", group, "--count", "2", "--interval", "0.1", "--json")
    assert (code, err) == (0, "")
    first, second = rows(out)[:3], rows(out)[3:]
    assert [(row["partition"], row["lag"]) for row in first] == [(0, 10), (1, 9), (2, 8)]
    assert {row["consumed_per_second"] for row in first} == {None}
    assert [(row["partition"], row["committed"], row["end"], row["lag"]) for row in second] == [
        (1, 1, 14, 13), (2, 2, 10, 8), (0, 5, 10, 5),
    ]  # fmt: skip
    grown, still, read = second
    assert grown["produced_per_second"] > 0 == grown["consumed_per_second"] and grown["catch_up_seconds"] is None
    assert read["consumed_per_second"] > 0 == read["unmoved_seconds"] and read["catch_up_seconds"] > 0
    assert still["unmoved_seconds"] > 0
    assert {(row["state"], row["client"], row["group"]) for row in second} == {("Stable", "worker", group)}


def test_plain_lines(say, cluster, topic, member):
    group = f"group-of-{topic}"
    member(group, "classic").commit({TopicPartition(topic, 1): OffsetAndMetadata(10, "")})
    code, out, err = say("top", group, "--count", "1", "--plain")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"{group}: Stable (classic, range), 1 member, 3 partitions, 0.0/s consumed,")
    assert lines[1].split() == ["CLIENT", "HOST", "INSTANCE", "LAG", "CONSUMED/S", "ASSIGNMENT"]
    assert lines[2].split() == ["worker", "/127.0.0.1", "-", "18", "0.0", f"{topic}:0-2"]
    assert lines[4].split() == [topic, "0", "0", "10", "10", "-", "-", "-", "0s", "worker"]
    assert lines[6].split() == [topic, "1", "10", "10", "0", "-", "-", "0s", "-", "worker"]


def test_a_group_that_does_not_exist_is_no_failure_of_the_view(say, cluster):
    code, out, _ = say("top", "nobody", "--count", "1", "--json")
    (row,) = rows(out)
    assert row["group"] == "nobody" and row["topic"] is None
    assert code == int(row["error"] is not None)


def test_a_cluster_that_goes_away_is_said_and_the_view_goes_on(capsys, between, monkeypatch):
    monkeypatch.setattr(top, "REQUEST_MS", 300)
    with closing(BrokerProcess()) as process:
        process.create_topic("orders", 1)
        with Consumer(bootstrap_servers=process.bootstrap_servers, group_id="g") as consumer:
            consumer.commit({TopicPartition("orders", 0): 0})
        between(lambda seconds: process.close())
        code = main(["top", "g", "--bootstrap-server", process.bootstrap_servers, "--count", "2", "--json"])
    before, after = rows(capsys.readouterr().out)
    assert (code, before["error"], before["lag"]) == (1, None, 0)
    assert after["error"] and after["lag"] == 0


def test_ctrl_c_ends_the_view(say, cluster, between):
    def interrupt(seconds):
        raise KeyboardInterrupt

    between(interrupt)
    assert say("top", "g", "--plain")[0] == 130


@pytest.mark.parametrize("interval", ["0", "x", "nan", "1e9"])
def test_a_wrong_interval_is_an_error(fail, interval):
    assert fail("top", "g", "--interval", interval)[0] == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (59.4, "59s"), (80, "1m20s"), (7500, "2h05m"), (4 * 86400 + 11000, "4d03h"), (None, None)],
)
def test_durations(seconds, words):
    assert top.duration(seconds) == words
    assert top.duration(float("inf")) == "never"


def watch_of(lags, client="worker"):
    tps = [TopicPartition("orders", number) for number in range(len(lags))]
    member = MemberDescription("m", None, client, "/10.0.0.1", CLASSIC, assignment=tuple(tps))
    group = GroupDescription("billing", CLASSIC, "Stable", "consumer", "range", (member,))
    watch = GroupWatch("billing")
    for at in (0, 10):
        watch.add(GroupAt(at, group, {tp: Offsets(100 + 20 * at, 100 + 10 * at + lag) for tp, lag in zip(tps, lags)}))
    return watch


def drawn(watch, height=30):
    rich = pytest.importorskip("rich.console")
    from thinconsumer.cli.top_screen import drawn

    console = rich.Console(file=io.StringIO(), record=True, width=110, height=height)
    console.print(drawn({"billing": watch}, height))
    return console.export_text()


def test_the_screen_has_as_many_partitions_as_it_has_lines():
    text = drawn(watch_of([500 + number for number in range(40)]), height=20)
    lines = [line.rstrip() for line in text.splitlines()]
    assert len(lines) <= 20
    assert lines[0].startswith("billing: Stable (classic, range), 1 member, 40 partitions, 800.0/s consumed, 400.0/s")
    (first, *_) = [line.split() for line in lines if line.startswith("orders")]
    assert first == ["orders", "39", "300", "739", "439", "20.0", "10.0", "44s", "0s", "worker"]
    assert any(line.startswith("and ") and line.endswith(" more") for line in lines)


def test_names_of_clients_cannot_control_the_terminal():
    watch = watch_of([500], client="\x1b[31mred[bold]\x1b]0;title\x07")
    watch.add(GroupAt(12, error="gone \x1b[2J"))
    text = drawn(watch) + top.headline(watch) + str(top.trouble(watch)) + str(top.member_rows(watch))
    assert "\x1b" not in text and "[bold]" in text
    assert "error: gone" in text and "shown is what was read 2s ago" in text


def test_the_screen_is_drawn_in_place():
    rich = pytest.importorskip("rich.console")
    from thinconsumer.cli.top_screen import screen

    output = io.StringIO()
    console = rich.Console(file=output, force_terminal=True, width=100, height=20)
    with screen(in_place=True, console=console) as show:
        show({"billing": watch_of([5])})
        show({"billing": watch_of([6])})
    assert "\x1b[?1049h" in output.getvalue() and output.getvalue().count("billing") == 2
    with screen(in_place=False, console=console) as show:
        show({"billing": watch_of([5])})
    assert output.getvalue().count("billing") == 3
