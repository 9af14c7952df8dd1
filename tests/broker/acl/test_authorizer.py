"""Decisions by ACLs: patterns, hosts, implied operations, DENY before ALLOW, super users, any resource of a type."""

from collections.abc import Iterable

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer_testing.broker.acl.authorizer import Authorizer, parse_super_users
from thinconsumer_testing.broker.acl.bindings import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from thinconsumer_testing.broker.acl.index import AclIndex

ALICE, HOST = "User:alice", "10.0.0.1"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
Op = AclOperation


def acl(text: str) -> AclBinding:
    """Read "allow READ topic orders", "deny ALL topic ord+ for User:bob from 10.0.0.2"; + ends a prefix."""
    permission, operation, kind, name, *rest = text.split()
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    return AclBinding(
        ResourceType[kind.upper()],
        name.rstrip("+"),
        PatternType.PREFIXED if name.endswith("+") else PatternType.LITERAL,
        options.get("for", ALICE),
        options.get("from", "*"),
        Op[operation],
        AclPermission[permission.upper()],
    )


def authorizer(*acls: str, super_users: Iterable[str] = (), is_open: bool = False) -> Authorizer:
    return Authorizer(AclIndex(map(acl, acls)), frozenset(super_users), is_open=is_open)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        (["allow READ topic orders"], True),
        (["allow READ topic order"], False),
        (["allow READ topic orders-2"], False),
        (["allow READ topic *"], True),
        (["allow READ topic ord+"], True),
        (["allow READ topic orders+"], True),
        (["allow READ topic orders-+"], False),
        (["allow READ topic rders+"], False),
        (["allow READ topic *+"], False),
        (["allow READ group orders"], False),
        (["allow ALL topic orders"], True),
        (["allow WRITE topic orders"], False),
        (["allow READ topic orders for User:bob"], False),
        (["allow READ topic orders for User:*"], True),
        (["allow READ topic orders for Group:alice"], False),
        (["allow READ topic orders from 10.0.0.1"], True),
        (["allow READ topic orders from 10.0.0.2"], False),
        (["allow READ topic orders", "deny READ topic orders"], False),
        (["deny READ topic *", "allow READ topic orders"], False),
        (["deny READ topic o+", "allow READ topic orders"], False),
        (["deny ALL topic orders for User:*", "allow READ topic orders"], False),
        (["allow READ topic orders", "deny READ topic orders from 10.0.0.2"], True),
        (["allow READ topic orders", "deny WRITE topic orders"], True),
        (["allow READ topic orders", "deny READ topic orders for User:bob"], True),
    ],
)
def test_read_a_topic(acls: list[str], expected: bool) -> None:
    assert authorizer(*acls).is_allowed(ALICE, HOST, Op.READ, TOPIC, "orders") is expected


@pytest.mark.parametrize("operation", [Op.READ, Op.WRITE, Op.DELETE, Op.ALTER, Op.DESCRIBE, Op.ALL])
def test_operations_that_imply_describe(operation: AclOperation) -> None:
    allowing = authorizer(f"allow {operation.name} topic orders")
    assert allowing.is_allowed(ALICE, HOST, Op.DESCRIBE, TOPIC, "orders")
    assert allowing.is_allowed(ALICE, HOST, Op.DESCRIBE_CONFIGS, TOPIC, "orders") is (operation is Op.ALL)


@pytest.mark.parametrize("operation", [Op.CREATE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS, Op.CLUSTER_ACTION])
def test_operations_that_do_not_imply_describe(operation: AclOperation) -> None:
    allowing = authorizer(f"allow {operation.name} topic orders")
    assert not allowing.is_allowed(ALICE, HOST, Op.DESCRIBE, TOPIC, "orders")
    has_configs = operation in (Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS)
    assert allowing.is_allowed(ALICE, HOST, Op.DESCRIBE_CONFIGS, TOPIC, "orders") is has_configs


def test_describe_implies_nothing() -> None:
    assert not authorizer("allow DESCRIBE topic orders").is_allowed(ALICE, HOST, Op.READ, TOPIC, "orders")


def test_denying_an_operation_denies_no_implied_one() -> None:
    some = authorizer("allow ALL topic orders", "deny READ topic orders", "deny ALTER_CONFIGS topic orders")
    assert some.is_allowed(ALICE, HOST, Op.DESCRIBE, TOPIC, "orders")
    assert some.is_allowed(ALICE, HOST, Op.DESCRIBE_CONFIGS, TOPIC, "orders")
    assert not some.is_allowed(ALICE, HOST, Op.READ, TOPIC, "orders")


def test_open_resources_are_those_without_any_acl() -> None:
    opened = authorizer("allow WRITE topic orders for User:bob", "deny READ topic pay+", is_open=True)
    assert opened.is_allowed(ALICE, HOST, Op.READ, TOPIC, "other")
    assert opened.is_allowed(ALICE, HOST, Op.READ, GROUP, "orders")
    assert not opened.is_allowed(ALICE, HOST, Op.READ, TOPIC, "orders")
    assert not opened.is_allowed(ALICE, HOST, Op.WRITE, TOPIC, "payments")


def test_super_users_may_do_everything() -> None:
    some = authorizer("deny ALL topic * for User:*", super_users=[ALICE])
    assert some.is_allowed(ALICE, HOST, Op.READ, TOPIC, "orders")
    assert some.is_allowed_for_any(ALICE, HOST, Op.WRITE, TOPIC)
    assert not some.is_allowed("User:bob", HOST, Op.READ, TOPIC, "orders")


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        (["allow WRITE topic orders"], True),
        (["allow WRITE topic ord+"], True),
        (["allow WRITE topic *"], True),
        (["allow ALL topic orders"], True),
        (["allow ALTER topic orders"], False),
        (["allow WRITE group orders"], False),
        (["allow WRITE topic orders from 10.0.0.2"], False),
        (["allow WRITE topic orders for User:bob"], False),
        (["allow WRITE topic orders", "deny WRITE topic *"], False),
        (["allow WRITE topic orders", "deny WRITE topic orders"], False),
        (["allow WRITE topic orders", "deny ALL topic ord+"], False),
        (["allow WRITE topic orders+", "deny WRITE topic ord+"], False),
        (["allow WRITE topic orders+", "deny WRITE topic orders"], True),
        (["allow WRITE topic orders", "deny WRITE topic payments", "deny WRITE topic orders-+"], True),
        (["allow WRITE topic *", "deny WRITE topic ord+"], True),
        (["allow WRITE topic orders", "deny READ topic *"], True),
        (["deny WRITE topic hardcode", "allow WRITE topic *"], True),
    ],
)
def test_write_to_any_topic(acls: list[str], expected: bool) -> None:
    assert authorizer(*acls).is_allowed_for_any(ALICE, HOST, Op.WRITE, TOPIC) is expected


def test_open_resources_allow_writing_to_any() -> None:
    assert authorizer(is_open=True).is_allowed_for_any(ALICE, HOST, Op.WRITE, TOPIC)
    assert not authorizer("deny WRITE topic *", is_open=True).is_allowed_for_any(ALICE, HOST, Op.WRITE, TOPIC)


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_super_users(" User:a ;User:CN=b,O=c;; ") == {"User:a", "User:CN=b,O=c"}
    assert parse_super_users("") == frozenset()
    for bad in ("admin", "User:", ":admin", "User:a;b"):
        with pytest.raises(IllegalArgumentError, match=r"super\.users"):
            parse_super_users(bad)
