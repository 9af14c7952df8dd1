"""Topics, elections, and the delivery of metadata deltas."""

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.controller import CONTROLLER, OFFSETS_TOPIC, ControllerError

TP = TopicPartition("t", 0)


def row(cluster, tp=TP):
    return cluster.controller.image.partition(*tp)


def batch(value):
    return build_batch([NewRecord(value, timestamp=1)])


def test_leaders_rotate_and_replicas_follow_in_order(new_cluster):
    cluster = new_cluster(3, {"t": 6})
    rows = cluster.controller.image.topics["t"].partitions
    assert [r.leader for r in rows] == [1, 2, 3, 1, 2, 3]
    assert rows[1].replicas == rows[1].isr == (2, 3, 1)
    assert {r.leader_epoch for r in rows} == {0}
    ids = {rows[0].topic_id, cluster.create_topic("u", 1).topic_id, bytes(16)}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"name": "t"}, Code.TOPIC_ALREADY_EXISTS),
        ({"name": "u", "partitions": 10_001}, Code.INVALID_PARTITIONS),
        ({"name": "u", "configs": {"nonsense": "1"}}, Code.INVALID_CONFIG),
        ({"name": "u", "assignment": {1: [1]}}, Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_topics_are_rejected(new_cluster, arguments, code):
    cluster = new_cluster(2, {"t": 1, "a.b": 1})
    with pytest.raises(ControllerError) as raised:
        cluster.controller.create_topic(**arguments)
    assert raised.value.code == code
    assert set(cluster.controller.image.topics) == {"t", "a.b"}


def test_dead_leader_is_replaced_after_the_session_timeout(new_cluster):
    cluster = new_cluster(3, {"t": 1}, broker_session_timeout_ms=500)
    cluster.kill(1)
    cluster.advance(0.4)
    assert row(cluster).leader == 1
    cluster.advance(0.6)
    assert (row(cluster).leader, row(cluster).leader_epoch, row(cluster).isr) == (2, 1, (2, 3))
    assert 1 not in cluster.nodes[2].image.brokers
    cluster.produce("t", [b"meanwhile"])
    cluster.start(1)
    assert set(row(cluster).isr) == {1, 2, 3}
    assert cluster.nodes[1].partitions[TP].log.end_offset == 1
    cluster.kill(2)
    cluster.start(2)
    assert row(cluster).leader == 1, "a restart within the session timeout elects new leaders, too"
    assert set(row(cluster).isr) == {1, 2, 3}


@pytest.mark.parametrize("unclean", [False, True])
def test_last_isr_member_stays_and_only_it_is_elected_unless_the_topic_allows_others(new_cluster, unclean):
    cluster = new_cluster(2)
    cluster.create_topic("t", 1, 2, {"unclean.leader.election.enable": str(unclean).lower()})
    cluster.kill(2, noticed_after_s=0)
    cluster.produce("t", [b"only on node 1"])
    cluster.kill(1, noticed_after_s=0)
    assert (row(cluster).leader, row(cluster).isr) == (-1, (1,))
    cluster.start(2)
    assert (row(cluster).leader, row(cluster).isr) == ((2, (2,)) if unclean else (-1, (1,)))
    cluster.start(1)
    assert row(cluster).leader == (2 if unclean else 1)
    assert cluster.leader(TP).log.end_offset == (0 if unclean else 1)


def test_move_leader_elects_another_replica(new_cluster):
    cluster = new_cluster(3, {"t": 1})
    assert cluster.move_leader(TP) == 2
    assert cluster.move_leader(TP, 3) == 3
    assert row(cluster).leader_epoch == 2
    assert cluster.move_leader(TP, 3) == 3
    assert row(cluster).leader_epoch == 2


def test_move_leader_to_a_broker_without_replica_copies_the_data(new_cluster):
    cluster = new_cluster(3)
    cluster.controller.create_topic("t", assignment={0: (1,)})
    cluster.produce("t", [b"a", b"b"])
    cluster.move_leader(TP, 3)
    assert (row(cluster).leader, row(cluster).replicas, row(cluster).isr) == (3, (3,), (3,))
    assert cluster.leader(TP).log.end_offset == cluster.leader(TP).high_watermark == 2
    assert TP not in cluster.nodes[1].partitions


@pytest.mark.parametrize("leader", [1, -1])
def test_leader_changes_that_are_rejected(new_cluster, leader):
    cluster = new_cluster(3)
    cluster.controller.create_topic("t", assignment={0: (1,)})
    if leader < 0:
        cluster.kill(1, noticed_after_s=0)
    for change in (
        lambda: cluster.move_leader(TopicPartition("u", 0)),
        lambda: new_cluster(1, {"t": 1}).move_leader(TP),
        lambda: cluster.move_leader(TP, 2 if leader < 0 else 7),
        lambda: cluster.controller.elect_unclean(TP, 2),
    ):
        with pytest.raises(ControllerError):
            change()
    assert (row(cluster).leader, row(cluster).replicas) == (leader, (1,))


def test_deltas_arrive_late_but_in_order(new_cluster):
    cluster = new_cluster(2, {"t": 1}, metadata_lag_s=1.0)
    for partitions in (2, 3, 4, 5):
        cluster.expand("t", partitions)
    seen = []
    for step in range(400):
        cluster.advance(step * 0.01)
        seen.append(len(cluster.nodes[2].image.topics["t"].partitions))
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (1, 5)


def test_broker_cut_off_from_the_controller_is_fenced_until_healed(new_cluster):
    cluster = new_cluster(3, {"t": 1})
    cluster.cut(1, CONTROLLER)
    cluster.advance(2.0)
    assert row(cluster).leader == 2
    assert cluster.nodes[1].partitions[TP].is_leader, "it cannot know"
    cluster.heal()
    assert not cluster.nodes[1].partitions[TP].is_leader
    assert set(row(cluster).isr) == {1, 2, 3}


@pytest.mark.parametrize("replicas", [(1, 2, 3), (3, 1, 2), (2, 1)])
def test_move_to_a_lagging_replica_keeps_all_replicas(new_cluster, replicas):
    cluster, lagging = new_cluster(3), len(replicas)
    cluster.controller.create_topic("t", assignment={0: replicas})
    cluster.move_leader(TP, 1)
    cluster.cut(1, lagging)
    cluster.produce("t", [b"a"])
    cluster.advance(60.0)
    assert lagging not in row(cluster).isr
    assert cluster.move_leader(TP, lagging) == 1
    cluster.heal()
    assert (row(cluster).leader, row(cluster).replicas, set(row(cluster).isr)) == (lagging, replicas, set(replicas))


def test_topic_deletion_ends_a_move(new_cluster):
    cluster = new_cluster(3)
    cluster.controller.create_topic("t", assignment={0: (1,)})
    cluster.cut(1, 2)
    cluster.produce("t", [b"a"])
    cluster.move_leader(TP, 2)
    cluster.delete_topic("t")
    cluster.heal()
    cluster.controller.create_topic("t", assignment={0: (1, 2, 3)})
    cluster.kill(3, noticed_after_s=0)
    cluster.start(3)
    assert row(cluster).replicas == (1, 2, 3)
    assert row(cluster).leader == 1


def test_move_survives_the_replaced_leader(new_cluster):
    cluster = new_cluster(4)
    cluster.controller.create_topic("t", assignment={0: (1, 2)})
    cluster.cut(1, 4)
    cluster.cut(2, 4)
    cluster.produce("t", [b"a"])
    cluster.move_leader(TP, 4)
    assert row(cluster).replicas == (1, 2, 4)
    cluster.kill(1, noticed_after_s=0)
    cluster.heal()
    assert row(cluster).replicas == (4, 2)
    assert row(cluster).leader == 4


def test_second_move_replaces_the_first(new_cluster):
    cluster = new_cluster(4)
    cluster.controller.create_topic("t", assignment={0: (1, 2)})
    cluster.cut(1, 4)
    cluster.produce("t", [b"a"])
    cluster.move_leader(TP, 4)
    cluster.move_leader(TP, 3)
    cluster.heal()
    assert row(cluster).replicas == (3, 2)
    assert row(cluster).leader == 3
    assert TP not in cluster.nodes[4].partitions


def test_topics_created_while_a_broker_is_down_get_all_replicas(new_cluster):
    cluster = new_cluster(3, {"t": 2})
    cluster.kill(2, noticed_after_s=0)
    cluster.create_topic("u", 3, 3)
    cluster.expand("t", 4)
    for name in ("t", "u"):
        for r in cluster.controller.image.topics[name].partitions:
            assert set(r.replicas) == {1, 2, 3}
            assert r.leader in (1, 3)
    assert all(set(r.isr) == {1, 3} for r in cluster.controller.image.topics["u"].partitions)
    topic = cluster.controller.ensure_internal_topic(OFFSETS_TOPIC)
    assert {len(r.replicas) for r in topic.partitions} == {3}
    cluster.start(2)
    assert all(set(r.isr) == {1, 2, 3} for t in cluster.controller.image.topics.values() for r in t.partitions)


def test_topic_creation_needs_a_live_broker(new_cluster):
    cluster = new_cluster(2)
    cluster.kill(1, noticed_after_s=0)
    with pytest.raises(ControllerError) as raised:
        cluster.controller.create_topic("u", assignment={0: (1,)})
    assert raised.value.code == Code.INVALID_REPLICA_ASSIGNMENT
    cluster.cut(2)
    cluster.advance(5.0)
    with pytest.raises(ControllerError) as raised:
        cluster.create_topic("u", 1)
    assert raised.value.code == Code.INVALID_REPLICATION_FACTOR
    assert cluster.nodes[2].coordinator_for(0, "g") == (Code.COORDINATOR_NOT_AVAILABLE, None)
    assert cluster.nodes[2].coordinator_for(1, "g") == (Code.COORDINATOR_NOT_AVAILABLE, None)
    assert not cluster.controller.image.topics


def acknowledged(cluster, now, values):
    """Append with acks=all every 10 ms while broker 1 acts as leader; return the acknowledged offsets."""
    acked = []
    for number in values:
        value = b"%d" % number
        cluster.nodes[1].partitions[TP].append(
            batch(value), -1, lambda code, _, value=value: None if code else acked.append(value)
        )
        now += 0.01
        cluster.advance(now)
    return acked, now


@pytest.mark.parametrize("seed", [10, 20, 28, 43, 71, 80, 99, 184, 188])
def test_new_isr_member_counts_before_the_leader_gets_the_delta(new_cluster, seed):
    """The controller may elect it from now on, so records that it lacks must not be acknowledged."""
    cluster = new_cluster(3, {"t": 1}, replication_s=0.05, metadata_lag_s=1.0)
    cluster.random.seed(seed)
    cluster.kill(3, noticed_after_s=0)
    cluster.advance(5.0)
    cluster.start(3)
    now = 5.0
    while 3 not in row(cluster).isr:
        now += 0.01
        cluster.advance(now)
    acked, now = acknowledged(cluster, now, range(20))
    cluster.move_leader(TP, 3)
    more, now = acknowledged(cluster, now, range(20, 40))
    cluster.advance(now + 60)
    log = cluster.leader(TP).log
    found = [r.value for stored in log.read_batches(0, log.end_offset) for r in stored.decode("t", 0)]
    assert [value for value in acked + more if value not in found] == []


def test_isr_change_based_on_an_older_image_is_ignored(new_cluster):
    cluster = new_cluster(3, {"t": 1})
    leader = cluster.nodes[row(cluster).leader].partitions[TP]
    current = leader.image
    leader.image = current._replace(partition_epoch=current.partition_epoch - 1)
    cluster.controller.alter_isr(leader, current.isr[:1])
    assert row(cluster) == current
    leader.image = current
    cluster.controller.alter_isr(leader, current.isr[:1])
    assert row(cluster).partition_epoch > current.partition_epoch


def test_topic_deleted_during_fencing_stays_deleted(new_cluster):
    """A callback of the first topic's new leader deletes the second topic."""
    cluster = new_cluster(2, {"a": 1, "b": 1})
    partition = cluster.nodes[2].partitions[TopicPartition("a", 0)]
    partition.add_listener(lambda: "b" in cluster.controller.image.topics and cluster.delete_topic("b"))
    cluster.kill(1, noticed_after_s=0)
    assert set(cluster.controller.image.topics) == {"a"}
    assert set(cluster.nodes[2].partitions) == {TopicPartition("a", 0)}
