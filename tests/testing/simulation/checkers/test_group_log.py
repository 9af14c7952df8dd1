"""The records of a group: epochs go up, and a partition has one owner."""

from types import SimpleNamespace

import pytest
from lab.checkers.group_log import GroupLogChecker

from thinconsumer.records.builder import NewRecord
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.group import log_format
from thinconsumer_testing.broker.group.consumer import records
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup
from thinconsumer_testing.broker.group.consumer.member import ConsumerGroupMember
from thinconsumer_testing.broker.group.consumer.states import AssignmentState

ID = b"t" * 16


class Log:
    """The committed records of one partition of ``__consumer_offsets``."""

    def __init__(self, room):
        self.rows = {}
        self.room = room
        self.checker = room.add(GroupLogChecker, truths={(TopicPartition("__consumer_offsets", 0), ID): self})

    def counts(self, offset, epoch):
        return True

    def write(self, *written):
        for record in written:
            row = SimpleNamespace(key=record.record.key, value=record.record.value)
            self.rows[len(self.rows), 0] = row

    def classic(self, generation):
        value = log_format.GroupMetadataValue(generation=generation, protocol="range", leader="a")
        row = NewRecord(log_format.versioned(value, log_format.GROUP_VALUE_VERSION), log_format.group_key("g"))
        self.write(SimpleNamespace(record=row))

    def member(self, who, epoch, owned=(), pending=()):
        member = ConsumerGroupMember(who).moved(
            epoch, AssignmentState.STABLE, {ID: dict.fromkeys(owned, 1)}, {ID: dict.fromkeys(pending, 1)}
        )
        self.write(records.current_record("g", member))

    def verdict(self):
        self.room.tell("finish")
        return self.room.verdict()

    def epochs(self, group, target):
        self.write(records.epoch_record("g", group, 0), records.target_epoch_record("g", target))


@pytest.fixture
def log(room):
    return Log(room)


def test_correct_log_passes(log):
    log.epochs(2, 2)
    log.member("a", 2, [0, 1])
    log.epochs(3, 3)
    log.member("a", 2, [0], pending=[1])
    log.member("a", 3, [0])
    log.member("b", 3, [1])
    log.write(*records.removal_of_member("g", "b"))
    log.member("a", -2, [0])
    log.member("a", 3, [0, 1])
    assert log.verdict() == ""
    log.checker.check_rest()
    assert log.room.verdict() == ""


@pytest.mark.parametrize(
    ("group", "target", "words"),
    [
        (2, 2, "the epoch of group g goes back from 3 to 2"),
        (3, 2, "the target of group g goes back from 3 to 2"),
        (3, 4, "has epoch 4, the group 3"),
    ],
)
def test_wrong_epoch_is_a_violation(log, group, target, words):
    log.epochs(3, 3)
    log.epochs(group, target)
    assert words in log.verdict()


def test_member_epochs_go_up_to_that_of_the_target(log):
    log.epochs(3, 3)
    log.member("a", 3)
    log.member("a", 2)
    assert "member a of group g goes back from 3 to 2" in log.verdict()
    log.member("a", 4)
    assert "goes back" in log.verdict()
    log.rows.clear()
    log.member("a", 2)
    assert "member a has epoch 2, the target assignment 1" in log.verdict()


@pytest.mark.parametrize("pending", [True, False])
def test_second_owner_is_a_violation(log, pending):
    log.epochs(3, 3)
    log.member("a", 3, *([(), [0]] if pending else [[0], ()]))
    log.member("b", 3, [0])
    assert "has two owners: b and a" in log.verdict()


def test_member_that_is_behind_is_not_at_rest(log):
    log.epochs(3, 3)
    log.member("a", 2)
    log.checker.check_rest()
    assert "members that are not in it: a" in log.room.verdict()


@pytest.mark.parametrize(("generation", "then", "has_leader"), [(4, 4, False), (4, 5, True), (1, 1, True)])
def test_group_that_became_classic_has_no_leader_until_it_rebalances(log, generation, then, has_leader):
    """Seed 1828 of the swarm: no member owned the partitions of the last one of the consumer protocol.

    Seeds 9101 and 9171: no member rejoined when partitions were added, or a topic deleted. A group of generation 1 is a
    new one, which began after all members of the consumer group had left. A static member that restarts is written with
    its new member id, in the same generation.
    """
    log.epochs(4, 4)
    log.write(*records.removal_of_group(ConsumerGroup("g")))
    log.classic(generation)
    log.classic(then)
    assert log.checker.without_leader() == (set() if has_leader else {"g"})
