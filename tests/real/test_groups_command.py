"""The command ``groups`` on groups of both types."""

import contextlib
import json
import os

import pytest
from differential.consumer_groups import alone, known_topic
from differential.groups import stable
from differential.talk import SocketWorld
from realkafka.admin import Administration

from thinconsumer.cli import main
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic


def test_groups_of_both_types(kafka: Administration, capsys: pytest.CaptureFixture[str]):
    """A consumer group in the middle of a rebalance and a classic group, listed, described and deleted."""
    address = kafka.bootstrap.split(",")[0]
    host, port = address.rsplit(":", 1)
    with contextlib.closing(SocketWorld(host, int(port), "highest", f"groups{os.getpid()}", 0)) as world:
        show_both_types(world, address, capsys)


def show_both_types(world: SocketWorld, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the commands around a conversation with the broker."""

    def run(*words: str) -> list[dict[str, object]]:
        assert main(["groups", *words, "--bootstrap-server", address]) == 0
        return [
            row
            for row in map(json.loads, capsys.readouterr().out.splitlines())
            if row["group"].startswith(world.prefix)
        ]

    topic, group, classic = known_topic(world, partitions=2), world.group("consumers"), world.group("classic")
    first = alone(world, group, topic, stem="m1")
    first.beat(owned={topic: [0, 1]})
    commit(world, group, first.member_id, first.epoch, topic)
    second = alone(world, group, topic, stem="m2")
    second.until(first.epoch + 1)  # The broker computes targets once a second.
    stable(world, classic)

    of_first, of_second, of_classic = run("describe", group, classic, "--json")
    assert {"type": "consumer", "assignor": "uniform", "topics": [topic]}.items() <= of_first.items()
    assert of_first["epoch"] == of_first["assignment_epoch"] == second.epoch == first.epoch + 1
    assert (of_first["member_epoch"], of_first["assignment"]) == (first.epoch, {topic: [0, 1]})
    assert (of_second["member_epoch"], of_second["assignment"]) == (second.epoch, {})
    targets = [of_first["target"], of_second["target"]]
    assert sorted(number for target in targets for number in target[topic]) == [0, 1]
    assert {"type": "classic", "state": "Stable", "assignor": "range", "epoch": None}.items() <= of_classic.items()

    types = {row["group"]: row["type"] for row in run("list", "--json")}
    assert types == {group: "consumer", classic: "classic"}
    assert [row["group"] for row in run("list", "--type", "consumer", "--json")] == [group]
    lags = [(row["partition"], row["committed"], row["lag"]) for row in run("describe", group, "--lag", "--json")]
    assert lags == [(1, 0, 0)]
    assert main(["top", group, classic, "--count", "1", "--json", "--bootstrap-server", address]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    members = [(row["group"], row["partition"], row["lag"], row["member"], row["error"]) for row in rows]
    owner = first.member_id
    assert members[:2] == [(group, 1, 0, owner, None), (group, 0, None, owner, None)]
    assert {(row["group"], row["state"]) for row in rows[2:]} == {(classic, "Stable")}
    first.leave()
    second.leave()
    run("delete", group)
    assert [row["group"] for row in run("list", "--json")] == [classic]


def commit(world: SocketWorld, group: str, member_id: str, epoch: int, topic: str) -> None:
    partition = OffsetCommitRequestPartition(partition_index=1, committed_offset=0)
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    answer = world.connect().send(request, 9).quiet_answer()
    assert answer.topics[0].partitions[0].error_code == 0, answer
