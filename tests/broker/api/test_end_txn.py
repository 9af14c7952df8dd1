"""EndTxn: the coordinator call of a request, and the response of each version."""

from types import SimpleNamespace

import pytest

from thinconsumer.broker.api.end_txn import API
from thinconsumer.broker.call import ApiCall
from thinconsumer.wire.end_txn import EndTxnRequest
from thinconsumer.wire.error_codes import Code

VERSIONS = range(API.lowest, API.highest + 1)
REQUEST = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=3, committed=True)


def ask(version, answer=(0, 7, 4), request=REQUEST):
    """Return the arguments of the coordinator call, and the response."""
    asked, answers = [], []

    def end(*args, client_version):
        *args, done = args
        asked.append((*args, client_version))
        done(*answer)

    node = SimpleNamespace(transaction_coordinator=SimpleNamespace(end=end))
    assert API.handle(ApiCall(node, request, version, answers.append)) is None
    (response,) = answers
    return asked, type(response).decode(response.encode(version), version)


def test_supported_versions_match_kafka():
    assert (API.request, API.lowest, API.highest) == (EndTxnRequest, 0, 5)


@pytest.mark.parametrize("version", VERSIONS)
def test_transaction_version_follows_the_request_version(version):
    asked, response = ask(version)
    assert asked == [("t", (7, 3), True, 2 if version >= 5 else 0)]
    assert response.error_code == 0
    assert (response.producer_id, response.producer_epoch) == ((7, 4) if version >= 5 else (-1, -1))


@pytest.mark.parametrize("version", VERSIONS)
def test_producer_fenced_is_invalid_producer_epoch_in_old_versions(version):
    _, response = ask(version, (int(Code.PRODUCER_FENCED), -1, -1))
    assert response.error_code == (Code.PRODUCER_FENCED if version >= 2 else Code.INVALID_PRODUCER_EPOCH)


def test_abort_is_passed_to_the_coordinator():
    request = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=3, committed=False)
    assert ask(5, request=request)[0] == [("t", (7, 3), False, 2)]


@pytest.mark.parametrize("version", VERSIONS)
def test_error_response(version):
    response = API.refuse(REQUEST, version, int(Code.NOT_COORDINATOR))
    response = type(response).decode(response.encode(version), version)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (Code.NOT_COORDINATOR, -1, -1)
