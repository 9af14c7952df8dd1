"""AddOffsetsToTxn: to the coordinator it is one more partition, the one that has the group."""

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
    """Return the arguments that the coordinator got, and the code that the client got."""
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


def test_versions_are_those_of_a_broker():
    assert (API.request, API.lowest, API.highest) == (AddOffsetsToTxnRequest, 0, 4)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_partition_of_the_group_is_added(version):
    asked, code = ask(version)
    assert asked == [["t", (7, 3), [TopicPartition("__consumer_offsets", partition_for("billing", 50))]]]
    assert code == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_older_clients_know_fencing_by_another_name(version):
    _, code = ask(version, Code.PRODUCER_FENCED)
    assert code == (Code.PRODUCER_FENCED if version >= 2 else Code.INVALID_PRODUCER_EPOCH)


@pytest.mark.parametrize("version", VERSIONS)
def test_refusing_it(version):
    response = API.refuse(REQUEST, version, int(Code.NOT_COORDINATOR))
    assert type(response).decode(response.encode(version), version).error_code == Code.NOT_COORDINATOR
