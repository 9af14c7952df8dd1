"""CreateAcls, DescribeAcls and DeleteAcls in every version, with an authorizer and without."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.acl.authorizer import STANDARD_AUTHORIZER
from thinconsumer_testing.broker.acl.control import RECORDS_MAX
from thinconsumer_testing.broker.wire.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

VERSIONS = (1, 2, 3)
TOPIC, GROUP, CLUSTER = 2, 3, 4
LITERAL, PREFIXED = 3, 4
READ, WRITE, DESCRIBE = 3, 4, 8
DENY, ALLOW = 2, 3
EVERYTHING: dict[str, Any] = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
ORDERS = AclCreation(
    resource_type=TOPIC, resource_name="orders", resource_pattern_type=LITERAL, principal="User:alice", host="*",
    operation=READ, permission_type=ALLOW,
)  # fmt: skip


@pytest.fixture
def admin(new_cluster: Any, client_of: Any) -> Callable[..., Any]:
    """``admin()`` connects a super user to a new cluster with an authorizer."""

    def connect(**config: Any) -> Any:
        config = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:ANONYMOUS", **config}
        return client_of(new_cluster(**config), 1)

    return connect


def create(client: Any, *rows: AclCreation, version: int = 3) -> list[int]:
    return [one.error_code for one in client.ask(CreateAclsRequest(creations=list(rows)), version).results]


@pytest.mark.parametrize("version", VERSIONS)
def test_acls_live_from_creation_to_deletion(version: int, admin: Any) -> None:
    client = admin()
    prefixed = replace(ORDERS, resource_name="ord", resource_pattern_type=PREFIXED, permission_type=DENY)
    assert create(client, ORDERS, replace(ORDERS, operation=WRITE), prefixed, ORDERS, version=version) == [0] * 4
    described = client.ask(DescribeAclsRequest(**EVERYTHING), version)
    assert (described.error_code, described.error_message) == (0, "")
    literal, prefix = described.resources
    assert (literal.resource_type, literal.resource_name, literal.pattern_type) == (TOPIC, "orders", LITERAL)
    assert [(one.principal, one.host, one.operation, one.permission_type) for one in literal.acls] == [
        ("User:alice", "*", READ, ALLOW), ("User:alice", "*", WRITE, ALLOW),
    ]  # fmt: skip
    assert (prefix.resource_name, prefix.pattern_type, prefix.acls[0].permission_type) == ("ord", PREFIXED, DENY)
    filters = [
        DeleteAclsFilter(**{**EVERYTHING, "operation": WRITE}),
        DeleteAclsFilter(**{**EVERYTHING, "host_filter": "10.0.0.1"}),
        DeleteAclsFilter(**{**EVERYTHING, "resource_name_filter": "ord"}),
    ]
    deleted = client.ask(DeleteAclsRequest(filters=filters), version).filter_results
    assert [(one.error_code, len(one.matching_acls)) for one in deleted] == [(0, 1), (0, 0), (0, 1)]
    match = deleted[0].matching_acls[0]
    assert (match.resource_name, match.pattern_type, match.operation, match.error_code) == ("orders", LITERAL, WRITE, 0)
    (left,) = client.ask(DescribeAclsRequest(**EVERYTHING), version).resources
    assert [one.operation for one in left.acls] == [READ]


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type": 99},
        {"resource_pattern_type": 77},
        {"operation": 99},
        {"permission_type": 9},
        {"resource_name": ""},
        {"resource_type": CLUSTER, "resource_name": "orders"},
    ],
)
def test_invalid_acls_are_rejected_one_by_one(change: dict[str, Any], admin: Any) -> None:
    client = admin()
    answer = client.ask(CreateAclsRequest(creations=[replace(ORDERS, **change), ORDERS]))
    assert [one.error_code for one in answer.results] == [Code.INVALID_REQUEST, 0]
    assert answer.results[0].error_message
    assert len(client.cluster.controller.image.acls) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type": 1},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"permission_type": 1},
    ],
)
def test_numbers_of_filters_fail_the_whole_request(change: dict[str, Any], admin: Any) -> None:
    client = admin()
    answer = client.ask(CreateAclsRequest(creations=[ORDERS, replace(ORDERS, **change)]))
    failed = (Code.UNKNOWN_SERVER_ERROR, None)
    assert [(one.error_code, one.error_message) for one in answer.results] == [failed] * 2
    assert len(client.cluster.controller.image.acls) == 0


@pytest.mark.parametrize(
    "request_",
    [
        CreateAclsRequest(creations=[ORDERS, replace(ORDERS, operation=0)]),
        CreateAclsRequest(creations=[replace(ORDERS, resource_pattern_type=0)]),
        DescribeAclsRequest(**{**EVERYTHING, "resource_type_filter": 0}),
        DescribeAclsRequest(**{**EVERYTHING, "permission_type": 0}),
        DeleteAclsRequest(filters=[DeleteAclsFilter(**{**EVERYTHING, "pattern_type_filter": 0})]),
    ],
)
def test_the_number_0_closes_the_connection(request_: Any, admin: Any) -> None:
    client = admin()
    client.send(request_)
    assert client.closed
    assert len(client.cluster.controller.image.acls) == 0


def test_filters_with_unknown_numbers(admin: Any) -> None:
    client = admin()
    create(client, ORDERS)
    unknown = {**EVERYTHING, "operation": 99}
    assert client.ask(DescribeAclsRequest(**unknown)).resources == []
    filters = [DeleteAclsFilter(**unknown), DeleteAclsFilter(**{**EVERYTHING, "resource_type_filter": GROUP})]
    results = client.ask(DeleteAclsRequest(filters=filters)).filter_results
    assert [(one.error_code, one.matching_acls) for one in results] == [(Code.INVALID_REQUEST, []), (0, [])]


def test_too_many_acls_at_once(admin: Any) -> None:
    client = admin()
    rows = [replace(ORDERS, resource_name=str(number)) for number in range(RECORDS_MAX + 1)]
    found = create(client, replace(ORDERS, resource_name=""), *rows)
    assert found == [Code.INVALID_REQUEST] + [Code.POLICY_VIOLATION] * len(rows)
    assert len(client.cluster.controller.image.acls) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_without_an_authorizer(version: int, admin: Any) -> None:
    client = admin(authorizer_class_name="")
    disabled = Code.SECURITY_DISABLED
    assert create(client, ORDERS, ORDERS, version=version) == [disabled] * 2
    described = client.ask(DescribeAclsRequest(**EVERYTHING), version)
    assert (described.error_code, described.resources, bool(described.error_message)) == (disabled, [], True)
    deleted = client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)]), version)
    assert [(one.error_code, one.matching_acls) for one in deleted.filter_results] == [(disabled, [])]
