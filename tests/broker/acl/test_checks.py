"""Responses to clients with some ACLs: hidden topics, groups and offsets, and ACLs that change between requests."""

from typing import Any

from differential.acls import trimmed

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire import ZERO_UUID
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from thinconsumer.wire.groups import DescribeGroupsRequest, ListGroupsRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from thinconsumer.wire.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from thinconsumer_testing.broker.acl.authorizer import STANDARD_AUTHORIZER
from thinconsumer_testing.broker.wire.administration import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from thinconsumer_testing.broker.wire.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic

ALICE = "User:alice"
TOPIC, GROUP = Code.TOPIC_AUTHORIZATION_FAILED, Code.GROUP_AUTHORIZATION_FAILED
CLUSTER, TXN = Code.CLUSTER_AUTHORIZATION_FAILED, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


ORDERS = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])


def batch() -> bytes:
    return build_batch([NewRecord(b"x", timestamp=1)])


def configs(kind: int, name: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)])


def test_each_broker_decides_with_its_own_acls_until_the_delta_arrives(
    new_cluster: Any, client_of: Any, codes: Any
) -> None:
    cluster = new_cluster(2, {"orders": 1}, authorizer_class_name=STANDARD_AUTHORIZER, metadata_lag_s=10.0)
    clients = [client_of(cluster, node) for node in (1, 2)]
    for client in clients:
        client.connection.principal = ALICE
    for _ in range(2):  # an ACL that exists already is no error
        cluster.create_acls(ALICE, "READ", topic="orders")
    assert [codes(client.ask(ORDERS)) for client in clients] == [{TOPIC}, {TOPIC}]
    cluster.kill(2)
    cluster.advance(11.0)
    assert codes(clients[0].ask(ORDERS)) == set()
    cluster.delete_acls(ALICE, "READ", topic="orders")
    cluster.create_acls("User:*", "DESCRIBE", topic="ord", prefixed=True)
    cluster.start(2)  # A broker that starts loads the controller's ACLs.
    again = client_of(cluster, 2)
    assert codes(again.ask(ORDERS)) == set()
    cluster.advance(22.0)
    assert [list(node.image.acls) for node in cluster.nodes.values()] == [list(cluster.controller.image.acls)] * 2


def test_the_controller_decides_about_forwarded_requests(secured: Any, alice: Any, codes: Any) -> None:
    cluster = secured(metadata_lag_s=10.0)
    client = alice(cluster)
    cluster.create_acls(ALICE, "ALTER", topic="orders")
    grow = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=3, assignments=None)])
    assert codes(client.ask(grow)) == set()
    assert codes(client.ask(ORDERS)) == {TOPIC}


def test_without_an_authorizer_nobody_is_denied(new_cluster: Any, alice: Any, codes: Any) -> None:
    cluster = new_cluster(1, {"orders": 1}, super_users="User:admin")
    cluster.create_acls("User:*", "ALL", topic="orders", deny=True)
    client = alice(cluster)
    answer = client.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name="orders")], include_topic_authorized_operations=True)
    )
    assert (codes(answer), answer.topics[0].topic_authorized_operations) == (set(), 3576)


def test_super_users_and_open_resources(secured: Any, client_of: Any, alice: Any, codes: Any) -> None:
    cluster = secured(super_users="User:admin;User:alice")
    assert codes(alice(cluster).ask(ORDERS)) == set()
    assert codes(client_of(cluster, 1).ask(ORDERS)) == {TOPIC}
    cluster = secured(allow_everyone_if_no_acl_found=True)
    assert codes(client_of(cluster, 1).ask(ORDERS)) == set()
    cluster.create_acls(ALICE, "READ", topic="orders")
    assert codes(client_of(cluster, 1).ask(ORDERS)) == {TOPIC}


def test_acls_for_a_host(secured: Any, alice: Any, codes: Any) -> None:
    cluster = secured()
    cluster.create_acls(ALICE, "READ", topic="orders", host="127.0.0.1")
    assert codes(alice(cluster).ask(ORDERS)) == set()
    cluster.create_acls("User:*", "ALL", topic="*", host="127.0.0.1", deny=True)
    assert codes(alice(cluster).ask(ORDERS)) == {TOPIC}


# -- metadata


def test_metadata_hides_topics(secured: Any, alice: Any) -> None:
    cluster = secured({"orders": 1, "payments": 1})
    cluster.create_acls(ALICE, "DESCRIBE", topic="orders")
    client = alice(cluster)
    for version in (0, 1, 13):
        everything = client.ask(MetadataRequest(topics=None if version else []), version)
        assert [(one.name, one.error_code) for one in everything.topics] == [("orders", 0)]
    named = [MetadataRequestTopic(name=name) for name in ("payments", "missing", "orders")]
    answer = client.ask(MetadataRequest(topics=named, allow_auto_topic_creation=False))
    hidden = {one.name: one for one in answer.topics if one.error_code}
    assert list(hidden) == ["payments", "missing"], "in the order of the request, in every run"
    assert {(one.error_code, one.topic_id, len(one.partitions)) for one in hidden.values()} == {(TOPIC, ZERO_UUID, 0)}
    topic_id = cluster.controller.image.topics["payments"].topic_id
    (by_id,) = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])).topics
    assert (by_id.error_code, by_id.name, by_id.topic_id) == (TOPIC, None, topic_id)


def test_metadata_creates_no_topic_without_create(secured: Any, alice: Any, codes: Any) -> None:
    cluster = secured()
    client = alice(cluster)
    cluster.create_acls(ALICE, ["DESCRIBE"], topic="new")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    assert codes(client.ask(request)) == {TOPIC}
    assert "new" not in cluster.controller.image.topics
    cluster.create_acls(ALICE, ["CREATE"], topic="new")
    assert codes(client.ask(request)) == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert codes(client.ask(request)) == set()


def test_authorized_operations(secured: Any, alice: Any) -> None:
    cluster = secured()
    client = alice(cluster)
    cluster.create_acls(ALICE, ["READ", "ALTER_CONFIGS"], topic="orders")
    cluster.create_acls(ALICE, "READ", topic="orders", deny=True, host="10.0.0.1")
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="orders")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = client.ask(request, 10)
    assert answer.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8 | 1 << 10 | 1 << 11
    assert answer.cluster_authorized_operations == 0
    describe = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert client.ask(describe).cluster_authorized_operations == 0
    cluster.create_acls(ALICE, "ALTER", cluster=True)
    assert client.ask(describe).cluster_authorized_operations == 1 << 7 | 1 << 8
    assert client.ask(request, 10).cluster_authorized_operations == 1 << 7 | 1 << 8
    assert client.ask(DescribeClusterRequest()).cluster_authorized_operations == -(2**31)


# -- groups and offsets


def joined(group: str) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    return JoinGroupRequest(
        group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer",
        protocols=protocols,
    )  # fmt: skip


def test_groups_are_listed_and_described_for_those_who_may(secured: Any, alice: Any) -> None:
    cluster = secured()
    cluster.controller.ensure_internal_topic("__consumer_offsets")
    client = alice(cluster)
    cluster.create_acls(ALICE, "READ", group="g", prefixed=True)
    for group in ("g1", "g2"):
        client.send(trimmed(joined(group), 3), 3)
        cluster.advance(cluster.schedule.now + 1.0)
        assert [one.error_code for one in client.answers()] == [0]
    cluster.delete_acls(ALICE, "READ", group="g", prefixed=True)
    assert client.ask(ListGroupsRequest()).groups == []
    cluster.create_acls(ALICE, "DESCRIBE", group="g2")
    assert [one.group_id for one in client.ask(ListGroupsRequest()).groups] == ["g2"]
    described = client.ask(DescribeGroupsRequest(groups=["g1", "g2"], include_authorized_operations=True)).groups
    assert [(one.group_id, one.error_code, one.authorized_operations) for one in described] == [
        ("g1", GROUP, -(2**31)), ("g2", 0, 1 << 8),
    ]  # fmt: skip
    cluster.create_acls(ALICE, "DESCRIBE", cluster=True)
    assert len(client.ask(ListGroupsRequest()).groups) == 2


def test_all_offsets_are_only_those_of_topics_that_may_be_described(secured: Any, alice: Any, codes: Any) -> None:
    cluster = secured({"orders": 1, "payments": 1})
    cluster.controller.ensure_internal_topic("__consumer_offsets")
    client = alice(cluster)
    cluster.create_acls(ALICE, "READ", group="billing", topic="*")
    rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    topics = [OffsetCommitRequestTopic(name=name, partitions=rows) for name in ("orders", "payments")]
    assert codes(client.ask(OffsetCommitRequest(group_id="billing", topics=topics), 9)) == set()
    cluster.create_acls(ALICE, "DESCRIBE", topic="pay", prefixed=True, deny=True)
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="billing", topics=None)])
    (group,) = client.ask(everything, 9).groups
    assert [(one.name, one.partitions[0].committed_offset) for one in group.topics] == [("orders", 7)]
    (group,) = client.ask(everything, 10).groups
    assert [one.topic_id for one in group.topics] == [cluster.controller.image.topics["orders"].topic_id]


def test_a_revoked_acl_ends_a_fetch_session_partition(secured: Any, alice: Any, codes: Any) -> None:
    cluster = secured({"orders": 1, "payments": 1})
    cluster.produce("orders", [b"a"])
    client = alice(cluster)
    cluster.create_acls("User:*", "READ", topic="*")
    topics = cluster.controller.image.topics
    wanted = [
        FetchTopic(topic_id=topics[name].topic_id, partitions=[FetchPartition(partition=0, partition_max_bytes=100)])
        for name in ("orders", "payments")
    ]
    first = client.ask(FetchRequest(session_epoch=0, max_bytes=1000, topics=wanted))
    assert (codes(first), len(first.responses)) == (set(), 2)
    cluster.create_acls(ALICE, "READ", topic="payments", deny=True)
    following = FetchRequest(session_id=first.session_id, session_epoch=1, max_bytes=1000)
    second = client.ask(following)
    assert {one.topic_id: one.partitions[0].error_code for one in second.responses} == {
        topics["orders"].topic_id: 0, topics["payments"].topic_id: TOPIC,
    }  # fmt: skip


# -- topics


def test_deleting_hidden_and_undeletable_topics(secured: Any, alice: Any) -> None:
    cluster = secured({"orders": 1, "payments": 1})
    cluster.create_acls(ALICE, "DESCRIBE", topic="orders")
    cluster.create_acls(ALICE, "DESCRIBE", topic="missing")
    topics = cluster.controller.image.topics
    states = [DeleteTopicState(name=name) for name in ("orders", "payments", "missing", "other")]
    answer = alice(cluster).ask(DeleteTopicsRequest(topics=states))
    assert {one.name: (one.error_code, one.topic_id) for one in answer.responses} == {
        "orders": (TOPIC, ZERO_UUID), "payments": (TOPIC, ZERO_UUID), "other": (TOPIC, ZERO_UUID),
        "missing": (Code.UNKNOWN_TOPIC_OR_PARTITION, ZERO_UUID),
    }  # fmt: skip
    ids = [DeleteTopicState(name=None, topic_id=topics[name].topic_id) for name in ("orders", "payments")]
    answer = alice(cluster).ask(DeleteTopicsRequest(topics=ids))
    assert {one.topic_id: (one.error_code, one.name) for one in answer.responses} == {
        topics["orders"].topic_id: (TOPIC, "orders"), topics["payments"].topic_id: (TOPIC, None),
    }  # fmt: skip
    assert set(topics) == {"orders", "payments"}


def test_creating_without_describe_configs_returns_no_configs(secured: Any, alice: Any) -> None:
    cluster = secured()
    cluster.create_acls(ALICE, "CREATE", topic="new")
    rows = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("new", "other")]
    answer = alice(cluster).ask(CreateTopicsRequest(topics=rows))
    new, other = sorted(answer.topics, key=lambda topic: topic.name)
    assert (new.error_code, new.topic_config_error_code, new.configs, new.num_partitions) == (0, TOPIC, [], -1)
    assert (other.error_code, other.error_message, other.topic_id) == (TOPIC, "Authorization failed.", ZERO_UUID)


def test_one_unauthorized_partition_fails_the_transaction(secured: Any, alice: Any) -> None:
    cluster = secured({"orders": 1, "payments": 1})
    cluster.create_acls(ALICE, "WRITE", transactional_id="tx", topic="orders")
    cluster.create_acls(ALICE, "WRITE", topic="missing")
    names = ("orders", "payments", "missing", "__consumer_offsets")
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names]
    request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="tx", v3_and_below_topics=topics)
    answer = alice(cluster).ask(request, 3)
    found = {one.name: one.results_by_partition[0].partition_error_code for one in answer.results_by_topic_v3_and_below}
    assert found == {
        "orders": Code.OPERATION_NOT_ATTEMPTED, "payments": TOPIC, "missing": Code.UNKNOWN_TOPIC_OR_PARTITION,
        "__consumer_offsets": TOPIC,
    }  # fmt: skip


def test_produce_without_acks_closes_the_connection(secured: Any, alice: Any) -> None:
    cluster = secured()
    client = alice(cluster)
    topics = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=batch())])]
    request = ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics)
    client.send(trimmed(request, 9), 9)
    assert client.closed


def test_configs_of_the_authorizer_are_described_without_values(new_cluster: Any, client_of: Any) -> None:
    def described(**config: Any) -> dict[str, Any]:
        answer = client_of(new_cluster(**config), 1).ask(configs(4, "1"))
        return {row.name: row for row in answer.results[0].configs}

    plain = described()
    assert (plain["authorizer.class.name"].value, plain["authorizer.class.name"].config_type) == ("", 2)
    assert "super.users" not in plain
    own = described(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS")
    assert own["authorizer.class.name"].value == STANDARD_AUTHORIZER
    hidden = own["super.users"]
    assert (hidden.value, hidden.is_sensitive, hidden.read_only, hidden.config_source) == (None, True, True, 4)
    assert "allow.everyone.if.no.acl.found" not in own
