"""Topics without a group: all partitions of them are read, also those that are added later, from where they belong."""

import pytest

from thinconsumer import (
    HealthState,
    IllegalArgumentError,
    IllegalStateError,
    KafkaTimeoutError,
    OffsetAndMetadata,
    SubscriptionPattern,
    TopicAuthorizationFailedError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from thinconsumer.broker import EntryError, Reply, Silence
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import MetadataRequest

#: How often these consumers refresh metadata, in ms.
AGE = 5000


def tps(*names):
    return {TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in names}


def interrupt_next_assign(consumer, monkeypatch):
    def interrupted(*about):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(consumer._partitions, "assign", interrupted)


# -- reading


def test_all_partitions_are_read_and_nothing_is_asked_of_a_coordinator(make):
    w, consumer = make("t", "u", known={"t": 2, "u": 1, "v": 1}, auto_offset_reset="earliest")
    w.append(1, 0)
    w.append(1, 1)
    w.append(1, 0, "u")
    assert consumer.subscription() == {"t", "u"} and consumer.assignment() == set()
    assert w.read(consumer) == ["0:0", "0:0", "1:0"]
    assert consumer.assignment() == tps("t-0", "t-1", "u-0")
    assert consumer.position(TopicPartition("t", 1)) == 1


@pytest.mark.parametrize("way", ["iteration", "poll_batches", "poll_raw", "read_to_end"])
def test_every_way_of_reading_works(make, way):
    if way == "poll_batches":
        pytest.importorskip("numpy")
    w, consumer = make("t", auto_offset_reset="earliest", consumer_timeout_ms=500)
    w.append(3, 0)
    w.append(2, 1)
    if way == "iteration":
        assert len(list(consumer)) == 5
    elif way == "read_to_end":
        assert len(list(consumer.read_to_end())) == 5
    else:
        found = {}
        for _ in range(5):
            for tp, batches in getattr(consumer, way)(500).items():
                found[tp] = found.get(tp, 0) + (
                    len(batches) if way == "poll_batches" else sum(b.count for b in batches)
                )
        assert found == {TopicPartition("t", 0): 3, TopicPartition("t", 1): 2}


def test_seek_pause_and_drive_work_as_with_assign(make):
    w, consumer = make("t", auto_offset_reset="earliest")
    w.append(5, 0)
    w.append(5, 1)
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    began = w.clock.now()
    while not consumer.assignment():
        consumer.drive()
        assert w.clock.now() < began + 1 or consumer.wake_at() > w.clock.now(), "it spins"
        w.clock.advance(0.01)
    consumer.seek(one, OffsetAndMetadata(3))
    consumer.pause(other)
    assert w.read(consumer) == ["0:3", "0:4"] and consumer.paused() == {other}
    consumer.resume(other)
    consumer.seek_to_end(other)
    assert w.read(consumer) == [] and consumer.position(other) == 5
    assert consumer.lag() == {one: 0, other: 0}


def test_commits_need_a_group(make):
    w, consumer = make("t")
    w.read(consumer)
    with pytest.raises(IllegalStateError, match="pass group_id"):
        consumer.commit()
    with pytest.raises(IllegalStateError, match="pass group_id"):
        consumer.commit_async()


def test_a_listener_is_never_called_and_the_log_says_so(make, lines):
    class Listener:
        def on_partitions_assigned(self, assigned):
            raise AssertionError

        on_partitions_revoked = on_partitions_assigned

    w, consumer = make()
    consumer.subscribe(["t"], listener=Listener())
    w.read(consumer)
    consumer.unsubscribe()
    assert [line for line in lines() if "the listener of subscribe() is never called" in line]


def test_what_only_a_coordinator_can_match_is_refused(make):
    _, consumer = make()
    with pytest.raises(IllegalArgumentError, match="pass group_id"):
        consumer.subscribe(pattern=SubscriptionPattern("t.*"))
    assert consumer.subscription() == set()


# -- other topics and partitions


def test_a_subscription_and_assign_exclude_each_other(make):
    w, consumer = make()
    consumer.assign(tps("t-0"))
    with pytest.raises(IllegalStateError, match="unsubscribe"):
        consumer.subscribe(["t"])
    consumer.assign(tps("t-1"))
    w.read(consumer)
    assert consumer.assignment() == tps("t-1"), "metadata change nothing here"
    consumer.unsubscribe()
    consumer.subscribe(["t"])
    with pytest.raises(IllegalStateError, match="unsubscribe"):
        consumer.assign(tps("t-0"))
    w.read(consumer)
    assert consumer.assignment() == tps("t-0", "t-1")
    consumer.assign([])
    assert consumer.assignment() == consumer.subscription() == set()
    with pytest.raises(IllegalStateError, match="nothing to read"):
        consumer.poll(0)
    consumer.assign(tps("t-0"))
    assert consumer.assignment() == tps("t-0")


def test_another_subscription_replaces_the_first_at_once(make):
    w, consumer = make("t", known={"t": 1, "u": 1}, auto_offset_reset="earliest", max_poll_records=1)
    w.append(5, 0)
    w.append(1, 0, "u")
    assert len(consumer.poll(1000)) == 1
    consumer.subscribe(["u", "t"])
    assert consumer.position(TopicPartition("t", 0)) == 1, "what stays subscribed is read on"
    consumer.subscribe(["u"])
    assert {tp.topic for _ in range(3) for tp in consumer.poll(100)} == {"u"}
    consumer.subscribe(["t"])
    assert consumer.assignment() == tps("t-0"), "metadata are known"
    assert w.read(consumer)[0] == "0:0", "as after unsubscribe(), positions are forgotten"
    consumer.subscribe(["u"])
    consumer.subscribe(["t"])
    assert w.read(consumer)[0] == "0:0"


def test_after_ctrl_c_in_subscribe_the_next_poll_assigns(make, monkeypatch):
    w, consumer = make("t", known={"t": 1, "u": 1}, auto_offset_reset="earliest")
    w.read(consumer)
    consumer.subscribe(["u"])
    w.read(consumer)
    interrupt_next_assign(consumer, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        consumer.subscribe(["t"])
    consumer.drive()
    assert consumer.assignment() == tps("t-0")


def test_after_ctrl_c_in_unsubscribe_nothing_is_read(make, monkeypatch):
    w, consumer = make("t", auto_offset_reset="earliest")
    w.read(consumer)
    interrupt_next_assign(consumer, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        consumer.unsubscribe()
    w.append(1, 0)
    assert w.read(consumer, 0.1) == []
    assert consumer.assignment() == consumer.subscription() == set()


@pytest.mark.parametrize("known", [{"t": 1}, {}])
def test_unsubscribing_ends_everything(make, known):
    w, consumer = make("t", known=known)
    w.read(consumer)
    consumer.unsubscribe()
    sent = len(w.requests(MetadataRequest))
    for _ in range(100):
        consumer.drive()
        w.clock.advance(1)
    assert consumer.assignment() == set() and len(w.requests(MetadataRequest)) == sent
    assert consumer.health().state is HealthState.IDLE


@pytest.mark.parametrize("how", [{"topics": ["t"]}, {"pattern": "t.*"}])
def test_added_partitions_are_read_from_their_beginning_within_metadata_max_age(make, how):
    w, consumer = make(auto_offset_reset="latest")
    consumer.subscribe(**how)
    w.append(3, 0)
    assert w.read(consumer) == []
    w.append(1, 0)
    w.cluster.expand("t", 4)
    w.append(1, 2)
    w.append(2, 3)
    assert w.read(consumer, AGE / 1000 + 1) == ["0:3", "2:0", "3:0", "3:1"]
    assert consumer.assignment() == tps("t-0", "t-1", "t-2", "t-3")


def test_new_partition_offset_reset_says_where_added_partitions_begin(make):
    w, consumer = make("t", auto_offset_reset="latest", new_partition_offset_reset="latest")
    w.read(consumer)
    w.cluster.expand("t", 3)
    w.append(1, 2)
    assert w.read(consumer, AGE / 1000 + 1) == []


def test_a_pattern_follows_topics_as_they_come_and_go(make):
    w, consumer = make(known={"orders-eu": 1, "other": 1}, auto_offset_reset="latest")
    consumer.subscribe(pattern="orders-.*", exclude=".*-test")
    w.read(consumer)
    assert consumer.subscription() == {"orders-eu"}
    for name in ("orders-us", "orders-test"):
        w.cluster.create_topic(name, 1)
        w.append(1, 0, name)
    w.cluster.delete_topic("orders-eu")
    assert w.read(consumer, AGE / 1000 + 1) == ["0:0"]
    assert consumer.assignment() == tps("orders-us-0") and consumer.subscription() == {"orders-us"}
    w.cluster.delete_topic("orders-us")
    w.read(consumer, AGE / 1000 + 1)
    assert consumer.assignment() == set() and "no topic matches the pattern" in consumer.health().reason


def test_a_topic_that_does_not_exist_is_waited_for_and_read_from_its_beginning(make):
    w, consumer = make("t", "later", auto_offset_reset="latest")
    w.read(consumer)
    assert consumer.assignment() == tps("t-0", "t-1")
    assert consumer.health().state is HealthState.WORKING and "topic later" in consumer.health().reason
    w.cluster.create_topic("later", 1)
    w.append(2, 0, "later")
    assert w.read(consumer, 2.0) == ["0:0", "0:1"], "the wait ends with a backoff, not with metadata_max_age_ms"
    assert consumer.health().state is HealthState.OK


def test_a_topic_that_is_created_again_is_read_from_its_beginning(make):
    w, consumer = make("t", auto_offset_reset="latest")
    w.append(3, 0)
    w.read(consumer)
    w.cluster.delete_topic("t")
    w.read(consumer)
    assert consumer.assignment() == set()
    w.cluster.create_topic("t", 1)
    w.append(2, 0)
    assert w.read(consumer, 2.0) == ["0:0", "0:1"]
    assert consumer.assignment() == tps("t-0")


def test_metadata_are_refreshed_every_metadata_max_age(make):
    w, consumer = make("t")
    w.read(consumer, 60.0)
    assert 60_000 / AGE <= len(w.requests(MetadataRequest)) <= 60_000 / AGE + 2


def test_internal_topics_match_no_pattern_by_default(make):
    w, consumer = make(known={"t": 1})
    w.cluster.create_topic("__consumer_offsets", 1)
    consumer.subscribe(pattern=".*")
    w.read(consumer)
    assert consumer.subscription() == {"t"}
    assert consumer.config.exclude_internal_topics


# -- what is wrong


def test_a_missing_permission_is_raised_and_ends(make):
    w, consumer = make("t", auto_offset_reset="earliest")
    w.append(1, 0)
    rule = w.cluster.on("Metadata", EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"name": "t"}))
    with pytest.raises(TopicAuthorizationFailedError, match="t"):
        consumer.poll(1000)
    assert consumer.health().state is HealthState.STUCK
    with pytest.raises(TopicAuthorizationFailedError):
        list(consumer.read_to_end(1000))
    w.cluster.rules.remove(rule)
    assert w.read(consumer, 2.0) == ["0:0"]


def test_reading_to_the_end_waits_for_partitions_and_names_what_is_missing(make):
    w, consumer = make("t", "gone", auto_offset_reset="earliest")
    with pytest.raises(UnknownTopicOrPartitionError, match="gone"):
        list(consumer.read_to_end())
    consumer.subscribe(["t"])
    w.append(2, 1)
    assert [record.offset for record in consumer.read_to_end()] == [0, 1]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_reading_to_the_end_waits_for_a_topic_that_is_gone(make, is_deleted):
    w, consumer = make("t", "u", known={"t": 1, "u": 1}, auto_offset_reset="earliest")
    w.append(600, 0)
    found = []

    def read_slowly():
        for record in consumer.read_to_end(3000):
            found.append(record.offset)
            w.clock.advance(0.02)
            if len(found) == 1:
                w.cluster.delete_topic("t") if is_deleted else w.hide("t", times=1)
        return found

    if not is_deleted:
        assert read_slowly() == list(range(600))
        return
    with pytest.raises(KafkaTimeoutError, match="1 partitions behind.*'t'"):
        read_slowly()


@pytest.mark.parametrize("how", [{"topics": ["new"]}, {"pattern": "n.*"}, {"topics": ["t"]}])
@pytest.mark.parametrize("is_unsubscribed", [False, True])
def test_reading_to_the_end_knows_what_was_added_before_the_subscription(make, how, is_unsubscribed):
    w, consumer = make(auto_offset_reset="earliest", metadata_max_age_ms=300_000)
    consumer.subscribe(pattern="t.*")
    w.read(consumer)
    if is_unsubscribed:
        consumer.unsubscribe()
    w.cluster.create_topic("new", 1)
    w.append(2, 0, "new")
    w.cluster.expand("t", 3)
    w.append(2, 2, "t")
    consumer.subscribe(**how)
    assert [record.offset for record in consumer.read_to_end()] == [0, 1]


def test_health_waits_for_new_metadata_before_it_says_that_no_topic_matches(make):
    w, consumer = make()
    consumer.subscribe(pattern="t.*")
    w.read(consumer)
    consumer.subscribe(pattern="n.*")
    assert "no topic matches" not in consumer.health().reason
    w.read(consumer)
    assert "no topic matches" in consumer.health().reason


@pytest.mark.parametrize("how", [{"topics": ["t"]}, {"pattern": "t.*"}])
def test_without_metadata_reading_to_the_end_times_out_and_health_says_what_it_waits_for(make, how):
    w, consumer = make(request_timeout_ms=2000)
    consumer.subscribe(**how)
    w.cluster.on("Metadata", Silence())
    with pytest.raises(KafkaTimeoutError, match="subscribed topics are looked up"):
        list(consumer.read_to_end(500))
    assert "the partitions of the subscribed topics are looked up" in consumer.health().reason
    assert consumer.health().state is HealthState.WORKING
    consumer.poll(1500)
    assert consumer.health().state is HealthState.STUCK


def test_a_topic_without_a_leader_is_no_empty_one(make):
    """Reading to its end returned nothing otherwise, right after the topic was created."""
    w, consumer = make("t", auto_offset_reset="earliest")
    w.append(1, 0)
    w.cluster.on("Metadata", EntryError(Code.LEADER_NOT_AVAILABLE, {"name": "t"}), times=3)
    assert [record.offset for record in consumer.read_to_end()] == [0]


def test_an_iteration_over_a_topic_that_does_not_exist_ends(make):
    w, consumer = make("gone", consumer_timeout_ms=500)
    took, found = w.elapsed(lambda: list(consumer))
    assert found == [] and took < 1


def test_retriable_errors_of_subscribed_topics_are_obstacles(make):
    w, consumer = make("t")
    w.cluster.on("Metadata", EntryError(Code.LEADER_NOT_AVAILABLE, {"name": "t"}))
    consumer.poll(200)
    assert "LEADER_NOT_AVAILABLE" in consumer.health().reason


def test_rejected_metadata_are_asked_for_again(make):
    w, consumer = make(auto_offset_reset="earliest")
    consumer.subscribe(pattern=".*")
    w.append(1, 0)
    w.cluster.on("Metadata", Reply(Code.UNKNOWN_SERVER_ERROR), times=2)
    assert w.read(consumer, 3.0) == ["0:0"]


# -- brokers without topic ids


def test_brokers_without_topic_ids_are_read_too(make):
    w, consumer = make("t", "u", known={"t": 1, "u": 1}, auto_offset_reset="latest")
    w.cluster.set_versions(MetadataRequest, (0, 7))
    w.read(consumer)
    w.cluster.expand("t", 2)
    w.append(1, 1)
    w.cluster.delete_topic("u")
    assert w.read(consumer, AGE / 1000 + 1) == ["1:0"]
    assert consumer.assignment() == tps("t-0", "t-1")
    w.cluster.create_topic("u", 1)
    w.append(2, 0, "u")
    assert w.read(consumer, AGE / 1000 + 1) == ["0:0", "0:1"]
