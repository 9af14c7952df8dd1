"""Consumers of topics with changing partition counts: the partitions that they hold, until when, and their requests."""

import contextlib
import logging

import pytest
from planting import Plant, planted

from thinconsumer import HealthState, TopicAuthorizationFailedError, TopicPartition
from thinconsumer.ordered.holds import Hold
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest
from thinconsumer_testing.broker.faults import Edit, Reply

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
KEYS = range(8)


def ordered(consumer):
    """Return the gatekeeper of the consumer's topics; None if it has none."""
    return next(iter(consumer._reader.managers.gatekeepers), None)


def test_a_topic_that_never_changed_costs_nothing(world):
    w = world(4)
    w.write(*KEYS, times=5)
    one, other = w.consumer(), w.consumer()
    w.settle(one, other, partitions=4)
    w.poll(one, other, seconds=20)
    assert len(w.read) == 40 and w.wrong() == []
    assert w.extra_requests == [] and ordered(one) is ordered(other) is None
    rows = [row for one in w.requests(FetchRequest) for topic in one.message.topics for row in topic.partitions]
    assert {row.undeleted_partition_count for row in rows} == {4}


def test_with_ordered_delivery_off_no_partition_is_held(world):
    w = world(1).expanded(10, 5)
    one = w.consumer(max_poll_records=1, ordered_delivery="off")
    w.settle(one, partitions=2)
    w.poll(one, seconds=30)
    assert len(w.read) == 30 and w.wrong() != []
    assert w.extra_requests == [] and ordered(one) is None
    rows = [row for one in w.requests(FetchRequest) for topic in one.message.topics for row in topic.partitions]
    assert {row.undeleted_partition_count for row in rows} == {-1}


def test_a_new_partition_is_held_until_its_parent_is_read(world):
    w = world(1)
    w.write(0, 1, times=10)
    one = w.consumer(max_poll_records=1)
    w.settle(one, partitions=1)
    first = w.take(one.poll(1000))
    assert first == [(0, 1)]
    w.resize(2)
    w.write(0, 1, times=5)
    w.poll(one, seconds=30)
    assert len(w.read) == 30 and w.wrong() == []
    assert w.read[:20] == [(key, n) for n in range(1, 11) for key in (0, 1)]


def test_a_loop_that_polls_when_the_consumer_is_due_does_not_spin_while_a_partition_is_held(world):
    w = world(1).expanded(10, 5)
    parent, child = w.owners()
    polls, end = 0, w.clock.now() + 30
    while w.clock.now() < end:
        parent.drive()
        while child.wake_at() <= w.clock.now() and polls < 1000:
            assert child.poll(0) == {}
            polls += 1
        w.run(0.01)
    assert "t-1 is held until t-0 is read up to 20" in child.health().reason
    assert polls < 400, "a few polls for each of 30 heartbeats and 60 fetches"


def test_a_new_partition_of_another_member_is_held_until_the_position_of_its_parent_was_sent(world):
    w = world(1).expanded(10, 5)
    parent, child = w.owners(max_poll_records=1)
    # The parent's owner sends heartbeats, but returns no record.
    for _ in range(100):
        parent.drive()
        assert w.take(child.poll(100)) == []
    health = child.health()
    assert health.state is HealthState.WORKING
    assert "t-1 is held until t-0 is read up to 20" in health.reason
    assert child.listener.of("keys assigned") == []
    w.poll(parent, child, seconds=20)
    assert len(w.read) == 30 and w.wrong() == []
    assert child.listener.of("keys assigned") == [[1]]
    assert [0] in parent.listener.of("keys maybe revoked")
    assert child.health().state is HealthState.OK


def test_at_most_one_request_is_sent_per_interval_and_member_while_a_partition_is_held(world):
    w = world(1).expanded(10)
    parent, child = w.owners(max_poll_records=1)
    sent = len(w.extra_requests)
    for _ in range(200):
        parent.drive()
        child.poll(100)
    assert len(w.extra_requests) - sent <= 2 * 21 + 2


def test_requests_become_rare_once_no_member_waits(world):
    w = world(1).expanded(10)
    one, other = w.consumer(), w.consumer()
    w.settle(one, other, partitions=2)
    w.poll(one, other, seconds=30)
    assert len(w.read) == 20
    sent = len(w.extra_requests)
    w.poll(one, other, seconds=60)
    assert len(w.extra_requests) - sent <= 2 * 6 + 2


def test_the_heir_is_held_at_its_threshold_until_the_deleted_partition_is_read(world):
    w = world(1)
    w.resize(2)
    w.write(0, 1, times=10)
    w.resize(1)
    w.write(0, 1, times=5)
    heir, deleted = w.owners(max_poll_records=1)
    deleted.pause(P1)
    w.poll(heir, deleted, seconds=10)
    assert w.read == [(0, n) for n in range(1, 11)] and heir.position(P0) == 10
    assert "t-0 is held until t-1 is read up to 10" in heir.health().reason
    deleted.resume(P1)
    w.poll(heir, deleted, seconds=20)
    assert len(w.read) == 30 and w.wrong() == []
    assert heir.listener.of("keys assigned")[-1] == [0]


@pytest.mark.once
@pytest.mark.parametrize("members", [1, 2, 3, 0])  # 0: a consumer of the whole topic, without a group
def test_order_is_kept_through_many_changes(world, members):
    w = world(2)
    alone = {} if members else {"group_id": None, "metadata_max_age_ms": 5000}
    consumers = [w.consumer(max_poll_records=3, **alone) for _ in range(members or 1)]
    for count in (5, 3, 8, 2, 7):
        w.write(*KEYS, times=4)
        w.poll(*consumers, seconds=1)
        for _ in range(100):
            try:
                w.resize(count)
                break
            except Exception as error:  # noqa: BLE001 - deleted partitions still have records
                assert "REASSIGNMENT" in repr(error) or "still have records" in str(error), error
                empty_marked(w)
                w.poll(*consumers, seconds=1)
    w.write(*KEYS, times=4)
    w.poll(*consumers, seconds=60)
    assert w.wrong() == []
    assert {key: max(n for k, n in w.read if k == key) for key in KEYS} == dict.fromkeys(KEYS, 24)


def empty_marked(w):
    """Delete what the group has read in partitions marked for deletion, and remove these, as retention does."""
    for row in w.cluster.controller.image.topics["t"].partitions[w.count :]:
        end = w.cluster.leader(row.tp).log.end_offset
        if any(row.tp in one.assignment() and one.position(row.tp) == end for one in w.consumers):
            w.cluster.delete_records(row.tp, end)
    w.remove_emptied()


def test_assign_without_a_group_waits_for_own_partitions_only(world):
    w = world(1).expanded(5, 5)
    both = w.consumer(0, 1, group_id=None, max_poll_records=1)
    assert w.take(both.poll(2000)) == [(0, 1)]
    w.poll(both, seconds=5)
    assert len(w.read) == 20 and w.wrong() == []
    alone = w.consumer(1, group_id=None)
    assert {key for key, _ in w.poll(alone, seconds=5)} == {1}


def test_committed_offsets_count_for_an_owner_that_sends_no_positions(world):
    w = world(1).expanded(5, 5)

    parent, child = w.owners()

    def forget(call, response):
        for topic in (*response.positions, *response.requested):
            for row in topic.partitions:
                row.position = -1

    w.cluster.on(ConsumerGroupPositionsRequest, Edit(forget))
    w.poll(parent, child, seconds=30)
    assert len(w.read) == 20 and w.wrong() == []


@pytest.mark.parametrize("is_silent", [False, True])
def test_positions_count_until_the_listener_was_called(world, is_silent):
    """A request that is due before this call names the awaited partitions, too: otherwise the response would lack their
    positions, and the gate would wait for them again, each time.
    """
    w = world(1).expanded(5, 5)
    parent, child = w.owners()

    def forget(call, response):
        for topic in (*response.positions, *response.requested):
            for row in topic.partitions:
                row.position = -1

    if is_silent:
        w.cluster.on(ConsumerGroupPositionsRequest, Edit(forget))
    child.listener.raises["keys assigned"] = ValueError("no state")
    with pytest.raises(ValueError, match="no state"):
        w.poll(parent, child, seconds=30)
    for _ in range(50):
        child.drive()
        w.take(parent.poll(100))
        assert child.health().reason == "t-1 is held until on_partition_keys_assigned has succeeded"
    assert w.take(child.poll(100)) == [(1, n) for n in range(6, 11)]
    assert child.listener.of("keys assigned") == [[1]] and w.wrong() == []


def test_a_paused_parent_is_at_its_end_for_the_others_but_not_read(world):
    w = world(1).expanded(5, 5)
    one = w.consumer(0, 1, group_id=None)
    one.pause(P0)
    assert w.poll(one, seconds=5) == []
    one.pause(P1)
    one.resume(P0)
    assert {key for key, _ in w.poll(one, seconds=5)} == {0, 1} and len(w.read) == 15
    one.resume(P1)
    w.poll(one, seconds=5)
    assert len(w.read) == 20 and w.wrong() == []


def number_of(value):
    return tuple(map(int, bytes(value).split(b":")))


def test_iteration_and_reading_to_the_end_keep_the_order(world):
    w = world(1).expanded(5, 5)
    one = w.consumer(0, 1, group_id=None, consumer_timeout_ms=3000)
    w.read += [number_of(record.value) for record in one]
    assert len(w.read) == 20 and w.wrong() == []
    w.read.clear()
    w.read += [number_of(record.value) for record in w.consumer(0, 1, group_id=None).read_to_end()]
    assert len(w.read) == 20 and w.wrong() == []


@pytest.mark.parametrize("is_paused", [False, True])
def test_an_iteration_ends_although_no_partition_may_be_fetched(world, is_paused):
    """``consumer_timeout_ms`` counts from the first completed fetch, and there is none."""
    w = world(1)
    w.write(1)
    w.resize(2)
    w.write(1)
    one = w.consumer(0 if is_paused else 1, consumer_timeout_ms=3000)
    if is_paused:
        one.pause(P0)
    assert next(one, None) is None


@pytest.mark.parametrize("members", [1, 2])
def test_the_last_record_of_an_iteration_counts_once_the_application_polls(world, members):
    """It is not committed yet, as it may not be processed. But an application that goes on with poll() would never ask
    the iteration for another one.
    """
    w = world(1)
    w.write(0, 1)
    w.resize(2)
    w.write(1)
    group = [w.consumer(enable_auto_commit=False) for _ in range(members)]
    w.settle(*group, partitions=2)
    parent = w.owner(0)
    assert [number_of(next(parent).value) for _ in range(2)] == [(0, 1), (1, 1)]
    assert w.poll(*group, seconds=10) == [(1, 2)]


def test_a_listener_that_raises_is_called_again_and_nothing_is_returned_before(world):
    w = world(1).expanded(5, 5)
    one = w.consumer()
    one.listener.raises["keys assigned"] = ValueError("no state")
    with pytest.raises(ValueError, match="no state"):
        w.poll(one, seconds=20)
    assert {n for key, n in w.read if key == 1} == {1, 2, 3, 4, 5}
    w.poll(one, seconds=5)
    assert len(w.read) == 20 and one.listener.of("keys assigned") == [[1]]


def test_a_gate_that_waits_for_the_listener_stays_closed_if_an_awaited_partition_is_given_up(world):
    """Its next owner begins at the committed offset."""
    w = world(1)
    w.resize(3)
    w.write(1, 2, times=10)
    w.resize(1)
    w.write(1, 2, times=5)
    one = w.consumer(enable_auto_commit=False)
    call, raising = one.listener._call, [True]

    def raise_for_heir(what, tps):
        if raising and what == "keys assigned" and P0 in tps:
            raise ValueError("no state")
        call(what, tps)

    def poll(**how):
        with contextlib.suppress(ValueError):
            w.take(one.poll(100, **how))

    one.listener._call = raise_for_heir
    for _ in range(100):
        poll()
    assert sorted(w.read) == [(key, n) for key in (1, 2) for n in range(1, 11)]
    assert "t-0 is held until on_partition_keys_assigned has succeeded" in one.health().reason
    other = w.consumer(enable_auto_commit=False)
    for _ in range(100):
        poll(update_offsets=False)
        other.poll(100, update_offsets=False)
    assert P0 in one.assignment() and len(one.assignment()) == 2
    [given_up] = other.assignment()
    raising.clear()
    assert w.poll(one) == []
    assert f"t-0 is held until t-{given_up.partition} is read up to 10 (the position is 0)" in one.health().reason
    w.read.clear()
    w.poll(one, other, seconds=20)
    assert len(w.read) == 20 and w.wrong() == []


def test_errors_of_leader_epochs_are_retried_and_a_missing_permission_is_raised(world):
    w = world(1).expanded(5, 5)

    w.cluster.on(PartitionLeaderEpochsForPartitionsRequest, Reply(int(Code.UNKNOWN_TOPIC_ID)), times=3)
    w.cluster.on(PartitionLeaderEpochsForPartitionsRequest, Reply(int(Code.TOPIC_AUTHORIZATION_FAILED)), times=1)
    one = w.consumer(1, group_id=None)
    with pytest.raises(TopicAuthorizationFailedError):
        w.poll(one, seconds=20)
    assert {key for key, _ in w.poll(one, seconds=10)} == {1}


def test_a_consumer_that_has_missed_changes_holds_partitions_that_were_added_anew(world):
    """2 -> 4 -> 2 -> 4: the counts in its metadata are the same as before, and the partitions are others."""
    w = world(2)
    one = w.consumer(max_poll_records=1)
    w.settle(one, partitions=2)
    w.resize(4)
    w.write(*KEYS, times=2)
    w.poll(one, seconds=20)
    assert one.position(P2) > 0 and len(w.read) == 2 * len(KEYS)
    w.resize(2)
    for number in (2, 3):
        tp = TopicPartition("t", number)
        w.cluster.delete_records(tp, w.cluster.leader(tp).log.end_offset)
    w.remove_emptied()
    w.write(*KEYS, times=10)
    w.resize(4)
    w.write(*KEYS, times=10)
    one.pause(P0, P1)
    w.poll(one, seconds=20)
    assert len(w.read) == 2 * len(KEYS), "records of P2 and P3 must wait for those in P0 and P1"
    one.resume(P0, P1)
    w.poll(one, seconds=60)
    assert len(w.read) == 22 * len(KEYS) and w.wrong() == []


def epochs_found_as_before(epochs_found, self, found, creation=()):
    self._creation = creation
    epochs_found(self, found, creation)


def test_the_gate_of_a_partition_that_was_added_anew_is_missed_if_it_stays_open(world):
    """A planted bug, which the worlds of the swarm of ordered delivery seldom show."""
    with planted(Plant(Hold, "epochs_found", epochs_found_as_before)), pytest.raises(AssertionError, match="must wait"):
        test_a_consumer_that_has_missed_changes_holds_partitions_that_were_added_anew(world)


def test_leader_epochs_of_a_broker_that_is_several_changes_behind_open_no_gate(world):
    """2 -> 4 -> 2 -> 4: the broker has the same counts as the consumer, from before the partitions were removed."""
    w = world(2)
    w.resize(4)
    old = {node.node_id: node.image.topics["t"] for node in w.cluster.nodes.values()}
    w.resize(2)
    w.remove_emptied()
    w.write(*KEYS, times=10)
    w.resize(4)
    w.write(*KEYS, times=10)

    def as_before(call, response):
        row = old[call.node.node_id]
        for topic in response.topics:
            topic.partition_count_epoch = row.ordered.partition_count_epoch
            for one in topic.partitions:
                one.leader_epochs_after_creation = list(
                    row.partitions[one.partition_index].leader_epochs_after_creation
                )

    rule = w.cluster.on(PartitionLeaderEpochsForPartitionsRequest, Edit(as_before), times=3)
    one = w.consumer(max_poll_records=1)
    w.settle(one, partitions=4)
    one.pause(P0, P1)
    w.poll(one, seconds=20)
    assert rule.hits == 3 and w.read == []
    one.resume(P0, P1)
    w.poll(one, seconds=60)
    assert len(w.read) == 20 * len(KEYS) and w.wrong() == []


def shared(w, *members):
    """Poll in turn, without moving a position, until each of these members owns one partition."""
    for _ in range(200):
        for member in members:
            member.poll(50, update_offsets=False)
        w.run(0.02)
        if all(len(member.assignment()) == 1 for member in members):
            return
    raise AssertionError([member.health() for member in members])


def test_members_of_the_consumer_protocol_exchange_positions(world):
    w = world(1).expanded(10, 5)
    one, other = (w.consumer(group_protocol="consumer", max_poll_records=1) for _ in range(2))
    shared(w, one, other)
    parent, child = w.owner(0), w.owner(1)
    for _ in range(40):
        parent.drive()
        assert w.take(child.poll(250)) == []
    assert "t-1 is held until t-0 is read up to 20" in child.health().reason
    w.poll(one, other, seconds=30)
    assert len(w.read) == 30 and w.wrong() == []
    [epoch] = {one.message.generation_id_or_member_epoch for one in w.requests(ConsumerGroupPositionsRequest)[-4:]}
    assert epoch == child.group_metadata().generation_id
    sent = [
        p.position for r in w.requests(ConsumerGroupPositionsRequest) for t in r.message.positions for p in t.partitions
    ]
    assert max(sent) >= 20


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_commit_leaves_out_a_partition_that_was_removed(world, protocol):
    """The coordinator rejects its offset; the member still owns the partition, until the group has rebalanced."""
    w = world(1)
    w.resize(2)
    w.write(0, 1, times=5)
    one = w.consumer(group_protocol=protocol, enable_auto_commit=False)
    w.poll(one, seconds=10)
    w.resize(1)
    w.cluster.delete_records(P1, 5)
    w.remove_emptied()
    assert one.assignment() == {P0, P1}
    began = w.clock.now()
    one.commit()
    assert w.clock.now() - began < 1
    assert one.committed([P0]) == {P0: 5}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_topic_that_is_made_anew_without_ordered_delivery_is_read(world, protocol, count):
    w = world(1)
    one = w.consumer(group_protocol=protocol)
    w.write(0, 1)
    if count > 1:
        w.resize(count)
    assert len(w.poll(one, seconds=10)) == 2
    w.cluster.delete_topic("t")
    w.cluster.create_topic("t", 2, 3, {})
    for number in (0, 1):
        w.cluster.produce("t", [b"0:1", b"1:1"], number)
    assert len(w.poll(one, seconds=10)) == 4


def test_a_fetch_with_the_old_count_is_no_warning_however_often_the_count_changes(world, caplog):
    w = world(1)
    w.write(*KEYS)
    one = w.consumer(metadata_max_age_ms=300_000)
    w.settle(one, partitions=1)
    caplog.set_level(logging.WARNING, "thinconsumer.fetch")
    for count in (2, 3, 4):
        w.resize(count)
        w.write(*KEYS)
        w.take(one.poll(0))
        one.pause(*one.assignment())  # a partition whose Fetch was rejected, and that is not fetched again
        w.poll(one, seconds=30)
        one.resume(*one.assignment())
        w.poll(one, seconds=0.2)
    w.poll(one, seconds=30)
    assert len(w.read) == 4 * len(KEYS) and w.wrong() == []
    assert caplog.messages == []
