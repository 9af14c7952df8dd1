"""Fetch requests: one per node, fair shares, the memory limit, and no busy loop."""

import random

import pytest

from thinconsumer.errors import KafkaConnectionError
from thinconsumer.fetch.planner import ASKER, CHANNEL, LEAST_WORTH_ASKING
from thinconsumer.network.request import Answer, Target
from thinconsumer.positions.states import PositionEvent
from thinconsumer.support.timers import NEVER
from thinconsumer.wire import ZERO_UUID
from thinconsumer.wire.fetch import FetchResponse


def take_all(world) -> int:
    """Settle all buffered records; return how many there were."""
    count = 0
    while (poll_result := world.collector.gather(10**6)).moves:
        count += poll_result.count
        world.collector.settle(poll_result)
    return count


# -- nodes


def test_one_fetch_per_leader_and_none_while_one_is_in_flight(world, kit):
    world.cluster({kit.tp(0): (1, 5), kit.tp(1): (2, 5), kit.tp(2): (1, 5)})
    world.assign({kit.tp(n): 10 + n for n in range(3)})
    sent = world.fetches()
    assert {node: set(s.asked()) for node, s in sent.items()} == {1: {kit.tp(0), kit.tp(2)}, 2: {kit.tp(1)}}
    assert all(s.request.asker == ASKER for s in sent.values())
    assert world.fetches() == {} and world.wake_at() == NEVER
    sent[2].answer({})
    assert set(world.fetches()) == {2}


def test_a_fetch_request_contains_the_options(make, kit):
    world = make(
        client_rack="r1", isolation_level="read_committed", fetch_max_wait_ms=321, fetch_min_bytes=7,
        max_partition_fetch_bytes=4321,
    )  # fmt: skip
    world.cluster({kit.tp(0): (1, 5)})
    world.assign({kit.tp(0): 10})
    sent = world.fetch()
    message = sent.message
    assert (message.max_wait_ms, message.min_bytes, message.isolation_level, message.rack_id) == (321, 7, 1, "r1")
    [asked] = sent.asked().values()
    assert (asked.fetch_offset, asked.partition_max_bytes, asked.current_leader_epoch) == (10, 4321, 5)
    assert message.max_bytes == 4321, "no more than the sum of the partitions' limits"
    assert sent.request.deadline == world.now + 30


@pytest.mark.parametrize(
    ("partitions", "given", "rows", "batches"),
    [
        (1, {}, 2_097_152, 4_000_000),
        (2, {}, 1_048_576, 2_000_000),
        (3, {}, 1_048_576, 1_333_333),
        (6, {}, 1_048_576, 1_048_576),
        (1, {"max_partition_fetch_bytes": 5000}, 5000, 5000),
        (2, {"max_partition_fetch_bytes": 5000, "batches_fetch_bytes": 20_000}, 5000, 10_000),
        (2, {"max_partition_fetch_bytes": 5000, "batches_fetch_bytes": 4_000_000}, 5000, 2_000_000),
        (1, {"batches_fetch_bytes": 1}, 1_048_576, 1_048_576),
    ],
)
def test_polls_of_batches_fetch_more_bytes_per_partition(make, kit, partitions, given, rows, batches):
    """With few partitions, decoding a response of 1 MB to columns costs little more than starting to decode it."""
    world = make(**given)
    world.simple(*[0] * partitions)
    told = {}
    for for_batches, each in ((False, rows), (True, batches), (False, rows)):
        world.planner.batches = for_batches
        sent = world.fetch()
        told.update(sent.asked())
        assert {tp: asked.partition_max_bytes for tp, asked in told.items()} == {
            kit.tp(n): each for n in range(partitions)
        }
        expected = partitions * each
        assert sent.message.max_bytes == (expected if for_batches else min(expected, 4 << 20))
        sent.answer({})


def test_a_node_that_is_down_does_not_stop_the_others(world, kit):
    world.cluster({kit.tp(0): (1, 5), kit.tp(1): (2, 5)})
    world.assign({kit.tp(0): 0, kit.tp(1): 0})
    world.fetches()[1].fail(KafkaConnectionError("refused"))
    assert world.fetches() == {}, "node 1 backs off, node 2 is busy"
    at = world.wake_at()
    assert world.now + 0.08 <= at <= world.now + 0.12
    world.now = at
    assert set(world.fetches()) == {1}


@pytest.mark.parametrize(
    "state", ["paused", "revoking", "validating", "resetting", "blocked", "held", "broken", "full"]
)
def test_partitions_that_may_not_be_fetched_are_left_out(make, kit, state):
    world = make(max_buffered_bytes=2**20, max_partition_fetch_bytes=1000)
    a, b = world.simple(0, 0)
    if state == "broken":
        world.receive({a.tp: bytes(100)})
    elif state == "full":
        world.receive({a.tp: kit.batch(0, 2, size=300_000)})
        b.high_watermark = 1  # otherwise the Fetch would be put off
    else:
        world.receive({})
    if state == "paused":
        a.paused = True
    elif state == "revoking":
        a.pending_revocation = True
    elif state == "validating":
        a.move(PositionEvent.LEADER_CHANGED)
    elif state == "resetting":
        a.ask_reset(None)
    elif state == "blocked":
        a.back_off(world.now + 5)
        assert world.wake_at() == a.backoff.at
    elif state == "held":
        a.delivery_end = 0
    sent = world.fetch()
    assert set(sent.request.context.listed.cursors) == {b.tp}
    assert sent.forgotten() == {a.tp}, "or the broker's session would keep fetching it"


def test_a_new_partition_count_is_sent_again_in_an_incremental_session(world):
    """The count in the metadata does not count: the assignment may not be held for it yet."""
    [a] = world.simple(0)
    assert world.fetch().asked()[a.tp].undeleted_partition_count == -1
    world.planner.restart(world.now)
    world.partitions.counts["t"] = 4
    sent = world.fetch()
    assert sent.asked()[a.tp].undeleted_partition_count == 4
    sent.answer({})
    world.partitions.set_count("t", 5)
    assert world.fetch().asked()[a.tp].undeleted_partition_count == 5


def test_a_fetch_is_built_when_it_is_written(world, kit):
    """While the connection is being made, the user may seek, pause and assign."""
    a, b, _ = world.simple(0, 0, 0)
    [request] = world.planner.step(world.now)
    a.place(PositionEvent.SEEK, 50)
    b.paused = True
    world.partitions.assign([a.tp, b.tp])
    world.planner.step(world.now)
    message = request.build(12)
    assert [(p.partition, p.fetch_offset) for p in message.topics[0].partitions] == [(0, 50)]
    assert set(request.context.listed.cursors) == {a.tp} and request.context.listed.cursors[a.tp] == (a, a.cursor)


@pytest.mark.parametrize("for_batches", [False, True])
def test_a_fetch_may_be_written_after_all_partitions_are_given_up(world, for_batches):
    """``close()`` and ``unsubscribe()`` step the engine while a connection is being made."""
    world.simple(0, 0)
    world.planner.batches = for_batches
    [request] = world.planner.step(world.now)
    world.partitions.assign([])
    assert request.build(12).topics == []


# -- versions and topic ids


@pytest.mark.parametrize("version", range(4, 19))
def test_every_fetch_version_works(world, kit, version):
    [a] = world.simple(0)
    for turn in range(3):
        sent = world.fetch(version)
        assert sent.version == version
        sent.answer({a.tp: kit.batch(turn * 2, 2)})
    assert take_all(world) == 6
    session = sent.request.context
    assert session.session_id == (77 if version >= 7 else 0)
    assert sent.message.session_epoch == (2 if version >= 7 else -1)


def test_topic_names_are_sent_while_any_topic_id_is_unknown(world, kit):
    other = kit.tp(0, "other")
    world.cluster({kit.tp(0): (1, 5), other: (1, 5)}, ids={"other": ZERO_UUID})
    world.assign({kit.tp(0): 0, other: 0})
    sent = world.fetch()
    assert sent.version == 12
    sent.answer({})
    world.cluster({kit.tp(0): (1, 5), other: (1, 5)})
    sent = world.fetch()
    assert sent.version == 17
    assert (sent.message.session_id, sent.message.session_epoch) == (77, 0), (
        "the change from names to ids opens another session"
    )
    assert set(sent.asked()) == {kit.tp(0), other}


def test_a_node_that_takes_the_place_of_another_has_no_session_yet(world, kit):
    parts = {kit.tp(n): (n + 1, 5) for n in range(2)}
    world.cluster(parts, nodes=(1, 2))
    world.assign(dict.fromkeys(parts, 0), epoch=5)
    assert set(world.fetches()) == {1, 2}
    world.cluster(parts, nodes=(3, 2))
    for _ in range(3):
        assert world.fetches() == {}


# -- the nearest replica (KIP-392)


@pytest.mark.parametrize("replica", [0, 2])
def test_the_preferred_replica_is_used_until_it_expires(make, kit, replica):
    world = make(metadata_max_age_ms=50_000)
    [a] = world.simple(0, leader=1, nodes=(0, 1, 2))
    world.receive({a.tp: {"preferred_read_replica": replica}})
    sent = world.fetch()
    assert sent.node_id == replica
    sent.answer({a.tp: kit.batch(0, 1)})
    assert a.preferred_replica == replica, "a follower's response with -1 keeps the preference"
    world.cluster({a.tp: (1, 5)}, nodes=(0, 1, 2))
    world.validation.step(world.now)
    world.fetch().answer({})
    assert a.preferred_replica == replica, "so does a Metadata response with the same leader and epoch"
    world.now += 50
    sent = world.fetch()
    assert sent.node_id == 1 and sent.forgotten() == set()


def test_only_the_leader_names_the_nearest_replica(world):
    """Followers that name each other would be asked in turn, as fast as they respond."""
    [a] = world.simple(0, leader=1)
    world.receive({a.tp: {"preferred_read_replica": 2}})
    sent = world.fetch()
    assert sent.node_id == 2
    sent.answer({a.tp: {"preferred_read_replica": 1}})
    assert a.preferred_replica == 2


def test_a_preferred_replica_does_not_expire_during_a_fetch_to_it(make, kit):
    """A partition left out of the Fetch in flight would alternate between leader and follower, and never be fetched."""
    world = make(metadata_max_age_ms=700, fetch_max_wait_ms=5000, request_timeout_ms=30_000)
    a, b = world.simple(0, 0, leader=1)
    world.receive({a.tp: {"preferred_read_replica": 2}})
    sent = world.fetches()
    assert set(sent[2].asked()) == {a.tp}
    sent[1].answer({b.tp: {"preferred_read_replica": 2}})
    world.now += 5
    sent[2].answer({})
    again = world.fetch()
    assert again.node_id == 2
    assert b.tp in again.asked()


@pytest.mark.parametrize("written", [True, False])
def test_a_failed_preferred_replica_is_replaced_by_the_leader_at_once(world, written):
    """Also if the connection failed before the request was written."""
    a, b = world.simple(0, 0, leader=1)
    world.receive({p.tp: {"preferred_read_replica": 2} for p in (a, b)})
    if written:
        world.fetch().fail(KafkaConnectionError("gone"))
    else:
        [request] = world.planner.step(world.now)
        world.answers.handle(Answer(request, 2, error=KafkaConnectionError("refused")), world.now)
    sent = world.fetch()
    assert sent.node_id == 1 and set(sent.request.context.listed.cursors) == {a.tp, b.tp}


def test_a_preferred_replica_missing_in_metadata_backs_off(world):
    """The leader answers at once and without records while it names another node."""
    [a] = world.simple(0, leader=1)
    world.receive({a.tp: {"preferred_read_replica": 9}})
    assert world.fetches() == {}
    assert world.wake_at() > world.now + 0.05
    assert world.refresh_at() < world.now + 1


def test_a_preferred_replica_is_fetched_from_with_the_last_known_epoch_while_there_is_no_leader(world):
    """A Fetch with a lower epoch, or none, would accept data of a deposed leader."""
    [a] = world.simple(0, leader=1, epoch=5)
    world.receive({a.tp: {"preferred_read_replica": 2}})
    world.cluster({a.tp: (-1, 6)})
    sent = world.fetch()
    assert sent.node_id == 2 and sent.asked()[a.tp].current_leader_epoch == 6
    sent.answer({})
    world.cluster({}, errors={"t": 3})
    a.place(PositionEvent.SEEK, 7)
    sent = world.fetch()
    assert sent.node_id == 2 and sent.asked()[a.tp].current_leader_epoch == 6


# -- shares


@pytest.mark.parametrize("sessions", [True, False])
@pytest.mark.parametrize("count", [2, 3, 4, 10])
def test_every_partition_gets_its_share_of_small_responses(make, kit, count, sessions):
    """KAFKA-3932: brokers fill responses in the order of the request."""
    world = make(fetch_max_bytes=1000, enable_incremental_fetch_sessions=sessions)
    parts = world.simple(*[0] * count)
    for _ in range(count * 5):
        sent = world.fetch()
        # Without a session, the order of the request decides which partition gets records.
        first, asked = next(iter(sent.asked().items()))
        sent.answer({first: kit.batch(asked.fetch_offset, 1, size=900)}, session_id=0)
        take_all(world)
    assert [p.cursor.offset for p in parts] == [5] * count


def test_additional_steps_do_not_change_the_order_of_partitions(make, kit):
    """The engine may step the planner several times before a request is written."""
    world = make(fetch_max_bytes=1000)
    world.simple(0, 0)
    firsts = [0, 0]
    for turn in range(20):
        [request] = world.planner.step(world.now)
        for _ in range(turn % 3):
            world.planner.step(world.now)
        firsts[request.build(17).topics[0].partitions[0].partition] += 1
        world.now += 0.5
        world.answers.handle(Answer(request, 1, 17, FetchResponse()), world.now)
    assert firsts == [10, 10]


class Log:
    """A broker with endless logs, and batches of any size."""

    def __init__(self, rng: random.Random, batch, small: int, large: int) -> None:
        self.rng, self.batch, self.small, self.large = rng, batch, small, large
        self.session: dict = {}
        self.largest = 0

    def answer(self, sent) -> None:
        """Answer as Kafka does: up to max_bytes, but at least one batch."""
        if sent.message.session_epoch == 0:
            self.session = {}
        self.session.update(sent.asked())
        for tp in sent.forgotten():
            self.session.pop(tp, None)
        left, data = sent.message.max_bytes, {}
        for tp, asked in self.session.items():
            size = self.large if self.rng.random() < 0.05 else self.rng.randrange(1, self.small)
            made = self.batch(asked.fetch_offset, 1, size=size)
            if data and len(made) > min(left, asked.partition_max_bytes):
                continue
            self.largest = max(self.largest, len(made))
            data[tp] = made
            left -= len(made)
            if left <= 0:
                break
        for tp in data:
            self.session[tp] = self.session.pop(tp)
        sent.answer(data)


@pytest.mark.once
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_buffered_and_reserved_bytes_stay_below_the_limit(make, kit, nodes, seed):
    """One batch per broker may exceed the limit, since brokers send at least one. Every partition is fetched."""
    rng = random.Random(seed)
    cap = 200_000
    world = make(max_buffered_bytes=cap, fetch_max_bytes=100_000, max_partition_fetch_bytes=20_000)
    world.cluster({kit.tp(n): (n % nodes + 1, 5) for n in range(50)})
    parts = world.assign({kit.tp(n): 0 for n in range(50)})
    logs = {node: Log(rng, kit.batch, 9_000, 60_000) for node in range(1, nodes + 1)}
    out: dict = {}
    delivered = 0
    for _ in range(400):
        out.update(world.fetches())
        reserved = sum(s.request.context.reserved for s in out.values())
        slack = sum(log.largest for log in logs.values()) + nodes * 50 * kit.OVERHEAD
        assert world.buffer.pinned + reserved <= cap + slack
        assert all(s.message.max_bytes > 0 for s in out.values())
        if out and rng.random() < 0.8:
            sent = out.pop(rng.choice(list(out)))
            logs[sent.node_id].answer(sent)
        if rng.random() < 0.5:
            poll_result = world.collector.gather(rng.randrange(1, 20))
            delivered += poll_result.count
            world.collector.settle(poll_result)
    assert delivered > 300
    assert min(p.cursor.fetch_offset for p in parts) > 0
    for sent in out.values():
        logs[sent.node_id].answer(sent)
    take_all(world)
    assert world.buffer.pinned == 0
    world.fetches()


def test_little_free_buffer_memory_sends_no_fetch(make, kit):
    world = make(max_buffered_bytes=400_000, fetch_max_bytes=400_000, max_partition_fetch_bytes=400_000)
    a, _ = world.simple(0, 0)
    world.receive({a.tp: kit.batch(0, 5, size=70_000)})
    assert 400_000 - world.buffer.pinned < LEAST_WORTH_ASKING
    assert world.fetches() == {}, "and wake_at does not cause a busy loop"
    assert world.wake_at() == NEVER
    take_all(world)
    assert world.wake_at() == world.now
    assert world.fetch().message.max_bytes == 100_000
    assert world.wake_at() == NEVER


@pytest.mark.parametrize(("nodes", "each"), [(1, 4 << 20), (2, 2 << 20), (4, 1 << 20), (8, 1 << 20), (32, 1 << 19)])
def test_nodes_share_what_is_read_ahead_and_many_nodes_have_more(make, kit, nodes, each):
    """With 16 MiB for 32 nodes, each response would have 128 kB."""
    world = make()
    partitions = {kit.tp(number): number % nodes + 1 for number in range(20 * nodes)}
    world.cluster({tp: (node, 5) for tp, node in partitions.items()}, nodes=tuple(range(1, nodes + 1)))
    world.assign(dict.fromkeys(partitions, 0))
    asked = {node: sent.message.max_bytes for node, sent in world.fetches().items()}
    assert asked == dict.fromkeys(range(1, nodes + 1), each)


def test_no_more_is_read_ahead_while_records_can_be_returned(make, kit):
    """More would leave the processor's caches before it is decoded."""
    world = make()
    parts = world.simple(*[0] * 30)
    for partition in parts:
        partition.high_watermark = 1
    for number in range(0, 16, 4):
        sent = world.fetch()
        assert sent.message.max_bytes == 4 << 20
        sent.answer({partition.tp: kit.batch(0, 1, size=1_048_000) for partition in parts[number : number + 4]})
    assert world.fetches() == {}, "less than LEAST_WORTH_ASKING is left"
    for partition in parts[:16]:
        partition.paused = True
    assert world.fetches() == {}
    assert world.collector.gather(500).count == 0
    assert world.wake_at() == world.now
    for number in range(2):
        sent = world.fetch()
        assert sent.message.max_bytes == 4 << 20, "paused partitions do not stop the others"
        sent.answer({parts[20].tp: kit.batch(number, 1)})
    assert take_all(world) == 2
    assert {p.cursor.fetch_offset for p in parts[:16]} == {1}, "the batches of paused partitions stay"
    for partition in parts[:16]:
        partition.paused = False
    assert take_all(world) == 16
    assert set(world.fetches()) == {1} and not world.planner._may_fill


def test_paused_partitions_fill_the_buffer_before_their_batches_are_dropped(make, kit):
    world = make()
    parts = world.simple(*[0] * 80)
    dropped = 0
    for number in range(0, 72, 4):
        while not (fetches := world.fetches()):
            before = world.buffer.pinned
            assert world.collector.gather(500).count == 0
            dropped += world.buffer.pinned < before
        some = parts[number : number + 4]
        fetches[1].answer({partition.tp: kit.batch(0, 1, size=1_048_000) for partition in some})
        for partition in some:
            partition.paused = True
        assert dropped == 0 or world.buffer.pinned > 60 << 20
    assert 0 < dropped <= 12


@pytest.mark.parametrize("nodes", [2, 3, 5])
@pytest.mark.parametrize("polled", [100, 500, 2000])
def test_partitions_of_all_nodes_are_read_at_the_same_pace(make, kit, nodes, polled):
    """If one partition could fill all that is read ahead, its node would get the memory again and again."""
    world = make()
    leaders = {kit.tp(number): (number + 1, 5) for number in range(nodes)}
    world.cluster(leaders, nodes=tuple(range(1, nodes + 1)))
    parts = world.assign(dict.fromkeys(leaders, 0))
    read = dict.fromkeys(leaders, 0)
    for _ in range(60):
        for sent in world.fetches().values():
            data = {}
            for tp in sent.request.context.listed.cursors:
                first, count = parts[tp.partition].cursor.fetch_offset, max(1, sent.message.max_bytes // 100_000)
                data[tp] = b"".join(kit.batch(first + 100 * n, 100, size=1000) for n in range(count))
            sent.answer(data)
        for _ in range(8):
            poll_result = world.collector.gather(polled)
            for tp, records in poll_result.records.items():
                read[tp] += len(records)
            world.collector.settle(poll_result)
        assert max(read.values()) - min(read.values()) <= 2 * polled


def test_returning_records_wakes_no_step_when_no_partition_was_left_out(world, kit):
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 5)})
    sent = world.fetch()
    take_all(world)
    assert world.wake_at() == NEVER
    sent.answer({})


@pytest.mark.parametrize("broken", [False, True])
def test_a_seek_fetches_at_once_although_old_batches_fill_the_buffer_or_are_broken(make, kit, broken):
    world = make(max_buffered_bytes=100_000, max_partition_fetch_bytes=100_000)
    [a] = world.simple(0)
    world.receive({a.tp: bytes(100) if broken else kit.batch(0, 3, size=60_000)})
    assert world.fetches() == {}
    a.place(PositionEvent.SEEK, 500)
    assert world.fetch().asked()[a.tp].fetch_offset == 500


# -- closing


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_session_is_closed_over_another_connection_while_the_broker_holds_a_fetch(world, is_ready):
    """It reads the closing Fetch only after the one that it holds: close() took 200 ms, and sessions stayed."""
    (a,) = world.simple(0)
    world.receive({a.tp: {"high_watermark": 0}}, session_id=41)
    world.fetch()
    [goodbye] = world.planner.close(world.now, lambda node_id, channel: is_ready and (node_id, channel) == (1, ""))
    assert goodbye.target == Target(1, "" if is_ready else CHANNEL)
    assert goodbye.build(17).session_id == 41


# -- never busy


@pytest.mark.parametrize("seed", range(8))
def test_wake_at_never_causes_a_busy_loop(make, kit, seed):
    rng = random.Random(seed)
    world = make(max_buffered_bytes=100_000)
    parts = world.simple(*[0] * 6)
    out: dict = {}
    for _ in range(300):
        some = rng.choice(parts)
        what = rng.randrange(8)
        if what == 0:
            some.paused = not some.paused
        elif what == 1 and out:
            out.popitem()[1].fail(KafkaConnectionError("lost"))
        elif what == 2 and out:
            out.popitem()[1].answer({some.tp: {"error_code": rng.choice([6, 74, 3, 29, 78])}})
        elif what == 3 and out:
            _, sent = out.popitem()
            sent.answer(
                {
                    tp: kit.batch(p.cursor.fetch_offset, 1, size=9000)
                    for tp, (p, _) in sent.request.context.listed.cursors.items()
                }
            )
        elif what == 4:
            world.collector.settle(world.collector.gather(5))
        elif what == 5:
            some.place(PositionEvent.SEEK, 0)
        elif what == 6:
            world.cluster({kit.tp(n): (rng.choice([-1, 1, 2]), 5) for n in range(6)})
        else:
            world.now += rng.random()
        out.update(world.fetches())
        out.update(world.fetches())
        assert world.wake_at() > world.now
