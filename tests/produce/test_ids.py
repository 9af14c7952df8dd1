"""The producer id: requested when it is needed, retried, and failed with a typed error."""

import random

import pytest

from thinconsumer.errors import BrokerResponseError, KafkaConnectionError, UnsupportedVersionError
from thinconsumer.network.request import ANY_NODE, Answer
from thinconsumer.produce import ProducerSettings
from thinconsumer.produce.batch import NO_ID
from thinconsumer.produce.ids import ProducerIds
from thinconsumer.support.agenda import Agenda
from thinconsumer.support.timers import NEVER
from thinconsumer.wire.error_codes import BY_CODE, Code, to_error
from thinconsumer.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@pytest.fixture
def agenda():
    return Agenda()


@pytest.fixture
def ids(agenda):
    made = ProducerIds(ProducerSettings.from_options(), random.Random(1), agenda)
    made.want(True)
    agenda.take(10.0)
    return made


def answered(ids, now=10.0, **fields):
    (request,) = ids.step(now)
    ids.handle(Answer(request, 1, 4, response=InitProducerIdResponse(**fields)), now)


def failed(ids, error, now=10.0):
    (request,) = ids.step(now)
    ids.handle(Answer(request, 1, error=error), now)


def test_the_id_is_requested_from_any_broker_once_it_is_wanted(agenda):
    ids = ProducerIds(ProducerSettings.from_options(), random.Random(1), agenda)
    assert ids.step(10.0) == []
    assert not agenda.is_due(10.0)
    ids.want(True)
    assert agenda.take(10.0) == {"producer id": None}
    (request,) = ids.step(10.0)
    assert request.target == ANY_NODE
    assert request.deadline == 40.0
    for version in range(InitProducerIdRequest.VERSIONS[1] + 1):
        assert request.build(version).encode(version)
    assert ids.step(10.0) == []
    assert agenda.next() == NEVER


def test_an_id_that_is_still_wanted_is_not_due_before_the_backoff_ends(ids, agenda):
    """The sender says in each step whether it needs an id: the producer would step without a pause."""
    failed(ids, KafkaConnectionError("gone"))
    ids.want(True)
    assert agenda.next() > 10.0


def test_only_the_current_id_is_replaced(ids):
    answered(ids, producer_id=5, producer_epoch=0)
    ids.replace(4)
    assert ids.producer_id == 5
    ids.replace(5)
    assert ids.producer_id == NO_ID
    answered(ids, producer_id=6, producer_epoch=0)
    ids.replace(5)
    assert ids.producer_id == 6


@pytest.mark.parametrize("code", [code for code in Code if code != Code.NONE], ids=lambda code: code.name)
def test_every_error_code_is_retried_or_final(ids, agenda, code):
    answered(ids, error_code=int(code), producer_id=-1)
    assert ids.producer_id == NO_ID
    assert ids.last_error.code == code
    passing = BY_CODE[code].retriable or code == Code.UNKNOWN_SERVER_ERROR
    assert (ids.final_error is None) is passing
    assert ids.step(10.0) == []
    assert 10.07 < agenda.next() < 10.13
    answered(ids, now=11.0, producer_id=7, producer_epoch=0)
    assert (ids.producer_id, ids.last_error) == (7, None)


def test_lost_connections_are_retried_with_a_growing_backoff(ids, agenda):
    now, waits = 10.0, []
    for _ in range(6):
        failed(ids, KafkaConnectionError("lost"), now)
        assert ids.final_error is None
        waits.append(agenda.next() - now)
        now = agenda.next()
        agenda.take(now)
    assert waits[0] < 0.13
    assert waits[-1] > 0.7


def test_an_unsupported_version_is_final(ids):
    failed(ids, to_error(Code.UNSUPPORTED_VERSION, api="InitProducerId"))
    assert isinstance(ids.final_error, UnsupportedVersionError)
    assert isinstance(ids.final_error, BrokerResponseError)


@pytest.mark.parametrize("fields", [{"producer_id": -1, "producer_epoch": 0}, {"producer_id": 5, "producer_epoch": -1}])
def test_a_negative_id_or_epoch_is_rejected(ids, fields):
    answered(ids, **fields)
    assert ids.producer_id == NO_ID
    assert "negative" in str(ids.last_error)
