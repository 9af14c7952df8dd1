"""Offsets in transactions: where a group has them; who may commit them is in ``api/test_txn_offset_commit``."""

from types import SimpleNamespace

from thinconsumer.broker.config import BrokerConfig
from thinconsumer.broker.group.hashing import partition_for
from thinconsumer.broker.txn.offsets import OFFSETS_TOPIC, add_or_verify_offsets, partition_of_group
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code


def test_the_partition_of_a_group_is_by_the_topic_that_there_is(world):
    assert partition_of_group(world, "billing") == TopicPartition(OFFSETS_TOPIC, partition_for("billing", 2))


def test_before_there_is_the_topic_it_is_by_the_number_that_it_will_have(new_world):
    world = new_world(offsets_topic_num_partitions=50)
    world.image.remove_topic(OFFSETS_TOPIC)
    assert partition_of_group(world, "billing").partition == partition_for("billing", 50)


def test_a_coordinator_that_is_not_there_yet_is_no_answer_for_long():
    """The topic of transactions is being created; clients are to ask again."""
    codes = []
    log = SimpleNamespace(would_begin_transaction=lambda producer_id, epoch: True)
    node = SimpleNamespace(
        config=BrokerConfig(),
        image=SimpleNamespace(topics={}),
        leader_replica=lambda tp: (SimpleNamespace(log=log), 0),
        coordinator_for=lambda kind, key: (int(Code.COORDINATOR_NOT_AVAILABLE), None),
    )
    writer = SimpleNamespace(transactional_id="t", producer_id=7, producer_epoch=0)
    add_or_verify_offsets(node, writer, "g", 5, codes.append)
    assert codes == [Code.COORDINATOR_NOT_AVAILABLE]
