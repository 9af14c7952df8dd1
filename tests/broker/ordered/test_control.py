"""Changes of the partition count on a cluster: what is rejected, what each step waits for, and controllers that die."""

from itertools import count

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.controller import CONTROLLER, ControllerError
from thinconsumer_testing.broker.ordered.control import CHECK_S
from thinconsumer_testing.broker.ordered.topic import CountChange, OrderedTopicCounts, RemovedPartition

RETENTION_MS = 60_000
CONFIGS = {"enable.ordered.delivery": "true", "retention.ms": str(RETENTION_MS)}
LIMIT_S = 5.0


@pytest.fixture
def new_ordered(new_cluster):
    def make(nodes=3, replicas=2, expanded=2, **config):
        cluster = new_cluster(nodes, **config)
        cluster.create_topic("t", 2, replicas, CONFIGS)
        for node in cluster.nodes.values():
            node.apply_all_deltas()
        if expanded > 2:
            cluster.expand("t", expanded)
        return cluster

    return make


def topic_of(cluster):
    return cluster.controller.image.topics["t"]


def ordered(cluster):
    """Return the counts, without the number of their changes."""
    return topic_of(cluster).ordered._replace(partition_count_epoch=0)


def advance(cluster, seconds):
    cluster.advance(cluster.schedule.now + seconds)


def settle(cluster):
    """Let virtual time pass until no change is left, at most LIMIT_S."""
    for _ in range(int(LIMIT_S / CHECK_S)):
        if ordered(cluster).change is CountChange.NONE:
            break
        advance(cluster, CHECK_S)
    assert ordered(cluster).change is CountChange.NONE


def accepted(cluster, number):
    """The counts that the partition's leader accepts."""
    try:
        leader = cluster.leader(TopicPartition("t", number))
    except LookupError:
        return None
    return [known for known in range(20) if leader.accepts_count(known)]


def refused(call, *args):
    with pytest.raises(ControllerError) as error:
        call(*args)
    return error.value.code


def empty(cluster, number):
    tp = TopicPartition("t", number)
    cluster.delete_records(tp, cluster.leader(tp).log.end_offset)


# -- without failures


def test_expanding_and_shrinking(new_ordered):
    cluster = new_ordered()
    assert ordered(cluster) == OrderedTopicCounts(2, 2)
    cluster.expand("t", 5)
    assert ordered(cluster) == OrderedTopicCounts(2, 5)
    assert [accepted(cluster, number) for number in range(5)] == [[5]] * 5
    for number in range(5):
        cluster.produce("t", [b"x"], number)
    cluster.shrink("t", 3)
    assert ordered(cluster) == OrderedTopicCounts(2, 3)
    assert [accepted(cluster, number) for number in range(5)] == [[3], [3], [3], [], []]
    assert [bool(row.leader_epochs_before_deletion) for row in topic_of(cluster).partitions] == [False] * 3 + [True] * 2


def test_topics_without_the_config_have_no_counts(new_cluster):
    cluster = new_cluster(1, {"u": 2})
    assert cluster.controller.image.topics["u"].ordered is None
    cluster.expand("u", 3)
    assert refused(cluster.shrink, "u", 2) == Code.INVALID_PARTITIONS
    assert cluster.leader(TopicPartition("u", 0)).leader_epoch == 0


def test_replicas_are_for_expansions_only(new_ordered):
    cluster = new_ordered()
    cluster.controller.create_partitions("t", 3, [[3, 1]])
    assert topic_of(cluster).partitions[2].replicas == (3, 1)
    with pytest.raises(ControllerError) as error:
        cluster.controller.create_partitions("t", 2, [[1, 2]])
    assert error.value.code == Code.INVALID_REPLICA_ASSIGNMENT
    cluster.controller.create_partitions("t", 2, [])


def test_a_shrinking_is_rejected_while_a_partition_has_no_leader(new_ordered):
    """No producer could write to the other partitions until that leader returns."""
    cluster = new_ordered(nodes=2, replicas=1, expanded=4)
    cluster.kill(2, noticed_after_s=0)
    assert refused(cluster.shrink, "t", 2) == Code.LEADER_NOT_AVAILABLE
    cluster.start(2)
    cluster.shrink("t", 2)
    assert ordered(cluster) == OrderedTopicCounts(2, 2)


def test_validate_only_changes_nothing(new_ordered):
    cluster = new_ordered(expanded=4)
    cluster.shrink("t", 3)
    before = topic_of(cluster)
    for wanted in (2, 5):
        cluster.controller.create_partitions("t", wanted, validate_only=True)
    assert topic_of(cluster) is before


# -- removal


def test_retention_removes_emptied_partitions_from_the_highest_number_down(new_ordered):
    cluster = new_ordered(expanded=5)
    cluster.produce("t", [b"a", b"b"], 4)
    cluster.shrink("t", 2)
    advance(cluster, RETENTION_MS / 2000)
    assert len(topic_of(cluster).partitions) == 5
    advance(cluster, 700)
    assert len(topic_of(cluster).partitions) == 2
    assert ordered(cluster).removed[4].end_offset == 2
    for node in cluster.nodes.values():
        assert [tp for tp in node.partitions if tp.topic == "t" and tp.partition > 1] == []
    with pytest.raises(LookupError):
        cluster.produce("t", [b"x"], 4)


def test_a_partition_with_records_keeps_those_below_it(new_ordered):
    cluster = new_ordered(expanded=4)
    cluster.shrink("t", 2)
    cluster.produce("t", [b"written by a client without counts"], 3)
    cluster.controller.counts.remove_emptied()
    assert len(topic_of(cluster).partitions) == 4
    empty(cluster, 3)
    cluster.controller.counts.remove_emptied()
    assert len(topic_of(cluster).partitions) == 2
    assert ordered(cluster).removed[3] == RemovedPartition(ordered(cluster).removed[3].leader_epoch, 1)


def test_a_partition_whose_leader_does_not_respond_is_not_removed(new_ordered):
    cluster = new_ordered(expanded=3)
    cluster.shrink("t", 2)
    leader = topic_of(cluster).partitions[2].leader
    cluster.cut(leader)
    cluster.controller.counts.remove_emptied()
    assert len(topic_of(cluster).partitions) == 3
    cluster.heal()
    cluster.controller.counts.remove_emptied()
    assert len(topic_of(cluster).partitions) == 2


def test_a_partition_that_is_created_again_continues_where_the_first_has_ended(new_ordered):
    """A group's committed offset is then valid, and clients accept the leader epochs."""
    cluster = new_ordered(nodes=2, replicas=2, expanded=3)
    cluster.produce("t", [b"a", b"b"], 2)
    before = topic_of(cluster).partitions[2].leader_epoch
    cluster.shrink("t", 2)
    empty(cluster, 2)
    cluster.kill(2)  # it misses the removal, and has the old log when it returns
    advance(cluster, 2)
    cluster.expand("t", 3)
    assert topic_of(cluster).partitions[2].leader_epoch > before + 2
    assert cluster.produce("t", [b"c"], 2) == 2
    cluster.start(2)
    advance(cluster, 2)
    for node in cluster.nodes.values():
        log = node.partitions[TopicPartition("t", 2)].log
        assert (log.start_offset, log.end_offset) == (2, 3)


def test_an_unfinished_leader_move_of_a_removed_partition_is_forgotten(new_ordered):
    """The partition that is created again may have other replicas."""
    cluster = new_ordered(replicas=1, replication_s=1.0, expanded=3)
    tp = TopicPartition("t", 2)
    leader = cluster.controller.image.partition(*tp).leader
    other = leader % 3 + 1
    cluster.cut(leader, other)
    assert cluster.move_leader(tp, other) == leader
    cluster.shrink("t", 2)
    cluster.controller.create_partitions("t", 3, [[leader]])
    settle(cluster)
    cluster.heal()
    advance(cluster, 10)
    row = cluster.controller.image.partition(*tp)
    assert (row.leader, row.replicas) == (leader, (leader,))


# -- waiting for leaders


def test_new_partitions_wait_until_every_leader_has_the_count(new_ordered):
    cluster = new_ordered()
    slow = topic_of(cluster).partitions[1].leader
    cluster.pause(slow)
    cluster.expand("t", 4)
    assert ordered(cluster) == OrderedTopicCounts(2, 4, CountChange.EXPANSION, 2)
    assert [row.leader for row in topic_of(cluster).partitions[2:]] == [-1, -1]
    assert refused(cluster.expand, "t", 5) == Code.REASSIGNMENT_IN_PROGRESS
    assert refused(cluster.shrink, "t", 2) == Code.REASSIGNMENT_IN_PROGRESS
    cluster.resume(slow)
    settle(cluster)
    assert [accepted(cluster, number) for number in range(4)] == [[4]] * 4


def test_no_leader_gets_the_lower_count_until_every_leader_has_dropped_the_old_one(new_ordered):
    cluster = new_ordered(expanded=4)
    slow = topic_of(cluster).partitions[3].leader
    cluster.cut(slow)
    cluster.shrink("t", 2)
    others = [row.partition for row in topic_of(cluster).partitions if row.leader != slow]
    assert [accepted(cluster, number) for number in others] == [[]] * len(others)
    assert accepted(cluster, 3) == [4]
    assert ordered(cluster) == OrderedTopicCounts(2, 4, CountChange.SHRINKING, 2)
    cluster.heal()
    settle(cluster)
    assert [accepted(cluster, number) for number in range(4)] == [[2], [2], [], []]


def test_a_leader_alone_in_the_isr_is_waited_for_although_it_is_fenced(new_ordered):
    """It does not know that it was fenced, goes on accepting the old count, and is elected again."""
    cluster = new_ordered(nodes=2, replicas=1)
    lonely = topic_of(cluster).partitions[1].leader
    cluster.cut(lonely)
    advance(cluster, 3)
    assert topic_of(cluster).partitions[1].leader == -1
    cluster.expand("t", 3)
    advance(cluster, 3)
    assert ordered(cluster).change is CountChange.EXPANSION
    cluster.heal()
    settle(cluster)
    assert [accepted(cluster, number) for number in range(3)] == [[3]] * 3


def test_an_expansion_continues_with_the_next_leader_of_a_partition(new_ordered):
    cluster = new_ordered(replicas=3)
    first = topic_of(cluster).partitions[0].leader
    cluster.pause(first)
    cluster.expand("t", 3)
    assert ordered(cluster).change is CountChange.EXPANSION
    settle(cluster)  # the session of the paused broker ends
    assert topic_of(cluster).partitions[0].leader != first
    assert topic_of(cluster).partitions[2].leader_epochs_after_creation == (0, 0)


def test_new_partitions_get_no_leader_from_elections_during_the_expansion(new_ordered):
    cluster = new_ordered(nodes=3, replicas=1)
    slow = topic_of(cluster).partitions[1].leader
    cluster.pause(slow)
    cluster.controller.create_partitions("t", 3, [[3]])
    cluster.kill(3, noticed_after_s=0)
    cluster.start(3)
    assert topic_of(cluster).partitions[2].leader == -1
    for elect in (cluster.controller.elect_unclean, cluster.controller.move_leader):
        assert refused(elect, TopicPartition("t", 2), 3) == Code.ELIGIBLE_LEADERS_NOT_AVAILABLE
    cluster.resume(slow)
    settle(cluster)
    assert topic_of(cluster).partitions[2].leader == 3


def test_a_deleted_topic_ends_its_change(new_ordered):
    cluster = new_ordered()
    slow = topic_of(cluster).partitions[1].leader
    cluster.pause(slow)
    cluster.expand("t", 4)
    cluster.delete_topic("t")
    advance(cluster, 1)
    cluster.create_topic("t", 1, 1, CONFIGS)
    advance(cluster, 1)
    assert ordered(cluster) == OrderedTopicCounts(1, 1)


@pytest.mark.parametrize("lag_s", [0.0, 0.5, 3.0])
def test_changes_complete_however_slowly_metadata_travels(new_ordered, lag_s):
    cluster = new_ordered(metadata_lag_s=lag_s)
    for wanted in (5, 3, 2):
        cluster.controller.create_partitions("t", wanted)
        settle(cluster)
        advance(cluster, lag_s)
        assert [accepted(cluster, number) for number in range(wanted)] == [[wanted]] * wanted


# -- controllers that die


def killing(cluster, at, *, before):
    """Kill the controller before or after its change number ``at`` of a topic; return the count of changes."""
    changes = count()

    def wrap(controller):
        put_topic = controller.put_topic

        def put(topic):
            number = next(changes)
            if number == at and before:
                cluster.kill_controller()
            put_topic(topic)
            if number == at and not before:
                cluster.kill_controller()

        controller.put_topic = put
        controller.counts._controls = controller.counts._controls._replace(put_topic=put)

    wrap(cluster.controller)
    return changes


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("wanted", [6, 2])
@pytest.mark.parametrize("lag_s", [0.0, 0.5])
def test_each_step_survives_the_death_of_the_controller(new_ordered, before, at, wanted, lag_s):
    cluster = new_ordered(metadata_lag_s=lag_s, expanded=4)
    settle(cluster)
    advance(cluster, lag_s)
    epochs = [row.leader_epoch for row in topic_of(cluster).partitions]
    killing(cluster, at, before=before)
    cluster.controller.create_partitions("t", wanted)
    advance(cluster, LIMIT_S)
    assert not cluster.controller.is_active
    was_begun = not (at == 0 and before)
    cluster.start_controller()
    settle(cluster)
    if not was_begun:  # the client's request is lost, and repeated
        assert ordered(cluster) == OrderedTopicCounts(2, 4)
        cluster.controller.create_partitions("t", wanted)
        settle(cluster)
    advance(cluster, lag_s)
    assert ordered(cluster) == OrderedTopicCounts(2, wanted)
    assert [accepted(cluster, number) for number in range(wanted)] == [[wanted]] * wanted
    rows = topic_of(cluster).partitions
    if wanted == 6:
        assert [row.leader_epochs_after_creation for row in rows[4:]] == [tuple(epochs)] * 2
    else:
        assert [row.leader_epochs_before_deletion for row in rows[2:]] == [(epochs[0] + 1, epochs[1] + 1)] * 2


@pytest.mark.parametrize("before", [True, False])
def test_a_removal_survives_the_death_of_the_controller(new_ordered, before):
    cluster = new_ordered(expanded=4)
    cluster.shrink("t", 2)
    killing(cluster, 0, before=before)
    cluster.controller.counts.remove_emptied()
    assert not cluster.controller.is_active
    assert len(topic_of(cluster).partitions) == (4 if before else 2)
    advance(cluster, 700)  # retention runs without a controller, and removes nothing
    assert len(topic_of(cluster).partitions) == (4 if before else 2)
    cluster.start_controller()
    advance(cluster, 700)
    assert len(topic_of(cluster).partitions) == 2


def test_a_change_survives_one_dead_controller_after_another(new_ordered):
    cluster = new_ordered()
    slow = topic_of(cluster).partitions[1].leader
    cluster.pause(slow)
    cluster.expand("t", 4)
    for _ in range(3):
        cluster.kill_controller()
        advance(cluster, 1)
        cluster.start_controller()
        advance(cluster, 0.3)
        assert ordered(cluster).change is CountChange.EXPANSION
    cluster.resume(slow)
    settle(cluster)


def test_without_a_controller_nothing_changes(new_ordered):
    cluster = new_ordered()
    before = topic_of(cluster)
    cluster.kill_controller()
    cluster.kill_controller()
    for call, *args in (
        (cluster.expand, "t", 3),
        (cluster.shrink, "t", 2),
        (cluster.create_topic, "u"),
        (cluster.delete_topic, "t"),
        (cluster.move_leader, TopicPartition("t", 0)),
        (cluster.move_coordinator, "g"),
        (cluster.set_password, "a", None),
    ):
        assert refused(call, *args) == Code.NOT_CONTROLLER
    for change_acls in (cluster.create_acls, cluster.delete_acls):
        with pytest.raises(ControllerError):
            change_acls("User:a", "READ", topic="t")
    cluster.kill(1, noticed_after_s=0)
    cluster.pause(2)
    advance(cluster, 30)
    assert topic_of(cluster) is before
    assert sorted(cluster.controller.image.brokers) == [1, 2, 3]
    assert not cluster.reachable(1, CONTROLLER)
    assert cluster.reachable(1, 2)


def test_the_next_controller_begins_new_sessions(new_ordered):
    cluster = new_ordered(replicas=3)
    cluster.kill_controller()
    cluster.kill(1)
    cluster.kill(2)
    cluster.start(2)
    assert not cluster.nodes[2].has_metadata
    cluster.start_controller()
    cluster.start_controller()
    assert cluster.nodes[2].has_metadata
    assert 1 in cluster.controller.image.brokers
    advance(cluster, 1.5)
    assert sorted(cluster.controller.image.brokers) == [2, 3]
    cluster.expand("t", 3)
    settle(cluster)
