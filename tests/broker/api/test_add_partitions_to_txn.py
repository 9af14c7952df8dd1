"""AddPartitionsToTxn: one transaction from a client, several from a broker, a result for every partition."""

from types import SimpleNamespace

import pytest

from thinconsumer.broker.api.add_partitions_to_txn import API
from thinconsumer.broker.call import ApiCall
from thinconsumer.types import TopicPartition
from thinconsumer.wire.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from thinconsumer.wire.error_codes import Code

OF_CLIENTS, OF_BROKERS = range(4), range(4, 6)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TOPICS = [AddPartitionsToTxnTopic(name="a", partitions=[1, 0]), AddPartitionsToTxnTopic(name="b", partitions=[0])]
FROM_CLIENT = AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="t",
    v3_and_below_producer_id=7,
    v3_and_below_producer_epoch=3,
    v3_and_below_topics=TOPICS,
)
FROM_BROKER = AddPartitionsToTxnRequest(
    transactions=[
        AddPartitionsToTxnTransaction(transactional_id="t", producer_id=7, producer_epoch=3, topics=TOPICS),
        AddPartitionsToTxnTransaction(
            transactional_id="u", producer_id=8, producer_epoch=0, verify_only=True, topics=TOPICS[1:]
        ),
    ]
)


class Coordinator:
    """Records calls; the test provides the results."""

    def __init__(self):
        self.asked = []
        self.waiting = []

    def add_or_verify(self, transactional_id, producer, partitions, done, *, client_version, verify_only):
        self.asked.append((transactional_id, tuple(producer), partitions, client_version, verify_only))
        self.waiting.append((partitions, done))

    def answer(self, code):
        partitions, done = self.waiting.pop(0)
        done(dict.fromkeys(partitions, int(code)))


def send(request, version):
    coordinator, answers = Coordinator(), []
    answer = API.handle(ApiCall(SimpleNamespace(transaction_coordinator=coordinator), request, version, answers.append))
    if answer is not None:
        answers.append(answer)
    return coordinator, answers


def read(response, version):
    response = type(response).decode(response.encode(version), version)
    by_topic = lambda topics: {  # noqa: E731
        TopicPartition(topic.name, one.partition_index): one.partition_error_code
        for topic in topics
        for one in topic.results_by_partition
    }
    if version < 4:
        return by_topic(response.results_by_topic_v3_and_below)
    return {one.transactional_id: by_topic(one.topic_results) for one in response.results_by_transaction}


def test_supported_versions_match_kafka():
    assert (API.request, API.lowest, API.highest) == (AddPartitionsToTxnRequest, 0, 5)


@pytest.mark.parametrize("version", OF_CLIENTS)
def test_client_request_adds_partitions_to_one_transaction(version):
    coordinator, answers = send(FROM_CLIENT, version)
    assert coordinator.asked == [("t", (7, 3), [A1, A0, B0], 0, False)]
    assert answers == []
    coordinator.answer(Code.NONE)
    assert read(answers[0], version) == {A0: 0, A1: 0, B0: 0}


@pytest.mark.parametrize("version", OF_CLIENTS)
def test_producer_fenced_is_invalid_producer_epoch_in_old_versions(version):
    coordinator, answers = send(FROM_CLIENT, version)
    coordinator.answer(Code.PRODUCER_FENCED)
    expected = Code.PRODUCER_FENCED if version >= 2 else Code.INVALID_PRODUCER_EPOCH
    assert set(read(answers[0], version).values()) == {expected}


@pytest.mark.parametrize("version", OF_BROKERS)
def test_broker_request_with_several_transactions_gets_one_response(version):
    coordinator, answers = send(FROM_BROKER, version)
    assert coordinator.asked == [("t", (7, 3), [A1, A0, B0], 2, False), ("u", (8, 0), [B0], 2, True)]
    coordinator.answer(Code.NONE)
    assert answers == []
    coordinator.answer(Code.TRANSACTION_ABORTABLE)
    (answer,) = answers
    assert read(answer, version) == {"t": {A0: 0, A1: 0, B0: 0}, "u": {B0: Code.TRANSACTION_ABORTABLE}}


@pytest.mark.parametrize("version", OF_BROKERS)
def test_request_without_transactions_gets_an_empty_response(version):
    _, (answer,) = send(AddPartitionsToTxnRequest(), version)
    assert read(answer, version) == {}


def test_client_error_response_covers_every_partition():
    assert read(API.refuse(FROM_CLIENT, 3, int(Code.NOT_COORDINATOR)), 3) == dict.fromkeys((A0, A1, B0), 16)


def test_broker_error_response_has_one_code():
    assert API.refuse(FROM_BROKER, 5, int(Code.CLUSTER_AUTHORIZATION_FAILED)).error_code == 31
