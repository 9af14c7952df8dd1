"""ACLs as values: validation, filters, the form for users, and the form on disk."""

from typing import Any

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer_testing.broker.acl.bindings import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    acl_bindings,
    acl_from_json,
    acl_to_json,
)

ORDERS = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW
)
PREFIX = ORDERS._replace(resource_name="ord", pattern_type=PatternType.PREFIXED)
WILDCARD = ORDERS._replace(resource_name="*")
EVERY = {"orders": ORDERS, "prefix": PREFIX, "wildcard": WILDCARD}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "orders prefix wildcard"),
        ({"resource_type": ResourceType.GROUP}, ""),
        ({"resource_type": ResourceType.TOPIC}, "orders prefix wildcard"),
        ({"resource_name": "orders"}, "orders"),
        ({"resource_name": "orders", "pattern_type": PatternType.LITERAL}, "orders"),
        ({"resource_name": "orders", "pattern_type": PatternType.PREFIXED}, ""),
        ({"resource_name": "orders", "pattern_type": PatternType.MATCH}, "orders prefix wildcard"),
        ({"resource_name": "other", "pattern_type": PatternType.MATCH}, "wildcard"),
        ({"resource_name": "ord", "pattern_type": PatternType.MATCH}, "prefix wildcard"),
        ({"resource_name": "*", "pattern_type": PatternType.LITERAL}, "wildcard"),
        ({"pattern_type": PatternType.LITERAL}, "orders wildcard"),
        ({"pattern_type": PatternType.PREFIXED}, "prefix"),
        ({"pattern_type": PatternType.MATCH}, "orders prefix wildcard"),
        ({"principal": "User:alice"}, "orders prefix wildcard"),
        ({"principal": "User:*"}, ""),
        ({"host": "10.0.0.1"}, ""),
        ({"host": "*"}, "orders prefix wildcard"),
        ({"operation": AclOperation.READ}, "orders prefix wildcard"),
        ({"operation": AclOperation.ALL}, ""),
        ({"permission": AclPermission.DENY}, ""),
    ],
)
def test_filters(wanted: dict[str, Any], expected: str) -> None:
    found = [name for name, binding in EVERY.items() if AclFilter(**wanted).matches(binding)]
    assert " ".join(found) == expected


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": ResourceType.UNKNOWN}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
        ({"permission": AclPermission.ANY}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Resource name should not be empty"),
        ({"resource_type": ResourceType.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_type": ResourceType.CLUSTER, "resource_name": "kafka-cluster"}, None),
    ],
)
def test_validation(change: dict[str, Any], problem: str | None) -> None:
    assert ORDERS._replace(**change).problem() == problem


@pytest.mark.parametrize("binding", EVERY.values())
def test_json_form(binding: AclBinding) -> None:
    assert acl_from_json(acl_to_json(binding)) == binding


@pytest.mark.parametrize("row", [[], ["TOPIC"], acl_to_json(ORDERS._replace(resource_name="")), ["X"] * 7])
def test_invalid_json_form(row: list[Any]) -> None:
    with pytest.raises((ValueError, KeyError)):
        acl_from_json(row)


def test_acls_of_users() -> None:
    assert acl_bindings("User:alice", "READ", topic="orders") == [ORDERS]
    assert acl_bindings("User:alice", ["read"], topic="ord", prefixed=True) == [PREFIX]
    both = acl_bindings("User:*", ["READ", "DESCRIBE"], group="g", topic="t", deny=True, host="10.0.0.1")
    assert [(one.resource_type.name, one.operation.name) for one in both] == [
        ("TOPIC", "READ"), ("TOPIC", "DESCRIBE"), ("GROUP", "READ"), ("GROUP", "DESCRIBE"),
    ]  # fmt: skip
    assert {(one.permission, one.host) for one in both} == {(AclPermission.DENY, "10.0.0.1")}
    (cluster,) = acl_bindings("User:alice", "ALTER", cluster=True, prefixed=True)
    assert cluster[:3] == (ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)
    (own,) = acl_bindings("User:alice", "WRITE", transactional_id="tx")
    assert own.resource_type is ResourceType.TRANSACTIONAL_ID


@pytest.mark.parametrize(
    ("principal", "operations", "resources", "message"),
    [
        ("alice", "READ", {"topic": "t"}, "did you mean 'User:alice'"),
        ("User:alice", "READ", {}, "needs an operation, and a topic"),
        ("User:alice", [], {"topic": "t"}, "needs an operation"),
        ("User:alice", "REED", {"topic": "t"}, "'REED' is no operation on a TOPIC: choose from READ, WRITE"),
        ("User:alice", "WRITE", {"group": "g"}, "no operation on a GROUP"),
        ("User:alice", "READ", {"group": "*", "prefixed": True}, "only without prefixed=True"),
        ("User:alice", "READ", {"topic": ""}, "Resource name should not be empty"),
    ],
)
def test_acls_of_users_are_checked(principal: str, operations: Any, resources: Any, message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        acl_bindings(principal, operations, **resources)
