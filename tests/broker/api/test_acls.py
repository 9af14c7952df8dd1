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
TOPIC, CLUSTER = 2, 4
LITERAL, READ, ALLOW = 3, 3, 3
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
