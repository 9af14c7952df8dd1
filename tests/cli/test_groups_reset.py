"""The action ``groups reset``; tests/real/test_groups_reset.py compares it with Kafka's own tool."""

import argparse
import json
import os
import sys

import pytest

from thinconsumer import Consumer, OffsetAndMetadata, TopicPartition
from thinconsumer.admin import Admin, GroupDescription, GroupListing, GroupListings
from thinconsumer.cli.group_reset import LogOffsets, PlannedOffset, new_offset, parse_lines
from thinconsumer.cli.parsing import CommandError, Start, from_file
from thinconsumer.errors import CommitFailedError
from thinconsumer.records.builder import NewRecord
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer_testing.broker.faults import Disconnect

pytestmark = pytest.mark.once

T0 = TopicPartition("t", 0)
HOUR_MS = 3_600_000
NOON = 1_700_049_600_000  # 2023-11-15T12:00:00Z
LOG = LogOffsets({T0: 3}, {T0: 10}, {T0: 7})


@pytest.mark.parametrize(
    ("where", "committed", "new", "warning"),
    [
        (Start("earliest"), 5, 3, ""),
        (Start("latest"), 5, 10, ""),
        (Start("current"), 5, 5, ""),
        (Start("current"), 2, 2, ""),  # outside the log: Kafka's tool keeps it, too
        (Start("current"), None, 10, ""),
        (Start("offset", 3), 5, 3, ""),
        (Start("offset", 10), 5, 10, ""),
        (Start("offset", 2), 5, 3, "warning: t-0: 2 is before its first offset: 3 is taken\n"),
        (Start("offset", 11), None, 10, "warning: t-0: 11 is after its end: 10 is taken\n"),
        (Start("shift", -1), 5, 4, ""),
        (Start("shift", 0), 5, 5, ""),
        (Start("shift", 9), 5, 10, "warning: t-0: 14 is after its end: 10 is taken\n"),
        (Start("shift", -9), 5, 3, "warning: t-0: -4 is before its first offset: 3 is taken\n"),
        (Start("time", NOON), 5, 7, ""),
    ],
)
def test_each_mode_has_its_offset(capsys, where, committed, new, warning):
    assert new_offset(T0, where, committed, LOG) == new
    assert capsys.readouterr() == ("", warning)


def test_a_time_after_the_last_record_gives_the_end(capsys):
    assert new_offset(T0, Start("time", NOON), 5, LOG._replace(since={T0: None})) == 10
    assert capsys.readouterr().err == "warning: t-0 has no record from that time on: its end 10 is taken\n"


def test_an_offset_that_is_not_committed_cannot_be_shifted():
    with pytest.raises(CommandError, match="t-0 has no committed offset"):
        new_offset(T0, Start("shift", 1), None, LOG)


def test_lines_of_files_are_parsed():
    assert parse_lines('t,0,5\n"g,1",t,0,-2\n') == [PlannedOffset(None, T0, 5), PlannedOffset("g,1", T0, -2)]


@pytest.mark.parametrize("text", ["t,0", "t,0,5,6,7", "t,0,x", "t,-1,5", "t,0,5\n\nt,0,6", "t,0," + "9" * 19, "t,0,٣"])
def test_files_with_other_lines_are_refused(tmp_path, text):
    (tmp_path / "offsets").write_text(text)
    with pytest.raises(argparse.ArgumentTypeError, match="offsets: line [12] is not TOPIC,PARTITION,OFFSET"):
        from_file(str(tmp_path / "offsets"), parse_lines)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"t,0,5\n" + b"t" * 200_000 + b",0,5\n", "line 2: field larger than field limit"),
    ],
)
def test_empty_files_and_huge_fields_are_refused(tmp_path, data, said):
    (tmp_path / "offsets").write_bytes(data)
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        from_file(str(tmp_path / "offsets"), parse_lines)


def test_a_byte_order_mark_is_no_part_of_the_first_topic(tmp_path):
    (tmp_path / "offsets").write_bytes(b"\xef\xbb\xbft,0,5\r\n")
    assert from_file(str(tmp_path / "offsets"), parse_lines) == [PlannedOffset(None, T0, 5)]


@pytest.fixture
def group(cluster, topic):
    """A group that has committed 2 of 6 in one partition, with a record an hour from noon on, and 1 of 3 in another."""
    cluster.produce(topic, [NewRecord(b"x", None, (), NOON + number * HOUR_MS) for number in range(6)], 0)
    cluster.produce(topic, [b"x"] * 3, 1)
    name = f"reset-of-{topic}"
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=name) as consumer:
        consumer.commit({TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 1})
    return name


@pytest.fixture
def committed(cluster, topic, group):
    def read():
        tps = [TopicPartition(topic, number) for number in range(3)]
        with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group) as consumer:
            return [consumer.committed(tp) for tp in tps]

    return read


def test_a_dry_run_shows_the_plan_and_changes_nothing(say, topic, group, committed):
    code, out, err = say("groups", "reset", group, "--to-earliest", "--topic", topic)
    assert (code, err) == (0, "nothing was changed: --execute commits the new offsets\n")
    assert [line.split() for line in out.splitlines()] == [
        ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "NEW", "END", "LAG"],
        [group, topic, "0", "2", "0", "6", "6"],
        [group, topic, "1", "1", "0", "3", "3"],
        [group, topic, "2", "-", "0", "0", "0"],
    ]
    assert committed() == [2, 1, None]


@pytest.mark.parametrize(
    ("words", "after"),
    [
        ("--to-latest --topic {topic}:0,2", [6, 1, 0]),
        ("--shift-by -1 --all-topics", [1, 0, None]),
        ("--to-datetime 2023-11-15T14:30:00Z --topic {topic}:0", [3, 1, None]),
        ("--by-duration 100000d --topic {topic}:0", [0, 1, None]),
        ("--by-duration PT1S --topic {topic}:0", [6, 1, None]),
        ("--to-offset 3 --topic {topic}:0 --topic {topic}", [3, 3, 0]),
    ],
)
def test_execute_commits_the_plan(say, topic, group, committed, words, after):
    code, _, err = say("groups", "reset", group, "--execute", *words.format(topic=topic).split())
    assert code == 0 and err.splitlines()[-1].startswith("reset ")
    assert committed() == after


def test_an_exported_plan_can_be_read_again(say, topic, group, committed, tmp_path):
    _, out, _ = say("groups", "reset", group, "--to-latest", "--all-topics", "--export")
    assert out == f"{topic},0,6\n{topic},1,3\n"
    (tmp_path / "plan").write_text(out)
    code, out, _ = say("groups", "reset", group, "--from-file", tmp_path / "plan", "--execute", "--json")
    assert code == 0 and [json.loads(line)["new"] for line in out.splitlines()] == [6, 3]
    assert committed() == [6, 3, None]


def test_a_group_that_does_not_exist_is_created_only_with_execute(say, topic, group):
    words = ("groups", "reset", f"{group}x", "--to-latest", "--topic", topic)
    code, _, err = say(*words)
    assert code == 0 and f"group {group}x does not exist: --execute creates it" in err
    assert f"{group}x" not in say("groups", "list")[1]
    assert say(*words, "--execute")[0] == 0
    assert f"{group}x" in say("groups", "list")[1]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_refused(fail_on_cluster, cluster, topic, group, committed, protocol):
    options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group, "client_id": "till"}
    with Consumer(topic, **options, group_protocol=protocol, enable_auto_commit=False) as consumer:
        while not consumer.assignment():
            consumer.poll(500)
        code, err = fail_on_cluster("groups", "reset", group, "--to-earliest", "--all-topics", "--execute")
    assert code == 1 and "with members (till at /127.0.0.1), which would go on from their own positions" in err
    assert committed() == [2, 1, None]


def test_a_member_that_joins_before_the_commit_is_named(say, monkeypatch, topic, group):
    def commit(self, offsets):
        raise CommitFailedError("rejected", reason="unknown_member")

    monkeypatch.setattr(Consumer, "commit", commit)
    code, _, err = say("groups", "reset", group, "--to-earliest", "--all-topics", "--execute")
    assert code == 1 and "a member has joined the group meanwhile, nothing was changed" in err


def test_nothing_is_committed_if_the_plan_cannot_be_printed(say, monkeypatch, topic, group, committed):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as disk, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", disk)
        code, _, err = say("groups", "reset", group, "--to-earliest", "--all-topics", "--execute")
    assert code == 1 and "space" in err
    assert committed() == [2, 1, None]


def test_a_commit_whose_response_is_lost_has_an_unknown_outcome(say, cluster, monkeypatch, topic, group, committed):
    monkeypatch.setattr("thinconsumer.cli.parsing.API_TIMEOUT_MS", 1000)
    rule = cluster.on("OffsetCommit", Disconnect(after=True))
    real, sent = Consumer.commit, []

    def commit(self, offsets):
        try:
            real(self, offsets)
        finally:
            sent.append(rule.hits)

    monkeypatch.setattr(Consumer, "commit", commit)
    code, out, err = say("groups", "reset", group, "--to-earliest", "--topic", topic, "--execute")
    assert sent == [rule.hits]  # the end of the consumer does not send the commit again
    rule.remove()
    see = f"'python -m thinconsumer groups describe {group} --lag' shows it"
    assert code == 1 and err == f"error: the outcome of the commit is unknown: {see}\n"
    assert out.startswith("GROUP")
    assert committed() == [0, 0, 0]


def test_a_partition_that_is_not_committed_is_named(say, monkeypatch, topic, group):
    def commit(self, offsets):
        raise CommitFailedError("poll() again", reason="timeout", partitions=[TopicPartition(topic, 1)])

    monkeypatch.setattr(Consumer, "commit", commit)
    code, _, err = say("groups", "reset", group, "--to-earliest", "--topic", topic, "--execute")
    assert code == 1 and err.startswith(f"error: the outcome of the commit is unknown for {topic}-1: ")
    assert err.endswith("; the offsets of 2 other partitions are reset\n")


def test_a_topic_that_is_deleted_before_the_commit_is_named(say, cluster, monkeypatch, topic, group, committed):
    monkeypatch.setattr("thinconsumer.cli.parsing.API_TIMEOUT_MS", 1000)
    other = f"{topic}-deleted"
    cluster.create_topic(other, 1, 1)
    real = Consumer.commit
    monkeypatch.setattr(Consumer, "commit", lambda self, offsets: cluster.delete_topic(other) or real(self, offsets))
    code, _, err = say("groups", "reset", group, "--to-earliest", "--topic", topic, "--topic", other, "--execute")
    monkeypatch.undo()
    assert (code, committed()) == (1, [0, 0, 0]), err
    assert f" {other}-0: " in err and "the offsets of 3 other partitions are reset" in err


@pytest.mark.parametrize("reason", ["illegal_generation", "coordinator", "timeout", "refused"])
def test_only_an_unknown_member_tells_of_a_joined_member(say, monkeypatch, topic, group, reason):
    def commit(self, offsets):
        raise CommitFailedError("poll() again", reason=reason, partitions=offsets)

    monkeypatch.setattr(Consumer, "commit", commit)
    _, _, err = say("groups", "reset", group, "--to-earliest", "--all-topics", "--execute")
    assert err.startswith("error: the outcome of the commit is unknown: ") and "joined" not in err


def test_a_missing_acl_for_one_topic_may_leave_others_reset(say, monkeypatch, topic, group):
    def commit(self, offsets):
        raise to_error(Code.TOPIC_AUTHORIZATION_FAILED, api="OffsetCommit")

    monkeypatch.setattr(Consumer, "commit", commit)
    code, _, err = say("groups", "reset", group, "--to-earliest", "--all-topics", "--execute")
    assert code == 1 and "TOPIC_AUTHORIZATION_FAILED" in err and "offsets of other topics may be reset: '" in err


def test_ctrl_c_during_the_commit_leaves_an_unknown_outcome(say, monkeypatch, topic, group):
    def commit(self, offsets):
        raise KeyboardInterrupt

    monkeypatch.setattr(Consumer, "commit", commit)
    code, _, err = say("groups", "reset", group, "--to-earliest", "--all-topics", "--execute")
    assert code == 130 and err.startswith("the outcome of the commit is unknown: ")


def test_the_end_counts_records_of_open_transactions(say, cluster, monkeypatch, topic, group, tmp_path):
    """As in Kafka's tool, also if the file of --command-config has another isolation level for consumers."""
    (tmp_path / "config").write_text("isolation.level=read_committed\n")
    seen = []
    real = Consumer.end_offsets
    monkeypatch.setattr(
        Consumer, "end_offsets", lambda self, tps: seen.append(self.config.isolation_level) or real(self, tps)
    )
    say("groups", "reset", group, "--to-latest", "--all-topics", "--command-config", tmp_path / "config")
    assert seen == ["read_uncommitted"]


def test_the_lag_is_never_negative(say, cluster, topic, group):
    """A committed offset after the end, of a topic that was created again, stays with --to-current."""
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group) as consumer:
        consumer.commit({TopicPartition(topic, 1): 50})
    _, out, _ = say("groups", "reset", group, "--to-current", "--topic", f"{topic}:1", "--json")
    row = json.loads(out)
    assert (row["new"], row["end"], row["lag"]) == (50, 3, 0)
    lags = [json.loads(line) for line in say("groups", "describe", group, "--lag", "--json")[1].splitlines()]
    assert [(row["committed"], row["lag"]) for row in lags] == [(2, 4), (50, 0)]


def test_an_offset_that_cannot_be_read_is_an_error(say, monkeypatch, topic, group):
    failed = to_error(Code.UNSTABLE_OFFSET_COMMIT, api="OffsetFetch")
    found = {TopicPartition(topic, 0): OffsetAndMetadata(2), TopicPartition(topic, 1): failed}
    monkeypatch.setattr(Admin, "list_group_offsets", lambda self, names: {group: found})
    code, out, err = say("groups", "reset", group, "--to-current", "--topic", topic)
    assert (code, out) == (1, "") and "UNSTABLE_OFFSET_COMMIT" in err


@pytest.mark.parametrize("words", [["--from-file", "{file}"], ["--to-latest", "--all-topics"]])
def test_a_partition_that_does_not_exist_is_named(say, monkeypatch, topic, group, tmp_path, words):
    """In a file, and among the committed offsets."""
    (tmp_path / "plan").write_text(f"{topic},7,0\n")
    found = {TopicPartition(topic, 7): OffsetAndMetadata(2)}
    monkeypatch.setattr(Admin, "list_group_offsets", lambda self, names: {group: found})
    words = (word.format(file=tmp_path / "plan") for word in words)
    code, out, err = say("groups", "reset", group, *words, "--execute")
    assert (code, out) == (1, "") and f"{topic} has no partition 7" in err


def test_the_time_is_shown_in_utc(say, topic, group):
    words = ("groups", "reset", group, "--topic", f"{topic}:0", "--to-datetime", "2023-11-15T14:30+02:00")
    assert say(*words)[2].startswith("the time is 2023-11-15T12:30:00.000Z\n")


def test_a_similar_name_is_suggested_for_a_group_that_does_not_exist(say, monkeypatch, topic):
    listed = {"billing": GroupListing("billing", "classic", "Empty", "consumer")}
    monkeypatch.setattr(Admin, "list_groups", lambda self: GroupListings(listed, {}))
    _, _, err = say("groups", "reset", "biling", "--to-earliest", "--topic", topic)
    assert err.startswith("group biling does not exist: --execute creates it; did you mean 'billing'?\n")


def test_a_group_that_may_be_of_a_broker_without_response_is_not_created(fail_on_cluster, monkeypatch, topic):
    failed = to_error(Code.COORDINATOR_LOAD_IN_PROGRESS, api="ListGroups")
    monkeypatch.setattr(Admin, "list_groups", lambda self: GroupListings({}, {2: failed}))
    code, err = fail_on_cluster("groups", "reset", "g-new", "--to-earliest", "--topic", topic, "--execute")
    assert code == 1 and "the groups of broker 2 could not be listed" in err


@pytest.mark.parametrize(
    ("described", "listed", "said"),
    [
        (GroupDescription("g", "classic", "Empty", "connect", "", ()), {}, "its protocol type is connect"),
        (None, {"g": GroupListing("g", "share", "Empty", "share")}, "g is a group of type share"),
    ],
)
def test_groups_of_others_than_consumers_are_refused(fail_on_cluster, monkeypatch, topic, described, listed, said):
    missing = to_error(Code.GROUP_ID_NOT_FOUND, api="DescribeGroups", group_id="g")
    monkeypatch.setattr(Admin, "describe_groups", lambda self, names: {"g": described or missing})
    monkeypatch.setattr(Admin, "list_groups", lambda self: GroupListings(listed, {}))
    code, err = fail_on_cluster("groups", "reset", "g", "--to-earliest", "--topic", topic, "--execute")
    assert code == 1 and said in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to-earliest", "--topic", "{topic}x"], "there is no topic '{topic}x'; did you mean '{topic}'?"),
        (["--to-earliest", "--topic", "{topic}:3"], "{topic} has no partition 3"),
        (["--shift-by", "1", "--topic", "{topic}"], "{topic}-2 has no committed offset"),
    ],
)
def test_nothing_is_changed_if_one_partition_cannot_be_reset(fail_on_cluster, topic, group, committed, words, said):
    words = (word.format(topic=topic) for word in words)
    code, err = fail_on_cluster("groups", "reset", group, *words, "--execute")
    assert code == 1 and said.format(topic=topic) in err
    assert committed() == [2, 1, None]


def test_a_partition_without_a_leader_is_named(fail_on_cluster, monkeypatch, topic, group, committed):
    monkeypatch.setattr("thinconsumer.cli.group_reset.has_leader", lambda topics, tp: tp.partition != 1)
    code, err = fail_on_cluster("groups", "reset", group, "--to-latest", "--all-topics", "--execute")
    assert code == 1 and f"{topic}-1 has no leader now" in err
    assert committed() == [2, 1, None]


@pytest.mark.parametrize(
    ("given", "words", "said"),
    [
        ("", ["--to-latest", "--all-topics"], "has no committed offsets"),
        ("other,t,0,5\n", ["--from-file", "{file}"], "is not in the file"),
    ],
)
def test_an_empty_plan_is_an_error(say, tmp_path, given, words, said):
    (tmp_path / "plan").write_text(given)
    code, out, err = say("groups", "reset", "nobody", *(word.format(file=tmp_path / "plan") for word in words))
    assert (code, out) == (1, "") and f"error: nobody {said}" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--topic", "t"], "one of the arguments --to-earliest"),
        (["--to-earliest"], "say what to reset: --topic TOPIC[:PARTITIONS] or --all-topics"),
        (["--to-earliest", "--to-latest", "--topic", "t"], "not allowed with"),
        (["--to-earliest", "--all-topics", "--topic", "t"], "not allowed with"),
        (["--to-earliest", "--topic", "t", "--execute", "--dry-run"], "not allowed with"),
        (["--from-file", "{file}", "--topic", "t"], "leave out --topic"),
        (["--from-file", "{file}x"], "cannot read"),
        (["--to-offset", "many", "--topic", "t"], "'many' is not a whole number"),
        (["--shift-by", "9" * 19, "--topic", "t"], "is not a whole number"),
        (["--by-duration", "P1M", "--topic", "t"], "is not a duration such as 1h30m"),
        (["--to-datetime", "noon", "--topic", "t"], "is not a time such as"),
        (["--to-earliest", "--topic", "t", "--export", "--json"], "leave out --json"),
        (["--to-offset", "1", "--to-offset", "2", "--topic", "t"], "--to-offset: given more than once"),
        (["--from-file", "{twice}"], "names t-0 more than once"),
        (["--to-earliest", "--topics", "t"], "did you mean '--topic'?"),
    ],
)
def test_wrong_usage_exits_with_2(fail, tmp_path, words, said):
    (tmp_path / "plan").write_text("t,0,5\n")
    (tmp_path / "twice").write_text("t,0,5\ng,t,0,6\nother,t,1,1\nother,t,1,1\n")
    words = (word.format(file=tmp_path / "plan", twice=tmp_path / "twice") for word in words)
    code, err = fail("groups", "reset", "g", *words)
    assert code == 2 and said in err and err.startswith("python -m thinconsumer groups reset: ")
