"""One replica: waiting appends, listeners, roles and the high watermark."""

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

TP = TopicPartition("t", 0)


@pytest.fixture
def answers():
    return []


def batch(value=b"v"):
    return build_batch([NewRecord(value, timestamp=1)])


def row(cluster):
    return cluster.controller.image.partition(*TP)


def append(cluster, answers, acks=-1, **options):
    cluster.leader(TP).append(batch(), acks, lambda code, _: answers.append(code), **options)


@pytest.mark.parametrize(
    ("nodes", "killed", "replica", "code"),
    [
        (2, [], 2, Code.NOT_LEADER_OR_FOLLOWER),
        (2, [2], 1, Code.NOT_ENOUGH_REPLICAS),
        (1, [], 1, Code.NONE),  # the minimum is at most the number of replicas
    ],
)
def test_appends_need_the_role_and_the_minimum_isr(new_cluster, answers, nodes, killed, replica, code):
    cluster = new_cluster(nodes, {"t": 1}, min_insync_replicas=2)
    for node_id in killed:
        cluster.kill(node_id, noticed_after_s=0)
    partition = cluster.nodes[replica].partitions[TP]
    partition.append(batch(), -1, lambda code, _: answers.append(code))
    partition.append_marker(1, 0, True, 0, answers.append)
    assert (partition.append_records([NewRecord(b"v")], answers.append) == -1) == bool(code)
    assert answers == [code] * 3


def test_coordinator_records_get_timestamps_and_acks_all(new_cluster, answers):
    cluster = new_cluster(2, {"t": 1})
    assert cluster.leader(TP).append_records([NewRecord(b"v", b"k"), NewRecord(None, b"k")], answers.append) == 0
    assert answers == [0]
    (stored,) = cluster.leader(TP).log.read_batches(0, 2)
    assert [record.timestamp for record in stored.decode("t", 0)] == [1_700_000_000_000] * 2


def test_high_watermark_survives_a_leader_change(new_cluster):
    cluster = new_cluster(3, {"t": 1})
    cluster.produce("t", [b"a", b"b"])
    cluster.move_leader(TP, 2)
    assert cluster.leader(TP).high_watermark == 2
    cluster.produce("t", [b"c"])
    assert {n.partitions[TP].high_watermark for n in cluster.nodes.values()} == {3}
    assert cluster.leader(TP).log.epochs[-1] == (1, 2)


def test_records_are_not_deleted_above_the_high_watermark(new_cluster):
    cluster = new_cluster(2, {"t": 1})
    cluster.produce("t", [b"a"])
    cluster.cut(1, 2)
    cluster.produce("t", [b"b"])
    cluster.delete_records(TP, 2)
    assert cluster.leader(TP).log.start_offset == 1


def test_follower_joins_the_isr_at_the_high_watermark_of_the_leader_epoch(new_cluster):
    cluster = new_cluster(2, {"t": 1}, replica_lag_time_max_ms=1000)
    cluster.cut(1, 2)
    cluster.produce("t", [b"a", b"b"])
    cluster.advance(5.0)
    leader = cluster.leader(TP)
    assert (leader.image.isr, leader.high_watermark) == ((1,), 2)
    leader.update_follower_end(2, 1)
    assert leader.image.isr == (1,)
    leader.epoch_start = 3
    leader.update_follower_end(2, 2)
    assert leader.image.isr == (1,)
    leader.update_follower_end(2, 3)
    assert leader.image.isr == (1, 2)


def test_append_within_a_failure_callback_fails_too(new_cluster):
    cluster = new_cluster(2, {"t": 1})
    cluster.cut(1, 2)
    leader, codes = cluster.leader(TP), []

    def again(code):
        codes.append(code)
        if len(codes) < 3:
            leader.append_records([NewRecord(b"again")], again)

    leader.append_records([NewRecord(b"v")], again)
    cluster.move_leader(TP, 2)
    assert codes == [Code.NOT_LEADER_OR_FOLLOWER] * 3
    assert not leader._delayed_produces
    end = leader.log.end_offset
    assert end == 1


def test_leader_in_a_new_epoch_keeps_waiting_appends(new_cluster):
    cluster = new_cluster(3, {"t": 1}, replication_s=0.1)
    codes = []
    cluster.leader(TP).append(batch(), -1, lambda code, a: codes.append(code))
    r = row(cluster)
    cluster.controller._store_partition(r._replace(leader_epoch=r.leader_epoch + 1))
    assert codes == []
    cluster.advance(1.0)
    assert codes == [0]


def test_callback_may_advance_the_clock(new_cluster):
    cluster = new_cluster(2, {"t": 1}, broker_session_timeout_ms=60000)
    cluster.cut(1, 2)
    leader, codes = cluster.leader(TP), []

    def first(code, a):
        codes.append(("first", code))
        cluster.resume(1)

    leader.append(batch(), -1, first, timeout_s=30.0)
    leader.append(batch(), -1, lambda code, a: codes.append(("second", code)), timeout_s=1.0)
    cluster.heal()
    assert codes == [("first", 0), ("second", 0)]
