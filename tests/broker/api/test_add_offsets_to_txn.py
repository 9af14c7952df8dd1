"""AddOffsetsToTxn adds the group's partition of ``__consumer_offsets`` to the transaction."""

from types import SimpleNamespace

import pytest

from thinconsumer.broker.api.add_offsets_to_txn import API
from thinconsumer.broker.call import ApiCall
from thinconsumer.broker.config import BrokerConfig
from thinconsumer.broker.group.hashing import partition_for
from thinconsumer.broker.image import ClusterImage
from thinconsumer.types import TopicPartition
from thinconsumer.wire.add_offsets_to_txn import AddOffsetsToTxnRequest
from thinconsumer.wire.error_codes import Code

VERSIONS = range(API.lowest, API.highest + 1)
REQUEST = AddOffsetsToTxnRequest(transactional_id="t", producer_id=7, producer_epoch=3, group_id="billing")


def ask(version, code=0):
    """Return the arguments of the coordinator call, and the error code of the response."""
    asked, answers = [], []

    def add_partitions(*args):
        *args, done = args
        asked.append(args)
        done(int(code))

    node = SimpleNamespace(
        transaction_coordinator=SimpleNamespace(add_partitions=add_partitions),
        image=ClusterImage("cluster"),
        config=BrokerConfig(offsets_topic_num_partitions=50),
    )
    assert API.handle(ApiCall(node, REQUEST, version, answers.append)) is None
    (response,) = answers
    return asked, type(response).decode(response.encode(version), version).error_code


def test_supported_versions_match_kafka():
    assert (API.request, API.lowest, API.highest) == (AddOffsetsToTxnRequest, 0, 4)


@pytest.mark.parametrize("version", VERSIONS)
def test_partition_of_the_group_is_added(version):
    asked, code = ask(version)
    assert asked == [["t", (7, 3), [TopicPartition("__consumer_offsets", partition_for("billing", 50))]]]
    assert code == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_producer_fenced_is_invalid_producer_epoch_in_old_versions(version):
    _, code = ask(version, Code.PRODUCER_FENCED)
    assert code == (Code.PRODUCER_FENCED if version >= 2 else Code.INVALID_PRODUCER_EPOCH)


@pytest.mark.parametrize("version", VERSIONS)
def test_error_response(version):
    response = API.refuse(REQUEST, version, int(Code.NOT_COORDINATOR))
    assert type(response).decode(response.encode(version), version).error_code == Code.NOT_COORDINATOR
