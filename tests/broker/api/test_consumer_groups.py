"""The APIs of consumer groups over a connection, in every version, with and without ACLs."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.groups import ConsumerGroupDescribeRequest
from thinconsumer_testing.broker.acl.authorizer import STANDARD_AUTHORIZER

NOT_ASKED = -(2**31)


@pytest.fixture
def cluster(new_cluster: Any) -> Any:
    return new_cluster(1, {"orders": 2}, coordinators=True)


def joining(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        **{
            "group_id": "billing",
            "member_id": "m",
            "rebalance_timeout_ms": 5_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [],
            **fields,
        }
    )


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_goes_on_and_leaves(version: int, client: Any) -> None:
    answer = client.ask(joining(), version)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 2)
    assert answer.assignment.topic_partitions[0].partitions == [0, 1]
    beat = ConsumerGroupHeartbeatRequest(group_id="billing", member_id="m", member_epoch=2)
    assert client.ask(beat, version).assignment is None
    leave = ConsumerGroupHeartbeatRequest(group_id="billing", member_id="m", member_epoch=-1)
    assert client.ask(leave, version).member_epoch == -1


def test_an_error_has_a_message(client: Any) -> None:
    answer = client.ask(joining(member_id=""), 1)
    assert (answer.error_code, answer.error_message) == (Code.INVALID_REQUEST, "MemberId can't be empty.")


@pytest.mark.parametrize("version", [0, 1])
def test_groups_are_described_in_every_version(version: int, client: Any) -> None:
    client.ask(joining(), 1)
    request = ConsumerGroupDescribeRequest(group_ids=["billing", "missing"], include_authorized_operations=True)
    found, missing = client.ask(request, version).groups
    assert (found.group_state, found.group_epoch, missing.error_code) == ("Stable", 2, Code.GROUP_ID_NOT_FOUND)
    assert found.members[0].member_type == (1 if version else -1)
    assert found.authorized_operations > 0
    assert missing.authorized_operations == NOT_ASKED
    assert (
        client.ask(ConsumerGroupDescribeRequest(group_ids=["billing"]), 1).groups[0].authorized_operations == NOT_ASKED
    )


# -- ACLs


@pytest.fixture
def guarded(new_cluster: Any) -> Any:
    return new_cluster(1, {"orders": 2, "secret": 1}, coordinators=True, authorizer_class_name=STANDARD_AUTHORIZER)


def test_members_may_read_the_group_and_describe_their_topics(guarded: Any, client_of: Any) -> None:
    client = client_of(guarded, 1)
    assert client.ask(joining(), 1).error_code == Code.GROUP_AUTHORIZATION_FAILED
    (group,) = client.ask(ConsumerGroupDescribeRequest(group_ids=["billing"]), 1).groups
    assert group.error_code == Code.GROUP_AUTHORIZATION_FAILED
    guarded.create_acls("User:ANONYMOUS", "READ", group="billing")
    assert client.ask(joining(), 1).error_code == Code.TOPIC_AUTHORIZATION_FAILED
    guarded.create_acls("User:ANONYMOUS", "DESCRIBE", topic="orders")
    assert client.ask(joining(), 1).error_code == 0
    assert client.ask(joining(subscribed_topic_names=["orders", "secret"]), 1).error_code == (
        Code.TOPIC_AUTHORIZATION_FAILED
    )


def test_expressions_match_only_topics_that_may_be_described(guarded: Any, client_of: Any) -> None:
    client = client_of(guarded, 1)
    guarded.create_acls("User:ANONYMOUS", "READ", group="billing")
    guarded.create_acls("User:ANONYMOUS", "DESCRIBE", topic="orders")
    client.ask(joining(subscribed_topic_names=None, subscribed_topic_regex=".*"), 1)
    guarded.advance(0.0)
    answer = client.ask(joining(subscribed_topic_names=None, subscribed_topic_regex=".*", member_epoch=0), 1)
    assert len(answer.assignment.topic_partitions) == 1


def test_groups_with_hidden_topics_are_not_described(guarded: Any, client_of: Any) -> None:
    client = client_of(guarded, 1)
    guarded.create_acls("User:ANONYMOUS", "READ", group="billing")
    guarded.create_acls("User:ANONYMOUS", "DESCRIBE", topic="orders")
    client.ask(joining(), 1)
    guarded.delete_acls("User:ANONYMOUS", "DESCRIBE", topic="orders")
    (group,) = client.ask(ConsumerGroupDescribeRequest(group_ids=["billing"]), 1).groups
    assert (group.error_code, group.members) == (Code.TOPIC_AUTHORIZATION_FAILED, [])
