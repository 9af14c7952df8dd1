"""What is printed of a trace: calls, requests, rebalances and waits in words, up to a condition."""

import re

import pytest

from tests.replay.test_simulated_traces import Program
from tests.replay.traces import new_cluster, read_through_a_failure, recording
from thinconsumer.cli import main
from thinconsumer.network.connection import Connection
from thinconsumer.replay import replay
from thinconsumer.replay.messages import printable
from thinconsumer.replay.telling import condition, line_of, tell

#: Parts of lines of a member that reads through a failure, in their order.
STORY = [
    "written by thinconsumer .*, group_id readers",
    "subscribe\\(\\[orders\\]",
    r"poll\(1000\)",
    "connection 0: dials kafka1:9092",
    "connection 0: connected to kafka1:9092 after",
    r"to kafka1:9092, connection 0: FindCoordinator #\d+ \(version 6, \d+ bytes\): of group readers",
    r"Metadata #\d+ answered after 1 ms, \d+ bytes: brokers 1 .*orders with 2 partitions",
    "coordinator: broker 2",
    "member: preparing rebalance",
    "JoinGroup #1 .*: a new member, protocols range, cooperative-sticky, since: the consumer subscribed",
    "JoinGroup #1 answered .*errors: MEMBER_ID_REQUIRED",
    "JoinGroup #2 answered .*: generation 1, leader of 1 member, protocol range",
    "SyncGroup #3 .*: generation 1, assignments of 1 member",
    "SyncGroup #3 answered .*: assigned orders-0, orders-1",
    "the client calls on_partitions_assigned",
    "assigned: orders-0, orders-1",
    "member: stable, generation 1",
    "OffsetFetch .*orders-0 at none, orders-1 at none",
    "ListOffsets .*: orders-0 at the beginning",
    r"position 0 \(reset found\): orders-0, orders-1",
    "Fetch #1 .*: orders-0 from 0",
    "from broker 1: Fetch #1 answered after 1 ms, .*: orders-0 offsets 0 to 9, 10 records",
    r"Fetch #2 .*: session \d+, epoch 1: orders-0 from 10",
    "poll: 20 records after 14 ms: orders-0 0 to 9, orders-1 0 to 9",
    r"poll\(300\): no records after 300 ms; it waits: no new records in 2 partitions",
    r"poll\(0\), 5 times: no records after 0 ms; it waits: orders-0, orders-1: paused",
    "! connection 4 to broker 2 lost: .*reset by the peer.*; without an answer: Fetch #2",
    "poll: no records after 1.000 s; it waits: no new records .*; no connection to kafka2:9092: connection refused",
    r"seek\(orders-0, 4\): done",
    r"position 4 \(seek\): orders-0",
    "poll: 6 records .*: orders-0 4 to 9",
    "! from broker 2: OffsetCommit .*errors: orders-0: NOT_COORDINATOR",
    "coordinator: not known",
    "OffsetCommit .*: orders-0 at 10, orders-1 at 10, generation 1",
    "commit: done after",
    "revoked: orders-0, orders-1",
    "LeaveGroup #1 .*: the consumer is closing",
    "Fetch .*: closes session",
    "connection 0 to broker 1 closed by the client",
    "close: done after",
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("story") / "trace")
    read_through_a_failure(path)
    return path


def test_the_story_of_a_member(trace):
    told = tell(trace)
    assert told.replayed == replay(trace)
    text = "\n".join(map(line_of, told.story.happenings))
    at = 0
    for part in STORY:
        match = re.compile(part).search(text, at)
        assert match, f"{part!r} is not in what follows:\n{text[at:]}"
        at = match.end()


@pytest.mark.parametrize(
    ("until", "stopped", "state"),
    [
        ("rebalance", "member: preparing rebalance", "health: working: the member is preparing rebalance"),
        ("assigned", "assigned: orders-0, orders-1", "orders-0: awaiting callback"),
        ("revoked", "revoked: orders-0, orders-1", "positions: 0 partitions"),
        ("orders-1:7", "poll: 20 records", "orders-1: position 0, fetching, log end 10"),
        ("error", "connection 1 to broker 2 lost", "in poll(1000)"),
        ("joingroup", "to broker 2, connection 1: JoinGroup #1", "in flight: JoinGroup #1 to broker 2, connection 1"),
        ("444", "poll(300): no records", "orders-1: position 10, fetching, log end 10"),
    ],
)
def test_until_stops_and_shows_the_client(trace, capsys, until, stopped, state):
    assert main(["replay", trace, "--until", until]) == 0
    out = capsys.readouterr().out
    assert re.search(rf"^stopped after event \d+, .* s: {re.escape(stopped)}", out, re.MULTILINE)
    after = out.partition("stopped after")[2]
    assert state in after
    assert "member: " in after
    assert "(kafka1:9092): ready" in after
    assert "close:" not in out


def test_a_condition_that_is_never_true_is_said(trace, capsys):
    assert main(["replay", trace, "--until", "orders-1:10"]) == 1
    assert "never true" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "rebalanced", "orders", "orders:4", "orders-1:x", "-5"])
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(ValueError, match="is none of"):
        condition(text)


def test_the_rest_of_a_trace_of_another_version_is_told(trace, monkeypatch):
    """The client of another version diverges: what the trace itself says is told to its end."""
    write = Connection._write

    def other(self, *arguments):
        self._correlation_id += self._correlation_id == 3
        write(self, *arguments)

    monkeypatch.setattr(Connection, "_write", other)
    told = tell(trace)
    assert told.replayed.divergence is not None
    words = [one.words for one in told.story.happenings]
    at = next(n for n, line in enumerate(words) if "the client does something else" in line)
    assert any("OffsetCommit" in line for line in words[at:])
    assert words[-1].startswith("close: done")


def test_a_look_changes_nothing(tmp_path):
    """A story looks at the client before each step: the replay goes on as without it."""
    for seed in (0, 2):
        (tmp_path / str(seed)).mkdir()
        program = Program(seed, tmp_path / str(seed))
        program.run(25)
        for path in program.paths:
            told = tell(path)
            assert told.replayed == replay(path)
            assert told.replayed.divergence is None


def test_a_story_that_begins_at_a_checkpoint_knows_what_was_before(tmp_path, monkeypatch):
    """The last part of a long trace has no dial and no assignment: the client of the checkpoint has them."""
    monkeypatch.setattr("thinconsumer.replay.trace_file.EVENTS_MAX", 100)
    path, cluster = str(tmp_path / "trace"), new_cluster()
    with recording(cluster, path, group_id="readers", trace_bytes_max=60_000) as consumer:
        consumer.subscribe(["orders"])
        for _ in range(400):
            cluster.produce("orders", [b"1"] * 5)
            consumer.poll(100)
    (tmp_path / "trace.1").unlink()
    told = tell(path)
    assert told.replayed.divergence is None
    lines = [one.words for one in told.story.happenings]
    assert lines[1] == "the trace goes on at a checkpoint: orders-0, orders-1"
    assert not [line for line in lines if "assigned: " in line or "?" in line or "topic id" in line]
    assert any(re.match(r"from broker 1: Fetch .* orders-0 offsets", line) for line in lines)
    assert not any(one.is_error for one in told.story.happenings)


def test_a_call_that_ctrl_c_has_cut_off_is_told(tmp_path):
    path, cluster = str(tmp_path / "trace"), new_cluster()
    with recording(cluster, path, group_id="readers") as consumer:
        consumer.subscribe(["orders"])
        consumer.poll(1000)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(consumer._shell.engine, "step", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(1000)
        consumer.poll(1000)
    told = tell(path)
    assert told.replayed.divergence is None
    text = "\n".join(one.words for one in told.story.happenings)
    assert "KeyboardInterrupt has cut off the call" in text
    assert "closed after KeyboardInterrupt; without an answer: Fetch" in text
    assert "the trace goes on at a checkpoint: orders-0, orders-1" in text
    assert text.count("revoked: ") == 1
    polls = [one for one in told.story.happenings if one.kind in ("call", "returned") and one.words.startswith("poll")]
    assert [one.depth for one in polls if one.kind == "call"] == [0, 0, 0]
    assert [one.words.split(" after")[0] for one in polls if one.kind == "returned"] == [
        "poll: 20 records",
        "poll: no records",
    ]


def test_names_show_no_control_characters(tmp_path, capsys):
    """A name could change the terminal, or the order in which text is shown."""
    path = str(tmp_path / "trace")
    with recording(new_cluster(), path, client_id="a\x1b[31m\u202eb", group_id="\x1b[2J") as consumer:
        consumer.subscribe(["orders"])
        consumer.poll(100)
    assert main(["replay", path]) == 0
    out = capsys.readouterr().out
    assert "client_id a\\x1b[31m\\u202eb, group_id \\x1b[2J" in out
    assert "of group \\x1b[2J" in out
    assert all(line.isprintable() for line in out.splitlines())
    assert printable("x" * 2000).endswith("... (2000 characters)")
