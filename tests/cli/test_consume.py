"""The command ``consume``: start, end, formats and errors."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from thinconsumer import TopicPartition
from thinconsumer.broker import Delay
from thinconsumer.cli.consume import print_batches, what_is_left
from thinconsumer.cli.output import ProgressLine
from thinconsumer.records.builder import NewRecord

try:
    import pty
except ImportError:  # Windows
    pty = None

HOUR_MS = 3_600_000
NOON = 1_700_000_000_000


@pytest.fixture
def full(cluster, topic):
    """Ten records in each of three partitions, one an hour."""
    for partition in range(3):
        records = [
            NewRecord(f"{partition}/{number}".encode(), b"k", (), NOON + number * HOUR_MS) for number in range(10)
        ]
        cluster.produce(topic, records, partition)
    return topic


@pytest.mark.parametrize(
    ("partitions", "where", "values"),
    [
        ("", [], [f"{p}/{n}" for p in range(3) for n in range(10)]),
        (":1", [], [f"1/{n}" for n in range(10)]),
        (":0,2", ["--from", "7"], ["0/7", "0/8", "0/9", "2/7", "2/8", "2/9"]),
        (":1", ["--from", "-2"], ["1/8", "1/9"]),
        (":1", ["--from", "-50"], [f"1/{n}" for n in range(10)]),
        (":1", ["--from", "latest"], []),
        (":1", ["--from", "2023-11-15T05:13:20Z"], ["1/7", "1/8", "1/9"]),
        (":1", ["--from", "2030-01-01"], []),
    ],
)
def test_from_each_start_to_the_end(say, full, partitions, where, values):
    code, out, err = say("consume", full + partitions, "--until-end", *where)
    assert sorted(out.split()) == values
    assert (code, err) == (0, "")


def test_several_topics_at_once(say, cluster, full):
    cluster.create_topic(f"{full}-more", 1)
    cluster.produce(f"{full}-more", [b"more"])
    code, out, _ = say("consume", f"{full}:0", f"{full}-more", "--until-end", "--from", "-1")
    assert (code, sorted(out.split())) == (0, ["0/9", "more"])


@pytest.mark.parametrize("how", [[], ["--until-end"]])
def test_max_limits_the_records(say, full, how):
    code, out, _ = say("consume", f"{full}:2", "--max", 4, *how)
    assert (code, out) == (0, "2/0\n2/1\n2/2\n2/3\n")


def test_json_has_all_fields(say, cluster, topic):
    headers = [("trace", b"\xff"), ("empty", None)]
    cluster.produce(topic, [NewRecord("grün\n".encode(), b"\x80", headers, NOON), NewRecord(None, None, (), NOON)])
    _, out, _ = say("consume", topic, "--until-end", "--json")
    assert "grün" in out
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "topic": topic,
            "partition": 0,
            "offset": 0,
            "timestamp": NOON,
            "key": {"base64": "gA=="},
            "value": "grün\n",
            "headers": [["trace", {"base64": "/w=="}], ["empty", None]],
        },
        {"topic": topic, "partition": 0, "offset": 1, "timestamp": NOON, "key": None, "value": None, "headers": []},
    ]


def test_keys_are_printed_before_a_separator(say, full):
    _, out, _ = say("consume", f"{full}:0", "--max", 2, "--key-separator", " = ")
    assert out == "k = 0/0\nk = 0/1\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{topic}x"], "there is no topic '{topic}x'; did you mean '{topic}'?"),
        (["{topic}:3"], "{topic} has no partition 3: its partitions are 0 to 2"),
        (["{topic}", "--from", "5"], "{topic}-0 has offsets 0 to 0, but not 5: choose another start with --from"),
    ],
)
def test_missing_topics_partitions_and_offsets_are_errors_with_advice(fail_on_cluster, topic, words, said):
    code, err = fail_on_cluster("consume", *(word.format(topic=topic) for word in words), "--until-end")
    assert code == 1 and said.format(topic=topic) in err


def test_from_a_duration_before_now(say, cluster, topic):
    now = round(time.time() * 1000)
    cluster.produce(topic, [NewRecord(b"%d h" % hours, None, (), now - hours * HOUR_MS) for hours in (3, 2, 1)])
    _, out, _ = say("consume", topic, "--until-end", "--from", "2h30m")
    assert out == "2 h\n1 h\n"


def test_json_values_are_printed_on_one_line_and_others_counted(say, cluster, topic):
    cluster.produce(topic, [b'{"a": [1.10,\n2]}', b"no", NewRecord(None, None, (), NOON)])
    words = ("consume", topic, "--until-end", "--value-format", "json")
    code, out, err = say(*words)
    assert (code, out) == (0, '{"a":[1.10,2]}\nno\nnull\n')
    assert err == "values that are not JSON, printed as they are: 1\n"
    _, out, err = say(*words, "--json")
    assert [json.loads(line)["value"] for line in out.splitlines()] == [{"a": [1.1, 2]}, "no", None]
    assert say(*words, "--key-separator", ":")[1].startswith('null:{"a":[1.10,2]}\n')


class Screen:
    """A terminal for the output of a command."""

    def __init__(self):
        self._fd, self.end = pty.openpty()
        self.text = ""

    def read_until(self, words):
        while words not in self.text:
            self.text += os.read(self._fd, 10_000).decode().replace("\r\n", "\n")
        return self.text

    def close(self):
        os.close(self._fd)
        os.close(self.end)


@pytest.fixture
def screen():
    made = Screen()
    yield made
    made.close()


@pytest.mark.skipif(pty is None, reason="no terminals here")
@pytest.mark.parametrize("how", [[], ["--group", "screen"]])
def test_on_a_terminal_the_command_says_that_it_is_connected_and_waits(commands, cluster, topic, screen, how):
    words = ("consume", topic, "--bootstrap-server", cluster.bootstrap_servers, "--value-format", "json", *how)
    child = commands.start(*words, stdout=screen.end, stderr=screen.end)
    waiting = f"connected to {cluster.bootstrap_servers}: waiting for records of 3 partitions; Ctrl-C ends\n"
    assert screen.read_until(waiting) == waiting
    cluster.produce(topic, [b'{"a":1}'])
    assert screen.read_until("}\n") == waiting + '{\n  "a": 1\n}\n'
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=50) == 130


@pytest.mark.parametrize(
    ("is_terminal", "progress", "ends", "is_said"),
    [(True, None, None, True), (False, None, None, False), (True, False, None, False), (True, None, {}, False)],
)
def test_that_the_command_waits_is_said_once_and_only_on_a_terminal(
    monkeypatch, capsys, is_terminal, progress, ends, is_said
):
    """Not while an obstacle is known, with --no-progress, or if the command ends by itself."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    reasons = iter(["broker 1 cannot be reached", "", "", ""])
    consumer = SimpleNamespace(health=lambda: SimpleNamespace(reason=next(reasons)), assignment=lambda: {0})
    options = SimpleNamespace(progress=progress, max=None, bootstrap_server="a:1", command_config={})
    said = []
    written = lambda: said.append(capsys.readouterr().err)  # noqa: E731
    print_batches(consumer, bytes, ProgressLine(False), options, [[], [], []], written, ends)
    said.append(capsys.readouterr().err)
    waiting = "connected to a:1: waiting for records of 1 partition; Ctrl-C ends\n"
    assert said == (["", "", waiting, ""] if is_said else [""] * 4)


@pytest.mark.parametrize(
    ("batches", "said"), [([[]], "connected to a:1: no partition is assigned; Ctrl-C ends\n"), ([["record"], []], "")]
)
def test_a_waiting_command_names_no_partitions_that_it_has_not_and_says_nothing_after_records(
    monkeypatch, capfdbinary, batches, said
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    consumer = SimpleNamespace(health=lambda: SimpleNamespace(reason=""), assignment=set)
    options = SimpleNamespace(progress=None, max=None, bootstrap_server="a:1", command_config={})
    print_batches(consumer, str.encode, ProgressLine(False), options, batches, lambda: None)
    assert capfdbinary.readouterr().err.decode() == said


@pytest.mark.parametrize(
    ("words", "shares"),
    [
        (["--until-end"], ["30 records", "/s, 100 %"]),
        (["--until-end", "--group", "share"], ["30 records", "/s, 100 %"]),
        (["--max", "5"], ["5 records", "/s, 100 %"]),
        (["--until-end", "--max", "40"], ["30 records", "/s, 100 %"]),
    ],
)
def test_progress_has_the_share_where_the_end_is_known(say, monkeypatch, full, words, shares):
    monkeypatch.setattr("thinconsumer.cli.output.REPEAT_S", 0)
    _, _, err = say("consume", full, "--progress", *words)
    last = err.splitlines()[-2]
    assert last.startswith(shares[0]) and last.endswith(shares[1])


@pytest.mark.parametrize(
    ("most", "ends", "said"),
    [(None, {0: 100, 1: 50}, "37 %"), (60, {0: 100, 1: 50}, "50 %"), (120, None, "25 %"), (None, None, "70 behind")],
)
def test_the_share_counts_what_is_left_of_the_own_partitions(most, ends, said):
    """30 records are read. A partition of another member is not counted."""
    consumer = SimpleNamespace(
        assignment=lambda: {TopicPartition("t", 0)}, position=lambda tp: 50, lag=lambda: {TopicPartition("t", 0): 70}
    )
    ends = None if ends is None else {TopicPartition("t", number): end for number, end in ends.items()}
    assert what_is_left(consumer, 30, most, ends) == said


def test_progress_is_printed_to_standard_error(say, full):
    _, out, err = say("consume", full, "--until-end", "--progress")
    assert len(out.splitlines()) == 30
    assert err.splitlines()[-1].startswith("30 records in ")
    _, out, err = say("consume", full, "--until-end", "--no-progress")
    assert err == ""


def test_read_committed(say, cluster, topic):
    """The option is passed on; without transactions the records are the same."""
    cluster.produce(topic, [b"a"])
    code, out, _ = say("consume", topic, "--until-end", "--isolation", "read_committed")
    assert (code, out) == (0, "a\n")


def test_reading_goes_on_until_ctrl_c(commands, cluster, topic):
    child = commands.start("consume", topic, "--bootstrap-server", cluster.bootstrap_servers)
    for number in range(3):
        cluster.produce(topic, [str(number).encode()], number)
        assert child.stdout.readline() == f"{number}\n"
    child.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, err = child.communicate(timeout=50)
    assert child.returncode == 130
    assert time.monotonic() - started < 5
    assert (out, err) == ("", "")


def test_a_closed_pipe_ends_the_command_silently(commands, cluster, topic):
    cluster.produce(topic, [b"x" * 1000] * 1000)
    reading, writing = os.pipe()
    child = commands.start("consume", topic, "--bootstrap-server", cluster.bootstrap_servers, stdout=writing)
    os.close(writing)
    os.read(reading, 10)
    os.close(reading)
    _, err = child.communicate(timeout=50)
    assert child.returncode == 141
    assert err == ""


def test_a_full_disk_is_reported_in_one_line(commands, cluster, full):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as disk:
        words = ("consume", full, "--until-end", "--bootstrap-server", cluster.bootstrap_servers)
        child = commands.start(*words, stdout=disk, stderr=subprocess.PIPE)
        _, err = child.communicate(timeout=50)
    assert child.returncode == 1
    assert err.splitlines()[0].startswith("error: ")
    assert "space" in err


def test_the_end_is_looked_up_once(say, cluster, full):
    rule = cluster.on("ListOffsets", Delay(0))
    assert say("consume", f"{full}:0", "--until-end", "--from", "earliest")[0] == 0
    asked = rule.hits
    rule.remove()
    assert asked == 2  # with the lookup of the first offset
