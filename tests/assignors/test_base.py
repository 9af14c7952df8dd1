"""The order of names, and what assignors inherit."""

import sys

import pytest

from thinconsumer.assignors.base import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, sort_key


def test_names_are_sorted_by_utf16_code_unit_as_in_java():
    """A character above U+FFFF is two surrogates in UTF-16, which sort below U+FFFD."""
    names = ["b", "\ufffd", "\U0001f600", "a"]
    assert sorted(names, key=sort_key) == ["a", "b", "\U0001f600", "\ufffd"]
    assert sorted(names) != sorted(names, key=sort_key)


@pytest.mark.parametrize("instance", [None, "here"])
def test_group_metadata_equals_that_of_confluent_kafkas_consumer(instance):
    """Compared before the consumer joins a group."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    more = {} if instance is None else {"group.instance.id": instance}
    theirs = confluent_kafka.Consumer({"bootstrap.servers": "", "group.id": "gr\u00fcppe", "log_level": 0, **more})
    assert GroupMetadata("gr\u00fcppe", -1, "", instance).for_confluent() == theirs.consumer_group_metadata()
    theirs.close()


def test_group_metadata_for_confluent_kafka_has_the_generation_and_the_member():
    words = GroupMetadata("g", 258, "m-1").for_confluent()
    assert words == b"CGMDv2:" + (258).to_bytes(4, sys.byteorder) + b"g\0m-1\0\1"


def test_defaults_of_an_assignor_are_eager_and_no_user_data():
    class Mine(PartitionAssignor):
        name = "mine"

        def assign(self, cluster, subscriptions):
            return dict.fromkeys(subscriptions, Assignment())

    mine = Mine()
    assert mine.subscription_user_data(["t"]) is None
    assert mine.on_assignment(Assignment(), None) is None
    assert tuple(mine.supported_protocols) == (RebalanceProtocol.EAGER,)


def test_assign_must_be_implemented():
    with pytest.raises(TypeError):
        PartitionAssignor()
