"""Ten thousand invalid frames: each may close its own connection, and must have no other effect.

They are random bytes, and requests that real clients sent to real brokers (``tests/golden``), truncated, with flipped
bits, spliced or extended. The seed is fixed, so that failures repeat.
"""

import random
import socket
import time
from collections import Counter
from pathlib import Path

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.consumer_group_heartbeat import TopicPartitions
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest, PartitionPosition, TopicPositions
from thinconsumer.wire.header import encode_request
from thinconsumer.wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from thinconsumer.wire.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from thinconsumer_testing.broker.cluster import Cluster
from thinconsumer_testing.broker.security import ListenerSecurity
from thinconsumer_testing.broker.server import EmbeddedBroker

pytestmark = pytest.mark.once

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.3.0"
FRAMES = 10_000
#: Extreme values of lengths and counts.
LIES = [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff\x0f",
    b"\0\xff\xff\xff",
]


class DiscardingTransport:
    """A client transport that discards all output."""

    client_host = "/127.0.0.1"

    def __init__(self):
        self.is_closed = False

    def write(self, data):
        assert not self.is_closed

    def close(self):
        self.is_closed = True

    reset = close


#: Requests of APIs that the recorded brokers did not offer: the project's own, and those of telemetry.
UNRECORDED = (
    PartitionLeaderEpochsForPartitionsRequest(topics=[TopicPartitions(topic_id=b"i" * 16, partitions=[0, 5])]),
    ConsumerGroupPositionsRequest(
        group_id="g-offsets-0",
        member_id="golden",
        generation_id_or_member_epoch=1,
        positions=[TopicPositions(topic_id=b"i" * 16, partitions=[PartitionPosition(partition_index=0, position=7)])],
        wanted=[TopicPartitions(topic_id=b"i" * 16, partitions=[0, 1])],
    ),
    GetTelemetrySubscriptionsRequest(client_instance_id=b"i" * 16),
    PushTelemetryRequest(client_instance_id=b"i" * 16, subscription_id=1, compression_type=4, metrics=b"metrics"),
)


@pytest.fixture(scope="module")
def real_requests():
    """Request frames of every API in every version, without their sizes; each API equally often."""
    apis: dict[bytes, list[bytes]] = {}
    for file in sorted(GOLDEN.glob("*.txt")):
        for line in file.read_text().splitlines():
            frame = bytes.fromhex(line.split()[1])
            apis.setdefault(frame[:2], []).append(frame)
    for message in UNRECORDED:
        frame = encode_request(message, 0, 1, "golden")
        apis[frame[:2]] = [frame]
    most = max(map(len, apis.values()))
    return [frames[n % len(frames)] for frames in apis.values() for n in range(most)]


def random_bytes(rng, _):
    return rng.randbytes(rng.randrange(1, 200))


def random_body(rng, real):
    return rng.choice(real)[: rng.randrange(8, 24)] + rng.randbytes(rng.randrange(100))


def cut_off(rng, real):
    frame = rng.choice(real)
    return frame[: rng.randrange(1, len(frame))]


def flipped(rng, real):
    frame = bytearray(rng.choice(real))
    for _ in range(rng.randrange(1, 4)):
        frame[rng.randrange(min(8, len(frame) - 1), len(frame))] ^= 1 << rng.randrange(8)
    return bytes(frame)


def lying(rng, real):
    frame, lie = rng.choice(real), rng.choice(LIES)
    place = rng.randrange(8, len(frame))
    return frame[:place] + lie + frame[place + rng.choice((0, len(lie))) :]


def spliced(rng, real):
    one, other = rng.choice(real), rng.choice(real)
    return one[: rng.randrange(8, len(one) + 1)] + other[rng.randrange(8, len(other) + 1) :]


def of_another_version(rng, real):
    frame = rng.choice(real)
    return frame[:2] + rng.randrange(-2, 20).to_bytes(2, "big", signed=True) + frame[4:]


def untouched(rng, real):
    return rng.choice(real)


def with_more(rng, real):
    return rng.choice(real) + rng.randbytes(rng.randrange(1, 40))


KINDS = [random_bytes, random_body, cut_off, flipped, lying, spliced, of_another_version, with_more, untouched]


def fuzzed(rng, real):
    frame = rng.choice(KINDS)(rng, real)
    size = len(frame) if rng.random() < 0.95 else rng.randrange(-(2**31), 2**31)
    return size.to_bytes(4, "big", signed=True) + frame


def test_invalid_frames_close_their_own_connections_only(new_cluster, client_of, real_requests):
    cluster = new_cluster(2, {"golden": 1, "other": 3})
    cluster.produce("golden", [NewRecord(b"v", b"k", timestamp=1_700_000_000_000)] * 5)
    rng = random.Random(20_261_121)
    witness = client_of(cluster, 1)
    worked_on: Counter[int] = Counter()
    cluster.on(None, lambda call: worked_on.update([call.request.API_KEY]))
    ours, closed, now = None, 0, 0.0
    for number in range(FRAMES):
        if ours is None or ours.is_closed or rng.random() < 0.3:
            if ours is not None and not ours.is_closed:
                ours.connection.connection_lost()
            ours = DiscardingTransport()
            ours.connection = cluster.connect(rng.choice((1, 2)), ours)
        ours.connection.data_received(fuzzed(rng, real_requests))
        closed += ours.is_closed
        if number % 10 == 0:
            now += rng.choice((0.001, 0.1, 10.0))
            cluster.advance(now)
        if number % 500 == 0:
            assert (
                witness.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1")).error_code == 0
            )
        assert not cluster.bugs, f"frame {number}"
    cluster.advance(now + 3600)
    assert not witness.closed
    assert FRAMES / 4 < closed < FRAMES, "some are refused, some are not: else this tries nothing"
    assert sum(len(node.connections) for node in cluster.nodes.values()) <= 2
    assert set(worked_on) == set(cluster.apis)
    assert min(worked_on.values()) > 30


def test_truncated_frames_are_rejected(new_cluster, client_of, real_requests):
    """Frames truncated at every position."""
    cluster = new_cluster(1, {"golden": 1})
    rng = random.Random(7)
    for frame in rng.sample(real_requests, 40):
        for length in range(1, len(frame)):
            client = DiscardingTransport()
            cluster.connect(1, client).data_received(length.to_bytes(4, "big") + frame[:length])
        assert not cluster.bugs


def test_invalid_batches_only_affect_their_request(new_cluster, client_of):
    """The broker validates records only partly; whatever they contain, the partition stays usable."""
    from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    cluster = new_cluster(1, {"t": 1})
    client, rng = client_of(cluster, 1), random.Random(3)
    good = build_batch([NewRecord(b"value" * 20, b"key", timestamp=5)] * 3, producer_id=1, producer_epoch=0)
    refused = 0
    for _ in range(1000):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        row = PartitionProduceData(index=0, records=bytes(bad[: rng.choice((len(bad), rng.randrange(len(bad))))]))
        topic = TopicProduceData(name="t", partition_data=[row])
        answer = client.ask(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 9)
        refused += answer.responses[0].partition_responses[0].error_code != 0
    assert refused > 900
    assert cluster.produce("t", [b"a"]) >= 0


def test_invalid_frames_over_sockets_do_not_affect_other_connections(real_requests):
    """Hundreds of split frames over hundreds of connections, while one valid connection keeps working."""
    rng = random.Random(11)
    with EmbeddedBroker(topics={"golden": 1}) as broker:
        address = broker.bootstrap_servers.split(":")
        witness = socket.create_connection((address[0], int(address[1])))
        asked = encode_request(ApiVersionsRequest(), 0, 7, "witness")
        for _ in range(300):
            with socket.create_connection((address[0], int(address[1]))) as rude:
                data = b"".join(fuzzed(rng, real_requests) for _ in range(3))
                rude.sendall(data[: rng.randrange(1, len(data) + 1)])
                broker.step()
        witness.sendall(len(asked).to_bytes(4, "big") + asked)
        witness.settimeout(0.01)
        answer, deadline = b"", time.monotonic() + 10
        while len(answer) < 8 and time.monotonic() < deadline:
            broker.step(0.01)
            try:
                answer += witness.recv(4096)
            except TimeoutError:
                pass
        witness.close()
        assert answer[4:8] == b"\0\0\0\7"
        assert broker.cluster.bugs == []


def test_frames_before_and_after_a_login(real_requests):
    """On a listener with SASL, invalid frames close their connection only, in every state of the login."""
    security = {"security.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER"}
    cluster = Cluster(random=random.Random(1), security=ListenerSecurity.of({**security, "user_alice": "a"}))
    cluster.nodes[1].apis = {key: api for key, api in cluster.apis.items() if key in (17, 18, 36)}
    rng, now = random.Random(1), 0.0
    steps = [
        [encode_request(SaslHandshakeRequest(mechanism=name), version, 1, "c")]
        for name in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
        for version in (0, 1)
    ]
    steps += [[], [steps[1][0], encode_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0a"), 2, 2, "c")]]
    logins = [request for request in real_requests if request[:2] in (b"\0\x11", b"\0\x24")]
    for number in range(1000):
        transport = DiscardingTransport()
        connection = cluster.connect(1, transport)
        make = rng.choice([random_bytes, random_body, cut_off, flipped])
        for frame in [*steps[number % len(steps)], make(rng, logins or real_requests), make(rng, real_requests)]:
            connection.data_received(len(frame).to_bytes(4, "big") + frame)
            now += 0.2
            cluster.advance(now)
        connection.connection_lost()
    assert cluster.bugs == []
    assert len({*cluster.failed_logins, *cluster.invalid_requests}) > 5
