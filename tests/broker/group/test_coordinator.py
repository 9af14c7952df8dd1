"""The group coordinator of a broker: assignment of groups to shards, admin requests, node events."""

from itertools import repeat
from typing import Any

from thinconsumer_testing.broker.group.hashing import partition_for
from thinconsumer_testing.broker.group.states import ShardState


def test_group_id_determines_the_partition(new_world: Any) -> None:
    world = new_world(partitions=5)
    for number in range(20):
        group = f"group-{number}"
        world.commit(group=group)
        (index,) = [n for n, shard in world.coordinator.shards.items() if group in shard.latest.groups]
        assert index == partition_for(group, 5)


def test_groups_of_partitions_led_elsewhere_return_not_coordinator(new_world: Any) -> None:
    world = new_world(partitions=5)
    lost = partition_for("billing", 5)
    world.resign(lost)
    assert world.commit().code == 16
    other = next(name for name in map(str, range(99)) if partition_for(name, 5) != lost)
    assert world.commit(group=other).code == 0


def test_broker_without_leaderships_has_no_groups(new_world: Any) -> None:
    world = new_world(partitions=5)
    for index in range(5):
        world.resign(index)
    assert world.coordinator.list_groups([], []) == (0, [])
    assert world.coordinator.describe(["billing"], 6)[0].error_code == 16


def test_missing_offsets_topic_returns_not_coordinator(new_world: Any) -> None:
    world = new_world()
    world.start()
    world.image.remove_topic("__consumer_offsets")
    assert world.commit().code == 16


# -- describe and list


def test_list_groups_by_state_and_type(world: Any) -> None:
    world.stable(1)
    world.commit(group="simple")

    def names(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
        return sorted(group.group_id for group in world.coordinator.list_groups(states, types)[1])

    assert names() == ["billing", "simple"]
    assert names(("Stable",)) == ["billing"]
    assert names((" EMPTY ", "dead")) == ["simple"]
    assert names(types=("Classic",)) == ["billing", "simple"]
    assert names(types=("consumer",)) == []
    assert names(types=("nonsense",)) == []
    (group,) = world.coordinator.list_groups(["stable"], [])[1]
    assert (group.protocol_type, group.group_state, group.group_type) == ("consumer", "Stable", "classic")


def test_list_groups_fails_while_a_partition_is_loading(new_world: Any) -> None:
    world = new_world(partitions=2, coordinator_load_s=1.0)
    assert world.coordinator.list_groups([], []) == (14, [])


# -- deletion


def test_delete_groups_of_several_partitions(new_world: Any) -> None:
    world = new_world(partitions=3)
    names = [f"group-{number}" for number in range(6)]
    for name in names:
        world.commit(group=name)
    results = world.delete(*names, "missing", names[0]).answer
    assert {r.group_id: r.error_code for r in results} == {**dict.fromkeys(names, 0), "missing": 69}
    assert len(results) == 7
    world.crash()
    assert world.coordinator.list_groups([], []) == (0, [])


def test_delete_fails_if_the_append_is_rejected(world: Any) -> None:
    world.commit()
    world.replica.codes = repeat(19)
    assert world.delete("billing").answer[0].error_code == 15
    assert world.offset() == 5


def test_delete_removes_pending_transactional_offsets(world: Any) -> None:
    world.txn_commit(7, 3)
    world.delete("billing")
    world.marker(7)
    assert world.offset() == -1
    assert not world.shard.latest.offsets.has_open_transactions("billing")


def test_pending_member_of_a_deleted_group_is_unknown(world: Any) -> None:
    pending, group = world.newcomer(), world.group
    world.delete("billing")
    assert group.timers == {}
    assert world.join(pending).answer.error_code == 25


# -- node events


def test_offsets_of_a_recreated_topic_are_kept_for_its_new_id(world: Any) -> None:
    world.commit(partition=0)
    world.put_topic("orders", 3, b"the second orders"[:16])
    world.commit(partition=1)
    world.coordinator.on_topics_deleted(["orders"])
    assert (world.offset(0), world.offset(1)) == (-1, 5)


def test_pending_offsets_of_deleted_topics_are_removed(world: Any) -> None:
    world.txn_commit(7, 3)
    world.image.remove_topic("orders")
    world.coordinator.on_topics_deleted(["orders"])
    world.marker(7)
    assert world.offset() == -1


def test_deleted_topics_without_offsets_append_nothing(new_world: Any) -> None:
    world = new_world(partitions=2)
    world.resign(1)
    world.coordinator.on_topics_deleted(["orders"])
    assert world.replica.appends == 0


def test_events_without_any_shard_are_ignored(new_world: Any) -> None:
    world = new_world()
    world.start()
    world.coordinator.resigned(3)
    world.coordinator.on_marker(3, 7, True)
    world.coordinator.on_topics_deleted(["orders"])
    assert world.coordinator.shards == {}


def test_shard_reloads_when_elected_again(world: Any) -> None:
    world.stable(1)
    world.resign()
    world.elect()
    assert world.shard.state is ShardState.READY
    assert len(world.group.members) == 1
    assert world.replica.listeners == 0


# -- responses


def test_request_sent_within_a_reply_sees_a_consistent_group(world: Any) -> None:
    """The response to the first of two joins makes its client send SyncGroup before the second join is answered."""
    ids = [world.newcomer(), world.newcomer()]
    states: list[str] = []
    for name in ids:
        world.join(name).listener = lambda: states.append(world.group.state.value + str(len(world.group.pending_syncs)))
    world.advance(0)
    assert states == ["CompletingRebalance2"] * 2
