"""Every operation builds a valid request and reads the response in every version."""

import pytest

from thinconsumer import TopicPartition
from thinconsumer.admin import NewTopic, operations
from thinconsumer.admin.operations import KeyResult
from thinconsumer.failures import rule
from thinconsumer.wire.error_codes import Code

T0 = TopicPartition("t", 0)

OPERATIONS = {
    "create topics": (operations.create_topics(validate_only=False), {"a": NewTopic(2, 1), "b": NewTopic(1, 1)}),
    "validate topics": (operations.create_topics(validate_only=True), {"a": NewTopic(2, 1, configs={"x": "1"})}),
    "assign topics": (operations.create_topics(validate_only=False), {"a": NewTopic(assignments={0: [1]})}),
    "delete topics": (operations.DELETE_TOPICS, {"a": None, "b": None}),
    "create partitions": (operations.create_partitions(validate_only=False), {"a": 3}),
    "validate partitions": (operations.create_partitions(validate_only=True), {"a": 3}),
    "delete records": (operations.DELETE_RECORDS, {T0: 5, TopicPartition("t", 1): -1, TopicPartition("u", 0): 0}),
    "describe topics": (operations.DESCRIBE_TOPICS, {"a": None}),
    "list topics": (operations.LIST_TOPICS, {operations.ALL: None}),
    "list groups": (operations.list_groups((), ()), {1: None}),
    "list groups by state": (operations.list_groups(["Stable"], ()), {1: None}),
    "list groups by type": (operations.list_groups(iter(["Stable"]), iter(["classic"])), {1: None}),
    "describe groups": (operations.DESCRIBE_GROUPS, {"g": None, "h": None}),
    "delete groups": (operations.DELETE_GROUPS, {"g": None}),
    "list offsets": (operations.LIST_GROUP_OFFSETS, {"g": None}),
}
ROWS = [
    (name, version)
    for name, (operation, _) in OPERATIONS.items()
    for version in range(
        max(operation.min_version, operation.api.VERSIONS[0]), min(operation.max_version, operation.api.VERSIONS[1]) + 1
    )
]


@pytest.mark.parametrize(("name", "version"), ROWS)
def test_requests_survive_encoding_in_every_version(name, version):
    operation, items = OPERATIONS[name]
    message = operation.build(items, version, 1234)
    assert isinstance(message, operation.api)
    assert operation.api.decode(message.encode(version), version) == message


@pytest.mark.parametrize(("name", "version"), ROWS)
def test_an_empty_response_has_no_key(name, version):
    operation, _ = OPERATIONS[name]
    found = list(operation.read(operation.api.RESPONSE(), version))
    assert all(isinstance(one, KeyResult) for one in found)
    assert {one.key for one in found} <= {None, operations.ALL}


def test_default_numbers_are_minus_one():
    message = operations.create_topics(validate_only=False).build({"a": NewTopic()}, 7, 1000)
    assert (message.topics[0].num_partitions, message.topics[0].replication_factor) == (-1, -1)


def test_filters_raise_the_lowest_version():
    assert operations.list_groups((), ()).min_version == 0
    assert operations.list_groups(["Stable"], ()).min_version == 4
    assert operations.list_groups((), ["consumer"]).min_version == 5


def test_an_unknown_topic_is_final_for_delete_topics_only():
    for operation, is_retried in ((operations.DELETE_TOPICS, False), (operations.DELETE_RECORDS, True)):
        api, scope = operation.policy
        assert rule(api, Code.UNKNOWN_TOPIC_OR_PARTITION, scope).action.is_retried is is_retried
