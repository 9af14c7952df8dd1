"""Every operation builds a valid request and reads the response in every version."""

import pytest

from thinconsumer.admin import NewTopic, operations
from thinconsumer.admin.operations import KeyResult

OPERATIONS = {
    "create topics": (operations.CREATE_TOPICS, {"a": NewTopic(2, 1), "b": NewTopic(1, 1, configs={"x": "1"})}),
    "delete topics": (operations.DELETE_TOPICS, {"a": None, "b": None}),
    "create partitions": (operations.CREATE_PARTITIONS, {"a": 3}),
    "describe topics": (operations.DESCRIBE_TOPICS, {"a": None}),
    "list topics": (operations.LIST_TOPICS, {operations.ALL: None}),
    "list groups": (operations.LIST_GROUPS, {1: None}),
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
    message = operations.CREATE_TOPICS.build({"a": NewTopic()}, 7, 1000)
    assert (message.topics[0].num_partitions, message.topics[0].replication_factor) == (-1, -1)
