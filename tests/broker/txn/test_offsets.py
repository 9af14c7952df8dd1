"""The partition of a group's offsets; verification is tested in ``api/test_txn_offset_commit``."""

from types import SimpleNamespace

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.group.hashing import partition_for
from thinconsumer_testing.broker.txn.offsets import OFFSETS_TOPIC, add_or_verify_offsets, partition_of_group


def test_partition_of_a_group_with_an_existing_topic(world):
    assert partition_of_group(world, "billing") == TopicPartition(OFFSETS_TOPIC, partition_for("billing", 2))


def test_partition_of_a_group_before_the_topic_exists(new_world):
    world = new_world(offsets_topic_num_partitions=50)
    world.image.remove_topic(OFFSETS_TOPIC)
    assert partition_of_group(world, "billing").partition == partition_for("billing", 50)


def test_missing_coordinator_returns_a_retriable_code():
    """The transaction topic is being created; clients must retry."""
    codes = []
    log = SimpleNamespace(producers=SimpleNamespace(would_begin_transaction=lambda producer_id, epoch: True))
    node = SimpleNamespace(
        config=BrokerConfig(),
        image=SimpleNamespace(topics={}),
        leader_replica=lambda tp: (SimpleNamespace(log=log), 0),
        coordinator_for=lambda kind, key: (int(Code.COORDINATOR_NOT_AVAILABLE), None),
    )
    writer = SimpleNamespace(transactional_id="t", producer_id=7, producer_epoch=0)
    add_or_verify_offsets(node, writer, "g", 5, codes.append)
    assert codes == [Code.COORDINATOR_NOT_AVAILABLE]
