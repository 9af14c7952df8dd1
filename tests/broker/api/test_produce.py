"""Produce on an in-memory cluster: acks, errors in Kafka's order, waiting, transaction verification."""

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from thinconsumer_testing.broker.api.produce import API

NAMES, IDS = 12, 13
T0 = TopicPartition("t", 0)


def batch(*values, **more):
    return build_batch([NewRecord(value, timestamp=1_700_000_000_000) for value in values or (b"a",)], **more)


@pytest.fixture
def cluster(new_cluster):
    return new_cluster(1, {"t": 3})


def produce(cluster, *wanted, version=IDS, acks=-1, timeout_ms=1000, transactional_id=None):
    """``wanted``: (topic, partition, bytes)."""
    topics = {}
    for name, partition, data in wanted or [("t", 0, batch())]:
        image = cluster.controller.image.topics.get(name)
        topic_id = image.topic_id if image else b"?" * 16
        topic = topics.setdefault(
            name, TopicProduceData(name=name, topic_id=topic_id if version >= IDS else bytes(16), partition_data=[])
        )
        topic.partition_data.append(PartitionProduceData(index=partition, records=data))
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values())
    )


def rows(answer):
    return [row for topic in answer.responses for row in topic.partition_responses]


def the_row(answer):
    (row,) = rows(answer)
    return row


def refusal(answer):
    row = the_row(answer)
    assert row.base_offset == -1
    return row.error_code


def end_of(cluster, tp=T0):
    return cluster.leader(tp).log.end_offset


# -- appends


@pytest.mark.parametrize("version", range(3, API.highest + 1))
@pytest.mark.parametrize("acks", [-1, 1])
def test_batch_is_appended_in_every_version(cluster, client, version, acks):
    assert the_row(client.ask(produce(cluster, version=version, acks=acks), version)).base_offset == 0
    request = produce(cluster, ("t", 0, batch(b"a", b"b")), version=version, acks=acks)
    answer = client.ask(request, version)
    row = the_row(answer)
    topic_id = cluster.controller.image.topics["t"].topic_id
    named = [(topic.name, topic.topic_id) for topic in answer.responses]
    assert named == [("t", bytes(16)) if version <= NAMES else ("", topic_id)]
    assert (row.index, row.error_code, row.base_offset, row.log_append_time_ms) == (0, 0, 1, -1)
    assert row.log_start_offset == (0 if version >= 5 else -1)
    assert end_of(cluster) == 3


def test_log_append_time_is_returned(new_cluster, client_of):
    cluster = new_cluster()
    cluster.create_topic("t", 1, configs={"message.timestamp.type": "LogAppendTime"})
    client = client_of(cluster, 1)
    assert the_row(client.ask(produce(cluster))).log_append_time_ms == 1_700_000_000_000
    cluster.delete_records(T0, 1)
    assert the_row(client.ask(produce(cluster))).log_start_offset == 1


# -- acks=0


@pytest.mark.parametrize(
    "wanted", [("missing", 0, batch()), ("t", 9, batch()), ("t", 0, b""), ("t", 0, None), ("t", 0, batch()[:-1] + b"?")]
)
def test_acks_0_error_closes_the_connection(cluster, client, wanted):
    """The closed connection makes the producer refresh its metadata."""
    client.send(produce(cluster, ("t", 1, batch()), wanted, acks=0))
    assert (client.answers(), client.closed, client.broken) == ([], True, False)


# -- refused


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"short", Code.INVALID_RECORD),
        (batch()[:16], Code.INVALID_RECORD),
        (bytes(8) + b"\0\0\0\1" + bytes(50), Code.CORRUPT_MESSAGE),
        (bytes(8) + b"\xff\xff\xff\xff" + bytes(50), Code.CORRUPT_MESSAGE),
        (bytes(8) + b"\0\0\0\x20" + b"\0\0\0\0\2" + bytes(27), Code.CORRUPT_MESSAGE),
        (bytes(8) + b"\0\0\0\x20" + b"\0\0\0\0\3" + bytes(27), Code.CORRUPT_MESSAGE),
    ],
)
@pytest.mark.parametrize("version", [3, IDS])
def test_data_without_exactly_one_batch_is_rejected(cluster, client, data, code, version):
    assert refusal(client.ask(produce(cluster, ("t", 0, data), version=version), version)) == code
    assert end_of(cluster) == 0


@pytest.mark.parametrize(
    ("wanted", "version", "code"),
    [
        (("missing", 0, batch()), NAMES, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (("missing", 0, batch()), IDS, Code.UNKNOWN_TOPIC_ID),
        (("missing", 0, b"rubbish"), IDS, Code.UNKNOWN_TOPIC_ID),
        (("t", 3, b"rubbish"), IDS, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", -1, batch()), IDS, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_unknown_partitions_are_rejected(cluster, client, wanted, version, code):
    assert refusal(client.ask(produce(cluster, wanted, version=version), version)) == code


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_values_are_rejected(cluster, client, acks):
    answer = client.ask(produce(cluster, ("t", 0, batch()), ("t", 1, b"rubbish"), acks=acks))
    assert [row.error_code for row in rows(answer)] == [Code.INVALID_REQUIRED_ACKS, Code.INVALID_RECORD]
    assert end_of(cluster) == 0


def test_null_data_fails_every_partition(cluster, client):
    answer = client.ask(produce(cluster, ("t", 0, batch()), ("t", 1, None)))
    assert [row.error_code for row in rows(answer)] == [Code.UNKNOWN_SERVER_ERROR] * 2
    assert end_of(cluster) == 0


def test_internal_topics_are_rejected(cluster, client):
    cluster.controller.ensure_internal_topic("__consumer_offsets")
    assert refusal(client.ask(produce(cluster, ("__consumer_offsets", 0, batch())))) == Code.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_0_to_2_close_the_connection(cluster, client, version):
    assert API.lowest == 0
    client.send(produce(cluster, version=version), version)
    assert (client.answers(), client.closed, end_of(cluster)) == ([], True, 0)


# -- leaders and replicas


def leader_of(cluster):
    return cluster.leader(T0).node.node_id


@pytest.mark.parametrize(("version", "hint"), [(9, False), (10, True), (IDS, True)])
def test_current_leader_is_returned_from_version_10_on(new_cluster, client_of, version, hint):
    cluster = new_cluster(2, racks=["a", None])
    cluster.create_topic("t", 1, 1)
    leader = cluster.nodes[leader_of(cluster)]
    answer = client_of(cluster, 3 - leader.node_id).ask(produce(cluster, version=version), version)
    row = the_row(answer)
    assert row.error_code == Code.NOT_LEADER_OR_FOLLOWER
    told = (row.current_leader.leader_id, row.current_leader.leader_epoch)
    assert told == ((leader.node_id, 0) if hint else (-1, -1))
    endpoints = [(one.node_id, one.host, one.port, one.rack) for one in answer.node_endpoints]
    assert endpoints == ([(leader.node_id, leader.host, leader.port, leader.rack)] if hint else [])


@pytest.fixture
def slow(new_cluster):
    """Two brokers; the follower is seconds behind."""
    cluster = new_cluster(2, replication_s=2.0)
    cluster.create_topic("t", 2, 2)
    cluster.advance(20)
    return cluster


def test_acks_all_waits_for_the_isr(slow, client_of):
    client = client_of(slow, leader_of(slow))
    client.send(produce(slow, timeout_ms=10_000))
    assert client.answers() == []
    slow.advance(24)
    (answer,) = client.answers()
    assert (the_row(answer).error_code, the_row(answer).base_offset) == (0, 0)


@pytest.mark.parametrize(("timeout_ms", "now"), [(500, 20.5), (0, 20), (-1, 20)])
def test_timed_out_append_returns_its_offset(slow, client_of, timeout_ms, now):
    client = client_of(slow, leader_of(slow))
    client.send(produce(slow, timeout_ms=timeout_ms))
    slow.advance(now)
    (answer,) = client.answers()
    assert (the_row(answer).error_code, the_row(answer).base_offset) == (Code.REQUEST_TIMED_OUT, 0)
    assert end_of(slow) == 1


def test_leader_change_fails_waiting_appends(slow, client_of):
    leader = leader_of(slow)
    client = client_of(slow, leader)
    client.send(produce(slow, timeout_ms=10_000))
    slow.move_leader(T0)
    (answer,) = client.answers()
    assert (the_row(answer).error_code, the_row(answer).base_offset) == (Code.NOT_LEADER_OR_FOLLOWER, 0)
    assert the_row(answer).current_leader.leader_id == 3 - leader


def test_isr_below_minimum_rejects_before_the_append(new_cluster, client_of):
    cluster = new_cluster(2)
    cluster.create_topic("t", 1, 2, {"min.insync.replicas": "2"})
    leader = leader_of(cluster)
    cluster.kill(3 - leader, noticed_after_s=0)
    client = client_of(cluster, leader)
    row = the_row(client.ask(produce(cluster)))
    assert (row.error_code, row.base_offset, row.log_start_offset) == (Code.NOT_ENOUGH_REPLICAS, -1, 0)
    assert end_of(cluster) == 0
    assert the_row(client.ask(produce(cluster, acks=1))).error_code == 0
    assert cluster.leader(T0).high_watermark == 0, "under the minimum nothing becomes visible (KIP-966)"


def test_response_waits_for_the_slowest_partition(slow, client_of):
    other = TopicPartition("t", 1)
    slow.move_leader(other, leader_of(slow))
    client = client_of(slow, leader_of(slow))
    client.send(produce(slow, ("t", 0, batch()), ("t", 1, b"rubbish"), timeout_ms=10_000))
    assert client.answers() == []
    slow.advance(24)
    (answer,) = client.answers()
    assert [row.error_code for row in rows(answer)] == [0, Code.INVALID_RECORD]


def test_append_takes_effect_after_disconnect(slow, client_of):
    client = client_of(slow, leader_of(slow))
    client.send(produce(slow, timeout_ms=10_000))
    client.connection.connection_lost()
    slow.advance(24)
    assert (client.answers(), slow.leader(T0).high_watermark) == ([], 1)


# -- transactions


def transactional(producer_id=7, **more):
    return batch(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True, **more)


def test_transactional_batch_needs_a_transactional_id(cluster, client):
    answer = client.ask(produce(cluster, ("t", 0, transactional()), ("t", 1, batch())))
    assert [row.error_code for row in rows(answer)] == [Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2


def test_request_with_two_producers_is_rejected(cluster, client):
    wanted = [("t", 0, transactional(7)), ("t", 1, transactional(8))]
    answer = client.ask(produce(cluster, *wanted, transactional_id="x"))
    assert [row.error_code for row in rows(answer)] == [Code.INVALID_PRODUCER_ID_MAPPING] * 2


class Coordinator:
    """A transaction coordinator that returns the same code for every partition."""

    def __init__(self, code):
        self.code = code
        self.asked = []

    def add_or_verify(self, transactional_id, producer, tps, done, *, client_version, verify_only):
        self.asked.append((transactional_id, *producer, list(tps), not verify_only))
        done({tp: self.code for tp in tps if self.code})


@pytest.mark.parametrize(
    ("version", "add", "said", "told"),
    [
        (12, True, 0, 0),
        (11, False, 0, 0),
        (12, True, Code.INVALID_TXN_STATE, Code.INVALID_TXN_STATE),
        (11, False, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_ENOUGH_REPLICAS),
    ],
)
def test_first_transactional_write_is_verified(cluster, client, version, add, said, told):
    cluster.controller.ensure_internal_topic("__transaction_state")
    coordinator = cluster.nodes[1].transaction_coordinator = Coordinator(said)
    request = produce(cluster, ("t", 0, transactional()), ("t", 1, batch()), version=version, transactional_id="x")
    answer = client.ask(request, version)
    assert [row.error_code for row in rows(answer)] == [told, 0], "only the transactional batch is verified"
    assert coordinator.asked == [("x", 7, 0, [T0], add)]
    assert end_of(cluster) == (0 if told else 1)


@pytest.mark.parametrize(("version", "first"), [(11, Code.NONE), (12, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_unknown_producer_of_version_12_must_start_at_sequence_0(cluster, client, version, first):
    """Observed on Kafka 4.3. With older versions the producer's earlier batches may have been deleted, so any start is
    valid.
    """
    cluster.controller.ensure_internal_topic("__transaction_state")
    cluster.nodes[1].transaction_coordinator = Coordinator(0)
    for sequence, code in ((5, first), (0, Code.NONE) if first else (6, Code.NONE)):
        data = batch(producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
        answer = client.ask(produce(cluster, ("t", 0, data), version=version, transactional_id="x"), version)
        assert the_row(answer).error_code == code


def test_partition_led_elsewhere_is_not_verified(new_cluster, client_of):
    cluster = new_cluster(2)
    cluster.create_topic("t", 1, 1)
    other = 3 - leader_of(cluster)
    coordinator = cluster.nodes[other].transaction_coordinator = Coordinator(0)
    answer = client_of(cluster, other).ask(produce(cluster, ("t", 0, transactional()), transactional_id="x"))
    assert the_row(answer).error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert coordinator.asked == []


# -- ordered delivery (KIP-253)


@pytest.fixture
def ordered(cluster):
    cluster.create_topic("o", 2, 1, {"enable.ordered.delivery": "true"})
    cluster.expand("o", 4)
    return cluster


def counted(cluster, partition, count, version=IDS, acks=-1):
    request = produce(cluster, ("o", partition, batch()), version=version, acks=acks)
    request.topic_data[0].undeleted_partition_count = count
    return request


@pytest.mark.parametrize("version", [9, NAMES, IDS])
def test_producers_with_another_partition_count_are_rejected(ordered, client, version):
    for count in (0, 2, 3, 5):
        assert refusal(client.ask(counted(ordered, 1, count, version), version)) == Code.INVALID_PARTITION_METADATA
    assert the_row(client.ask(counted(ordered, 1, 4, version), version)).error_code == 0
    assert end_of(ordered, TopicPartition("o", 1)) == 1
    request = produce(ordered, version=version)
    request.topic_data[0].undeleted_partition_count = 3
    assert refusal(client.ask(request, version)) == Code.INVALID_PARTITION_METADATA, "the topic has no such counts"


def test_producers_without_a_count_write_to_every_partition(ordered, client):
    ordered.shrink("o", 3)
    for partition in range(4):
        assert the_row(client.ask(produce(ordered, ("o", partition, batch())))).error_code == 0


def test_partitions_marked_for_deletion_accept_no_count(ordered, client):
    ordered.shrink("o", 3)
    for count in (2, 3, 4):
        assert refusal(client.ask(counted(ordered, 3, count))) == Code.INVALID_PARTITION_METADATA
    assert the_row(client.ask(counted(ordered, 2, 3))).error_code == 0


def test_a_broker_that_does_not_lead_the_partition_says_so_first(new_cluster, client_of):
    """The producer then finds the leader before it finds the count."""
    cluster = new_cluster(2)
    cluster.create_topic("o", 2, 1, {"enable.ordered.delivery": "true"})
    other = 3 - cluster.controller.image.partition("o", 0).leader
    assert refusal(client_of(cluster, other).ask(counted(cluster, 0, 7))) == Code.NOT_LEADER_OR_FOLLOWER


def test_a_batch_is_rejected_for_good_once_an_earlier_leader_that_may_have_it_has_followed(new_cluster, client_of):
    """If that leader were elected again before, the batch would be in the log, and not only where it was moved to."""
    cluster = new_cluster(2, replication_s=1.0)
    cluster.create_topic("o", 1, 2, {"enable.ordered.delivery": "true"})
    place = TopicPartition("o", 0)
    cluster.advance(5.0)
    clients = {node_id: client_of(cluster, node_id) for node_id in (1, 2)}
    request = counted(cluster, 0, 1)
    request.topic_data[0].partition_data[0].records = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    request.timeout_ms = 10_000
    first = cluster.controller.image.partition(*place).leader
    clients[first].send(request)
    cluster.move_leader(place)
    cluster.expand("o", 2)
    (answer,) = clients[first].answers()
    assert (the_row(answer).error_code, the_row(answer).base_offset) == (Code.NOT_LEADER_OR_FOLLOWER, 0)
    second = clients[3 - first]
    assert refusal(second.ask(request)) == Code.NOT_ENOUGH_REPLICAS
    assert cluster.nodes[first].partitions[place].log.end_offset == 1
    cluster.advance(10.0)
    assert refusal(second.ask(request)) == Code.INVALID_PARTITION_METADATA
    assert cluster.nodes[first].partitions[place].log.end_offset == 0


def test_batches_of_topics_with_and_without_a_count_are_judged_apart(ordered, client):
    request = produce(ordered, ("o", 0, batch()), ("t", 0, batch()))
    request.topic_data[0].undeleted_partition_count = 2
    assert [row.error_code for row in rows(client.ask(request))] == [Code.INVALID_PARTITION_METADATA, 0]
