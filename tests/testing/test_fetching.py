"""Fetch: sessions, long polls, limits, errors with hints, asked directly."""

from __future__ import annotations

import pytest

from thinconsumer.records import split
from thinconsumer.testing import ScriptedCluster
from thinconsumer.types import TopicPartition
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

TP = TopicPartition("t", 0)


@pytest.fixture
def cluster():
    cluster = ScriptedCluster((1, 2), {"t": 4})
    for number in (0, 2):
        cluster.partition("t", number).append_values([b"a"] * 5)
    return cluster


@pytest.fixture
def client(cluster, make_stage, call):
    return call(make_stage(cluster.network), cluster.brokers[1])


def request(cluster, offsets, *, session=(0, -1), wait=0, forget=(), by_id=True, **more):
    asked = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=more.pop("limit", 100_000), **fields)
        for number, offset, fields in [(*entry, {})[:3] for entry in offsets]
    ]
    name = {"topic_id": cluster.topics.by_name["t"].topic_id} if by_id else {"topic": "t"}
    topics = [FetchTopic(partitions=asked, **name)] if asked else []
    forgotten = [ForgottenTopic(partitions=list(forget), **name)] if forget else []
    return FetchRequest(
        topics=topics,
        forgotten_topics_data=forgotten,
        max_wait_ms=wait,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        **more,
    )


def partitions(response):
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def count(data):
    batches, error = split(memoryview(bytes(data.records or b"")), TP)
    assert error is None
    return sum(batch.count for batch in batches)


@pytest.mark.parametrize(
    ("version", "by_id"), [(4, False), (7, False), (11, False), (12, False), (13, True), (18, True)]
)
def test_records_come_in_every_version(client, cluster, version, by_id):
    response = client.ask(request(cluster, [(0, 0), (2, 5)], by_id=by_id), version)
    found = partitions(response)
    assert {number: count(data) for number, data in found.items()} == {0: 5, 2: 0}
    assert found[0].high_watermark == 5
    assert response.session_id == 0


def test_nothing_new_waits_until_there_is_some(client, cluster):
    client.send(request(cluster, [(0, 5)], wait=500), 18)
    client.stage.run(0.4)
    assert client.answers() == []
    cluster.topics.append_values(TP, [b"b"])
    client.stage.run(0.01)
    assert count(partitions(client.answers()[0])[0]) == 1


def test_nothing_new_is_told_when_the_time_is_up(client, cluster):
    client.send(request(cluster, [(0, 5)], wait=500), 18)
    client.stage.run(0.6)
    assert count(partitions(client.answers()[0])[0]) == 0


def test_kip_227_a_session_tells_only_news(client, cluster):
    first = client.ask(request(cluster, [(0, 0), (2, 0)], session=(0, 0)), 18)
    assert first.session_id > 0
    assert set(partitions(first)) == {0, 2}
    again = client.ask(request(cluster, [(0, 5), (2, 5)], session=(first.session_id, 1)), 18)
    assert partitions(again) == {}
    cluster.topics.append_values(TP, [b"b"])
    third = client.ask(request(cluster, [], session=(first.session_id, 2)), 18)
    assert {n: count(data) for n, data in partitions(third).items()} == {0: 1}
    forgotten = client.ask(request(cluster, [], forget=[0], session=(first.session_id, 3)), 18)
    assert partitions(forgotten) == {}


def test_kip_227_session_errors(client, cluster):
    assert client.ask(request(cluster, [], session=(5, 1)), 18).error_code == 70
    first = client.ask(request(cluster, [(0, 0)], session=(0, 0)), 18)
    assert client.ask(request(cluster, [], session=(first.session_id, 7)), 18).error_code == 71
    client.ask(request(cluster, [], session=(first.session_id, -1)), 18)
    assert client.ask(request(cluster, [], session=(first.session_id, 1)), 18).error_code == 70


def test_kip_74_limits_give_one_batch_at_least_and_starve_nobody(client, cluster):
    session = client.ask(request(cluster, [(0, 0), (2, 0)], session=(0, 0), max_bytes=1), 18)
    assert {n: count(d) for n, d in partitions(session).items()} == {0: 5, 2: 0}
    after = client.ask(request(cluster, [], session=(session.session_id, 1), max_bytes=1), 18)
    assert {n: count(d) for n, d in partitions(after).items()} == {2: 5}


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ((0, 6), 1),
        ((0, 5), 0),
        ((1, 0), 6),
        ((9, 0), 3),
        ((0, 0, {"current_leader_epoch": 5}), 75),
        ((0, 0, {"current_leader_epoch": 0}), 0),
    ],
)
def test_errors(client, cluster, entry, code):
    assert partitions(client.ask(request(cluster, [entry]), 18))[entry[0]].error_code == code


def test_below_the_start_is_out_of_range_and_forced_errors_win(client, cluster):
    cluster.partition("t").delete_before(5)
    assert partitions(client.ask(request(cluster, [(0, 2)]), 18))[0].error_code == 1
    cluster.partition("t").error_code = 29
    assert partitions(client.ask(request(cluster, [(0, 2)]), 18))[0].error_code == 29


def test_a_topic_id_of_the_past_is_unknown(client, cluster):
    old = request(cluster, [(0, 0)])
    cluster.topics.add("t", 4)
    assert partitions(client.ask(old, 18))[0].error_code == 100


def test_kip_951_errors_name_the_new_leader(client, cluster):
    cluster.partition("t").elect(2)
    response = client.ask(request(cluster, [(0, 5, {"current_leader_epoch": 0})]), 18)
    data = partitions(response)[0]
    assert data.error_code in (6, 74)
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
    assert [(e.node_id, e.host) for e in response.node_endpoints] == [(2, "kafka2")]


def test_kip_320_a_log_that_parted_is_told(client, cluster):
    log = cluster.partition("t")
    log.elect(1)
    log.append_values([b"b"])
    told = partitions(client.ask(request(cluster, [(0, 6, {"last_fetched_epoch": 0})]), 18))[0]
    assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (0, 5)
    fine = partitions(client.ask(request(cluster, [(0, 5, {"last_fetched_epoch": 0})]), 18))[0]
    assert fine.diverging_epoch.end_offset == -1
    assert count(fine) == 1


def test_read_committed_ends_at_the_stable_end_and_tells_aborted(client, cluster):
    log = cluster.partition("t")
    log.append_values([b"b"] * 2)
    log.last_stable_offset = 5
    log.aborted = [(7, 3), (6, 1)]
    data = partitions(client.ask(request(cluster, [(0, 0)], isolation_level=1), 18))[0]
    assert (count(data), data.high_watermark, data.last_stable_offset) == (5, 7, 5)
    assert [(a.producer_id, a.first_offset) for a in data.aborted_transactions] == [(7, 3), (6, 1)]
    assert count(partitions(client.ask(request(cluster, [(0, 0)]), 18))[0]) == 7


def test_kip_392_the_leader_names_a_nearer_replica(client, cluster, call):
    cluster.partition("t").preferred_replica = 2
    data = partitions(client.ask(request(cluster, [(0, 0)], rack_id="r"), 18))[0]
    assert (data.preferred_read_replica, count(data)) == (2, 0)
    follower = call(client.stage, cluster.brokers[2])
    assert count(partitions(follower.ask(request(cluster, [(0, 0)], rack_id="r"), 18))[0]) == 5
    assert count(partitions(client.ask(request(cluster, [(0, 0)]), 18))[0]) == 5
