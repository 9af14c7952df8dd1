"""A broker's lifecycle: kill, pause, restart; metadata deltas and leadership."""

from thinconsumer.records.builder import NewRecord
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import MetadataRequest

TP = TopicPartition("t", 0)


def row(cluster):
    return cluster.controller.image.partition(*TP)


def contents(cluster, node_id):
    return [stored.data for stored in cluster.nodes[node_id].partitions[TP].log.batches_from(0)]


def test_timers_wait_during_a_pause_and_end_with_a_kill(new_cluster):
    cluster = new_cluster(2)
    node, seen = cluster.nodes[1], []
    node.call_later(1.0, lambda: seen.append("a"))
    cluster.pause(1)
    cluster.advance(2.0)
    assert seen == []
    cluster.resume(1)
    assert seen == ["a"]
    node.call_later(1.0, lambda: seen.append("b"))
    cluster.kill(1)
    assert not node.call_later(1.0, lambda: None).is_pending
    cluster.start(1)
    cluster.advance(10.0)
    assert seen == ["a"]


def test_timer_deferred_by_a_pause_can_be_cancelled(new_cluster):
    cluster = new_cluster(2)
    node, seen = cluster.nodes[1], []
    timers = []
    node.call_later(1.0, lambda: timers[0].cancel())
    timers.append(node.call_later(1.5, lambda: seen.append("too late")))
    cluster.pause(1)
    cluster.advance(2.0)
    cluster.resume(1)
    cluster.advance(3.0)
    assert seen == []


def test_logs_survive_a_kill_but_state_does_not(new_cluster):
    cluster = new_cluster(1, {"t": 1})
    cluster.produce("t", [b"a"])
    before = cluster.nodes[1].partitions[TP]
    cluster.kill(1, noticed_after_s=0)
    assert cluster.nodes[1].partitions == {}
    cluster.start(1)
    after = cluster.leader(TP)
    assert after is not before
    assert after.log is before.log
    assert after.high_watermark == 1


def test_markers_go_to_the_current_leader(new_cluster):
    cluster = new_cluster(2, {"t": 2})
    codes = []
    cluster.nodes[1].write_transaction_marker(TopicPartition("t", 1), 7, 0, True, 0, codes.append)
    assert codes == [0]
    assert cluster.leader(TopicPartition("t", 1)).log.end_offset == 1
    cluster.cut(1, 2)
    cluster.nodes[1].write_transaction_marker(TopicPartition("t", 1), 7, 0, True, 0, codes.append)
    cluster.nodes[1].write_transaction_marker(TopicPartition("u", 1), 7, 0, True, 0, codes.append)
    assert codes == [0, Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_TOPIC_OR_PARTITION]


def test_broker_started_without_controller_loads_metadata_later(new_cluster, client_of):
    cluster = new_cluster(3, {"t": 1})
    cluster.kill(1, noticed_after_s=0)
    cluster.cut(1)
    cluster.create_topic("u", 1, 2)
    cluster.start(1)
    assert 1 not in cluster.controller.image.brokers
    assert "u" not in cluster.nodes[1].image.topics
    client = client_of(cluster, 1)
    client.send(MetadataRequest(topics=None))
    assert client.answers() == []
    cluster.heal()
    assert 1 in cluster.controller.image.brokers
    assert {t.name for t in client.answers()[0].topics} == {"t", "u"}
    assert set(row(cluster).isr) == {1, 2, 3}


def test_callbacks_may_restart_the_broker_during_a_kill(new_cluster):
    cluster = new_cluster(2, {"t": 1})
    cluster.cut(1, 2)
    cluster.leader(TP).append_records([NewRecord(b"v")], lambda code: cluster.start(1))
    cluster.kill(1)
    assert cluster.nodes[1].is_running
    assert TP in cluster.nodes[1].partitions


def test_callbacks_may_kill_the_broker_while_it_applies_a_delta(new_cluster):
    cluster = new_cluster(3, {"t": 3})
    leader = cluster.nodes[1].partitions[TP]
    leader.add_listener(lambda: cluster.kill(1))
    cluster.move_leader(TP, 2)
    assert not cluster.nodes[1].is_alive
    assert cluster.nodes[1].partitions == {}


def test_deltas_are_applied_in_order_within_a_broker(new_cluster):
    """A callback of one delta may publish the next one immediately."""
    cluster = new_cluster(3, {"t": 1})
    cluster.cut(2)
    cluster.expand("t", 2)
    cluster.move_leader(TP, 3)
    seen = []
    part = cluster.nodes[2].partitions[TP]

    def look():
        seen.append(part.leader_epoch)
        if len(seen) < 3:
            cluster.move_leader(TP)

    part.add_listener(look)
    cluster.heal()
    assert seen == sorted(seen)
    for node in cluster.nodes.values():
        assert node.partitions[TP].leader_epoch == row(cluster).leader_epoch
        assert node.partitions[TP].image == row(cluster)


def test_leadership_is_checked_against_the_brokers_own_image(new_cluster):
    """A new partition is unknown to each broker until it has got the delta."""
    cluster = new_cluster(2, {"t": 1}, metadata_lag_s=1.0)
    cluster.expand("t", 2)
    new = TopicPartition("t", 1)
    codes = [node.leader_replica(new)[1] for node in cluster.nodes.values()]
    assert codes == [Code.UNKNOWN_TOPIC_OR_PARTITION] * 2
    cluster.advance(1.0)
    codes = [node.leader_replica(new)[1] for node in cluster.nodes.values()]
    assert sorted(codes) == [Code.NONE, Code.NOT_LEADER_OR_FOLLOWER]


def test_topic_recreated_during_a_pause_starts_empty_on_the_paused_broker(new_cluster):
    cluster = new_cluster(3, {"t": 1})
    cluster.produce("t", [b"a"])
    cluster.pause(3)
    cluster.delete_topic("t")
    cluster.create_topic("t", 1, 3)
    cluster.produce("t", [b"b"])
    cluster.resume(3)
    assert contents(cluster, 1) == contents(cluster, 2) == contents(cluster, 3)
    assert cluster.nodes[3].partitions[TP].log.end_offset == 1


def test_marker_to_a_paused_leader_times_out(new_cluster):
    cluster = new_cluster(3, {"t": 1}, replication_s=0.1)
    codes = []
    cluster.nodes[2].write_transaction_marker(TP, 7, 0, True, 0, codes.append)
    cluster.pause(1)
    cluster.advance(29.0)
    assert codes == []
    cluster.advance(31.0)
    assert len(codes) == 1 and codes[0]
    cluster.resume(1)
    cluster.advance(90.0)
    assert len(codes) == 1
    cluster.nodes[2].write_transaction_marker(TP, 7, 0, True, 0, codes.append)
    cluster.kill(2)
    cluster.start(2)
    cluster.advance(200.0)
    assert len(codes) == 1, "a killed broker gets no response"
