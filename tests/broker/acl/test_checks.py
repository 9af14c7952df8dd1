"""Responses to clients with some ACLs: hidden topics, groups and offsets, and ACLs that change between requests."""

from typing import Any

from differential.acls import trimmed

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from thinconsumer.wire.topics import CreatePartitionsRequest, CreatePartitionsTopic
from thinconsumer_testing.broker.acl.authorizer import STANDARD_AUTHORIZER
from thinconsumer_testing.broker.wire.administration import DescribeConfigsRequest, DescribeConfigsResource

ALICE = "User:alice"
TOPIC = Code.TOPIC_AUTHORIZATION_FAILED


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


# -- metadata


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


# -- groups and offsets


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
