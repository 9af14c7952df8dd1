"""Replication: followers converge with leaders, with delays, cuts and diverging logs."""

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition

TP = TopicPartition("t", 0)


def contents(cluster, node_id):
    log = cluster.nodes[node_id].partitions[TP].log
    return [bytes(batch.data) for batch in log.batches_from(log.start_offset)]


def test_lagging_follower_leaves_the_isr_until_it_has_caught_up(new_cluster):
    cluster = new_cluster(2, {"t": 1}, replica_lag_time_max_ms=5000)
    cluster.cut(1, 2)
    cluster.produce("t", [b"a"])
    cluster.advance(2.0)
    assert cluster.leader(TP).high_watermark == 0
    cluster.advance(15.0)
    assert cluster.leader(TP).image.isr == (1,)
    assert cluster.leader(TP).high_watermark == 1
    cluster.heal()
    assert set(cluster.leader(TP).image.isr) == {1, 2}
    assert contents(cluster, 1) == contents(cluster, 2)


def test_records_of_a_deposed_leader_are_truncated(new_cluster):
    cluster = new_cluster(3, {"t": 1})
    cluster.produce("t", [b"everywhere"])
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    cluster.cut(1)
    cluster.produce("t", [b"only on 1", b"and this"])
    cluster.advance(2.0)
    cluster.produce("t", [b"the others' way"])
    assert len(contents(cluster, 1)) == 2
    cluster.heal()
    assert contents(cluster, 1) == contents(cluster, 2) == contents(cluster, 3)
    assert cluster.nodes[1].partitions[TP].log.end_offset == 2
    assert cluster.leader(TP).log.end_of_epoch(0) == (0, 1)


def test_follower_behind_the_log_start_starts_there(new_cluster):
    cluster = new_cluster(2, {"t": 1})
    cluster.kill(2, noticed_after_s=0)
    for n in range(5):
        cluster.produce("t", [b"%d" % n])
    cluster.delete_records(TP, 4)
    cluster.start(2)
    follower = cluster.nodes[2].partitions[TP]
    assert (follower.log.start_offset, follower.log.end_offset, follower.high_watermark) == (4, 5, 5)


def test_empty_follower_ahead_of_an_unclean_leader_is_truncated(new_cluster):
    cluster = new_cluster(2)
    cluster.create_topic("t", 1, 2, {"unclean.leader.election.enable": "true"})
    cluster.produce("t", [b"0"])
    cluster.kill(2, noticed_after_s=0)
    for _ in range(5):
        cluster.produce("t", [b"x"])
    cluster.delete_records(TP, 6)
    cluster.kill(1, noticed_after_s=0)
    cluster.start(2)
    cluster.start(1)
    cluster.produce("t", [b"new"])
    assert contents(cluster, 1)[-1] == contents(cluster, 2)[-1]
    assert {n.partitions[TP].log.end_offset for n in cluster.nodes.values()} == {2}
    assert cluster.leader(TP).high_watermark == 2


def test_lag_checks_end_when_dead_brokers_have_left_the_isr(new_cluster):
    cluster = new_cluster(2, {"t": 1}, replica_lag_time_max_ms=1000)
    cluster.kill(2, noticed_after_s=0)
    cluster.produce("t", [b"a"])
    cluster.advance(10.0)
    assert cluster.wake_at() > 100.0


def test_epoch_without_records_does_not_hide_an_earlier_divergence(new_cluster):
    """A leader without any write in its epoch must still compare the earlier epochs (KIP-279)."""
    cluster = new_cluster(2, {"t": 1})
    cluster.cut(1, 2)
    cluster.move_leader(TP, 2)
    follower, leader = (cluster.nodes[n].partitions[TP] for n in (1, 2))

    def write(log, epoch, value):
        log.append(build_batch([NewRecord(value, timestamp=1)]), leader_epoch=epoch, now_ms=1)

    for log in (follower.log, leader.log):
        log.start_at(0)
        write(log, 0, b"both")
    write(follower.log, 1, b"only here")
    follower.log.begin_epoch(3)
    write(leader.log, 2, b"of the leader")
    leader.log.begin_epoch(4)
    cluster.heal()
    assert contents(cluster, 1) == contents(cluster, 2)
    assert follower.log.end_offset == 2


def test_new_high_watermark_reaches_all_followers(new_cluster):
    cluster = new_cluster(3, {"t": 1}, replication_s=0.1)
    cluster.produce("t", [b"a"])
    cluster.advance(1.0)
    third = cluster.nodes[3].partitions[TP]
    third.high_watermark = third.log.high_watermark = 0
    leader = cluster.leader(TP)
    leader.high_watermark = leader.log.high_watermark = 0
    leader.follower_ends[2] = leader.follower_ends[3] = -1
    cluster.replication._fetch(TP, 3)
    cluster.replication._fetch(TP, 2)
    cluster.advance(2.0)
    assert third.high_watermark == 1


def led_by_two_from_the_middle_of_a_batch(new_cluster, end_of_one):
    """Broker 1 has ``end_of_one`` records of an epoch that broker 2 lacks; its log starts at 2 in a batch 0 to 3."""
    cluster = new_cluster(2, {"t": 1}, replica_lag_time_max_ms=1000, unclean_leader_election_enable=True)
    cluster.cut(1, 2)
    cluster.advance(5.0)  # only 1 is in the ISR
    for n in range(end_of_one):
        cluster.produce("t", [b"%d" % n])
    cluster.controller.elect_unclean(TP, 2)
    cluster.produce("t", [b"a", b"b", b"c", b"d"])
    cluster.delete_records(TP, 2)
    return cluster


@pytest.mark.parametrize("end_of_one", [0, 1, 2, 3, 4, 5])
def test_leader_log_starting_within_a_batch_is_copied(new_cluster, end_of_one):
    cluster = led_by_two_from_the_middle_of_a_batch(new_cluster, end_of_one)
    cluster.heal()
    one, two = (cluster.nodes[n].partitions[TP] for n in (1, 2))
    assert contents(cluster, 1) == contents(cluster, 2)
    assert one.log.start_offset == two.log.start_offset == 2
    assert one.log.end_offset == two.log.end_offset == 4
    assert one.high_watermark == two.high_watermark == 4


def test_high_watermark_never_exceeds_the_log_end(new_cluster):
    """A batch is truncated as a whole, even if part of it is below the truncation offset."""
    cluster = new_cluster(1, {"t": 1})
    cluster.produce("t", [b"a", b"b", b"c"])
    partition = cluster.leader(TP)
    partition.truncate_to(2)
    assert partition.log.end_offset == partition.high_watermark == partition.log.high_watermark == 0
