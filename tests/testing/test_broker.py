"""The scripted broker: order, refusals, every kind of reply, and what it remembers."""

from __future__ import annotations

import pytest

from thinconsumer.testing import Delay, Disconnect, Raw, ScriptedBroker, Silence
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse

NAMED = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def numbered(number):
    return MetadataResponse(controller_id=number)


@pytest.fixture
def broker(stage):
    broker = ScriptedBroker(handlers={MetadataRequest: lambda *_: numbered(0)})
    stage.network.listen(broker.host, broker.port, broker)
    return broker


@pytest.fixture
def client(stage, broker, call):
    return call(stage, broker)


def test_it_says_what_it_speaks(broker, client):
    broker.versions = {3: (0, 9), 18: (0, 4)}
    response = client.ask(NAMED, 4)
    assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [(3, 0, 9), (18, 0, 4)]


def test_kip_511_a_newer_api_versions_is_refused_in_version_0(broker, client):
    client.send(NAMED, 5)
    client.stage.run(0.01)
    client.sent[0] = (ApiVersionsRequest, 0)
    (response,) = client.answers()
    assert response.error_code == 35
    assert [(k.api_key, k.max_version) for k in response.api_keys] == [(18, 4)]


def test_requests_are_remembered(broker, client, stage):
    client.ask(MetadataRequest(topics=[]), 12)
    (received,) = broker.requests
    assert (received.api, received.version, received.client_id) == (MetadataRequest, 12, "me")
    assert broker.received(MetadataRequest) == [MetadataRequest(topics=[])]
    assert broker.received(FetchRequest) == []


@pytest.mark.parametrize(("api", "version"), [(FetchRequest, 12), (MetadataRequest, 13)])
def test_what_it_does_not_speak_ends_the_connection_with_a_complaint(broker, client, api, version):
    broker.versions[3] = (0, 12)
    client.send(api(), version)
    client.stage.run(0.01)
    assert client.stream.lost == [None]
    assert "not spoken here" in broker.complaints[0]
    assert broker.connections == []


def test_rubbish_ends_the_connection_with_a_complaint(broker, client):
    client.stream.outgoing.append(b"\0\0\0\x0a" + b"\x7f" * 10)
    client.stage.run(0.01)
    assert client.stream.lost == [None]
    assert broker.complaints


def test_answers_keep_the_order_of_requests_even_when_one_is_delayed(broker, client, stage):
    broker.answer_once(MetadataRequest, Delay(2.0, numbered(1)), Delay(0.5, lambda: numbered(2)), numbered(3))
    for _ in range(4):
        client.send(MetadataRequest(), 12)
    stage.run(1.9)
    assert client.answers() == []
    stage.run(0.2)
    assert [answer.controller_id for answer in client.answers()] == [1]
    stage.run(1.0)
    assert [answer.controller_id for answer in client.answers()] == [1, 2, 3, 0]


def test_a_delay_ends_early_when_its_answer_is_ready(broker, client, stage):
    ready = []
    broker.answer_once(MetadataRequest, Delay(5.0, numbered(1), lambda: bool(ready)))
    client.send(MetadataRequest(), 12)
    stage.run(1.0)
    broker.poke()
    stage.run(0.1)
    assert client.answers() == []
    ready.append(True)
    broker.poke()
    stage.run(0.1)
    assert len(client.answers()) == 1
    stage.run(10.0)
    assert len(client.answers()) == 1


def test_silence_stops_the_connection_and_no_other(broker, client, stage, call):
    broker.answer_once(MetadataRequest, Silence())
    client.send(MetadataRequest(), 12)
    client.send(MetadataRequest(), 12)
    stage.run(100.0)
    assert client.answers() == []
    assert call(stage, broker).ask(MetadataRequest(), 12) == numbered(0)


@pytest.mark.parametrize("reset", [False, True])
def test_disconnect(broker, client, reset):
    broker.answer_once(MetadataRequest, Disconnect(reset=reset))
    client.send(MetadataRequest(), 12)
    client.stage.run(0.01)
    (lost,) = client.stream.lost
    assert (lost is not None) is reset


def test_raw_bytes(broker, client):
    broker.answer_once(MetadataRequest, Raw(b"anything"))
    client.send(MetadataRequest(), 12)
    client.stage.run(0.01)
    assert client.stream.received == b"anything"


def test_answer_once_leaves_no_trace(broker, client):
    broker.answer_once(FetchRequest, Disconnect())
    client.send(FetchRequest(), 12)
    client.stage.run(0.01)
    assert FetchRequest not in broker.handlers


@pytest.mark.parametrize("limit", [1, 3, None])
def test_requests_may_come_in_pieces(stage, broker, call, limit):
    stage.network.send_limit = limit
    client = call(stage, broker)
    client.send(MetadataRequest(), 12)
    assert client.ask(MetadataRequest(), 1, seconds=1.0) == numbered(0)
