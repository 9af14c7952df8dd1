"""No partition is held for ever: how many heartbeat intervals each cause can last, with both group protocols.

Members commit nothing, so that committed offsets cannot open a gate in place of the positions that members send.
"""

import pytest
from planting import Plant, meanwhile, planted, returns

from thinconsumer import TopicPartition
from thinconsumer.ordered.delivery import STALLED_INTERVALS, OrderedDelivery
from thinconsumer.ordered.known_positions import KnownPositions
from thinconsumer.ordered.position_exchange import PositionExchange
from thinconsumer.records.builder import NewRecord
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer_testing.broker.faults import Silence

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
BEFORE, AFTER = 10, 5  #: Records of each key before and after the expansion.
THRESHOLD = 2 * BEFORE
#: Intervals of one exchange: the owner's next request shows what the held member wants, the one after that sends the
#: position, and the held member's next request gets it. Polls take part of an interval.
EXCHANGE = 4
#: Intervals until a session has ended.
SESSION = 10


class Group:
    """Members of one group that read partitions 0 and 1 of a topic; key 1 has moved from partition 0 to partition 1."""

    def __init__(self, world, protocol, **about):
        #: With the consumer group protocol, members do not exchange positions more often than every 3 s, the default of
        #: ``heartbeat_interval_ms``.
        self.interval = 1.0 if protocol == "classic" else 3.0
        brokers = {"group_consumer_heartbeat_interval_ms": 3000, "group_consumer_session_timeout_ms": 3000 * SESSION}
        self.w = world(1, brokers=brokers, **about)
        self.protocol = protocol

    def expand(self):
        self.w.expanded(BEFORE, AFTER)
        return self

    def member(self, *assigned, **options):
        return self.w.consumer(*assigned, group_protocol=self.protocol, enable_auto_commit=False, **options)

    def share(self, number=1, **options):
        """Return two members: the owner of partition 0, and that of this one. They have read nothing."""
        members = self.member(**options), self.member(**options)
        for _ in range(1000):
            for member in members:
                member.poll(50, update_offsets=False)
            self.w.run(0.02)
            owners = [self.owner_of(0, members), self.owner_of(number, members)]
            if set(owners) == set(members):
                return owners
        raise AssertionError([member.health() for member in members])

    @staticmethod
    def owner_of(number, members):
        return next((one for one in members if TopicPartition("t", number) in one.assignment()), None)

    def poll(self, intervals, *members):
        return self.w.poll(*members, seconds=intervals * self.interval, step=self.interval / 4)

    def intervals_until(self, *records, by):
        """Poll in turn until these records were returned; return how many heartbeat intervals that takes."""
        began = self.w.clock.now()
        while not set(records) <= set(self.w.read):
            assert self.w.clock.now() < began + 200 * self.interval, [member.health() for member in by]
            self.poll(0.5, *by)
        assert self.w.wrong() == []
        return (self.w.clock.now() - began) / self.interval

    def sent(self, tp):
        return [
            row.position
            for request in self.w.requests(ConsumerGroupPositionsRequest)
            for topic in request.message.positions
            for row in topic.partitions
            if row.partition_index == tp.partition
        ]

    def drive_until_sent(self, parent, child, position):
        """Let the parent's owner read and send this position, while the held member polls until it was asked for, and
        then sends nothing any more.
        """
        for _ in range(100):
            if self.sent(P0):
                child.drive()
            else:
                assert self.w.take(child.poll(self.interval * 100)) == []
            self.w.take(parent.poll(self.interval * 100))
            if max(self.sent(P0), default=-1) >= position:
                return
        raise AssertionError(self.sent(P0))


FIRST, LAST = (1, BEFORE + 1), (1, BEFORE + AFTER)


@pytest.fixture(params=["classic", "consumer"])
def group(world, request):
    return lambda **about: Group(world, request.param, **about)


def test_positions_open_a_gate_within_one_exchange(group):
    g = group().expand()
    assert g.intervals_until(LAST, by=g.share()) <= EXCHANGE


def test_a_dead_owner_holds_until_its_session_ends(group):
    g = group().expand()
    parent, child = g.share()
    g.w.die(parent)
    assert g.intervals_until(LAST, by=[child]) <= SESSION + EXCHANGE


def test_an_owner_that_dies_after_it_has_sent_a_position_holds_until_its_session_ends(group):
    g = group().expand()
    parent, child = g.share(max_poll_records=1)
    for _ in range(100):
        if g.sent(P0):
            break
        g.poll(0.5, parent, child)
    g.w.die(parent)
    assert g.w.read and FIRST not in g.w.read
    g.w.read.clear()  # the next owner begins again, since nothing was committed
    assert g.intervals_until(LAST, by=[child]) <= SESSION + EXCHANGE


def test_a_member_that_dies_while_it_is_held_holds_nobody(group):
    g = group().expand()
    parent, child = g.share(max_poll_records=1)
    g.poll(2, parent, child)
    g.w.die(child)
    assert g.intervals_until(LAST, by=[parent]) <= SESSION + EXCHANGE


def test_an_empty_parent_of_another_member_is_read(group):
    g = group()
    g.w.resize(2)
    g.w.write(1, times=AFTER)
    assert g.intervals_until((1, AFTER), by=g.share()) <= EXCHANGE


@pytest.mark.parametrize("log_start", [THRESHOLD - 1, THRESHOLD, THRESHOLD + AFTER])
def test_retention_of_a_parent_of_another_member_moves_its_position(group, log_start):
    g = group().expand()
    parent, child = g.share()
    parent.seek(P0, 3)
    g.w.cluster.delete_records(P0, log_start)
    assert g.intervals_until(LAST, by=[parent, child]) <= EXCHANGE + 1


def test_an_owner_that_is_paused_holds_until_it_is_resumed(group):
    g = group().expand()
    parent, child = g.share()
    parent.pause(P0)
    assert g.poll(5 * STALLED_INTERVALS, parent, child) == []
    assert "t-1 is held until t-0 is read up to 20 (the position is 0)" in child.health().reason
    parent.resume(P0)
    assert g.intervals_until(LAST, by=[parent, child]) <= EXCHANGE


def test_an_owner_that_is_paused_at_the_threshold_holds_nothing(group):
    g = group().expand()
    parent, child = g.share()
    parent.pause(P0)
    g.poll(2, parent, child)
    parent.seek(P0, THRESHOLD)
    assert g.intervals_until(LAST, by=[parent, child]) <= EXCHANGE


@pytest.mark.parametrize("drives", [False, True])
def test_an_owner_that_polls_rarely_sends_its_position(group, drives):
    """It works for three intervals on the records of each poll, and drives the consumer meanwhile or does not."""
    g = group().expand()
    parent, child = g.share()
    began = g.w.clock.now()
    while LAST not in g.w.read:
        assert g.w.clock.now() < began + 200 * g.interval, [parent.health(), child.health()]
        g.w.take(parent.poll(0))
        for _ in range(12):
            if drives:
                parent.drive()
            g.w.take(child.poll(g.interval * 250))
    assert g.w.wrong() == []
    assert (g.w.clock.now() - began) / g.interval <= 3 * 3 + EXCHANGE


def compacted(group):
    """Return a group whose topic keeps nothing but the last record of each key, and drops tombstones at once."""
    options = {"segment_bytes": 100, "min_cleanable_dirty_ratio": 0, "delete_retention_ms": 0}
    return group(cleanup_policy="compact", **options)


def delete_keys(w, partition, *keys):
    """Delete the keys with tombstones, and let compaction remove these, too."""
    for key in keys:
        w.cluster.produce("t", [NewRecord(None, b"%d" % key)], partition)
    for _ in range(3):
        w.run(60)
        w.cluster.compact(TopicPartition("t", partition))


@pytest.mark.parametrize("later", [0, AFTER])
def test_a_parent_without_the_last_records_of_the_awaited_epoch_is_read(group, later):
    """Compaction has removed the records before the threshold; the parent has later ones, or has not."""
    g = compacted(group)
    g.w.write(0, 1, times=BEFORE)
    delete_keys(g.w, 0, 1, 0)
    g.w.resize(2)
    g.w.write(1, times=AFTER)
    g.w.write(*[0] * later)
    for _ in range(2):
        g.w.cluster.compact(P0)
    assert g.intervals_until(LAST, by=g.share()) <= EXCHANGE


def test_partitions_that_wait_for_each_other_move_on_after_compaction(group):
    """Partition 2 waits for the end of the first epoch in partition 0; behind it, partition 0 waits for partition 2.

    The last records before that offset are compacted away, and all later ones are behind the gate of partition 0.
    """
    g = compacted(group)
    g.w.write(2, times=BEFORE)
    delete_keys(g.w, 0, 2)
    g.w.resize(3)
    g.w.write(2, times=AFTER)
    g.w.resize(1)
    g.w.write(2, times=AFTER)
    g.w.cluster.compact(P0)
    assert g.intervals_until((2, BEFORE + 2 * AFTER), by=g.share(2)) <= 2 * EXCHANGE


def test_a_marked_partition_that_is_removed_holds_its_heir_no_longer(group):
    """Its owner has read nothing of it; the member with the heir has outdated metadata, which live for minutes."""
    g = group()
    g.w.resize(3)
    g.w.write(0, 2, times=BEFORE)
    g.w.resize(1)
    g.w.write(0, 2, times=AFTER)
    heir, deleted = g.share(2)
    deleted.pause(P2)
    g.poll(3, heir, deleted)
    assert "t-0 is held until t-2 is read up to 10" in heir.health().reason
    g.w.cluster.delete_records(P2, BEFORE)
    g.w.remove_emptied()
    assert g.intervals_until((2, BEFORE + AFTER), by=[heir, deleted]) <= STALLED_INTERVALS + EXCHANGE


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_topic_that_is_made_anew_while_a_partition_is_held_is_read(group, partitions):
    """The new topic begins with one partition and is expanded, or begins with two, which wait for nothing."""
    g = group().expand()
    parent, child = g.share()
    for _ in range(12):
        parent.drive()
        assert g.poll(0.25, child) == []
    assert "t-1 is held until" in child.health().reason
    w = g.w
    w.cluster.delete_topic("t")
    w.cluster.create_topic("t", partitions, 3, w.configs)
    w.initial = w.count = partitions
    w.sequences = dict.fromkeys((0, 1), 100)
    w.write(0, 1, times=BEFORE)
    if partitions == 1:
        w.resize(2)
    w.write(0, 1, times=AFTER)
    bound = 2 * EXCHANGE + 2  # the group rebalances twice: without the topic, and with the new one
    ends = [(key, 100 + BEFORE + AFTER) for key in (0, 1)]
    assert g.intervals_until(*ends, by=[parent, child]) <= bound
    assert len([n for _, n in w.read if n > 100]) == 2 * (BEFORE + AFTER)


def test_a_topic_that_is_made_anew_leaves_no_query_for_the_old_one(group):
    """A query for a partition that the new topic lacks would refresh metadata for ever."""
    g = group().expand()
    w = g.w
    w.resize(4)
    alone = g.member()
    w.cluster.on("OffsetForLeaderEpoch", Silence())
    g.poll(5, alone)
    assert "held until the ends of leader epochs are known" in alone.health().reason
    w.cluster.rules.clear()
    w.cluster.delete_topic("t")
    w.cluster.create_topic("t", 1, 3, w.configs)
    w.initial, w.count, w.sequences = 1, 1, {}
    w.write(0, times=BEFORE)
    g.intervals_until((0, BEFORE), by=[alone])
    g.poll(40, alone)  # requests without a response time out
    before = len(w.requests(MetadataRequest))
    g.poll(20, alone)
    assert len(w.requests(MetadataRequest)) == before


@pytest.mark.parametrize("how", ["moved", "killed"])
def test_a_new_coordinator_gets_the_positions_that_the_old_one_has_lost(group, how):
    """The position was sent, and the held member has not got it, when the coordinator fails."""
    g = group().expand()
    parent, child = g.share()
    g.drive_until_sent(parent, child, THRESHOLD)
    assert FIRST not in g.w.read
    if how == "moved":
        g.w.cluster.move_coordinator("g")
    else:
        g.w.cluster.kill(g.w.requests(ConsumerGroupPositionsRequest)[-1].node_id)
    # A broker's session, and the backoff of requests, take two seconds.
    assert g.intervals_until(LAST, by=[parent, child]) <= EXCHANGE + 3


def test_a_coordinator_that_restarts_gets_the_positions_again(group):
    g = group().expand()
    parent, child = g.share()
    g.drive_until_sent(parent, child, THRESHOLD)
    node = g.w.requests(ConsumerGroupPositionsRequest)[-1].node_id
    g.w.cluster.kill(node, noticed_after_s=60)
    g.w.run(0.2)
    g.w.cluster.start(node)
    assert g.intervals_until(LAST, by=[parent, child]) <= EXCHANGE + 3


# -- assign(): no member owns the parent, and committed offsets show what the group has read


@pytest.fixture
def alone(world):
    """Return a function that makes a group with consumers that use ``assign()``."""
    return lambda: Group(world, "classic")


def test_with_assign_an_empty_parent_that_nobody_reads_holds_nothing(alone):
    g = alone()
    g.w.resize(2)
    g.w.write(1, times=AFTER)
    assert g.intervals_until((1, AFTER), by=[g.member(1)]) <= 1


@pytest.mark.parametrize("log_start", [THRESHOLD, THRESHOLD + AFTER])
def test_with_assign_a_parent_that_retention_has_emptied_up_to_the_threshold_holds_no_longer(alone, log_start):
    g = alone().expand()
    child = g.member(1)
    assert g.poll(3 * STALLED_INTERVALS, child) == []
    g.w.cluster.delete_records(P0, log_start)
    assert g.intervals_until(LAST, by=[child]) <= 2 * STALLED_INTERVALS + EXCHANGE


def test_with_assign_the_progress_of_a_reader_counts_for_more_than_the_log_start(alone):
    """Another process reads the parent. It has fetched records that retention deletes, and goes on to process them."""
    g = alone().expand()
    child, reader = g.member(1), g.member(0)
    g.w.read += [(key, n) for n in range(1, BEFORE + 1) for key in (0, 1)]
    reader.commit({P0: 2})
    g.poll(1, child)
    g.w.cluster.delete_records(P0, THRESHOLD)
    for offset in range(3, THRESHOLD):
        reader.commit({P0: offset})
        assert g.poll(STALLED_INTERVALS / 2, child) == []
    reader.commit({P0: THRESHOLD})
    assert g.intervals_until(LAST, by=[child]) <= 2


# -- deliberate bugs that hold a partition for ever, each with a test that must fail


def restarted(world):
    test_a_coordinator_that_restarts_gets_the_positions_again(lambda: Group(world, "classic"))


def rarely_polled(world):
    test_an_owner_that_polls_rarely_sends_its_position(lambda: Group(world, "classic"), drives=True)


def emptied(world):
    group = Group(world, "classic")
    test_with_assign_a_parent_that_retention_has_emptied_up_to_the_threshold_holds_no_longer(lambda: group, THRESHOLD)


def send_only_once(due_reports, self, reports):
    return meanwhile(requested=dict.fromkeys(self.requested, 0))(due_reports, self, reports)


def step_and_forget_the_poll(step, self, *args):
    requests = step(self, *args)
    self._owes_positions = False
    return requests


@pytest.mark.parametrize(
    ("fails", "plant"),
    [
        pytest.param(
            restarted,
            Plant(PositionExchange, "due_reports", send_only_once),
            id="a position that the coordinator has lost is not sent again",
        ),
        pytest.param(
            rarely_polled,
            Plant(KnownPositions, "step", step_and_forget_the_poll),
            id="a poll after a request that could not wait for it adds no positions",
        ),
        pytest.param(
            emptied,
            returns(OrderedDelivery, "_look_up_stalled"),
            id="the log start of a partition that nobody reads is not looked up",
        ),
    ],
)
def test_a_bug_that_holds_a_partition_is_noticed(world, fails, plant):
    fails(world)
    with planted(plant), pytest.raises(AssertionError, match=r"\(200 \* "):
        fails(world)
