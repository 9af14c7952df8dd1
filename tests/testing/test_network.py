"""The network in memory: addresses, sizes of reads and writes, and every fault."""

import pytest

from thinconsumer.errors import KafkaConnectionError
from thinconsumer.testing import ScriptedPeer

HERE = ("10.0.0.1", 9092)


class Echo:
    """Sends received bytes back."""

    def __init__(self):
        self.gone = 0

    def connection_made(self, connection):
        self.connection = connection  # the latest
        return Echoing(self, connection)


class Echoing:
    """One of its connections."""

    def __init__(self, echo, connection):
        self.echo = echo
        self.connection = connection

    def data_received(self, data):
        self.connection.send(data)

    def connection_lost(self):
        self.echo.gone += 1


@pytest.fixture
def echo(stage):
    echo = Echo()
    stage.network.listen(*HERE, echo)
    return echo


def test_bytes_take_their_latency_in_both_directions(make_stage):
    stage = make_stage(latency=0.25)
    stage.network.listen(*HERE, Echo())
    stream = stage.dial()
    stage.run(0.3)
    assert stream.calls == [("made", stage.began + 0.25)]
    stream.outgoing.append(b"hello")
    stage.run(0.5)
    assert stream.received == b"hello"


@pytest.mark.parametrize(("chunk", "sizes"), [(1, [1] * 5), (2, [2, 2, 1]), (None, [5])])
def test_bytes_arrive_in_pieces_of_any_size(make_stage, chunk, sizes):
    stage = make_stage(chunk=chunk)
    stage.network.listen(*HERE, ScriptedPeer(on_connect=b"hello"))
    assert stage.connect().sizes == sizes


def test_bytes_are_taken_in_pieces_of_any_size(make_stage):
    stage = make_stage(send_limit=2)
    peer = ScriptedPeer()
    stage.network.listen(*HERE, peer)
    stream = stage.connect()
    stream.outgoing.append(b"hello")
    stage.driver.step(stage.orders, stage.driver.now())
    assert stream.outgoing == type(stream.outgoing)([b"llo"])
    stage.run(0.1)
    assert peer.received == b"hello"


def test_listening_makes_host_names_resolvable(stage):
    network = stage.network
    network.listen("kafka", 9092, ScriptedPeer())
    network.listen("kafka", 9093, ScriptedPeer())
    network.listen("other", 9092, ScriptedPeer())
    network.names["both"] = ["fd00::1", "10.0.0.9"]
    network.names["broken"] = "the name server did not answer"
    found = {host: [str(a) for a in network.resolve(host, 1)[0]] for host in ("kafka", "other", "both", "10.1.1.1")}
    assert found == {
        "kafka": ["10.0.0.1:1"],
        "other": ["10.0.0.2:1"],
        "both": ["[fd00::1]:1", "10.0.0.9:1"],
        "10.1.1.1": ["10.1.1.1:1"],
    }
    assert network.resolve("broken", 1) == ([], "the name server did not answer")
    assert network.resolve("nowhere", 1) == ([], "the name does not resolve")
    assert [host for _, host in network.lookups][-2:] == ["broken", "nowhere"]


def test_connection_without_a_listener_is_refused(stage):
    stream = stage.dial()
    stage.run(0.01)
    (error,) = stream.lost
    assert isinstance(error, KafkaConnectionError)
    assert str(error) == "kafka:9092 (10.0.0.1:9092): connection refused (nothing listens there), while connecting"


def test_refuse_keeps_connections_and_kill_resets_them(stage, echo):
    first = stage.connect()
    stage.network.refuse(*HERE)
    second = stage.dial()
    stage.run(0.01)
    assert (first.lost, len(second.lost)) == ([], 1)
    stage.network.listen(*HERE, echo)
    stage.network.kill(*HERE)
    stage.run(0.01)
    assert "reset by the peer" in str(first.lost[0])
    assert echo.gone == 1


def test_reset_loses_bytes_in_flight(stage, echo):
    stream = stage.connect()
    echo.connection.send(b"lost")
    stage.network.reset(*HERE)
    stage.run(0.01)
    assert stream.received == b""
    assert len(stream.lost) == 1


def test_a_client_that_hangs_up_loses_no_bytes(stage):
    """As over TCP, unless the connection is reset: a client that closes in order has its last request handled."""
    peer = ScriptedPeer()
    stage.network.listen(*HERE, peer)
    stream = stage.connect()
    stream.outgoing.append(b"last words")
    stage.driver.send(stage.orders)
    stage.driver.hang_up_all()
    stage.run(0.01)
    assert (peer.received, stream.lost) == (b"last words", [])


def test_orderly_close_loses_no_bytes(stage, echo):
    stream = stage.connect()
    echo.connection.send(b"last words")
    echo.connection.close()
    stage.run(0.01)
    assert stream.received == b"last words"
    assert stream.lost == [None]
    assert not echo.connection.is_open


def test_paused_peer_accepts_connections_and_sends_nothing(stage, echo):
    stage.network.pause(*HERE)
    stream = stage.connect()
    stream.outgoing.append(b"hello")
    stage.run(100.0)
    assert stream.received == b""
    stage.network.resume(*HERE)
    stage.run(0.01)
    assert stream.received == b"hello"


def test_a_black_hole_neither_connects_nor_refuses(stage, echo):
    old = stage.connect()
    stage.network.black_hole(*HERE)
    new = stage.dial()
    old.outgoing.append(b"hello")
    stage.run(100.0)
    assert (new.calls, old.received, old.lost) == ([], b"", [])
    stage.network.resume(*HERE)
    stage.run(0.01)
    assert new.calls[0][0] == "made"
    assert old.received == b"hello"


def test_closing_a_stream_notifies_its_peer(stage, echo):
    stream = stage.connect()
    echo.connection.send(b"too late")
    stage.hang_up(stream)
    stage.run(0.01)
    assert (stream.received, stream.lost) == (b"", [])
    assert echo.gone == 1
    assert stage.network.connections == []


def test_peers_run_while_the_client_is_not_stepped(stage):
    """A response takes its round trip, not one step of the client per hop."""
    stage.network.listen(*HERE, Echo())
    stream = stage.connect()
    stream.outgoing.append(b"hello")
    stage.driver.step(stage.orders, stage.driver.now())
    stage.network.clock.advance(60.0)
    stage.driver.step(stage.orders, stage.driver.now())
    assert stream.received == b"hello"


def test_peer_can_schedule_a_later_call(stage):
    calls = []

    class Late(Echoing):
        def data_received(self, data):
            self.connection.call_later(5.0, lambda: calls.append(self.connection.now()))

    class Peer(Echo):
        def connection_made(self, connection):
            return Late(self, connection)

    stage.network.listen(*HERE, Peer())
    stream = stage.connect()
    stream.outgoing.append(b"x")
    stage.run(4.9)
    assert calls == []
    stage.run(0.2)
    assert len(calls) == 1
    stream.outgoing.append(b"x")
    stage.run(1.0)
    stage.hang_up(stream)
    stage.run(10.0)
    assert len(calls) == 1
