"""Operations on a cluster, its time, and its periodic work."""

import pytest

from thinconsumer.records.builder import NewRecord
from thinconsumer.types import TopicPartition
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer_testing.broker.call import ApiCall
from thinconsumer_testing.broker.cluster import RETENTION_CHECK_S
from thinconsumer_testing.broker.controller import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

TP = TopicPartition("t", 0)


def row(cluster):
    return cluster.controller.image.partition(*TP)


DAY_MS = 86_400_000


def test_produce_returns_offsets_and_needs_a_leader(new_cluster):
    cluster = new_cluster(1, {"t": 1})
    assert cluster.produce("t", [b"a", b"b"]) == 0
    assert cluster.produce("t", [None, NewRecord(b"v", b"k", timestamp=5)]) == 2
    with pytest.raises(LookupError):
        cluster.produce("t", [b"a"], partition=1)
    with pytest.raises(LookupError):
        cluster.produce("u", [b"a"])
    with pytest.raises(ValueError, match="error 10"):
        cluster.produce("t", [bytes(2_000_000)])
    cluster.kill(1, noticed_after_s=0)
    with pytest.raises(LookupError):
        cluster.produce("t", [b"a"])


def test_old_records_are_deleted_periodically(new_cluster):
    cluster = new_cluster(2)
    cluster.create_topic("t", 1, 2, {"retention.ms": str(DAY_MS), "segment.bytes": "200"})
    cluster.produce("t", [b"x" * 100])
    cluster.advance(DAY_MS / 1000 / 2)
    cluster.produce("t", [b"y" * 100])
    cluster.advance(DAY_MS / 1000 * 1.2)
    assert [node.partitions[TP].log.start_offset for node in cluster.nodes.values()] == [1, 1]


def test_idle_producers_expire(new_cluster):
    """Then any sequence number is accepted from them, as in Kafka."""
    cluster = new_cluster(1, {"t": 1}, producer_id_expiration_ms=DAY_MS)
    cluster.produce("t", [b"a"], producer_id=7, producer_epoch=0, base_sequence=0)
    with pytest.raises(ValueError, match="error 45"):
        cluster.produce("t", [b"c"], producer_id=7, producer_epoch=0, base_sequence=5)
    cluster.advance(DAY_MS / 1000 * 1.1)
    assert cluster.produce("t", [b"c"], producer_id=7, producer_epoch=0, base_sequence=5) == 1


def test_compaction_on_demand(new_cluster):
    cluster = new_cluster(2)
    cluster.create_topic("t", 1, 2, {"cleanup.policy": "compact"})
    for n in range(10):
        cluster.produce("t", [NewRecord(b"%d" % n, b"k")])
    cluster.compact(TP)
    for node in cluster.nodes.values():
        log = node.partitions[TP].log
        records = [r for batch in log.read_batches(0, 10) for r in batch.decode("t", 0)]
        assert [record.offset for record in records] == [9]
        assert log.end_offset == 10


@pytest.mark.parametrize("name", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
def test_coordinator_logs_are_compacted_automatically(new_cluster, name):
    """A group that commits all day would fill the memory. Users' topics are only compacted by their tests."""
    cluster = new_cluster(2)
    cluster.controller.ensure_internal_topic(name)
    cluster.create_topic("t", 1, 2, {"cleanup.policy": "compact"})

    logs = [node.partitions[TopicPartition(name, 0)].log for node in cluster.nodes.values()]
    for _ in range(12):
        for topic in (name, "t"):
            cluster.produce(topic, [NewRecord(bytes(100_000), b"k")])
    cluster.advance(RETENTION_CHECK_S)
    assert [(log.end_offset, len(list(log.read_batches(0, 12)))) for log in logs] == [(12, 1)] * 2
    cluster.produce(name, [NewRecord(bytes(100_000), b"k")])
    cluster.advance(2 * RETENTION_CHECK_S)
    assert [len(list(log.read_batches(0, 13))) for log in logs] == [2, 2], "that was too little to be worth it"
    assert cluster.leader(TP).log.size_bytes > 1_200_000


def test_pause_shorter_than_the_session_timeout_is_unnoticed(new_cluster):
    cluster = new_cluster(2, {"t": 1}, broker_session_timeout_ms=1000)
    cluster.pause(1)
    cluster.advance(0.5)
    cluster.resume(1)
    cluster.advance(0.9)
    cluster.pause(1)
    cluster.advance(1.5)
    assert row(cluster).leader == 1, "each pause begins the timeout anew"
    cluster.advance(1.95)
    assert row(cluster).leader == 2
    cluster.resume(1)
    assert set(cluster.leader(TP).image.isr) == {1, 2}


def test_timers_do_not_pile_up(new_cluster):
    cluster = new_cluster(2, {"t": 1})
    before = len(cluster.schedule._heap)
    for _ in range(1000):
        cluster.pause(1)
        cluster.resume(1)
        cluster.cut(1)
        cluster.heal()
    assert len(cluster.schedule._heap) < before + 600


def test_former_leader_accepts_writes_until_it_gets_the_new_metadata(new_cluster):
    cluster = new_cluster(2, {"t": 1})
    tp = TopicPartition("t", 0)
    old = cluster.leader(tp).node.node_id
    cluster.cut(old)
    cluster.cut(1, 2)
    cluster.controller.elect_unclean(tp, 3 - old)
    assert (cluster.produce("t", [b"new"]), cluster.produce("t", [b"old", b"too"], node=old)) == (0, 0)
    assert cluster.leader(tp, old).log.end_offset == 2
    with pytest.raises(LookupError):
        cluster.leader(tp, 7)
    cluster.heal()
    with pytest.raises(LookupError):
        cluster.produce("t", [b"late"], node=old)
    assert cluster.leader(tp).log.end_offset == 1


def test_heal_can_keep_some_cuts(new_cluster):
    cluster = new_cluster(3)
    cluster.cut(1, 2)
    cluster.cut(2, 3)
    cluster.cut(3)
    cluster.heal([(2, 1), (1, 3)])
    assert [cluster.reachable(*pair) for pair in ((1, 2), (2, 3), (3, -1), (1, 3))] == [False, True, True, True]


def test_reprs(new_cluster, client_of):
    cluster = new_cluster(2, {"t": 1})
    node, client = cluster.nodes[1], client_of(cluster, 1)
    assert repr(node.partitions[TP]) == "<PartitionReplica t-0 node 1 leads in 0>"
    call = ApiCall(node, HeartbeatRequest(), 4, print)
    assert repr(call) == f"<ApiCall HeartbeatRequest v4 at {node!r}>"
    assert repr(client.connection) == "<ServerConnection 1 to <BrokerNode 1 kafka1:9092 up>>"
    assert repr(node.partitions[TP].log) == "<Log t-0 offsets 0 to 0, 0 batches, 0 bytes, epoch 0>"
    cluster.pause(1)
    assert repr(cluster).startswith("<Cluster of [<BrokerNode 1 kafka1:9092 paused>, ")
    cluster.kill(1)
    assert repr(node).endswith("down>")
