"""Every operation builds a valid request and reads the response in every version."""

import pytest

from thinconsumer import TopicPartition
from thinconsumer.admin import CLASSIC, CONSUMER, GroupDescription, MemberDescription, NewTopic, operations
from thinconsumer.admin.operations import KeyResult
from thinconsumer.wire import consumer_protocol, groups

OPERATIONS = {
    "create topics": (operations.CREATE_TOPICS, {"a": NewTopic(2, 1), "b": NewTopic(1, 1, configs={"x": "1"})}),
    "delete topics": (operations.DELETE_TOPICS, {"a": None, "b": None}),
    "create partitions": (operations.CREATE_PARTITIONS, {"a": 3}),
    "describe topics": (operations.DESCRIBE_TOPICS, {"a": None}),
    "list topics": (operations.LIST_TOPICS, {operations.ALL: None}),
    "list groups": (operations.list_groups(), {1: None}),
    "list consumer groups": (operations.list_groups(["consumer"]), {1: None}),
    "describe groups": (operations.DESCRIBE_GROUPS, {"g": None, "h": None}),
    "describe classic groups": (operations.DESCRIBE_CLASSIC_GROUPS, {"g": None, "h": None}),
    "delete groups": (operations.DELETE_GROUPS, {"g": None}),
    "delete offsets": (operations.DELETE_GROUP_OFFSETS, {"g": [TopicPartition("a", 0), TopicPartition("a", 1)]}),
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


def assignment(*topics):
    rows = [
        groups.DescribedTopicPartitions(topic_id=bytes(16), topic_name=name, partitions=list(n)) for name, *n in topics
    ]
    return groups.DescribedAssignment(topic_partitions=rows)


@pytest.mark.parametrize(("number", "member_type"), [(-1, ""), (0, CLASSIC), (1, CONSUMER), (7, "")])
def test_a_consumer_group_is_described_with_epochs_and_targets(number, member_type):
    plain = groups.DescribedConsumerMember(member_id="n", subscribed_topic_regex="")
    member = groups.DescribedConsumerMember(
        member_id="m",
        instance_id="i",
        member_epoch=4,
        client_id="c",
        client_host="/10.0.0.1",
        subscribed_topic_names=["b", "a"],
        subscribed_topic_regex="a.*",
        assignment=assignment(("b", 1, 0)),
        target_assignment=assignment(("b", 0), ("a", 2)),
        member_type=number,
    )
    group = groups.DescribedConsumerGroup(
        group_id="g",
        group_state="Reconciling",
        group_epoch=6,
        assignment_epoch=5,
        assignor_name="uniform",
        members=[member, plain],
    )
    (found,) = operations.DESCRIBE_GROUPS.read(groups.ConsumerGroupDescribeResponse(groups=[group]), 1)
    described = MemberDescription(
        "m",
        "i",
        "c",
        "/10.0.0.1",
        member_type,
        4,
        ("a", "b"),
        "a.*",
        (TopicPartition("b", 0), TopicPartition("b", 1)),
        (TopicPartition("a", 2), TopicPartition("b", 0)),
    )
    other = found.value.members[1]
    assert (other.member_id, other.subscribed_regex, other.assignment, other.target) == ("n", None, (), ())
    group = GroupDescription("g", CONSUMER, "Reconciling", "consumer", "uniform", (described, other), 6, 5)
    assert found == KeyResult("g", group)


@pytest.mark.parametrize(
    ("protocol_type", "metadata", "assigned", "topics", "partitions"),
    [
        (
            "consumer",
            consumer_protocol.encode_subscription(["b", "a"]),
            consumer_protocol.encode_assignment([TopicPartition("a", 1)]),
            ("a", "b"),
            (TopicPartition("a", 1),),
        ),
        ("consumer", b"", b"", None, ()),
        ("consumer", b"\0\1garbage", b"\0\1garbage", None, None),
        ("connect", consumer_protocol.encode_subscription(["a"]), b"", None, None),
    ],
)
def test_bytes_of_classic_members_are_decoded_if_they_are_of_consumers(
    protocol_type, metadata, assigned, topics, partitions
):
    member = groups.DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=metadata, member_assignment=assigned
    )
    group = groups.DescribedGroup(
        group_id="g", group_state="Stable", protocol_type=protocol_type, protocol_data="range", members=[member]
    )
    (found,) = operations.DESCRIBE_CLASSIC_GROUPS.read(groups.DescribeGroupsResponse(groups=[group]), 6)
    (described,) = found.value.members
    assert described == MemberDescription("m", None, "c", "/h", CLASSIC, None, topics, None, partitions, None)
