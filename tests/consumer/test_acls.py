"""A consumer on brokers with ACLs: which errors it raises without them, and that granted ACLs end the errors."""

from contextlib import suppress

import pytest

from thinconsumer import Consumer, GroupAuthorizationFailedError, TopicAuthorizationFailedError, TopicPartition
from thinconsumer.testing import MemoryCluster
from thinconsumer_testing.broker.acl.authorizer import STANDARD_AUTHORIZER

EVERYONE, ANONYMOUS = "User:*", "User:ANONYMOUS"
T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster():
    """A cluster with an authorizer, no ACLs, and two records in t-0."""
    cluster = MemoryCluster(1, {"t": 1, "other": 1}, authorizer_class_name=STANDARD_AUTHORIZER)
    cluster.produce("t", [b"a", b"b"])
    yield cluster
    assert cluster.bugs == []


@pytest.fixture
def consumer(cluster):
    consumer = Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        driver=cluster.driver(),
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    yield consumer
    consumer.close()


def values(consumer, timeout_ms=5000):
    return [record.value for records in consumer.poll(timeout_ms).values() for record in records]


def until_read(consumer, cluster, error):
    """Poll until there are records; only ``error`` may be raised meanwhile."""
    end = cluster.clock.now() + 30
    while cluster.clock.now() < end:
        try:
            if found := values(consumer, 1000):
                return found
        except error:
            pass
    raise AssertionError("no records within 30 s")


def test_a_topic_that_may_not_be_read(cluster, consumer):
    consumer.assign([T0])
    consumer.seek(T0, 0)
    for _ in range(3):
        with pytest.raises(TopicAuthorizationFailedError) as caught:
            consumer.poll(5000)
        assert caught.value.topics == ("t",)
    cluster.create_acls(ANONYMOUS, "DESCRIBE", topic="t")  # Metadata now shows the topic, but Fetch is denied.
    for _ in range(3):
        with pytest.raises(TopicAuthorizationFailedError) as caught:
            consumer.poll(5000)
        assert caught.value.topics == ("t",)
    cluster.create_acls(ANONYMOUS, "READ", topic="t")
    assert until_read(consumer, cluster, TopicAuthorizationFailedError) == [b"a", b"b"]


def test_an_acl_that_is_taken_away_while_reading(cluster, consumer):
    cluster.create_acls(EVERYONE, "READ", topic="t", prefixed=True)
    consumer.assign([T0])
    consumer.seek(T0, 0)
    assert values(consumer) == [b"a", b"b"]
    cluster.create_acls(ANONYMOUS, "ALL", topic="t", deny=True)
    cluster.produce("t", [b"c"])
    with pytest.raises(TopicAuthorizationFailedError):
        consumer.poll(5000)
    cluster.delete_acls(ANONYMOUS, "ALL", topic="t", deny=True)
    assert until_read(consumer, cluster, TopicAuthorizationFailedError) == [b"c"]


def test_a_group_that_may_not_be_joined(cluster, consumer):
    cluster.create_acls(ANONYMOUS, "READ", topic="t")
    consumer.subscribe(["t"])
    for _ in range(3):
        with pytest.raises(GroupAuthorizationFailedError):
            consumer.poll(5000)
    cluster.create_acls(ANONYMOUS, "DESCRIBE", group="billing")  # FindCoordinator is allowed, JoinGroup is not.
    with pytest.raises(GroupAuthorizationFailedError):
        consumer.poll(5000)
    cluster.create_acls(ANONYMOUS, "READ", group="bill", prefixed=True)
    assert until_read(consumer, cluster, GroupAuthorizationFailedError) == [b"a", b"b"]
    consumer.commit()
    assert consumer.committed(T0) == 2


def test_a_commit_that_is_denied(cluster, consumer):
    cluster.create_acls(ANONYMOUS, "READ", topic="t", group="billing")
    consumer.assign([T0])
    consumer.seek(T0, 0)
    assert values(consumer) == [b"a", b"b"]
    cluster.create_acls(ANONYMOUS, "READ", group="billing", deny=True)
    with pytest.raises(GroupAuthorizationFailedError):
        consumer.commit()
    cluster.create_acls(ANONYMOUS, "READ", topic="t", deny=True)
    cluster.delete_acls(ANONYMOUS, "READ", group="billing", deny=True)
    with pytest.raises(TopicAuthorizationFailedError):
        consumer.commit()
    cluster.delete_acls(ANONYMOUS, "READ", topic="t", deny=True)
    consumer.commit()


def test_topics_that_may_not_be_described_are_not_found_by_a_pattern(cluster, consumer):
    cluster.create_acls(ANONYMOUS, "READ", topic="t", group="billing")
    consumer.subscribe(pattern=".*")
    assert until_read(consumer, cluster, ()) == [b"a", b"b"]
    assert consumer.subscription() == {"t"}
    assert set(consumer.topics()) == {"t"}


def test_offsets_of_a_topic_that_may_not_be_described(cluster, consumer):
    with pytest.raises(TopicAuthorizationFailedError):
        consumer.end_offsets([T0])
    cluster.create_acls(ANONYMOUS, "DESCRIBE", topic="t")
    cluster.clock.advance(5)
    with suppress(TopicAuthorizationFailedError):  # by what the last response said; the call refreshes the metadata
        consumer.end_offsets([T0])
    cluster.clock.advance(5)
    assert consumer.end_offsets([T0]) == {T0: 2}
