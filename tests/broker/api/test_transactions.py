"""The APIs of transactional producers over a connection, in every version."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer_testing.broker.apis import APIS
from thinconsumer_testing.broker.wire.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
)

OF_CLIENTS = range(4)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TOPICS = [AddPartitionsToTxnTopic(name="a", partitions=[1, 0]), AddPartitionsToTxnTopic(name="b", partitions=[0])]


def versions_of(request):
    api = APIS[request.API_KEY]
    return range(api.lowest, api.highest + 1)


@pytest.fixture
def cluster(new_cluster):
    return new_cluster(1, {"a": 2, "b": 1}, coordinators=True)


def init(client, version=5, transactional_id="t", **identity):
    """Return (error code, producer id, producer epoch)."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000, **identity)
    answer = client.ask(request, version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def identity(producer):
    return {"producer_id": producer[1], "producer_epoch": producer[2]}


def add_offsets(producer):
    return AddOffsetsToTxnRequest(transactional_id="t", group_id="billing", **identity(producer))


def end(producer, *, committed=True):
    return EndTxnRequest(transactional_id="t", committed=committed, **identity(producer))


def of_client(producer, topics=TOPICS):
    named = {f"v3_and_below_{name}": value for name, value in identity(producer).items()}
    return AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=topics, **named)


def codes(answer, version):
    """Return the error codes by partition; from version 4 on by transactional id, too."""

    def by_topic(topics):
        return {
            (t.name, one.partition_index): one.partition_error_code for t in topics for one in t.results_by_partition
        }

    if version in OF_CLIENTS:
        return by_topic(answer.results_by_topic_v3_and_below)
    return {one.transactional_id: by_topic(one.topic_results) for one in answer.results_by_transaction}


def commits(client, tp):
    """Return whether each marker in a partition commits."""
    client.cluster.advance(client.cluster.schedule.now + 1.0)
    log = client.cluster.leader(tp).log
    return [batch.control_type().name == "COMMIT" for batch in log.read_batches(0, log.end_offset) if batch.is_control]


@pytest.mark.parametrize("request_of", [add_offsets, end, of_client])
def test_producer_fenced_is_invalid_producer_epoch_in_old_versions(client, request_of):
    old = init(client)
    init(client)
    for version in OF_CLIENTS if request_of is of_client else versions_of(request_of(old)):
        for producer, code in ((old, Code.PRODUCER_FENCED), ((0, 99, 0), Code.INVALID_PRODUCER_ID_MAPPING)):
            answer = client.ask(request_of(producer), version)
            found = set(codes(answer, version).values()) if request_of is of_client else {answer.error_code}
            assert found == {Code.INVALID_PRODUCER_EPOCH if code == Code.PRODUCER_FENCED and version < 2 else code}


@pytest.mark.parametrize("version", versions_of(EndTxnRequest))
@pytest.mark.parametrize("committed", [True, False])
def test_transaction_version_follows_the_version_of_end_txn(client, version, committed):
    _, producer_id, epoch = producer = init(client)
    client.ask(of_client(producer), 3)
    answer = client.ask(end(producer, committed=committed), version)
    assert answer.error_code == 0
    assert (answer.producer_id, answer.producer_epoch) == ((producer_id, epoch + 1) if version >= 5 else (-1, -1))
    assert [commits(client, tp) for tp in (A0, A1, B0)] == [[committed]] * 3


def test_broker_request_without_transactions_is_answered(client):
    assert client.ask(AddPartitionsToTxnRequest(), 5).results_by_transaction == []
