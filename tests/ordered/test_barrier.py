"""The barrier for expanded topics without ordered delivery: gates as a pure function, and consumers of such topics."""

import random

import pytest

from thinconsumer import GroupAuthorizationFailedError, HealthState, TopicPartition
from thinconsumer.linear_hashing import ancestors_of, partition_of
from thinconsumer.ordered.barrier import barrier_gates
from thinconsumer.ordered.gates import END, START, Gate, Requirement
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_fetch import OffsetFetchRequest
from thinconsumer_testing.broker.faults import Reply

P0, P1 = (TopicPartition("t", number) for number in range(2))
GRACE_S = 60  #: As in the fixture.


def ends(*numbers):
    return tuple(Requirement(number, END) for number in numbers)


def test_new_partitions_wait_for_all_started_ones_and_started_ones_for_each_other():
    assert barrier_gates(2, {0, 1}, {2, 3}) == [Gate(START, ends(0, 1))]
    assert barrier_gates(1, {0, 1}, {2, 3}) == [Gate(END, ends(0, 1))]


def test_new_partitions_of_several_expansions_start_one_after_the_other():
    assert barrier_gates(3, {0}, {1, 2, 3}) == [Gate(START, ends(0, 1))]
    assert barrier_gates(7, {0}, set(range(1, 8))) == [Gate(START, ends(0, 1, 2, 3))]


@pytest.mark.parametrize("initial", [1, 2, 3, 5, 8])
def test_all_earlier_partitions_of_a_key_are_awaited_whatever_the_initial_count(initial):
    for started in range(initial, 3 * initial + 4):
        for count in range(started + 1, 4 * started + 3):
            new = set(range(started, count))
            for partition in new:
                [gate] = barrier_gates(partition, set(range(started)), new)
                assert {one.partition for one in gate.requires} >= set(ancestors_of(partition, initial))


def test_a_new_group_waits_for_nothing(plain_world):
    w = plain_world(2)
    w.write(0, 1, times=3)
    one = w.consumer()
    assert len(w.poll(one, seconds=5)) == 6
    assert one.health().state is HealthState.OK


def test_new_partitions_wait_for_what_producers_with_outdated_metadata_write(plain_world):
    w = plain_world(1)
    w.write(0, 1, times=5)
    one = w.consumer()
    w.poll(one, seconds=10)
    w.expand(2)
    w.write(0, 1, times=2)  # by a producer that has not noticed the expansion yet
    w.poll(one, seconds=GRACE_S / 2)
    w.write(0, 1, times=2)
    w.count = 2
    w.write(0, 1, times=5)
    w.poll(one, seconds=GRACE_S / 4)
    assert {n for key, n in w.read if key == 1} == set(range(1, 10))
    health = one.health()
    assert health.state is HealthState.WORKING and "t-1 is held until ordered_delivery_grace_ms" in health.reason
    w.poll(one, seconds=GRACE_S)
    assert len(w.read) == 28 and w.wrong() == []


def test_a_restart_does_not_forget_the_barrier(plain_world):
    w = plain_world(1)
    w.write(0, 1, times=5)
    one = w.consumer()
    w.poll(one, seconds=10)
    one.close()
    w.expand(2)
    w.write(0, 1, times=2)
    w.count = 2
    w.write(0, 1, times=5)
    for _ in range(3):
        again = w.consumer(max_poll_records=1)
        w.poll(again, seconds=GRACE_S / 3)
        assert {n for key, n in w.read if key == 1} <= set(range(1, 8))
        again.close()
    last = w.consumer()
    w.poll(last, seconds=2 * GRACE_S)
    assert len(w.read) == 24 and w.wrong() == []


def test_a_seek_of_a_held_partition_to_its_beginning_does_not_forget_the_barrier(plain_world):
    """Nothing of it is read: if the position were committed, the partition would count as started."""
    w = plain_world(1)
    w.write(0, 1, times=5)
    one = w.consumer(enable_auto_commit=False)
    w.poll(one, seconds=10)
    w.expand(2)
    w.write(0, 1, times=2)
    w.count = 2
    w.write(0, 1, times=5)
    w.poll(one, seconds=7)
    one.seek(P0, 0)
    one.seek(P1, 0)
    one.commit()
    assert one.committed([P0, P1]) == {P0: 0, P1: None}
    one.close()
    w.read.clear()
    w.poll(w.consumer(max_poll_records=1), seconds=3 * GRACE_S)
    assert len(w.read) == 24 and w.wrong() == []


def test_a_held_partition_with_a_committed_offset_is_committed_with_all_others(plain_world):
    """A commit of all positions leaves out partitions that the group has not begun: this one the application has."""
    w = plain_world(1)
    w.write(0, 1, times=5)
    one = w.consumer(enable_auto_commit=False)
    w.poll(one, seconds=10)
    w.expand(2)
    w.count = 2
    w.write(0, 1, times=5)
    w.poll(one, seconds=7)
    assert "t-1 is held" in one.health().reason
    one.seek(P1, 3)
    one.commit({P1: 3})
    one.seek(P1, 2)
    one.commit()
    assert one.committed(P1) == 2


@pytest.mark.once
def test_old_partitions_stop_where_they_ended_until_all_are_read_that_far(plain_world):
    """As with murmur2 % n: key 0 moves from partition 0 to 1, both of them old."""
    w = plain_world(2)
    w.write(0, 1, times=10)
    slow, fast = w.owners(max_poll_records=1)
    while fast.position(P1) < 10:
        w.take(fast.poll(100))
        slow.drive()
    w.take(slow.poll(100))
    slow.commit()  # a partition without a committed offset counts as new
    w.expand(3)
    for _ in range(100):
        w.take(fast.poll(100))
        slow.poll(100, update_offsets=False)
        w.run(0.1)
    w.cluster.produce("t", [b"0:11"], 1)
    w.sequences[0] = 11
    for _ in range(200):
        assert (0, 11) not in w.take(fast.poll(100))
        slow.poll(100, update_offsets=False)
        w.run(0.1)
    w.poll(slow, fast, seconds=3 * GRACE_S)
    assert w.wrong() == [] and w.read[-1] == (0, 11)


def test_a_partition_that_was_started_is_not_held_again(plain_world):
    w = plain_world(1)
    w.write(0, times=5)
    one = w.consumer()
    w.poll(one, seconds=10)
    w.expand(2)
    w.count = 2
    w.write(0, 1, times=5)
    w.poll(one, seconds=2 * GRACE_S)
    one.close()
    w.write(0, 1, times=5)
    assert len(w.poll(w.consumer(), seconds=10)) == 10


def test_a_member_that_was_given_a_new_partition_takes_over_its_barrier(plain_world):
    w = plain_world(1)
    w.write(0, 1, times=5)
    one = w.consumer()
    w.poll(one, seconds=10)
    w.expand(2)
    w.write(0, 1, times=2)
    w.count = 2
    w.write(0, 1, times=5)
    w.poll(one, seconds=GRACE_S / 2)
    other = w.consumer()
    w.poll(one, other, seconds=GRACE_S / 4)
    assert {n for key, n in w.read if key == 1} <= set(range(1, 8))
    w.poll(one, other, seconds=3 * GRACE_S)
    assert len(w.read) == 24 and w.wrong() == []


@pytest.mark.once
@pytest.mark.parametrize("seed", range(6))
def test_every_producer_keeps_the_order_of_its_keys_with_linear_hashing(plain_world, seed):
    """Producers refresh their metadata at different times within the grace time. Each has keys of its own."""
    rng = random.Random(seed)
    w = plain_world(rng.randint(1, 2))
    counts = dict.fromkeys(range(6), w.count)
    consumers = [w.consumer(max_poll_records=rng.choice([1, 5, 500])) for _ in range(rng.randint(1, 2))]

    def write():
        for key, count in counts.items():
            w.sequences[key] = w.sequences.get(key, 0) + 1
            w.cluster.produce("t", [b"%d:%d" % (key, w.sequences[key])], partition_of(key, w.initial, count))

    for _ in range(3):
        for _ in range(rng.randint(1, 5)):
            write()
            w.poll(*consumers, seconds=rng.choice([0.2, 3]))
        w.count += rng.randint(1, 3)
        w.expand(w.count)
        refresh = sorted(counts, key=lambda key: rng.random())
        while refresh:
            write()
            counts[refresh.pop()] = w.count
            w.poll(*consumers, seconds=rng.random() * GRACE_S / 10)
        write()
        w.poll(*consumers, seconds=4 * GRACE_S, step=1)
    w.poll(*consumers, seconds=4 * GRACE_S, step=1)
    assert w.wrong() == [] and len(set(w.read)) == sum(w.sequences.values())


def test_a_gate_that_has_opened_stays_open_when_metadata_changes(plain_world):
    """Otherwise the listener would be called for the same partitions after each change of a leader."""
    w = plain_world(2, nodes=2)
    w.write(0, 1, times=5)
    one = w.consumer()
    w.poll(one, seconds=10)
    w.expand(4)
    w.write(0, 1, times=5)
    w.poll(one, seconds=GRACE_S / 4)
    assert one.listener.of("keys assigned") == [[0, 1]], "all records from before the expansion are read"
    for tp in (P0, P1):
        w.cluster.move_leader(tp)
        w.write(0, 1)
        w.poll(one, seconds=GRACE_S / 4)
    assert len(w.read) == 24 and w.wrong() == []
    assert one.listener.of("keys assigned") == [[0, 1]]


def read_by_commit(w):
    """Return the reader of partition 0, which has read all and commits by hand, and that of the added partition 1."""
    w.write(0, 1, times=5)
    parent = w.consumer(0, enable_auto_commit=False)
    w.poll(parent, seconds=10)
    parent.commit()
    w.expand(2)
    w.write(0, times=2)
    w.count = 2
    w.write(1, times=5)
    child = w.consumer(1, enable_auto_commit=False, fetch_max_wait_ms=20_000, metadata_max_age_ms=300_000)
    w.poll(child, seconds=2 * GRACE_S)
    assert "t-0 is committed up to 12 (now 10)" in child.health().reason
    w.poll(parent, seconds=3)
    return parent, child


def test_a_waiting_poll_returns_soon_after_the_old_partitions_were_committed(plain_world):
    """With ``assign`` and a long ``fetch_max_wait_ms`` no response wakes the poll before."""
    w = plain_world(1)
    parent, child = read_by_commit(w)
    assert child.poll(50) == {}  # reads the committed offset, just before it changes
    parent.commit()
    began = w.clock.now()
    assert len(w.take(child.poll(60_000))) == 5 and w.clock.now() - began <= 2


def test_committed_offsets_that_cannot_be_read_are_read_again(plain_world):
    w = plain_world(1)
    parent, child = read_by_commit(w)
    parent.commit()
    rule = w.cluster.on(OffsetFetchRequest, Reply(Code.GROUP_AUTHORIZATION_FAILED), times=2)
    began = w.clock.now()
    assert len(w.take(child.poll(60_000))) == 5 and w.clock.now() - began <= 4
    assert rule.hits == 2


def test_a_waiting_poll_returns_at_the_end_of_the_grace_time(plain_world):
    w = plain_world(1)
    w.write(0, 1, times=5)
    parent = w.consumer(0, enable_auto_commit=False)
    w.poll(parent, seconds=10)
    parent.commit()
    w.expand(2)
    w.count = 2
    w.write(1, times=5)
    child = w.consumer(1, enable_auto_commit=False, fetch_max_wait_ms=20_000, metadata_max_age_ms=300_000)
    began = w.clock.now()
    assert len(w.take(child.poll(2000 * GRACE_S))) == 5 and GRACE_S <= w.clock.now() - began <= GRACE_S + 1


def test_nothing_is_asked_about_a_topic_that_is_not_read_any_more(plain_world):
    w = plain_world(1)
    w.cluster.on(OffsetFetchRequest, Reply(Code.GROUP_AUTHORIZATION_FAILED))
    one = w.consumer(0)
    with pytest.raises(GroupAuthorizationFailedError):
        w.poll(one, seconds=10)

    def asked():
        for _ in range(20):
            one.drive()
            w.run(1)
        return len(w.requests(OffsetFetchRequest))

    assert asked() < asked(), "the offsets are needed while the partition is assigned"
    one.unsubscribe()
    assert asked() == asked()


def test_a_new_leader_of_an_old_partition_does_not_extend_the_wait(plain_world):
    """Its end is looked up again, and has grown by records that need not come before those of the added partition."""
    w = plain_world(1, nodes=2)
    parent, child = read_by_commit(w)
    w.cluster.move_leader(P0)
    w.write(0, times=3)
    child.partitions_for_topic("t")  # refreshes the metadata
    w.poll(child, seconds=10)
    assert "t-0 is committed up to 12 (now 10)" in child.health().reason
    parent.commit({P0: 12})
    w.poll(child, seconds=20)
    assert {n for key, n in w.read if key == 1} >= set(range(6, 11))
