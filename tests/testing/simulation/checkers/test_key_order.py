"""The order of each key's records: what the checker finds, and what it allows."""

from types import SimpleNamespace

import pytest
from lab.checkers.key_order import KeyOrderChecker, ReportingLog, WrittenRecord

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import ConsumerRecord, TopicPartition
from thinconsumer_testing.broker.config import TopicConfig
from thinconsumer_testing.cluster import MemoryCluster

PARENT, CHILD = TopicPartition("t", 0), TopicPartition("t", 1)


class Scene:
    """A checker, and the records that leaders of epoch 5 append at the next offsets of two partitions."""

    def __init__(self, slack=0.0):
        self.now = 0.0
        self.checker = KeyOrderChecker(lambda: self.now, slack)
        self.ends = {PARENT: 0, CHILD: 0}

    def append(self, tp, number, *, producer=1, key=7, epoch=5, is_committed=True):
        offset, self.ends[tp] = self.ends[tp], self.ends[tp] + 1
        value = WrittenRecord(producer, key, number).value()
        self.checker.appended(tp, epoch, offset, value)
        if is_committed:
            self.checker.committed(tp, epoch, offset)
        return ConsumerRecord(*tp, epoch, offset, 0, 0, None, value, ())

    def deliver(self, *records, to="ann"):
        for record in records:
            self.checker.delivered(to, record)
        return self.checker.findings


@pytest.fixture
def scene():
    return Scene()


def test_first_deliveries_follow_the_order_of_appends_over_all_partitions(scene):
    first, second, other = scene.append(PARENT, 1), scene.append(CHILD, 2), scene.append(PARENT, 1, key=8)
    assert not scene.deliver(other, first, second, first, second)
    assert scene.checker.counts == {"appended": 3, "delivered": 5, "repeated": 2}


def test_a_record_after_one_that_was_appended_later_is_found(scene):
    first, second = scene.append(PARENT, 1), scene.append(CHILD, 2)
    (words,) = scene.deliver(second, first)
    assert "t-0 offset 0" in words and "key=7, number=2" in words and "appended later" in words


def test_a_value_that_was_never_appended_at_this_offset_is_found(scene):
    scene.append(PARENT, 1)
    (words,) = scene.deliver(ConsumerRecord(*PARENT, 5, 0, 0, 0, None, b"1:7:2", ()))
    assert "no leader" in words


def test_a_record_that_is_not_committed_is_found(scene):
    (words,) = scene.deliver(scene.append(PARENT, 1, is_committed=False))
    assert "(t-0 offset 0), which is not committed" in words


@pytest.mark.parametrize("numbers", [(2, 1), (1, 3, 2), (1, 2, 4, 3)])
def test_a_producer_that_appends_out_of_order_is_found(scene, numbers):
    for number in numbers:
        scene.append(CHILD, number)
    *_, before, last = numbers
    (words,) = scene.checker.findings
    assert f"number={last}) (t-1 offset {len(numbers) - 1}) was appended after number {before}" in words


def test_a_record_that_is_committed_twice_is_found(scene):
    """A deposed leader may have it, too, but must not be elected again with it."""
    scene.append(PARENT, 1, is_committed=False)
    scene.append(CHILD, 1)
    assert not scene.checker.findings and scene.checker.counts["appended again"] == 1
    scene.checker.committed(PARENT, 5, 0)
    (words,) = scene.checker.findings
    assert "committed twice: t-1 offset 0, and t-0 offset 0" in words


def test_a_log_that_ends_before_a_committed_record_is_found(scene):
    scene.append(PARENT, 1), scene.append(PARENT, 2)
    scene.checker.ended_at(PARENT, 2)
    assert not scene.checker.findings
    scene.checker.ended_at(PARENT, 1)
    assert "t-0 ends at 1, but offset 1 was committed" in scene.checker.findings[0]


class ReportingCluster(MemoryCluster):
    """A cluster of which all logs report to a checker."""

    def __init__(self, checker, *nodes_and_topics):
        self.checker = checker
        super().__init__(*nodes_and_topics)

    def new_log(self, node_id, row, config):
        return ReportingLog(row.tp, config, self.checker)


def opened(scene, *, since, at, generations=(3, 3)):
    """Let the parent get a new owner, and another member open the child's gate at offset 2 of the parent."""
    records = [scene.append(PARENT, number) for number in (1, 2, 3)]
    scene.checker.assigned("sue", [PARENT], generations[0] - 1)
    scene.now = since
    scene.checker.assigned("bob", [PARENT], generations[0])
    scene.now = at
    scene.checker.assigned("ann", [], generations[-1])
    scene.checker.opened("ann", CHILD, {PARENT: 2}, generations[1])
    return records


def test_a_gate_that_has_opened_before_the_owner_has_read_so_far_is_found(scene):
    records = opened(scene, since=10.0, at=10.1)
    (words,) = scene.deliver(records[1], to="bob")
    assert "ann has opened the gate of t-1 at 10.100" in words and "read up to 2" in words


@pytest.mark.parametrize(
    ("slack", "since", "at", "generations", "who", "number"),
    [
        pytest.param(0.0, 10.0, 10.1, (3, 3), "bob", 2, id="behind the threshold"),
        pytest.param(0.0, 10.0, 10.1, (3, 3), "eve", 1, id="another member than the owner"),
        pytest.param(8.0, 10.0, 10.0, (3, 3), "bob", 1, id="opened before"),
        pytest.param(0.0, 10.0, 10.1, (4, 3), "bob", 1, id="opened in an earlier generation"),
        pytest.param(0.0, 10.0, 10.1, (3, 3, 2), "bob", 1, id="joined, but opened before its assignment"),
        pytest.param(8.0, 10.0, 17.9, (3, 3), "bob", 1, id="within the slack of epochs"),
    ],
)
def test_gates_that_have_opened_rightly_or_may_not_be_judged(slack, since, at, generations, who, number):
    scene = Scene(slack)
    records = opened(scene, since=since, at=at, generations=generations)
    assert not scene.deliver(records[number], to=who)


def test_logs_report_what_leaders_append_and_which_record_was_not_delivered():
    checker = KeyOrderChecker(lambda: 0.0)
    cluster = ReportingCluster(checker, 3, {"t": 1})
    batch = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0}
    for _ in range(2):  # the second time it is repeated
        cluster.produce("t", [NewRecord(b"1:7:1"), NewRecord(b"1:7:2")], **batch)
    cluster.produce("t", [NewRecord(b"1:7:3")])
    leader = cluster.leader(PARENT)
    assert checker.counts == {"appended": 3}  # and the followers' copies do not count
    assert checker.first_unread(leader) == 0
    for record in cluster.records("t")[:2]:
        checker.delivered("ann", record)
    assert not checker.findings and checker.first_unread(leader) == 2
    cluster.delete_records(PARENT, 3)
    assert checker.first_unread(leader) is None


def test_logs_report_what_is_committed():
    checker = KeyOrderChecker(lambda: 0.0)
    cluster = ReportingCluster(checker, 3, {"t": 1})
    leader = cluster.leader(PARENT)
    follower = next(node for node in cluster.nodes if node != leader.node.node_id)
    for number in (1, 2):
        cluster.produce("t", [NewRecord(b"1:7:%d" % number)])
    checker.acknowledged(b"1:7:2", PARENT, 1)
    cluster.cut(follower, leader.node.node_id)
    cluster.produce("t", [NewRecord(b"1:7:3")])
    assert leader.log.end_offset == 3 and not checker.findings
    checker.acknowledged(b"1:7:3", PARENT, 2)
    assert "committed at None" in checker.findings[0]


def test_a_replica_may_commit_what_another_one_has_committed_and_nothing_else(scene):
    scene.append(PARENT, 1)
    scene.checker.committed(PARENT, 5, 0)
    scene.ends[PARENT] = 0
    assert not scene.checker.findings
    scene.append(PARENT, 2, epoch=6)
    (words,) = scene.checker.findings
    assert "record of leader epoch 5 was committed (t-0 offset 0), and then that of epoch 6" in words


def made_anew(scene):
    """Let sue open a gate by her own position and die, and then bob start. Return a record of the awaited part."""
    record = scene.append(PARENT, 1)
    scene.checker.started("sue")
    scene.checker.assigned("sue", [PARENT], 8)
    scene.checker.opened("sue", CHILD, {PARENT: 1}, 9)
    scene.checker.ended("sue")
    scene.checker.started("bob")
    return record


def test_gates_are_not_judged_by_the_generations_of_a_group_that_was_made_anew():
    scene = Scene(8.0)
    record = made_anew(scene)
    scene.checker.assigned("bob", [PARENT], 4)
    assert not scene.deliver(record, to="bob")
    assert scene.checker.counts["groups made anew"] == 1


def test_records_that_a_leader_has_deleted_need_no_delivery_though_a_later_leader_still_has_them(scene):
    log = ReportingLog(PARENT, TopicConfig(), scene.checker)
    for number in (1, 2, 3):
        batch = build_batch([NewRecord(WrittenRecord(1, 7, number).value())])
        log.append(batch, leader_epoch=5, now_ms=0)
    leader = SimpleNamespace(tp=PARENT, log=SimpleNamespace(start_offset=0, end_offset=3))
    assert scene.checker.first_unread(leader) == 0
    log.delete_before(2)
    assert scene.checker.first_unread(leader) == 2


@pytest.mark.parametrize("was_there", [False, True])
def test_a_record_that_compaction_had_removed_when_the_group_passed_it_counts_as_delivered(scene, was_there):
    """A leader that has not compacted its log may return it to a group that begins at its commit again. A record that
    was still there at the first time was skipped.
    """
    records = [scene.append(PARENT, number) for number in (1, 2, 3)]
    if was_there:
        scene.deliver(records[1])
    scene.checker.removed(PARENT, 3, {1, 2})
    assert not scene.deliver(*records[1:])
    assert bool(scene.deliver(*records)) == was_there


def test_a_record_that_compaction_has_removed_counts_as_not_delivered_until_the_group_has_passed_it(scene):
    records = [scene.append(PARENT, 1), scene.append(CHILD, 2)]
    scene.append(PARENT, 3)
    scene.checker.removed(PARENT, 2, {1})
    (words,) = scene.deliver(records[1], records[0])
    assert "appended later" in words
