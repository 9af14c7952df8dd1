"""The APIs of transactional producers: the coordinator call of each request, and the response of each version."""

from types import SimpleNamespace

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer_testing.broker.apis import APIS
from thinconsumer_testing.broker.call import ApiCall
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.group.hashing import partition_for
from thinconsumer_testing.broker.image import ClusterImage
from thinconsumer_testing.broker.wire.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
)

INIT = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
ADD_OFFSETS = AddOffsetsToTxnRequest(transactional_id="t", producer_id=7, producer_epoch=3, group_id="billing")
END = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=3, committed=True)

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


def versions_of(request):
    api = APIS[request.API_KEY]
    return range(api.lowest, api.highest + 1)


class Coordinator:
    """Records calls; ``result`` answers them, except those of AddPartitionsToTxn, which wait for the test."""

    def __init__(self, result):
        self.asked = []
        self.waiting = []
        self.result = result
        self.init_producer_id = self.add_partitions = self.end = self.record

    def record(self, *args, **options):
        *args, done = args
        self.asked.append((*args, *options.values()))
        done(*self.result)

    def add_or_verify(self, transactional_id, producer, partitions, done, *, client_version, verify_only):
        self.asked.append((transactional_id, tuple(producer), partitions, client_version, verify_only))
        self.waiting.append((partitions, done))

    def answer(self, code):
        partitions, done = self.waiting.pop(0)
        done(dict.fromkeys(partitions, int(code)))


def send(request, version, *result):
    """Return the coordinator, and the list of responses."""
    coordinator, answers = Coordinator(result), []
    config = BrokerConfig(offsets_topic_num_partitions=50)
    node = SimpleNamespace(transaction_coordinator=coordinator, image=ClusterImage("cluster"), config=config)
    answer = APIS[request.API_KEY].handle(ApiCall(node, request, version, answers.append))
    if answer is not None:
        answers.append(answer)
    return coordinator, answers


def ask(request, version, *result):
    """Return the arguments of the coordinator calls, and the response."""
    coordinator, (response,) = send(request, version, *result)
    return coordinator.asked, type(response).decode(response.encode(version), version)


@pytest.mark.parametrize(
    ("request_", "result", "first"),
    [(INIT, (-1, -1), 4), (ADD_OFFSETS, (), 2), (END, (-1, -1), 2)],
    ids=["InitProducerId", "AddOffsetsToTxn", "EndTxn"],
)
def test_producer_fenced_is_invalid_producer_epoch_in_old_versions(request_, result, first):
    for version in versions_of(request_):
        _, response = ask(request_, version, int(Code.PRODUCER_FENCED), *result)
        assert response.error_code == (Code.PRODUCER_FENCED if version >= first else Code.INVALID_PRODUCER_EPOCH)
    _, response = ask(request_, 0, int(Code.NOT_COORDINATOR), *result)
    assert response.error_code == Code.NOT_COORDINATOR


@pytest.mark.parametrize("version", versions_of(InitProducerIdRequest))
def test_new_producer_gets_an_id_and_epoch(version):
    asked, response = ask(INIT, version, 0, 7, 3)
    assert asked == [("t", 60_000, None)]
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 7, 3)
    continuing = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=5, producer_id=7, producer_epoch=2)
    assert ask(continuing, version, 0, 7, 3)[0] == [("t", 5, (7, 2))], "the handler does not look at the version"


@pytest.mark.parametrize("half", [{"producer_id": 7}, {"producer_epoch": 2}])
def test_producer_id_without_epoch_is_rejected(half):
    asked, response = ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000, **half), 5)
    assert asked == []
    assert (response.error_code, response.producer_id, response.producer_epoch) == (Code.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("version", versions_of(AddOffsetsToTxnRequest))
def test_partition_of_the_group_is_added(version):
    asked, response = ask(ADD_OFFSETS, version, 0)
    assert asked == [("t", (7, 3), [TopicPartition("__consumer_offsets", partition_for("billing", 50))])]
    assert response.error_code == 0


@pytest.mark.parametrize("version", versions_of(EndTxnRequest))
@pytest.mark.parametrize("committed", [True, False])
def test_transaction_version_follows_the_version_of_end_txn(version, committed):
    request = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=3, committed=committed)
    asked, response = ask(request, version, 0, 7, 4)
    assert asked == [("t", (7, 3), committed, 2 if version >= 5 else 0)]
    assert response.error_code == 0
    assert (response.producer_id, response.producer_epoch) == ((7, 4) if version >= 5 else (-1, -1))


# -- AddPartitionsToTxn


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


@pytest.mark.parametrize("version", OF_CLIENTS)
@pytest.mark.parametrize("code", [Code.NONE, Code.PRODUCER_FENCED])
def test_client_request_adds_partitions_to_one_transaction(version, code):
    coordinator, answers = send(FROM_CLIENT, version)
    assert coordinator.asked == [("t", (7, 3), [A1, A0, B0], 0, False)]
    assert answers == []
    coordinator.answer(code)
    expected = Code.INVALID_PRODUCER_EPOCH if code and version < 2 else code
    assert read(answers[0], version) == {A0: expected, A1: expected, B0: expected}


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
