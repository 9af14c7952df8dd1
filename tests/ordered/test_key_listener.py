"""The listener of keys and the positions that a member sends: state is stored before another member may need it."""

import pytest

from thinconsumer import TopicPartition
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest

P0 = TopicPartition("t", 0)
TIMES = 5
THRESHOLD = 2 * TIMES


class Pair:
    """The owners of partition 0, from which key 1 has moved, and of partition 1, which waits for partition 0."""

    def __init__(self, world, protocol):
        self.w = world(1).expanded(TIMES, TIMES)
        members = [self.w.consumer(group_protocol=protocol, enable_auto_commit=False) for _ in range(2)]
        for _ in range(1000):
            if all(len(member.assignment()) == 1 for member in members):
                break
            for member in members:
                member.poll(50, update_offsets=False)
            self.w.run(0.02)  # a poll that returns records takes no time
        self.parent, self.child = self.w.owner(0), self.w.owner(1)

    def sent(self):
        requests = self.w.requests(ConsumerGroupPositionsRequest)
        rows = [row for one in requests for topic in one.message.positions for row in topic.partitions]
        return [row.position for row in rows if row.partition_index == P0.partition]

    def poll(self, seconds):
        return self.w.poll(self.parent, self.child, seconds=seconds)


@pytest.fixture(params=["classic", "consumer"])
def pair(world, request):
    return Pair(world, request.param)


def test_no_position_is_sent_before_the_listener_has_returned(pair):
    """However long the listener takes: the next owner of a key would load its state before it was stored."""
    sent = []

    def store(revoked):
        assert revoked == {P0}
        for _ in range(8):
            pair.w.run(0.5)
            pair.parent.commit()  # steps the client, which sends requests that are due
        sent.append(pair.sent())

    pair.parent.listener.on_partition_keys_maybe_revoked = store
    pair.poll(60)
    assert sent[0] == []
    assert len(pair.w.read) == 4 * TIMES and pair.w.wrong() == []


def test_no_position_is_sent_while_the_listener_raises(pair):
    """The next poll repeats the call; meanwhile the partition that waits stays held."""
    calls, errors = [], 0

    def store(revoked):
        calls.append(revoked)
        if len(calls) <= 5:
            raise ValueError("the store is full")

    pair.parent.listener.on_partition_keys_maybe_revoked = store
    for _ in range(400):
        try:
            pair.w.take(pair.parent.poll(250))
        except ValueError as error:
            assert str(error) == "the store is full"
            errors += 1
            pair.w.run(1)
        assert pair.w.take(pair.child.poll(250)) == [] or len(calls) > 5
        assert pair.sent() == [] or len(calls) > 5
    assert errors == 5 and calls[:6] == [{P0}] * 6
    assert len(pair.w.read) == 4 * TIMES and pair.w.wrong() == []
