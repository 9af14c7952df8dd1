"""Fetch on an in-memory cluster: records, limits, waiting, errors in Kafka's order, fetch sessions."""

import pytest

from thinconsumer.records.batches import split
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from thinconsumer_testing.broker.api.fetch import API

NAMES, IDS = 12, 18
T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster(new_cluster):
    return new_cluster(1, {"t": 3, "u": 1})


def fetch(cluster, *wanted, version=IDS, **more):
    """``wanted``: (topic, partition, offset, {more fields}), or a topic name for its partition 0 from offset 0."""
    request = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, **more}
    topics = []
    for one in wanted:
        topic, partition, offset, fields = ((one, 0, 0, {}) if isinstance(one, str) else (*one, {}))[:4]
        image = cluster.controller.image.topics.get(topic)
        topic_id = image.topic_id if image else b"?" * 16
        fields = {"partition_max_bytes": 1 << 20, **fields}
        row = FetchPartition(partition=partition, fetch_offset=offset, **fields)
        topics.append(FetchTopic(topic=topic, topic_id=topic_id if version > NAMES else bytes(16), partitions=[row]))
    return FetchRequest(topics=topics, **request)


def rows(answer):
    return [row for topic in answer.responses for row in topic.partitions]


def values(row):
    found, _ = split(memoryview(row.records or b""))
    return [record.value for batch in found for record in batch.decode("t", 0)]


def the_row(answer):
    assert answer.error_code == 0
    (row,) = rows(answer)
    return row


# -- reads


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_records_are_returned_in_every_version(cluster, client, version):
    cluster.produce("t", [b"a", b"b"])
    cluster.produce("t", [b"c"])
    answer = client.ask(fetch(cluster, "t", version=version), version)
    row = the_row(answer)
    told = [(topic.topic, topic.topic_id) for topic in answer.responses]
    assert told == [("t", bytes(16)) if version <= NAMES else ("", cluster.controller.image.topics["t"].topic_id)]
    assert (row.error_code, row.high_watermark, values(row)) == (0, 3, [b"a", b"b", b"c"])
    assert row.last_stable_offset == 3
    assert row.log_start_offset == (0 if version >= 5 else -1)
    assert row.aborted_transactions is None


@pytest.mark.parametrize("more", [0, 5, 11, 12, 30])
def test_incomplete_first_batch_is_omitted(cluster, client, more):
    """An empty partition leaves the bytes to the next one, which gets a whole batch even above all limits."""
    for partition in (0, 0, 1):
        cluster.produce("t", [b"x"], partition)
    size = cluster.leader(T0).log.size_bytes
    wanted = [("t", partition, 0) for partition in (2, 0, 1)]
    found = rows(client.ask(fetch(cluster, *wanted, max_bytes=size + more, isolation_level=1)))
    assert [len(row.records) for row in found] == [0, size, 0]
    assert found[2].aborted_transactions == (None if more else []), "as in Kafka"
    assert [len(row.records) for row in rows(client.ask(fetch(cluster, *wanted, max_bytes=1)))] == [0, size // 2, 0]


def test_read_committed_ends_before_ongoing_transactions_and_names_the_aborted_ones(cluster, client):
    """A long list is limited to the returned batches, else each response would contain the whole transaction index."""
    written = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    for producer in range(150):
        cluster.produce("t", [b"aborted"], producer_id=producer, **written)
    for producer in range(150):
        cluster.leader(T0).append_marker(producer, 0, False, 0, lambda code: None)
    for producer in (200, 201):
        cluster.produce("t", [b"ongoing"], producer_id=producer, **written)
    assert the_row(client.ask(fetch(cluster, "t"))).aborted_transactions is None

    def committed(offset, max_bytes=1 << 20):
        request = fetch(cluster, ("t", 0, offset, {"partition_max_bytes": max_bytes}), isolation_level=1)
        row = the_row(client.ask(request))
        return row, [one.first_offset for one in row.aborted_transactions]

    row, found = committed(0)
    assert (row.high_watermark, row.last_stable_offset, found) == (302, 300, list(range(150)))
    assert len(split(memoryview(row.records))[0]) == 300
    size = len(next(cluster.leader(T0).log.batches_from(0)).data)
    assert committed(0, size + 30)[1] == [0, 1], "the batch that is cut off counts, as its header is there"
    assert committed(300)[1] == []


def test_broker_fetch_max_bytes_applies(new_cluster, client_of):
    cluster = new_cluster(1, {"t": 3}, fetch_max_bytes=10)
    for partition in range(3):
        cluster.produce("t", [b"x" * 100], partition)
    answer = client_of(cluster, 1).ask(fetch(cluster, *[("t", partition, 0) for partition in range(3)]))
    assert [bool(row.records) for row in rows(answer)] == [True, False, False]


def test_adjacent_partitions_share_a_topic_entry_in_request_order(cluster, client):
    answer = client.ask(fetch(cluster, ("t", 2, 0), ("t", 0, 0), "u", ("t", 1, 0)))
    assert [[row.partition_index for row in topic.partitions] for topic in answer.responses] == [[2, 0], [0], [1]]


# -- partition errors


def failure(answer):
    row = the_row(answer)
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset, bytes(row.records)) == (-1, -1, -1, b"")
    return row.error_code


@pytest.mark.parametrize(
    ("wanted", "version", "code"),
    [
        (("t", 0, -1), IDS, Code.OFFSET_OUT_OF_RANGE),
        (("t", 0, 0, {"partition_max_bytes": -1}), IDS, Code.UNKNOWN_SERVER_ERROR),
    ],
)
def test_unreadable_partitions_have_an_error_code(cluster, client, wanted, version, code):
    cluster.produce("t", [b"a", b"b"])
    assert failure(client.ask(fetch(cluster, wanted, version=version), version)) == code


def test_partition_error_does_not_affect_other_partitions(cluster, client):
    cluster.produce("t", [b"a"])
    answer = client.ask(fetch(cluster, "missing", ("t", 1, 9), "t", version=NAMES), NAMES)
    found = [(row.error_code, row.aborted_transactions) for row in rows(answer)]
    assert found == [(Code.OFFSET_OUT_OF_RANGE, None), (0, None), (Code.UNKNOWN_TOPIC_OR_PARTITION, [])]


def test_recreated_topic_is_unknown_by_its_old_id(cluster, client):
    old = fetch(cluster, "t")
    cluster.delete_topic("t")
    cluster.create_topic("t", 1)
    assert failure(client.ask(old)) == Code.UNKNOWN_TOPIC_ID


def test_session_reports_inconsistent_topic_id_after_recreation(cluster, client):
    session_id = client.ask(fetch(cluster, "t", session_epoch=0)).session_id
    cluster.delete_topic("t")
    gone = client.ask(FetchRequest(session_id=session_id, session_epoch=1))
    cluster.create_topic("t", 1)
    other = client.ask(FetchRequest(session_id=session_id, session_epoch=2))
    assert [failure(gone), failure(other)] == [Code.UNKNOWN_TOPIC_OR_PARTITION, Code.INCONSISTENT_TOPIC_ID]


# -- leaders


@pytest.fixture
def three(new_cluster):
    cluster = new_cluster(3, racks=["a", "b", "c"], default_replication_factor=3)
    cluster.create_topic("t", 1, 3)
    return cluster


def leader_of(cluster):
    return cluster.leader(T0).node.node_id


@pytest.mark.parametrize(
    ("version", "epoch", "code", "hint"),
    [
        (10, -1, Code.NOT_LEADER_OR_FOLLOWER, False),
        (10, 0, Code.FENCED_LEADER_EPOCH, False),
        (15, 0, Code.FENCED_LEADER_EPOCH, False),
        (16, 0, Code.FENCED_LEADER_EPOCH, True),
        (16, 7, Code.UNKNOWN_LEADER_EPOCH, False),
        (16, -2, Code.FENCED_LEADER_EPOCH, True),
    ],
)
def test_former_leader_returns_the_current_leader_from_version_16_on(three, client_of, version, epoch, code, hint):
    old = leader_of(three)
    new = three.move_leader(T0)
    request = fetch(three, ("t", 0, 0, {"current_leader_epoch": epoch}), version=version)
    answer = client_of(three, old).ask(request, version)
    row = the_row(answer)
    assert row.error_code == code
    told = (row.current_leader.leader_id, row.current_leader.leader_epoch)
    endpoints = [(one.node_id, one.host, one.port, one.rack) for one in answer.node_endpoints]
    node = three.nodes[new]
    assert told == ((new, 1) if hint else (-1, -1))
    assert endpoints == ([(new, node.host, node.port, node.rack)] if hint else [])


def test_broker_without_replica_returns_the_leader_from_its_image(new_cluster, client_of):
    cluster = new_cluster(2)
    cluster.create_topic("t", 1, 1)
    leader = leader_of(cluster)
    answer = client_of(cluster, 3 - leader).ask(fetch(cluster, "t"))
    row = the_row(answer)
    assert (row.error_code, row.current_leader.leader_id) == (Code.NOT_LEADER_OR_FOLLOWER, leader)
    assert [one.node_id for one in answer.node_endpoints] == [leader]
    cluster.kill(leader, noticed_after_s=0)
    answer = client_of(cluster, 3 - leader).ask(fetch(cluster, "t"))
    assert (the_row(answer).current_leader.leader_id, answer.node_endpoints) == (-1, [])


@pytest.mark.parametrize("changes", [0, 1])
def test_no_leader_is_named_once_the_partition_count_of_an_ordered_topic_has_changed(new_cluster, client_of, changes):
    """The hint lacks the count: the client could fetch with the new leader epoch and the old count."""
    cluster = new_cluster(2)
    cluster.create_topic("t", 1, 1, {"enable.ordered.delivery": "true"})
    for _ in range(changes):
        cluster.expand("t", 2)
    leader = leader_of(cluster)
    row = the_row(client_of(cluster, 3 - leader).ask(fetch(cluster, "t")))
    assert (row.error_code, row.current_leader.leader_id) == (Code.NOT_LEADER_OR_FOLLOWER, -1 if changes else leader)


def test_followers_serve_consumers_from_version_11_on(three, client_of):
    """KIP-392: from version 11 on, up to the follower's own high watermark."""
    three.produce("t", [b"a"])
    follower = next(n for n in three.nodes if n != leader_of(three))
    client = client_of(three, follower)
    assert values(the_row(client.ask(fetch(three, "t", version=11), 11))) == [b"a"]
    assert failure(client.ask(fetch(three, "t", version=10), 10)) == Code.NOT_LEADER_OR_FOLLOWER


def test_replica_in_the_clients_rack_is_preferred(three, client_of):
    three.produce("t", [b"a"])
    leader = three.nodes[leader_of(three)]
    client = client_of(three, leader.node_id)
    for node in three.nodes.values():
        row = the_row(client.ask(fetch(three, "t", rack_id=node.rack)))
        is_leader = node is leader
        assert row.preferred_read_replica == (-1 if is_leader else node.node_id)
        assert values(row) == ([b"a"] if is_leader else [])
        assert (row.error_code, row.high_watermark) == (0, 1)
    assert values(the_row(client.ask(fetch(three, "t", rack_id="elsewhere")))) == [b"a"]


def test_preferred_replica_is_live_and_in_sync_and_has_the_most_records(new_cluster, client_of):
    cluster = new_cluster(3, racks=["a", "b", "b"])
    cluster.controller.create_topic("t", assignment={0: (1, 2, 3)})
    cluster.cut(1, 3)
    cluster.produce("t", [b"x"])
    leader = cluster.leader(T0)

    def preferred(offset):
        return the_row(client_of(cluster, 1).ask(fetch(cluster, ("t", 0, offset), rack_id="b"))).preferred_read_replica

    assert [preferred(0), preferred(1), preferred(2)] == [2, 2, -1]
    leader.image = leader.image._replace(isr=(1, 3))
    assert [preferred(0), preferred(1)] == [3, -1]
    del cluster.nodes[1].image.brokers[3]
    assert preferred(0) == -1


def test_consumers_get_committed_records_only(new_cluster, client_of):
    cluster = new_cluster(2, replication_s=5.0)
    cluster.create_topic("t", 1, 2)
    cluster.advance(10)
    cluster.produce("t", [b"a"])
    client = client_of(cluster, leader_of(cluster))
    row = the_row(client.ask(fetch(cluster, "t")))
    assert (row.high_watermark, values(row)) == (0, [])
    row = the_row(client.ask(fetch(cluster, ("t", 0, 1), max_wait_ms=10_000)))
    assert (row.error_code, row.high_watermark) == (0, 0), "as in Kafka, for which the log is truncated"
    follower = 3 - leader_of(cluster)
    answer = client.ask(fetch(cluster, "t", replica_state=ReplicaState(replica_id=follower)))
    assert values(the_row(answer)) == [b"a"], "followers read what is not committed yet"
    for stranger in (7, leader_of(cluster)):
        answer = client.ask(fetch(cluster, "t", replica_state=ReplicaState(replica_id=stranger)))
        assert failure(answer) == Code.NOT_LEADER_OR_FOLLOWER
        assert answer.node_endpoints == [], "followers get no addresses"


def test_diverging_epoch_is_returned_with_its_end_offset(three, client_of):
    three.produce("t", [b"a", b"b"])
    three.move_leader(T0)
    three.produce("t", [b"c"])
    client = client_of(three, leader_of(three))

    def asked(offset, epoch, version=12):
        request = fetch(three, ("t", 0, offset, {"last_fetched_epoch": epoch}), version=version)
        return the_row(client.ask(request, version))

    parted = asked(3, 0)
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (0, 2)
    assert (parted.error_code, bytes(parted.records)) == (0, b"")
    assert asked(2, 0).diverging_epoch.epoch == -1
    assert values(asked(2, 1)) == [b"c"]
    assert asked(3, 5).error_code == Code.OFFSET_OUT_OF_RANGE, "epoch 5 is above the leader's epoch"
    assert asked(-1, 1).error_code == Code.OFFSET_OUT_OF_RANGE


# -- waiting appends


@pytest.fixture
def parked(cluster, client):
    """``parked(*wanted, ...)``: sends a fetch that waits for data."""

    def park(*wanted, **more):
        client.send(fetch(cluster, *wanted, **{"max_wait_ms": 500, **more}))
        cluster.advance(cluster.schedule.now)
        assert client.answers() == []

    return park


def settle(cluster, client):
    cluster.advance(cluster.schedule.now)
    return client.answers()


def test_fetch_below_min_bytes_waits_for_max_wait(cluster, client, parked):
    parked("t", min_bytes=1000)
    cluster.produce("t", [b"a"])
    cluster.advance(0.499)
    assert client.answers() == []
    cluster.advance(0.5)
    (answer,) = client.answers()
    assert (the_row(answer).error_code, values(the_row(answer))) == (0, [b"a"])


@pytest.mark.parametrize("more", [{"max_wait_ms": 0}, {"max_wait_ms": -5}, {"min_bytes": 0}, {"max_bytes": 0}])
def test_fetch_with_zero_max_wait_is_answered_immediately(cluster, client, more):
    assert client.ask(fetch(cluster, "t", **{"max_wait_ms": 500, **more})).error_code == 0


def test_records_appended_together_are_returned_together(cluster, client, parked):
    parked("t", "u")
    for partition in range(3):
        cluster.produce("t", [b"x"], partition)
    cluster.produce("u", [b"a"])
    (answer,) = settle(cluster, client)
    assert [len(values(row)) for row in rows(answer)] == [1, 1]


def test_bytes_above_the_partition_limit_do_not_count_and_others_count_once(cluster, client, parked):
    parked(("t", 0, 0, {"partition_max_bytes": 1000}), "u", min_bytes=1500)
    for _ in range(2):
        cluster.produce("t", [b"x" * 2000])
    cluster.produce("u", [b"y" * 300])
    cluster.leader(TopicPartition("u", 0)).notify_listeners()
    assert settle(cluster, client) == []
    cluster.produce("u", [b"y" * 300])
    assert len(settle(cluster, client)) == 1


@pytest.mark.parametrize(
    ("happening", "code"),
    [
        (lambda cluster: cluster.delete_records(T0, 2), Code.OFFSET_OUT_OF_RANGE),
        (lambda cluster: cluster.delete_topic("t"), Code.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda cluster: cluster.leader(T0).truncate_to(0), Code.OFFSET_OUT_OF_RANGE),
        (lambda cluster: cluster.leader(T0).log.epochs.assign(1, 0), 0),  # the reader's epoch has diverged
    ],
)
def test_events_complete_a_fetch(cluster, client, parked, happening, code):
    cluster.produce("t", [b"a"])
    parked(("t", 0, 1, {"last_fetched_epoch": 0}), min_bytes=1000, max_wait_ms=5000)
    cluster.produce("t", [b"b"])
    replica = cluster.leader(T0)
    replica.notify_listeners()
    assert settle(cluster, client) == []
    happening(cluster)
    replica.notify_listeners()
    (answer,) = settle(cluster, client)
    assert the_row(answer).error_code == code
    assert the_row(answer).diverging_epoch.epoch == (-1 if code else 0)


@pytest.mark.parametrize(
    ("version", "epoch", "codes"),
    [(10, -1, [Code.NOT_LEADER_OR_FOLLOWER]), (IDS, 0, [Code.FENCED_LEADER_EPOCH]), (IDS, -1, [])],
)
def test_leader_change_completes_a_fetch(three, client_of, version, epoch, codes):
    client = client_of(three, leader_of(three))
    request = fetch(three, ("t", 0, 0, {"current_leader_epoch": epoch}), version=version, max_wait_ms=5000)
    client.send(request, version)
    new = three.move_leader(T0)
    found = [the_row(answer) for answer in settle(three, client)]
    assert [row.error_code for row in found] == codes
    assert all(row.current_leader.leader_id == new for row in found if version == IDS)


def test_high_watermark_completes_a_fetch_not_the_append(new_cluster, client_of):
    cluster = new_cluster(2, replication_s=1.0)
    cluster.create_topic("t", 1, 2)
    cluster.advance(10)
    client = client_of(cluster, leader_of(cluster))
    client.send(fetch(cluster, "t", max_wait_ms=60_000))
    follower = client_of(cluster, leader_of(cluster))
    of_follower = ReplicaState(replica_id=3 - leader_of(cluster))
    follower.send(fetch(cluster, "t", max_wait_ms=60_000, replica_state=of_follower))
    cluster.produce("t", [b"a"])
    assert settle(cluster, client) == []
    assert values(the_row(follower.answers()[0])) == [b"a"], "followers wait for the log end"
    cluster.advance(13)
    (answer,) = client.answers()
    assert values(the_row(answer)) == [b"a"]


@pytest.mark.parametrize("is_due", [False, True])
def test_disconnect_cancels_a_waiting_fetch(cluster, client, parked, is_due):
    """Otherwise a fetch with a max_wait of weeks would be kept that long."""
    parked("t", max_wait_ms=2**31 - 1)
    if is_due:
        cluster.produce("t", [b"a"])
    client.connection.connection_lost()
    assert not cluster.nodes[1].partitions[T0]._listeners
    cluster.produce("t", [b"a"])
    assert settle(cluster, client) == []


# -- sessions


def test_session_continues_over_another_connection(cluster, client, client_of):
    session_id = client.ask(fetch(cluster, "t", session_epoch=0)).session_id
    client.connection.connection_lost()
    cluster.produce("t", [b"a"])
    answer = client_of(cluster, 1).ask(FetchRequest(session_id=session_id, session_epoch=1, min_bytes=1))
    assert values(the_row(answer)) == [b"a"]


# -- ordered delivery (KIP-253)


@pytest.fixture
def ordered(three):
    """The topic "o" was expanded to four partitions."""
    three.create_topic("o", 2, 3, {"enable.ordered.delivery": "true"})
    three.expand("o", 4)
    three.produce("o", [b"a"], 1)
    return three


@pytest.fixture
def reader(ordered, client_of):
    """``reader(partition=1, of_leader=True)``: a client of the partition's leader, or of a follower (KIP-392)."""

    def connect(partition=1, *, of_leader=True):
        leader = ordered.leader(TopicPartition("o", partition)).node.node_id
        return client_of(ordered, leader if of_leader else leader % 3 + 1)

    return connect


def counted(cluster, count, version=IDS, offset=0, partition=1, topic="o", **more):
    wanted = (topic, partition, offset, {"undeleted_partition_count": count})
    return fetch(cluster, wanted, version=version, **more)


def assert_fenced(answer):
    row = the_row(answer)
    assert (row.error_code, row.records) == (Code.INVALID_PARTITION_METADATA, b"")


@pytest.mark.parametrize("of_leader", [True, False])
@pytest.mark.parametrize("version", [NAMES, IDS])
def test_another_partition_count_is_rejected(ordered, reader, version, of_leader):
    client = reader(of_leader=of_leader)
    for count in (0, 2, 3, 5):
        assert_fenced(client.ask(counted(ordered, count, version), version))
    for count in (4, -1):
        assert values(the_row(client.ask(counted(ordered, count, version), version))) == [b"a"]
    ordered.create_topic("plain", 2, 3)
    assert_fenced(client.ask(counted(ordered, 2, version, topic="plain"), version))


def test_a_partition_marked_for_deletion_is_read_with_the_new_count(ordered, reader):
    ordered.produce("o", [b"z"], 3)
    ordered.shrink("o", 3)
    client = reader(3)
    assert values(the_row(client.ask(counted(ordered, 3, partition=3)))) == [b"z"]
    assert_fenced(client.ask(counted(ordered, 4, partition=3)))


@pytest.mark.parametrize("of_leader", [True, False])
@pytest.mark.parametrize("change", ["expand", "shrink"])
def test_a_waiting_fetch_is_fenced_when_the_count_changes(ordered, reader, change, of_leader):
    """Otherwise it would return the first records with the new count to a consumer that holds none of them."""
    client = reader(of_leader=of_leader)
    client.send(counted(ordered, 4, offset=1, max_wait_ms=5000))
    assert client.answers() == []
    getattr(ordered, change)("o", 5 if change == "expand" else 3)
    ordered.advance(ordered.schedule.now + 0.1)
    assert_fenced(*client.answers())


def test_a_fetch_that_is_about_to_complete_is_fenced_too(ordered, reader):
    client = reader()
    client.send(counted(ordered, 4, offset=1, max_wait_ms=5000))
    ordered.produce("o", [b"old count"], 1)
    ordered.expand("o", 5)
    ordered.produce("o", [b"new count"], 1)
    assert_fenced(*settle(ordered, client))


def test_a_session_repeats_the_error_until_the_count_is_right(ordered, reader):
    client = reader()
    first = client.ask(counted(ordered, 4, session_epoch=0))
    assert values(the_row(first)) == [b"a"]
    ordered.expand("o", 5)
    assert_fenced(client.ask(FetchRequest(session_id=first.session_id, session_epoch=1)))
    third = counted(ordered, 5, session_id=first.session_id, session_epoch=2)
    assert values(the_row(client.ask(third))) == [b"a"]
