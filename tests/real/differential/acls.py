"""Scripts with ACLs: requests that change them, and every API's response to a user without one.

Both clusters let everyone use resources without any ACL. A script that wants everything denied by default therefore
first creates an ACL of another user for all resources of every type.
"""

from dataclasses import is_dataclass
from typing import Any

from thinconsumer.wire import Message
from thinconsumer.wire.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.schema import wire_fields
from thinconsumer.wire.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from thinconsumer_testing.broker.acl.bindings import AclBinding, AclFilter, acl_bindings
from thinconsumer_testing.broker.wire.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from thinconsumer_testing.broker.wire.administration import DescribeClusterRequest
from thinconsumer_testing.broker.wire.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic

from . import acl_needs
from .acl_needs import EVERYTHING
from .scripts import acl_script
from .talk import Line, World

ALICE, NOBODY = "User:alice", "User:nobody"


# -- changing ACLs around the requests of a script


def as_creation(acl: AclBinding) -> AclCreation:
    kind, name, pattern, principal, host, operation, permission = acl
    return AclCreation(
        resource_type=int(kind), resource_name=name, resource_pattern_type=int(pattern), principal=principal, host=host,
        operation=int(operation), permission_type=int(permission),
    )  # fmt: skip


def as_filter(wanted: AclFilter | AclBinding) -> dict[str, Any]:
    names = (
        "resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter",
        "operation", "permission_type",
    )  # fmt: skip
    return {name: int(value) if isinstance(value, int) else value for name, value in zip(names, wanted, strict=True)}


def grant(world: World, principal: str, operations: str | list[str], **resources: Any) -> None:
    """Create ACLs, and wait until the broker has them."""
    acls = acl_bindings(principal, operations, **resources)
    line = world.connect()
    created = line.send(CreateAclsRequest(creations=[as_creation(acl) for acl in acls]), 3).quiet_answer()
    assert {one.error_code for one in created.results} == {0}, created
    for acl in acls:
        _wait_for(world, line, as_filter(acl), 1)
    line.close()


def revoke(world: World, *principals: str) -> None:
    """Delete all ACLs of principals, and wait until the broker has none of them."""
    line = world.connect()
    for principal in principals:
        wanted = {**EVERYTHING, "principal_filter": principal}
        line.send(DeleteAclsRequest(filters=[DeleteAclsFilter(**wanted)]), 3).quiet_answer()
        _wait_for(world, line, wanted, 0)
    line.close()


def _wait_for(world: World, line: Line, wanted: dict[str, Any], count: int) -> None:
    for _ in range(200):
        if len(line.send(DescribeAclsRequest(**wanted), 3).quiet_answer().resources) == count:
            return
        world.wait(0.02)
    raise AssertionError(f"the broker does not get ACLs like {wanted}")


def deny_by_default(world: World) -> None:
    """Give every resource an ACL of a user that does not log in, and delete all other ACLs of earlier scripts."""
    revoke(world, ALICE, "User:*", NOBODY)
    for resources in ({"topic": "*"}, {"group": "*"}):
        grant(world, NOBODY, "READ", **resources)
    grant(world, NOBODY, "WRITE", transactional_id="*")
    grant(world, NOBODY, "ALTER", cluster=True)


def trimmed(struct: Any, version: int) -> Any:
    """Return a message without the fields that a version lacks."""
    kept = {}
    for name, wire in wire_fields(type(struct)):
        value = getattr(struct, name)
        if version in wire.versions:
            is_list = isinstance(value, list)
            rows = [trimmed(one, version) if is_dataclass(one) else one for one in (value if is_list else [value])]
            kept[name] = rows if is_list else rows[0]
    return type(struct)(**kept)


def ask(world: World, line: Line, request: Message, about: str = "", *, at_least: int = 0, at_most: int = 99) -> Any:
    version = world.version(type(request), at_least, at_most)
    return line.ask(trimmed(request, version), version, about=about)


# -- the ACL requests themselves


def orders(world: World, **change: Any) -> AclCreation:
    """Say an ACL of the script's own."""
    own = {
        "resource_type": 2, "resource_name": world.name("orders"), "resource_pattern_type": 3,
        "principal": f"User:{world.prefix}", "host": "*", "operation": 3, "permission_type": 3,
    }  # fmt: skip
    return AclCreation(**{**own, **change})


CHANGES: tuple[dict[str, Any], ...] = (
    {}, {}, {"resource_pattern_type": 4}, {"operation": 4}, {"permission_type": 2}, {"host": "10.0.0.1"},
    {"resource_type": 3}, {"resource_type": 5}, {"resource_type": 6}, {"resource_type": 7}, {"operation": 15},
    {"operation": 2}, {"resource_type": 4, "resource_name": "orders"}, {"resource_type": 1}, {"resource_type": 99},
    {"resource_pattern_type": 1}, {"resource_pattern_type": 2}, {"resource_pattern_type": 99}, {"operation": 1},
    {"operation": 99}, {"permission_type": 1}, {"permission_type": 99}, {"resource_name": ""}, {"host": ""},
    {"principal": "Group:staff"}, {"resource_name": "a/b c"},
)  # fmt: skip


@acl_script
def creating_and_deleting_acls(world: World) -> None:
    """Good and bad ACLs, and filters that find them."""
    line = world.connect()
    for change in CHANGES:
        ask(world, line, CreateAclsRequest(creations=[orders(world, **change)]), str(change), at_least=3)
    ask(world, line, CreateAclsRequest(creations=[]), "none")
    ask(world, line, CreateAclsRequest(creations=[orders(world), orders(world, operation=1), orders(world)]), "mixed")
    world.wait(0.5)
    mine = {**EVERYTHING, "principal_filter": f"User:{world.prefix}"}
    found = line.send(DescribeAclsRequest(**mine), 3).quiet_answer()
    world.note("all", sorted(world.normal.of(found)["resources"], key=repr))
    name = world.name("orders")
    changes: tuple[dict[str, Any], ...] = (
        {"resource_name_filter": name}, {"resource_name_filter": f"{name}-more", "pattern_type_filter": 2},
        {"pattern_type_filter": 3}, {"pattern_type_filter": 4}, {"pattern_type_filter": 2},
        {"resource_name_filter": name, "pattern_type_filter": 4}, {"resource_type_filter": 3}, {"operation": 3},
        {"operation": 2}, {"permission_type": 2}, {"host_filter": "10.0.0.1"}, {"host_filter": "*"},
        {"host_filter": ""}, {"resource_type_filter": 99}, {"pattern_type_filter": 99}, {"operation": 99},
        {"permission_type": 99}, {"resource_name_filter": ""}, {"principal_filter": ""},
    )  # fmt: skip
    for change in changes:
        ask(world, line, DescribeAclsRequest(**{**mine, **change}), str(change), at_least=3)
    for change in (*changes, {}, {}):
        request = DeleteAclsRequest(filters=[DeleteAclsFilter(**{**mine, **change})])
        ask(world, line, request, str(change), at_least=3)
    ask(world, line, DeleteAclsRequest(filters=[]), "none")
    ask(world, line, CreateAclsRequest(creations=[orders(world), orders(world, operation=4)]), "again")
    world.wait(0.5)
    both = [DeleteAclsFilter(**{**mine, "operation": 4}), DeleteAclsFilter(**mine), DeleteAclsFilter(**mine)]
    ask(world, line, DeleteAclsRequest(filters=both), "overlapping")
    revoke(world, "Group:staff")


@acl_script
def acl_requests_that_cannot_be(world: World) -> None:
    """The number 0 stands for what a broker does not know."""
    for field in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        line = world.connect()
        ask(world, line, CreateAclsRequest(creations=[orders(world), orders(world, **{field: 0})]), field)
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        rows = {**EVERYTHING, "principal_filter": f"User:{world.prefix}", field: 0}
        ask(world, world.connect(), DescribeAclsRequest(**rows), field)
        ask(world, world.connect(), DeleteAclsRequest(filters=[DeleteAclsFilter(**rows)]), field)


# -- what each API needs


@acl_script
def what_each_api_needs(world: World) -> None:
    """Every request of a user without any ACL, and again after each ACL that it needs."""
    deny_by_default(world)
    for request, needs, about, least in acl_needs.rows(world, orders(world)):
        line = world.connect("alice")
        ask(world, line, request, f"{about} denied", at_least=least)
        for operation, resource in needs:
            grant(world, ALICE, operation, **resource)
            about = f"{about} {operation} {next(iter(resource))}"
            ask(world, line, request, about, at_least=least)
        line.close()
        revoke(world, ALICE)


@acl_script
def joining_a_group(world: World) -> None:
    """JoinGroup without and with READ."""
    deny_by_default(world)
    group = world.group()
    request = JoinGroupRequest(
        group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="c",
        protocols=[JoinGroupRequestProtocol(name="p", metadata=b"")],
    )  # fmt: skip
    line = world.connect("alice")
    ask(world, line, request, "denied")
    grant(world, ALICE, "DESCRIBE", group=group)
    ask(world, line, request, "with DESCRIBE")
    grant(world, ALICE, "READ", group=group)
    ask(world, line, request, "with READ")


@acl_script
def idempotent_producers(world: World) -> None:
    """InitProducerId without a transactional id needs IDEMPOTENT_WRITE, or WRITE on any topic."""
    world.producer_ids()
    deny_by_default(world)
    line = world.connect("alice")
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    name = world.name("t")
    for acls in (
        [],
        [("WRITE", {"topic": name})],
        [("WRITE", {"topic": name, "prefixed": True})],
        [("WRITE", {"topic": "*"})],
        [("ALL", {"topic": name})],
        [("ALTER", {"topic": name})],
        [("WRITE", {"topic": name, "host": "10.0.0.1"})],
        [("WRITE", {"topic": name}), ("WRITE", {"topic": name, "deny": True})],
        [("WRITE", {"topic": name}), ("WRITE", {"topic": world.prefix, "prefixed": True, "deny": True})],
        [("WRITE", {"topic": name}), ("WRITE", {"topic": "*", "deny": True})],
        [("WRITE", {"topic": name, "prefixed": True}), ("WRITE", {"topic": name, "deny": True})],
        [("IDEMPOTENT_WRITE", {"cluster": True})],
        [("WRITE", {"topic": "*", "deny": True}), ("IDEMPOTENT_WRITE", {"cluster": True})],
    ):
        for operation, resource in acls:
            grant(world, ALICE, operation, **resource)
        ask(world, line, request, str(acls).replace(world.prefix, "~"))
        revoke(world, ALICE)


#: Sets of ACLs for a topic "~-t"; each entry is (operation, what replaces the topic's name, other options).
PATTERNS: tuple[list[tuple[str, str, dict[str, Any]]], ...] = (
    [],
    [("READ", "t", {})],
    [("DESCRIBE", "t", {})],
    [("READ", "", {"prefixed": True})],
    [("READ", "t", {"prefixed": True})],
    [("READ", "t2", {"prefixed": True})],
    [("READ", "*", {})],
    [("ALL", "*", {})],
    [("WRITE", "t", {}), ("ALTER_CONFIGS", "t", {})],
    [("CREATE", "t", {}), ("DESCRIBE_CONFIGS", "t", {})],
    [("READ", "t", {"host": "127.0.0.1"})],
    [("READ", "t", {"host": "10.0.0.1"})],
    [("ALL", "t", {}), ("READ", "t", {"deny": True})],
    [("ALL", "t", {}), ("DESCRIBE", "t", {"deny": True})],
    [("READ", "t", {}), ("READ", "*", {"deny": True})],
    [("READ", "t", {}), ("ALL", "", {"prefixed": True, "deny": True})],
    [("READ", "t", {}), ("READ", "t", {"deny": True, "host": "10.0.0.1"})],
)


@acl_script
def patterns(world: World) -> None:
    """Literal, prefixed and wildcard ACLs, hosts, DENY before ALLOW: in the operations that Metadata lists."""
    deny_by_default(world)
    topic = world.topic()
    line = world.connect("alice")
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], include_topic_authorized_operations=True)
    for principal in (ALICE, "User:*"):
        for number, acls in enumerate(PATTERNS):
            for operation, stem, options in acls:
                grant(world, principal, operation, topic=stem if stem == "*" else world.name(stem), **options)
            ask(world, line, request, f"{principal} {number}", at_least=8)
            revoke(world, ALICE, "User:*")


@acl_script
def resources_without_acls(world: World) -> None:
    """They are open to everyone; one ACL of another user closes them."""
    revoke(world, ALICE, "User:*", NOBODY)
    topic, group = world.topic(), world.group()
    line = world.connect("alice")
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], include_topic_authorized_operations=True)
    describe = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    for principal, options in ((ALICE, {"deny": True}), (NOBODY, {}), (ALICE, {})):
        ask(world, line, request, f"before {principal}", at_least=8)
        ask(world, line, describe, f"before {principal}")
        grant(world, principal, "READ", topic=topic, group=group, **options)
    ask(world, line, request, at_least=8)
    ask(world, line, describe)
    revoke(world, ALICE, NOBODY)


@acl_script
def what_is_hidden(world: World) -> None:
    """Topics and groups that a user may not describe, known and unknown, and operations on the cluster."""
    deny_by_default(world)
    seen, hidden = world.topic("seen"), world.topic("hidden")
    ids = [world.topic_id(name) for name in (seen, hidden)]
    grant(world, ALICE, "DESCRIBE", topic=seen)
    grant(world, ALICE, "DESCRIBE", topic=world.name("missing"))
    line = world.connect("alice")
    names = [seen, hidden, world.name("missing"), world.name("none"), "a/b"]
    topics = [MetadataRequestTopic(name=name) for name in names]
    create = world.version(MetadataRequest) < 4
    ask(world, line, MetadataRequest(topics=topics, allow_auto_topic_creation=create), "named")
    by_id = [MetadataRequestTopic(name=None, topic_id=one) for one in (*ids, b"?" * 16)]
    ask(world, line, MetadataRequest(topics=by_id, allow_auto_topic_creation=False), "ids", at_least=12)
    version = world.version(MetadataRequest)
    everything = line.send(MetadataRequest(topics=None if version else []), version).quiet_answer()
    world.note(f"everything {version}", world.normal.of(everything))
    for operation in ("none", "DESCRIBE", "ALTER"):
        if operation != "none":
            grant(world, ALICE, operation, cluster=True)
        request = MetadataRequest(topics=[], include_cluster_authorized_operations=True)
        ask(world, line, request, f"cluster {operation}", at_least=8, at_most=10)
        cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
        ask(world, line, cluster, f"cluster {operation}")
    revoke(world, ALICE)
    grant(world, ALICE, "DESCRIBE", topic=seen)
    states = [DeleteTopicState(name=name) for name in names]
    ask(world, line, DeleteTopicsRequest(topic_names=names, topics=states, timeout_ms=5000), "named")
    states = [DeleteTopicState(name=None, topic_id=one) for one in (*ids, b"?" * 16)]
    ask(world, line, DeleteTopicsRequest(topics=states, timeout_ms=5000), "ids", at_least=6)
    grant(world, ALICE, "CREATE", cluster=True)
    rows = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in (seen, world.name("c"))]
    ask(world, line, CreateTopicsRequest(topics=rows, timeout_ms=5000), "with CREATE on the cluster")
    grant(world, ALICE, "WRITE", transactional_id="*")
    grant(world, ALICE, "WRITE", topic=seen)
    grant(world, ALICE, "WRITE", topic=world.name("missing"))
    txn = world.transactional_id()
    added = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (*names, "__consumer_offsets")]
    request = AddPartitionsToTxnRequest(v3_and_below_transactional_id=txn, v3_and_below_topics=added)
    ask(world, line, request, "some topics", at_most=3)


@acl_script
def listing_groups(world: World) -> None:
    """Only the groups that may be described, or all with DESCRIBE on the cluster."""
    deny_by_default(world)
    topic, admin, line = world.topic(), world.connect(), world.connect("alice")
    groups = [world.group(stem) for stem in "ab"]
    rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    for group in groups:
        topics = [OffsetCommitRequestTopic(name=topic, partitions=rows)]
        request = OffsetCommitRequest(group_id=group, topics=topics)
        ask(world, admin, request, "by a super user", at_most=9)

    def listed(about: str) -> None:
        version = world.version(ListGroupsRequest)
        answer = line.send(ListGroupsRequest(), version).quiet_answer()
        answer.groups = [group for group in answer.groups if group.group_id in groups]
        world.note(f"ListGroups {version} {about}", world.normal.of(answer))

    listed("denied")
    grant(world, ALICE, "DELETE", group=groups[1])
    listed("with an ACL")
    ask(world, line, DescribeGroupsRequest(groups=groups, include_authorized_operations=True), "one of two")
    grant(world, ALICE, "DESCRIBE", cluster=True)
    listed("with DESCRIBE on the cluster")
    ask(world, line, DeleteGroupsRequest(groups_names=groups), "one of two")
    revoke(world, ALICE)
