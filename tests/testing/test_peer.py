"""Peers that send fixed bytes."""

from thinconsumer.testing import ScriptedPeer


def test_scripted_peer_sends_its_bytes(stage):
    peer = ScriptedPeer(b"one", b"two", on_connect=b"hello", then_close=True)
    stage.network.listen("10.0.0.1", 9092, peer)
    stream = stage.connect()
    assert stream.received == b"hello"
    stream.outgoing.append(b"a")
    stage.run(0.01)
    assert stream.received == b"helloone"
    assert stream.lost == []
    stream.outgoing.append(b"b")
    stage.run(0.01)
    assert stream.received == b"helloonetwo"
    assert stream.lost == [None]
    assert peer.received == b"ab"
