"""Frames split anywhere, served one at a time in order; an invalid request closes its own connection only."""

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from thinconsumer.wire.header import encode_request
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from thinconsumer_testing.broker.faults import Delay, Disconnect, Edit, Raw, Reply, Silence

TP = TopicPartition("t", 0)
HELLO = ApiVersionsRequest(client_software_name="tester", client_software_version="1")


def frame(message, version, number=1):
    data = encode_request(message, version, number, "tester")
    return len(data).to_bytes(4, "big") + data


def test_requests_are_answered_in_order_however_frames_are_split(new_cluster, client_of):
    cluster = new_cluster(1, {"t": 1})
    sent = b"".join(frame(MetadataRequest(topics=None), 9, n) for n in range(1, 6))
    for size in (1, 3, 50, len(sent)):
        client = client_of(cluster, 1)
        for start in range(0, len(sent), size):
            client.connection.data_received(sent[start : start + size])
        numbers, rest = [], bytes(client.received)
        while rest:
            stop = 4 + int.from_bytes(rest[:4], "big")
            numbers.append(int.from_bytes(rest[4:8], "big"))
            rest = rest[stop:]
        assert numbers == [1, 2, 3, 4, 5]


def test_requests_wait_behind_the_one_in_progress(new_cluster, client_of):
    cluster = new_cluster(1)
    cluster.on("Metadata", Delay(5.0), times=1)
    client = client_of(cluster, 1)
    client.send(MetadataRequest(topics=[]))
    client.send(HELLO)
    assert client.answers() == []
    client.connection.data_received(bytes(2**19))
    assert not client.connection.wants_input
    cluster.advance(5.0)
    metadata, versions = client.answers()
    assert metadata.brokers
    assert versions.api_keys
    assert client.closed, "the zeros were no frame"
    client = client_of(cluster, 1)
    cluster.pause(1)
    client.send(HELLO)
    assert client.answers() == []
    cluster.resume(1)
    assert client.answers()[0].api_keys


def test_unsupported_api_versions_is_answered_in_version_0(new_cluster, client_of):
    client = client_of(new_cluster(1), 1)
    data = bytearray(frame(HELLO, 4))
    data[6:8] = (99).to_bytes(2, "big")
    client.connection.data_received(bytes(data))
    assert int.from_bytes(client.received[8:10], "big") == Code.UNSUPPORTED_VERSION
    assert not client.closed


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\x05hello",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01",
        frame(MetadataRequest(topics=[]), 9)[:5] + b"\xff" + frame(MetadataRequest(topics=[]), 9)[6:],
    ],
    ids=["huge", "negative", "empty", "short", "http", "tls", "unknown api"],
)
def test_invalid_frame_closes_its_connection_only(new_cluster, client_of, data):
    cluster = new_cluster(1)
    bad, good = client_of(cluster, 1), client_of(cluster, 1)
    bad.connection.data_received(data)
    assert bad.closed
    assert bad.connection not in cluster.nodes[1].connections
    bad.connection.data_received(b"more")
    assert good.ask(HELLO).api_keys
    assert not good.closed


def test_silence_disconnect_and_raw_rules(new_cluster, client_of):
    cluster = new_cluster(1, {"t": 1})
    clients = []
    for action in (Silence(), Disconnect(), Raw(b"HTTP/1.1 400")):
        cluster.on("Metadata", action, times=1)
        clients.append(client_of(cluster, 1))
        clients[-1].send(MetadataRequest(topics=[]))
    cluster.advance(3600.0)
    assert [bytes(client.received) for client in clients] == [b"", b"", b"HTTP/1.1 400"]
    assert [client.closed for client in clients] == [False, True, False]
    clients[2].received.clear()
    clients[2].send(HELLO)
    assert clients[2].received
    assert client_of(cluster, 1).ask(MetadataRequest(topics=[])).brokers


def test_disconnect_after_lets_the_request_take_effect(new_cluster, client_of):
    """The request takes effect and only its response is lost, which clients' retries must handle."""
    from thinconsumer.wire.topics import CreatableTopic, CreateTopicsRequest

    cluster = new_cluster(1)
    cluster.on("CreateTopics", Disconnect(after=True), times=1)
    client = client_of(cluster, 1)
    client.send(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]))
    assert client.closed
    assert client.answers() == []
    assert "t" in cluster.controller.image.topics


def test_delay_is_followed_by_any_action(new_cluster, client_of):
    cluster = new_cluster(1, {"t": 1})
    cluster.on("Metadata", Delay(2.0, Reply(MetadataResponse(cluster_id="late"))), times=1)
    client = client_of(cluster, 1)
    client.send(MetadataRequest(topics=[]))
    cluster.advance(1.9)
    assert client.answers() == []
    cluster.advance(2.0)
    assert [answer.cluster_id for answer in client.answers()] == ["late"]
    cluster.on("Metadata", Delay(2.0, Disconnect()), times=1)
    client.send(MetadataRequest(topics=[]))
    client.connection.connection_lost()
    cluster.advance(10.0)
    assert not client.closed


def test_response_of_a_parked_request_is_edited(new_cluster, client_of):
    cluster = new_cluster(1, {"t": 1})
    cluster.on("Fetch", Edit(lambda call, response: setattr(response, "throttle_time_ms", call.request.min_bytes)))
    client = client_of(cluster, 1)
    topic = FetchTopic(topic="t", partitions=[FetchPartition(partition=0)])
    client.send(FetchRequest(max_wait_ms=500, min_bytes=17, topics=[topic]), 12)
    assert client.answers() == []
    cluster.advance(0.5)
    (answer,) = client.answers()
    assert answer.throttle_time_ms == 17


def test_nodes_can_support_different_versions(new_cluster, client_of):
    cluster = new_cluster(2)
    cluster.set_versions("Fetch", (4, 11), node=2)
    cluster.set_versions(MetadataRequest, None)
    one, two = (
        {api.api_key: (api.min_version, api.max_version) for api in client_of(cluster, node).ask(HELLO).api_keys}
        for node in (1, 2)
    )
    assert (one[1][1], two[1]) == (cluster.apis[1].highest, (4, 11))
    assert 3 not in one and 3 not in two
    refused = client_of(cluster, 2)
    refused.send(FetchRequest(), 12)
    assert refused.closed
    assert "FetchRequest version 12" in cluster.invalid_requests[-1]


def produce(acks):
    rows = [PartitionProduceData(index=0, records=build_batch([NewRecord(b"v", timestamp=1)]))]
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[TopicProduceData(name="t", partition_data=rows)])


def test_rule_reply_to_acks_0_closes_the_connection(new_cluster, client_of):
    cluster = new_cluster(1, {"t": 1})
    cluster.on("Produce", Reply(Code.NOT_LEADER_OR_FOLLOWER))
    client = client_of(cluster, 1)
    client.send(produce(0), 12)
    assert client.received == b""
    assert client.closed
    assert client_of(cluster, 1).ask(produce(1), 12).responses[0].partition_responses[0].error_code == 6


def test_rule_that_pauses_the_broker_delays_its_request(new_cluster, client_of):
    cluster = new_cluster(2, {"t": 1})
    cluster.on("Metadata", lambda call: cluster.pause(1), times=1)
    client = client_of(cluster, 1)
    client.send(MetadataRequest(topics=[]))
    client.send(HELLO)
    assert client.answers() == []
    cluster.rules.clear()
    cluster.resume(1)
    cluster.advance(0.001)
    metadata, versions = client.answers()
    assert metadata.brokers
    assert versions.api_keys


def test_rule_may_kill_the_broker(new_cluster, client_of):
    cluster = new_cluster(2, {"t": 1})
    for action in (None, Delay(1.0), Silence(after=True), Disconnect(after=True), Reply(Code.UNKNOWN_SERVER_ERROR)):
        cluster.rules.clear()
        cluster.on("Metadata", lambda call, action=action: cluster.kill(1) or action)
        client = client_of(cluster, 1)
        client.send(MetadataRequest(topics=[]))
        cluster.advance(cluster.schedule.now + 5.0)
        assert client.broken
        assert client.received == b""
        assert not cluster.nodes[1].connections
        cluster.start(1)


@pytest.mark.parametrize("stroke", ["kill", "pause", "lost"])
def test_delayed_or_parked_request_when_broker_or_client_fails(new_cluster, client_of, stroke):
    """A delayed request, or a Produce that waits for a follower, when the broker is killed or paused, or the client
    disconnects.
    """
    cluster = new_cluster(2, {"t": 1})
    cluster.on("Metadata", Delay(1.0))
    cluster.cut(1, 2)
    delayed, parked = client_of(cluster, 1), client_of(cluster, 1)
    delayed.send(MetadataRequest(topics=[]))
    parked.send(produce(-1), 12)
    parked.send(HELLO)
    if stroke == "lost":
        delayed.connection.connection_lost()
        parked.connection.connection_lost()
    else:
        getattr(cluster, stroke)(1)
    cluster.advance(10.0)
    assert delayed.received == parked.received == b""
    cluster.resume(1)
    cluster.heal()
    cluster.advance(20.0)
    answered = [len(client.answers()) for client in (delayed, parked)]
    assert answered == ([1, 2] if stroke == "pause" else [0, 0])
    assert not cluster.nodes[1].partitions.get(TP) or not cluster.nodes[1].partitions[TP]._delayed_produces


def test_byte_by_byte_frames_behind_a_huge_one_are_fast(new_cluster, client_of):
    """Buffered bytes are moved neither per byte nor per frame."""
    cluster = new_cluster(1, {"t": 1})
    client = client_of(cluster, 1)
    client.connection.data_received((104_857_600).to_bytes(4, "big"))
    assert client.connection.unprocessed == 4, "a claimed size allocates nothing"
    client = client_of(cluster, 1)
    big = frame(HELLO, 3) * 3000
    client.connection.data_received(big[:-1])
    assert client.connection.unprocessed == len(frame(HELLO, 3)) - 1
    client.connection.data_received(big[-1:])
    assert client.connection.unprocessed == 0
    assert not client.closed


def test_trailing_bytes_of_a_request_are_ignored(new_cluster, client_of):
    """librdkafka 2.16 sends three extra bytes with Metadata 13 for all topics."""
    client = client_of(new_cluster(1, {"t": 1}), 1)
    frame = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    client.connection.data_received(len(frame).to_bytes(4, "big") + frame)
    assert not client.closed
    assert b"\x02t" in client.received
