"""The limit of the barrier that docs/ordered-delivery.md states: keys that move between old partitions, as with
murmur2 % n, and a member that starts after the producers have the new count.
"""

from thinconsumer import TopicPartition

P0, P1 = (TopicPartition("t", number) for number in range(2))


def expanded(plain_world):
    """Return a world, and a member that has read all of P1, not all of P0, and seen a third partition. After that, key
    0 has moved from P0 to P1.
    """
    w = plain_world(2)
    w.write(0, 1, times=10)
    one = w.consumer(max_poll_records=1)
    w.settle(one, partitions=2)
    while one.position(P0) < 1 or one.position(P1) < 10:
        (one.pause if one.position(P0) else one.resume)(P0)
        w.take(one.poll(100))
    w.expand(3)
    w.poll(one, seconds=10)
    w.cluster.produce("t", [b"0:11"], 1)
    w.sequences[0] = 11
    return w, one


def test_a_member_that_has_seen_the_change_before_holds_the_moved_key(plain_world):
    w, one = expanded(plain_world)
    w.poll(one, seconds=20)
    assert (0, 11) not in w.read
    one.resume(P0)
    w.poll(one, seconds=20)
    assert w.read[-1] == (0, 11)
    assert w.wrong() == []


def test_a_member_that_starts_later_cannot_tell_it_from_earlier_records(plain_world):
    w, one = expanded(plain_world)
    one.close()
    w.consumers.remove(one)
    other = w.consumer(max_poll_records=1)
    w.settle(other, partitions=3)
    other.pause(P0)
    w.poll(other, seconds=20)
    assert w.read[-1] == (0, 11)
    other.resume(P0)
    w.poll(other, seconds=20)
    assert w.wrong() != []
