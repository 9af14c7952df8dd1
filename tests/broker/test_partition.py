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


def test_acks_1_completes_immediately_and_acks_all_when_committed(new_cluster, answers):
    cluster = new_cluster(2, {"t": 1}, replication_s=1.0)
    append(cluster, answers, acks=1)
    assert answers == [0]
    append(cluster, answers)
    assert answers == [0]
    cluster.advance(3.0)
    assert answers == [0, 0]


def test_acks_all_times_out(new_cluster, answers):
    cluster = new_cluster(2, {"t": 1})
    cluster.cut(1, 2)
    append(cluster, answers, timeout_s=2.0)
    cluster.advance(1.9)
    assert answers == []
    cluster.advance(2.0)
    assert answers == [Code.REQUEST_TIMED_OUT]
    cluster.heal()
    assert answers == [Code.REQUEST_TIMED_OUT]


def test_leadership_change_fails_waiting_appends(new_cluster, answers):
    cluster = new_cluster(3, {"t": 1})
    cluster.cut(1, 2)
    append(cluster, answers)
    cluster.move_leader(TP, 3)
    assert answers == [Code.NOT_LEADER_OR_FOLLOWER]


def test_isr_below_minimum(new_cluster, answers):
    cluster = new_cluster(2, {"t": 1}, min_insync_replicas=2)
    cluster.kill(2, noticed_after_s=0)
    append(cluster, answers)
    assert answers == [Code.NOT_ENOUGH_REPLICAS]
    append(cluster, answers, acks=1)
    assert answers == [Code.NOT_ENOUGH_REPLICAS, 0]
    assert cluster.leader(TP).high_watermark == 0, "under the minimum nothing becomes visible (KIP-966)"


def test_rejected_batch_has_a_reason(new_cluster, answers):
    cluster = new_cluster(1, {"t": 1})
    broken = bytearray(batch())
    broken[-1] ^= 1
    cluster.leader(TP).append(bytes(broken), -1, lambda code, _: answers.append(code))
    assert answers == [Code.CORRUPT_MESSAGE]
    assert cluster.leader(TP).log.end_offset == 0


def test_followers_reject_appends(new_cluster, answers):
    cluster = new_cluster(2, {"t": 1})
    follower = cluster.nodes[2].partitions[TP]
    follower.append(batch(), -1, lambda code, _: answers.append(code))
    follower.append_marker(1, 0, True, 0, answers.append)
    assert follower.append_records([NewRecord(b"v")], answers.append) == -1
    assert answers == [Code.NOT_LEADER_OR_FOLLOWER] * 3


def test_coordinator_records_get_timestamps_and_acks_all(new_cluster, answers):
    cluster = new_cluster(2, {"t": 1})
    assert cluster.leader(TP).append_records([NewRecord(b"v", b"k"), NewRecord(None, b"k")], answers.append) == 0
    assert answers == [0]
    (stored,) = cluster.leader(TP).log.read_batches(0, 2)
    assert [record.timestamp for record in stored.decode("t", 0)] == [1_700_000_000_000] * 2


def test_listeners_are_called_until_removed(new_cluster):
    cluster = new_cluster(1, {"t": 1})
    seen = []
    number = cluster.leader(TP).add_listener(lambda: seen.append(cluster.leader(TP).high_watermark))
    cluster.produce("t", [b"a"])
    assert 1 in seen
    cluster.leader(TP).remove_listener(number)
    seen.clear()
    cluster.produce("t", [b"b"])
    assert seen == []


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


def test_repr(new_cluster):
    cluster = new_cluster(2, {"t": 1})
    assert repr(cluster.leader(TP)) == "<PartitionReplica t-0 node 1 leads in 0>"


def test_min_isr_is_at_most_the_replica_count(new_cluster):
    cluster = new_cluster(1, {"t": 1}, min_insync_replicas=2)
    codes = []
    leader = cluster.leader(TP)
    leader.append(batch(), -1, lambda code, a: codes.append(code))
    leader.append_records([NewRecord(b"v")], codes.append)
    leader.append_marker(1, 0, True, 0, codes.append)
    assert codes == [0, 0, 0]


def test_markers_need_the_minimum_isr(new_cluster):
    cluster = new_cluster(2, {"t": 1}, min_insync_replicas=2)
    cluster.kill(2, noticed_after_s=0)
    codes = []
    cluster.leader(TP).append_marker(1, 0, True, 0, codes.append)
    assert codes == [Code.NOT_ENOUGH_REPLICAS]


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
