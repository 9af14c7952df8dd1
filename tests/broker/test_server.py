"""The broker over real sockets, stepped by the test, with normal, slow, misbehaving and disconnecting clients."""

import select
import socket
import struct
import time

import pytest

from thinconsumer.errors import IllegalArgumentError, IllegalStateError
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from thinconsumer.wire.header import decode_response_header, encode_request
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from thinconsumer_testing.broker.channel import UNSENT_MAX
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.connection import UNPROCESSED_MAX
from thinconsumer_testing.broker.faults import Pass
from thinconsumer_testing.broker.server import EmbeddedBroker

PATIENCE_S = 10.0


@pytest.fixture
def broker(embedded):
    return embedded(topics={"t": 2})


class SocketClient:
    """A client socket; the broker is stepped while it waits."""

    def __init__(self, broker, node=1):
        self.broker = broker
        self.socket = socket.create_connection(address_of(broker, node))
        self.socket.setblocking(False)
        self.received = bytearray()
        self.is_over = False

    def send(self, data):
        self.send_what_fits(data)
        assert not self.unsent

    def send_what_fits(self, data, patience_s=PATIENCE_S):
        """Send until the broker stops reading."""
        self.unsent = memoryview(data)
        deadline = time.monotonic() + patience_s
        while self.unsent and time.monotonic() < deadline:
            try:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
            except BlockingIOError:
                self.broker.step(0.001)

    def read_on(self):
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        self.received += data
        self.is_over = not data

    def wait_for(self, is_done):
        deadline = time.monotonic() + PATIENCE_S
        self.read_on()
        while not is_done():
            assert time.monotonic() < deadline, "nothing came"
            self.broker.step(0.01)
            self.read_on()

    def frame(self):
        """Return the next response frame."""
        self.wait_for(lambda: len(self.received) >= 4 and len(self.received) >= 4 + self._size())
        size = self._size()
        frame = bytes(self.received[4 : 4 + size])
        del self.received[: 4 + size]
        return frame

    def ask(self, message, version):
        self.send(frame_of(message, version))
        frame = self.frame()
        _, body = decode_response_header(frame, type(message), version)
        return message.RESPONSE.decode(frame, version, body)

    def _size(self):
        return int.from_bytes(self.received[:4], "big")


@pytest.fixture
def connect():
    peers = []

    def make(broker, node=1):
        peers.append(SocketClient(broker, node))
        return peers[-1]

    yield make
    for peer in peers:
        peer.socket.close()


def address_of(broker, node=1):
    host, port = broker.bootstrap_servers.split(",")[node - 1].rsplit(":", 1)
    return host, int(port)


def frame_of(message, version, number=1):
    data = encode_request(message, version, number, "tester")
    return len(data).to_bytes(4, "big") + data


def fetch(offset=0, max_wait_ms=0, partition=0):
    row = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[row])])


def produce(data=None, acks=-1):
    data = build_batch([NewRecord(b"a", timestamp=1)]) if data is None else data
    rows = [PartitionProduceData(index=0, records=data)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=rows)])


def the_row(answer):
    (topic,) = answer.responses
    return topic.partitions[0] if isinstance(answer, FetchResponse) else topic.partition_responses[0]


def run_for(broker, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        broker.step(0.01)


def refuses(broker, node=1):
    try:
        socket.create_connection(address_of(broker, node), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False


# -- lifecycle


def test_broker_listens_immediately(embedded):
    started = time.perf_counter()
    broker = embedded(3, {"orders": 3})
    took = time.perf_counter() - started
    assert took < 0.5, "it should be ready in a few milliseconds, even on a busy machine"
    told = [(one.host, one.port) for one in broker.cluster.controller.image.brokers.values()]
    assert told == [address_of(broker, node) for node in (1, 2, 3)]
    assert len(set(told)) == 3
    assert not any(refuses(broker, node) for node in (1, 2, 3))


def test_waiting_fetch_is_completed_by_another_client_a_call_and_a_timeout(broker, connect):
    waiting, writing = connect(broker), connect(broker)
    for offset, write in enumerate((lambda: writing.ask(produce(), 9), lambda: broker.produce("t", [b"a"]))):
        waiting.send(frame_of(fetch(offset, max_wait_ms=60_000), 12))
        run_for(broker, 0.02)
        write()
        assert waiting.frame()
    started = time.monotonic()
    row = the_row(waiting.ask(fetch(offset=2, max_wait_ms=50), 12))
    assert (row.error_code, row.high_watermark) == (0, 2)
    assert time.monotonic() - started >= 0.049


def test_fileno_works_with_another_event_loop(broker, connect):
    peer = connect(broker)
    run_for(broker, 0.02)
    assert select.select([broker.fileno()], [], [], 0)[0] == []
    peer.send(frame_of(fetch(), 12))
    assert select.select([broker.fileno()], [], [], 5)[0]
    peer.send(frame_of(fetch(offset=0, max_wait_ms=2000), 12))
    run_for(broker, 0.05)
    assert broker.wake_at() < time.monotonic() + 2.1


def test_serve_forever_runs_until_stop(broker, connect):
    peer = connect(broker)
    peer.send(frame_of(fetch(), 12))

    def stop(call):
        broker.stop()
        return Pass()

    broker.on("Fetch", stop)
    broker.serve_forever()
    assert peer.frame()


def test_closed_broker_has_no_open_sockets(embedded, connect):
    broker = embedded(topics={"t": 1})
    peer = connect(broker)
    run_for(broker, 0.02)
    broker.close()
    broker.close()
    peer.read_on()
    assert peer.is_over
    assert refuses(broker)
    assert repr(broker).endswith("closed>")
    for use in (broker.step, lambda: broker.produce("t", [b"a"])):
        with pytest.raises(IllegalStateError):
            use()


def test_ports_are_consecutive_and_a_taken_port_is_an_error(embedded):
    for _ in range(20):  # until two consecutive free ports are found
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        try:
            broker = embedded(2, port=port)
        except OSError:
            continue
        break
    assert broker.bootstrap_servers == f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    with pytest.raises(OSError, match="in use"):
        EmbeddedBroker(2, port=port)


def test_configs_have_kafkas_names(embedded):
    broker = embedded(2, config={"num.partitions": 4})
    assert len(broker.create_topic("many").partitions) == 4
    assert len(embedded(config=BrokerConfig(num_partitions=2)).create_topic("two").partitions) == 2
    with pytest.raises(IllegalArgumentError, match="num.partitions"):
        EmbeddedBroker(config={"num.partition": 4})


def test_idle_broker_sleeps(embedded, connect):
    broker = embedded(3, {"t": 10})
    peers = [connect(broker, node) for node in (1, 2, 3)]
    for peer in peers:
        peer.send(frame_of(fetch(max_wait_ms=60_000), 12))
    run_for(broker, 0.05)
    started = time.process_time()
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        broker.step(deadline - time.monotonic())
    assert time.process_time() - started < 0.05


# -- clients that do not read their responses


def test_client_that_reads_nothing_only_blocks_itself(broker, connect):
    """Two thousand small requests cause gigabytes of responses; little more than one of them may be in memory."""
    for _ in range(20):
        broker.produce("t", [b"x" * 50_000])
    greedy, other = connect(broker), connect(broker)
    flood = b"".join(frame_of(fetch(), 12, number=n) for n in range(2000))
    greedy.send_what_fits(flood, 0.5)
    run_for(broker, 0.05)
    (channel,) = [one for one in broker._registry.channels if one._unsent]
    assert UNSENT_MAX < channel._unsent < UNSENT_MAX + 1_100_000
    assert channel.connection.unprocessed <= UNPROCESSED_MAX + 600_000
    assert the_row(other.ask(fetch(offset=20), 12)).high_watermark == 20

    numbers = []
    while len(numbers) < 100:
        numbers.append(int.from_bytes(greedy.frame()[:4], "big"))
    assert numbers == list(range(100))


@pytest.mark.once
def test_client_with_many_pipelined_requests_is_not_read_from(broker, connect):
    peer = connect(broker)
    peer.send(frame_of(fetch(max_wait_ms=60_000), 12))
    peer.send_what_fits(frame_of(produce(), 9) * 100_000, 0.3)
    assert peer.unsent, "the rest has to wait at the client"
    assert sum(channel.connection.unprocessed for channel in broker._registry.channels) < UNPROCESSED_MAX + 600_000
    broker.produce("t", [b"a"])
    assert peer.frame()
    assert peer.frame(), "then it is read from again"


# -- misbehaving and disconnected clients


def test_earlier_responses_arrive_before_the_close(broker, connect):
    broker.produce("t", [b"x" * 900_000])
    peer = connect(broker)
    peer.send(frame_of(fetch(), 12) + frame_of(produce(b"", acks=0), 9))
    assert len(peer.frame()) > 900_000
    peer.wait_for(lambda: peer.is_over)


def test_disconnected_client_leaves_nothing(broker, connect):
    """Neither a waiting request nor responses that the client has not read."""
    for _ in range(20):
        broker.produce("t", [b"x" * 50_000])
    peers = [connect(broker) for _ in range(10)]
    for peer in peers[2:]:
        peer.send(frame_of(fetch(offset=20, max_wait_ms=60_000), 12))
    for peer in peers[:2]:
        peer.send_what_fits(b"".join(frame_of(fetch(), 12) for _ in range(50)), 0.1)
    run_for(broker, 0.05)
    assert len(broker._registry.channels) == 10
    for number, peer in enumerate(peers):
        if number % 2:  # half of them reset the connection
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.socket.close()
    run_for(broker, 0.05)
    assert broker._registry.channels == set()
    assert not broker.cluster.nodes[1].connections
    assert not broker.cluster.nodes[1].partitions[TopicPartition("t", 0)]._listeners


def test_connection_limit(embedded, connect):
    broker = embedded(topics={"t": 1}, config={"max.connections": 2})
    peers = [connect(broker) for _ in range(3)]
    peers[2].wait_for(lambda: peers[2].is_over)
    assert the_row(peers[0].ask(fetch(), 12)).error_code == 0


def test_many_simultaneous_connections_are_accepted(broker, connect):
    peers = [connect(broker) for _ in range(200)]
    for peer in peers:
        peer.send(frame_of(fetch(), 12))
    for peer in peers:
        assert peer.frame()


def test_accepting_pauses_without_file_descriptors(broker, connect):
    """Otherwise the listener would stay readable and the loop would spin."""
    peer = connect(broker)
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as last:
        resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno() + 1, hard))
        try:
            before = time.process_time()
            run_for(broker, 0.3)
            assert time.process_time() - before < 0.1
            assert not broker._registry.channels
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert the_row(peer.ask(fetch(), 12)).error_code == 0


def test_exception_in_a_timer_is_recorded_and_the_broker_continues(broker, connect):
    broker.cluster.schedule.call_later(0.0, lambda: 1 // 0)
    assert the_row(connect(broker).ask(fetch(), 12)).error_code == 0
    (bug,) = broker.cluster.bugs
    assert "ZeroDivisionError" in bug
    broker.cluster.bugs.clear()


def test_exception_of_a_connection_is_recorded_and_resets_it(broker, connect):
    peer, other = connect(broker), connect(broker)
    run_for(broker, 0.02)
    broker.cluster.nodes[1].connections[0].data_received = lambda data: 1 // 0
    peer.send(b"x")
    peer.wait_for(lambda: peer.is_over)
    assert the_row(other.ask(fetch(), 12)).error_code == 0
    assert "ZeroDivisionError" in broker.cluster.bugs.pop()


# -- kill and restart


def test_killed_broker_resets_connections_and_refuses_new_ones(embedded, connect):
    broker = embedded(2, {"t": 2})
    gone, stays = connect(broker, 1), connect(broker, 2)
    run_for(broker, 0.02)
    broker.kill(1, noticed_after_s=0)
    with pytest.raises(ConnectionResetError):
        gone.socket.recv(1)
    assert refuses(broker, 1)
    assert not refuses(broker, 2)
    leaders = [row.leader for row in broker.cluster.controller.image.topics["t"].partitions]
    assert leaders == [2, 2]
    assert the_row(stays.ask(fetch(), 12)).error_code == 0
    broker.kill(1)
    broker.start(1)
    broker.start(1)
    again = connect(broker, 1)
    assert the_row(again.ask(fetch(), 10)).error_code == 6
    queued = connect(broker, 1)  # not accepted yet
    broker.kill(1)
    queued.wait_for(lambda: queued.is_over)
    broker._listeners[1].on_ready(select.POLLIN)  # a step may have selected the port before it was closed


def test_paused_broker_is_silent_until_it_resumes(broker, connect):
    peer = connect(broker)
    broker.pause(1)
    peer.send(frame_of(fetch(), 12))
    peer.send_what_fits(frame_of(fetch(), 12) * 200_000, 0.3)
    run_for(broker, 0.05)
    peer.read_on()
    assert (peer.received, peer.is_over) == (b"", False)
    assert peer.unsent, "nor does it read for ever"
    broker.resume(1)
    assert peer.frame()


def test_rule_may_change_the_cluster(embedded, connect):
    """The rule kills the broker of the requesting connection during its own request."""
    broker = embedded(2, {"t": 2})
    broker.on("Fetch", lambda call: broker.kill(1) or Pass(), times=1)
    peer = connect(broker, 1)
    peer.send(frame_of(fetch(), 12) * 3)
    peer.wait_for(lambda: peer.is_over)
    assert refuses(broker, 1)
