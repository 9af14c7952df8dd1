"""InitProducerId: the coordinator call of a request, and the response of each version."""

from types import SimpleNamespace

import pytest

from thinconsumer.broker.api.init_producer_id import API
from thinconsumer.broker.call import ApiCall
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.init_producer_id import InitProducerIdRequest


def ask(request, version=API.highest, answer=(0, 7, 3)):
    """Return the arguments of the coordinator call, and the response."""
    asked, answers = [], []

    def init_producer_id(*args):
        *args, done = args
        asked.append(tuple(args))
        done(*answer)

    node = SimpleNamespace(transaction_coordinator=SimpleNamespace(init_producer_id=init_producer_id))
    call = ApiCall(node, request, version, answers.append)
    at_once = API.handle(call)
    (response,) = [at_once] if at_once is not None else answers
    assert API.request.RESPONSE.decode(response.encode(version), version).error_code == response.error_code
    return asked, response


def test_supported_versions_exclude_unstable_ones():
    assert (API.request, API.lowest, API.highest) == (InitProducerIdRequest, 0, 5)


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_new_producer(version):
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    asked, response = ask(request, version)
    assert asked == [("t", 60_000, None)]
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 7, 3)


def test_continuing_producer_passes_its_id_and_epoch():
    request = InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=60_000, producer_id=7, producer_epoch=2
    )  # fmt: skip
    assert ask(request)[0] == [("t", 60_000, (7, 2))]


@pytest.mark.parametrize("half", [{"producer_id": 7}, {"producer_epoch": 2}])
def test_producer_id_without_epoch_is_rejected(half):
    asked, response = ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000, **half))
    assert asked == []
    assert (response.error_code, response.producer_id, response.producer_epoch) == (Code.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_producer_fenced_is_invalid_producer_epoch_in_old_versions(version):
    _, response = ask(InitProducerIdRequest(transactional_id="t"), version, (int(Code.PRODUCER_FENCED), -1, -1))
    assert response.error_code == (Code.PRODUCER_FENCED if version >= 4 else Code.INVALID_PRODUCER_EPOCH)


def test_other_codes_are_unchanged():
    _, response = ask(InitProducerIdRequest(), 0, (int(Code.NOT_COORDINATOR), -1, -1))
    assert (response.error_code, response.producer_id) == (Code.NOT_COORDINATOR, -1)


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_error_response(version):
    response = API.refuse(InitProducerIdRequest(), version, int(Code.COORDINATOR_NOT_AVAILABLE))
    response = type(response).decode(response.encode(version), version)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (15, -1, -1)
