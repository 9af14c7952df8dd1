"""The producer id: requested when it is needed, retried, and failed with a typed error."""

import random

import pytest

from thinconsumer.errors import BrokerResponseError, KafkaConnectionError, UnsupportedVersionError
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import ANY_NODE, Answer
from thinconsumer.produce import ProducerSettings
from thinconsumer.produce.accumulator import Accumulator
from thinconsumer.produce.batch import NO_ID
from thinconsumer.produce.sender import Sender
from thinconsumer.records.builder import NewRecord
from thinconsumer.support.agenda import Agenda
from thinconsumer.wire.error_codes import BY_CODE, Code, to_error
from thinconsumer.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class Ids:
    """A sender with one record, which needs an id."""

    def __init__(self):
        settings, self.agenda = ProducerSettings.from_options(), Agenda()
        parts = random.Random(1), self.agenda
        self.accumulator = Accumulator(settings, *parts)
        self.sender = Sender(settings, Metadata(settings, *parts), self.accumulator, *parts)
        self.future = None

    def want(self):
        self.future = self.accumulator.append("t", 0, NewRecord(b"v"), 10, 10.0)
        return self

    def answered(self, now=10.0, **fields):
        (request,) = self.sender.step(now)
        self.sender.handle(Answer(request, 1, 4, response=InitProducerIdResponse(**fields)), now)

    def failed(self, error, now=10.0):
        (request,) = self.sender.step(now)
        self.sender.handle(Answer(request, 1, error=error), now)

    @property
    def id(self):
        return self.sender.completer.producer_id

    def retries_at(self):
        self.agenda.take(-float("inf"))
        return self.agenda.next()


@pytest.fixture
def ids():
    return Ids().want()


def test_the_id_is_requested_from_any_broker_once_it_is_wanted():
    ids = Ids()
    ids.agenda.take(10.0)
    assert ids.sender.step(10.0) == []
    assert not ids.agenda.is_due(10.0)
    ids.want()
    assert "produce" in ids.agenda.take(10.0)
    (request,) = ids.sender.step(10.0)
    assert request.target == ANY_NODE
    assert request.deadline == 40.0
    for version in range(InitProducerIdRequest.VERSIONS[1] + 1):
        assert request.build(version).encode(version)
    assert ids.sender.step(10.0) == []


@pytest.mark.parametrize("code", [code for code in Code if code != Code.NONE], ids=lambda code: code.name)
def test_every_error_code_is_retried_or_final(ids, code):
    ids.answered(error_code=int(code), producer_id=-1)
    assert ids.id == NO_ID
    assert ids.sender.completer.id_error.code == code
    passing = BY_CODE[code].retriable or code == Code.UNKNOWN_SERVER_ERROR
    assert (ids.future.error is None) is passing
    ids.want()
    assert ids.sender.step(10.0) == []
    assert 10.07 < ids.retries_at() < 10.13
    ids.answered(now=11.0, producer_id=7, producer_epoch=0)
    assert (ids.id, ids.sender.completer.id_error) == (7, None)


def test_lost_connections_are_retried_with_a_growing_backoff(ids):
    now, waits = 10.0, []
    for _ in range(6):
        ids.failed(KafkaConnectionError("lost"), now)
        assert not ids.future.done
        waits.append(ids.retries_at() - now)
        now = ids.retries_at()
        ids.agenda.take(now)
    assert waits[0] < 0.13
    assert waits[-1] > 0.7


def test_an_unsupported_version_is_final(ids):
    ids.failed(to_error(Code.UNSUPPORTED_VERSION, api="InitProducerId"))
    assert isinstance(ids.future.error, UnsupportedVersionError)
    assert isinstance(ids.future.error, BrokerResponseError)


@pytest.mark.parametrize("fields", [{"producer_id": -1, "producer_epoch": 0}, {"producer_id": 5, "producer_epoch": -1}])
def test_a_negative_id_or_epoch_is_rejected(ids, fields):
    ids.answered(**fields)
    assert ids.id == NO_ID
    assert "negative" in str(ids.sender.completer.id_error)
