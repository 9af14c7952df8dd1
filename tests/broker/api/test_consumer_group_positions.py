"""ConsumerGroupPositions: members of one generation exchange positions through their coordinator."""

import pytest

from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest, PartitionPosition, TopicPositions
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from thinconsumer_testing.broker.acl.authorizer import STANDARD_AUTHORIZER


@pytest.fixture
def cluster(new_cluster):
    return new_cluster(1, {"t": 4}, coordinators=True)


def joining(member_id="", instance_id=None, **more):
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        **more,
    )


def ask_to_join(client, member_id="", instance_id=None):
    """Send JoinGroup; return the response, which comes with a timer."""
    client.send(joining(member_id, instance_id))
    client.cluster.advance(client.cluster.schedule.now)
    (answer,) = client.answers()
    return answer


def join(client, instance_id=None):
    """Join the group alone; return (member id, generation)."""
    answer = ask_to_join(client, "", instance_id)
    if answer.error_code == Code.MEMBER_ID_REQUIRED:
        answer = ask_to_join(client, answer.member_id, instance_id)
    assert answer.error_code == 0
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"a")],
    )
    assert client.ask(sync).error_code == 0
    return answer.member_id, answer.generation_id


def exchange(cluster, member, positions=(), wanted=(), **more):
    """``positions``: (partition of t, offset); ``wanted``: partitions of t."""
    topic_id = cluster.controller.image.topics["t"].topic_id
    rows = [PartitionPosition(partition_index=number, position=offset) for number, offset in positions]
    fields = {
        "group_id": "g",
        "member_id": member[0],
        "generation_id_or_member_epoch": member[1],
        "positions": [TopicPositions(topic_id=topic_id, partitions=rows)],
        "wanted": [TopicPartitions(topic_id=topic_id, partitions=list(wanted))],
        **more,
    }
    return ConsumerGroupPositionsRequest(**fields)


def found(topics):
    return {row.partition_index: row.position for topic in topics for row in topic.partitions}


def test_positions_are_exchanged(cluster, client):
    member = join(client)
    answer = client.ask(exchange(cluster, member, wanted=[0, 2]))
    assert answer.error_code == 0
    assert found(answer.positions) == found(answer.requested) == {0: -1, 2: -1}
    answer = client.ask(exchange(cluster, member, [(0, 12), (1, 5)], [0]))
    assert found(answer.positions) == found(answer.requested) == {0: 12}


def test_unknown_topics_and_partitions_are_left_out(cluster, client):
    member = join(client)
    answer = client.ask(exchange(cluster, member, [(9, 1), (-1, 1), (3, 4)], [9, -1, 3]))
    assert found(answer.positions) == {3: 4}
    client.ask(exchange(cluster, member))
    request = exchange(cluster, member)
    row = PartitionPosition(partition_index=0, position=1)
    request.wanted = [TopicPartitions(topic_id=b"?" * 16, partitions=[0])]
    request.positions = [TopicPositions(topic_id=b"?" * 16, partitions=[row])]
    answer = client.ask(request)
    assert (answer.error_code, answer.positions, answer.requested) == (0, [], [])


def test_nothing_is_exchanged_during_a_rebalance(cluster, client, client_of):
    member = join(client)
    client.ask(exchange(cluster, member, [(0, 5)], [0]))
    other = client_of(cluster, 1)
    newcomer = ask_to_join(other).member_id
    other.send(joining(newcomer))
    assert client.ask(exchange(cluster, member, wanted=[0])).error_code == Code.REBALANCE_IN_PROGRESS


def test_a_new_generation_begins_without_positions(cluster, client):
    member = join(client)
    client.ask(exchange(cluster, member, [(0, 5)], [0]))
    assert ask_to_join(client, member[0]).generation_id == 2
    sync = SyncGroupRequest(
        group_id="g", generation_id=2, member_id=member[0], protocol_type="consumer", protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member[0], assignment=b"a")],
    )  # fmt: skip
    client.ask(sync)
    assert found(client.ask(exchange(cluster, (member[0], 2), wanted=[0])).positions) == {0: -1}


def test_a_restarted_static_member_does_not_inherit_positions(cluster, client):
    """It continues at its last committed offset, which may be lower; the generation stays the same."""
    old = join(client, "i")
    client.ask(exchange(cluster, old, [(0, 5)], [0], group_instance_id="i"))
    answer = ask_to_join(client, "", "i")
    new = answer.member_id, answer.generation_id
    assert new[0] != old[0]
    assert new[1] == old[1]
    answer = client.ask(exchange(cluster, old, [(0, 6)], [0], group_instance_id="i"))
    assert answer.error_code == Code.FENCED_INSTANCE_ID
    assert found(client.ask(exchange(cluster, new, wanted=[0], group_instance_id="i")).positions) == {0: -1}


def test_a_new_coordinator_begins_without_positions(new_cluster, client_of):
    cluster = new_cluster(2, {"t": 4}, coordinators=True)
    first = cluster.move_coordinator("g", 1)
    client = client_of(cluster, first)
    member = join(client)
    client.ask(exchange(cluster, member, [(0, 5)], [0]))
    cluster.move_coordinator("g", 2)
    assert client.ask(exchange(cluster, member, wanted=[0])).error_code == Code.NOT_COORDINATOR
    answer = client_of(cluster, 2).ask(exchange(cluster, member, wanted=[0]))
    assert (answer.error_code, found(answer.positions)) == (0, {0: -1})
    cluster.move_coordinator("g", 1)
    assert found(client.ask(exchange(cluster, member, wanted=[0])).positions) == {0: -1}


def test_the_group_and_its_topics_must_be_readable(new_cluster, client_of):
    cluster = new_cluster(1, {"t": 1}, coordinators=True, authorizer_class_name=STANDARD_AUTHORIZER)
    client = client_of(cluster, 1)
    request = exchange(cluster, ("m", 1), wanted=[0])
    assert client.ask(request).error_code == Code.GROUP_AUTHORIZATION_FAILED
    cluster.create_acls("User:ANONYMOUS", "READ", group="g")
    member = join(client)
    assert client.ask(exchange(cluster, member, [(0, 5)], [0])).positions == []
    cluster.create_acls("User:ANONYMOUS", "READ", topic="t")
    assert found(client.ask(exchange(cluster, member, [(0, 5)], [0])).positions) == {0: 5}


# -- groups of the consumer group protocol (KIP-848)


def beat(client, member_id, epoch=0, **fields):
    """Send a heartbeat, with all fields in order to join; return (member id, member epoch)."""
    if epoch == 0:
        fields = {"subscribed_topic_names": ["t"], "topic_partitions": [], "rebalance_timeout_ms": 20_000, **fields}
    answer = client.ask(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields), 1
    )
    assert answer.error_code == 0, answer
    return member_id, answer.member_epoch


def test_members_with_epochs_exchange_positions(cluster, client):
    one = beat(client, "m")
    other = beat(client, "n")
    assert client.ask(exchange(cluster, one, wanted=[0, 2])).error_code == 0
    answer = client.ask(exchange(cluster, other, [(0, 12), (1, 5)]))
    assert (answer.error_code, found(answer.requested)) == (0, {0: 12, 2: -1})
    assert found(client.ask(exchange(cluster, one, wanted=[0, 2])).positions) == {0: 12, 2: -1}


def test_a_position_ends_with_the_epoch_of_the_member_that_has_sent_it(cluster, client):
    """It may have revoked the partition meanwhile, and the next owner may continue at a lower offset."""
    one = beat(client, "m")
    other = beat(client, "n")
    client.ask(exchange(cluster, other, wanted=[0, 1]))
    client.ask(exchange(cluster, one, [(0, 5)]))
    topic_id = cluster.controller.image.topics["t"].topic_id
    mine = [TopicPartitions(topic_id=topic_id, partitions=[0, 1])]
    now_as = beat(client, "m", one[1], topic_partitions=mine)
    assert now_as[1] > one[1]
    answer = client.ask(exchange(cluster, other, wanted=[0, 1]))
    assert found(answer.positions) == {0: -1, 1: -1}
    assert client.ask(exchange(cluster, one, [(0, 5)])).error_code == Code.STALE_MEMBER_EPOCH
    client.ask(exchange(cluster, now_as, [(0, 5)]))
    assert found(client.ask(exchange(cluster, other, wanted=[0, 1])).positions) == {0: 5, 1: -1}


@pytest.mark.parametrize(
    ("more", "classic", "code"),
    [
        ({"group_id": ""}, Code.INVALID_GROUP_ID, Code.INVALID_GROUP_ID),
        ({"group_id": "other"}, Code.UNKNOWN_MEMBER_ID, Code.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, Code.UNKNOWN_MEMBER_ID, Code.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger"}, Code.UNKNOWN_MEMBER_ID, Code.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i"}, Code.UNKNOWN_MEMBER_ID, Code.NONE),
        *[
            ({"generation_id_or_member_epoch": epoch}, Code.ILLEGAL_GENERATION, Code.STALE_MEMBER_EPOCH)
            for epoch in (-1, 0, 1000)
        ],
    ],
)
@pytest.mark.parametrize("is_classic", [True, False])
def test_only_members_take_part(cluster, client, more, classic, code, is_classic):
    """Members of the current generation, or with their current epoch."""
    member = join(client) if is_classic else beat(client, "m")
    client.ask(exchange(cluster, member, [(0, 3)], [0]))
    answer = client.ask(exchange(cluster, member, [(0, 5)], [0], **more))
    assert answer.error_code == (classic if is_classic else code)
    left = {0: 3} if answer.error_code else {0: 5}
    assert found(answer.positions) == found(answer.requested) == ({} if answer.error_code else left)
    assert found(client.ask(exchange(cluster, member, wanted=[0])).positions) == left


@pytest.mark.parametrize("how", ["left", "fenced"])
def test_a_member_that_is_gone_takes_part_no_longer(cluster, client, how):
    one = beat(client, "m")
    if how == "left":
        beat(client, "m", -1)
    else:
        cluster.advance(cluster.schedule.now + 46)  # its session of 45 s has ended
    other = beat(client, "n")
    client.ask(exchange(cluster, other, wanted=[0]))
    assert client.ask(exchange(cluster, one, [(0, 5)])).error_code == Code.UNKNOWN_MEMBER_ID
    assert found(client.ask(exchange(cluster, other, wanted=[0])).positions) == {0: -1}


def test_the_position_of_a_member_that_was_fenced_is_dropped(cluster, client):
    one, other = beat(client, "m"), beat(client, "n")
    client.ask(exchange(cluster, other, wanted=[0]))
    client.ask(exchange(cluster, one, [(0, 5)]))
    for _ in range(10):
        cluster.advance(cluster.schedule.now + 5)
        other = beat(client, *other)
    assert found(client.ask(exchange(cluster, other, wanted=[0])).positions) == {0: -1}
