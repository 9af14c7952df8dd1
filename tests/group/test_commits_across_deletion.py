"""A topic is deleted and created again while commits of its old offsets are queued or in flight (embedded broker)."""

import pytest

from thinconsumer import CommitFailedError, Consumer, TopicPartition
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer_testing.broker.faults import Delay, Pass

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
OLD, NEW = 10, 3  #: Records of the deleted topic, and of the one that has its name now.
DELAY = 2.0  #: Seconds for which the coordinator does not handle a commit.


class World:
    """A member that has read all records of the topic "t", and one of "u"."""

    def __init__(self, protocol, highest=10, **options):
        self.cluster = MemoryCluster(1, {"t": 1, "u": 1})
        self.cluster.set_versions(OffsetCommitRequest, (2, highest))
        self.cluster.produce("t", [b"old"] * OLD)
        self.cluster.produce("u", [b"u"])
        self.member = self.consumer(group_protocol=protocol, metadata_max_age_ms=500, **options)
        self.member.subscribe(["t", "u"])
        self.values = []
        self.poll_until(OLD + 1)

    def consumer(self, **options):
        options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": "g", **options}
        return Consumer(bootstrap_servers=self.cluster.bootstrap_servers, driver=self.cluster.driver(), **options)

    def poll_until(self, count):
        for _ in range(200):
            self.values += [record.value for records in self.member.poll(250).values() for record in records]
            if len(self.values) >= count:
                return
        raise AssertionError(self.member.health())

    def poll_for(self, seconds):
        end = self.cluster.clock.now() + seconds
        while self.cluster.clock.now() < end:
            assert self.member.poll(250) == {}

    def recreate(self):
        self.cluster.delete_topic("t")
        self.cluster.create_topic("t", 1)
        self.cluster.produce("t", [b"new"] * NEW)

    def recreate_later(self):
        self.rule = self.cluster.on(OffsetCommitRequest, Delay(DELAY), times=1)
        self.cluster.schedule.call_later(DELAY / 2, self.recreate)

    def recreate_at_commit(self):
        """Delete and create the topic just before the coordinator handles the next commit: no client can know of it."""

        def act(call):
            self.recreate()
            return Pass()

        self.rule = self.cluster.on(OffsetCommitRequest, act, times=1)

    def committed(self):
        """Return the committed offsets of both topics as another client sees them."""
        other = self.consumer()
        other.assign([T0, U0])
        found = other.committed(T0), other.committed(U0)
        other.close()
        return found

    def close(self):
        self.member.close()
        assert self.cluster.bugs == []


@pytest.fixture(params=["classic", "consumer"])
def world(request, closed_at_end):
    return lambda **options: closed_at_end(World(request.param, **options))


def reads_and_commits_the_new_topic(w):
    """Read the new topic from its beginning, and commit."""
    w.poll_until(OLD + 1 + NEW)
    assert w.values[-NEW:] == [b"new"] * NEW
    w.member.commit()
    return w.committed()[0] == NEW


def test_a_commit_that_waits_for_its_response(world):
    w = world()
    w.recreate_later()
    with pytest.raises(CommitFailedError, match="t-0"):
        w.member.commit()
    assert w.rule.hits == 1
    assert w.committed() == (None, 1)
    assert reads_and_commits_the_new_topic(w)


def test_commits_in_flight_and_queued_behind_it(world):
    """The first one is with the coordinator, the others wait for its response."""
    w = world()
    w.recreate_later()
    results = []
    for offset in (OLD - 1, OLD - 2, OLD):
        w.member.commit_async({T0: offset}, callback=lambda offsets, error: results.append(error))
        w.member.drive()
    w.poll_until(OLD + 1 + NEW)
    w.poll_for(DELAY)
    assert [type(error) for error in results] == [CommitFailedError] * 3
    assert w.committed()[0] is None
    assert reads_and_commits_the_new_topic(w)


@pytest.mark.parametrize("highest", [9, 10])
def test_a_commit_that_is_queued_until_the_new_topic_is_known(world, highest):
    """Up to version 9 of OffsetCommit the coordinator only gets the topic's name; the client drops the offset."""
    w = world(highest=highest)
    w.cluster.on(OffsetCommitRequest, Delay(DELAY), times=1)
    results = {}
    w.member.commit_async({U0: 1}, callback=lambda offsets, error: results.update(u=error))
    w.member.drive()
    w.member.commit_async({T0: OLD}, callback=lambda offsets, error: results.update(t=error))
    w.recreate()
    w.poll_until(OLD + 1 + NEW)
    w.poll_for(DELAY)
    assert results["u"] is None and isinstance(results["t"], CommitFailedError)
    assert w.committed() == (None, 1)
    assert reads_and_commits_the_new_topic(w)


def test_automatic_commits(world):
    w = world(enable_auto_commit=True, auto_commit_interval_ms=300)
    w.recreate_at_commit()
    old = w.cluster.controller.image.topics["t"].topic_id
    seen = set()
    for _ in range(40):
        w.values += [record.value for records in w.member.poll(100).values() for record in records]
        if w.cluster.controller.image.topics["t"].topic_id != old:
            seen.add(w.committed()[0])
    assert w.rule.hits == 1
    assert seen <= {None, *range(NEW + 1)}
    assert w.values[-NEW:] == [b"new"] * NEW
    assert w.committed()[0] == NEW


def test_the_last_commit_of_close(world):
    w = world(enable_auto_commit=True, auto_commit_interval_ms=60_000)
    w.recreate_later()
    w.member.close()
    assert w.rule.hits == 1
    assert w.committed() == (None, 1)
