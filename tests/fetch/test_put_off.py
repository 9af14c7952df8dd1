"""A Fetch is put off if the broker would only hold it, while another partition of the broker is about to be fetched."""

import pytest

from thinconsumer.errors import KafkaConnectionError
from thinconsumer.fetch.answers import FRUITLESS
from thinconsumer.fetch.planner import PUT_OFF_MAX_S, PUT_OFF_S
from thinconsumer.position_states import PositionEvent
from thinconsumer.timers import NEVER


@pytest.fixture
def crowded(make, kit):
    """A node with a partition that fills its share of the buffer, one that has no records, and one on another node."""
    world = make(max_buffered_bytes=2**20, max_partition_fetch_bytes=1000, fetch_max_wait_ms=321)
    world.cluster({kit.tp(0): (1, 5), kit.tp(1): (1, 5), kit.tp(2): (2, 5)}, nodes=(1, 2))
    full, empty, other = world.assign({kit.tp(n): 0 for n in range(3)})
    sent = world.fetches()
    sent[1].answer({full.tp: kit.batch(0, 4, size=140_000)})
    sent[2].answer({})
    return world, full, empty, other


def test_one_partition_is_read_on_as_soon_as_there_is_room_though_others_have_no_records(crowded):
    """Before, the broker held a Fetch of the others for 500 ms, again and again: reading was thirty times slower."""
    world, full, empty, _ = crowded
    assert set(world.fetches()) == {2}, "node 1 waits"
    assert world.planner.wake_at(world.now) == world.now + PUT_OFF_S
    world.collector.settle(world.collector.gather(3))
    assert set(world.fetches()) == set(), "a partition has room once all its batches are returned"
    world.collector.settle(world.collector.gather(1))
    sent = world.fetch()
    assert set(sent.request.context.cursors) == {full.tp, empty.tp} and sent.message.max_wait_ms == 321


def test_records_of_other_partitions_come_although_one_is_not_read(crowded):
    """The pauses grow while there are none: the program may be slow for long."""
    world, _, empty, _ = crowded
    world.fetches()
    pauses = []
    for _ in range(2 * FRUITLESS):
        pauses.append(world.planner.wake_at(world.now) - world.now)
        world.now += pauses[-1] / 2
        assert world.fetches() == {}
        world.now = world.planner.wake_at(world.now)
        sent = world.fetch()
        assert sent.node_id == 1 and set(sent.request.context.cursors) == {empty.tp}
        assert sent.message.max_wait_ms == 0, "the broker must not hold it"
        assert world.planner.wake_at(world.now) == NEVER
        sent.answer({})
        assert world.fetches() == {}
    assert pauses == pytest.approx([PUT_OFF_S, 2 * PUT_OFF_S] + [PUT_OFF_MAX_S] * (2 * FRUITLESS - 2))


def test_partitions_with_records_are_fetched_at_once_although_one_is_full(crowded):
    world, _, empty, _ = crowded
    empty.high_watermark = 1
    sent = world.fetches()[1]
    assert set(sent.request.context.cursors) == {empty.tp} and sent.message.max_wait_ms == 321


@pytest.mark.parametrize("is_found", [True, False])
def test_the_first_fetch_waits_for_positions_that_are_being_looked_up(make, kit, is_found):
    """Of six partitions, five may have committed positions at the end of their logs, and one with records has none."""
    world = make()
    a, b = world.simple(0, 0)
    b.ask_reset(None)
    assert world.fetches() == {} and world.planner.wake_at(world.now) == world.now + PUT_OFF_S
    if is_found:
        b.place(PositionEvent.RESET_FOUND, 5)
    else:
        world.now += PUT_OFF_S
    sent = world.fetch()
    assert set(sent.request.context.cursors) == ({a.tp, b.tp} if is_found else {a.tp})
    assert sent.message.max_wait_ms == 500
    sent.answer({})
    b.ask_reset(None)
    assert world.fetch().message.max_wait_ms == 500, "only the first one waits"


def test_a_fetch_is_put_off_no_longer_than_a_broker_would_hold_it(make, kit):
    world = make(max_buffered_bytes=2**20, max_partition_fetch_bytes=1000, fetch_max_wait_ms=10)
    full, _ = world.simple(0, 0)
    world.receive({full.tp: kit.batch(0, 4, size=150_000)})
    assert world.fetches() == {} and world.planner.wake_at(world.now) == world.now + 0.01


def test_a_fetch_for_many_bytes_is_put_off_as_long_as_a_broker_would_hold_it(make, kit):
    """With ``fetch_min_bytes``, records are to come together rather than soon."""
    world = make(max_buffered_bytes=2**20, max_partition_fetch_bytes=1000, fetch_max_wait_ms=5000, fetch_min_bytes=9999)
    full, _ = world.simple(0, 0)
    world.receive({full.tp: kit.batch(0, 4, size=150_000)})
    assert world.fetches() == {} and world.planner.wake_at(world.now) == world.now + 5


def test_a_seek_to_records_ends_the_pause(crowded):
    world, _, empty, _ = crowded
    empty.high_watermark = 10
    empty.place(PositionEvent.SEEK, 10)
    assert set(world.fetches()) == {2}
    world.now += PUT_OFF_S / 2
    empty.place(PositionEvent.SEEK, 4)
    sent = world.fetch()
    assert sent.node_id == 1 and sent.asked()[empty.tp].fetch_offset == 4 and sent.message.max_wait_ms == 321


def test_a_backoff_outlasts_the_pause(crowded):
    world, _, _, _ = crowded
    world.fetches()
    world.now += PUT_OFF_S
    world.fetch().fail(KafkaConnectionError("lost"))
    assert world.fetches() == {}
    at = world.planner.wake_at(world.now)
    assert at > world.now + PUT_OFF_S
    world.now = (world.now + at) / 2
    assert world.fetches() == {} and world.planner.wake_at(world.now) == at


def test_a_fetch_that_was_put_off_wakes_nothing_while_the_buffer_is_full(crowded, kit):
    world, _, _, other = crowded
    world.fetches()[2].answer({other.tp: kit.batch(0, 3, size=170_000)})
    world.now += PUT_OFF_S
    assert world.fetches() == {} and world.planner.wake_at(world.now) == NEVER


def test_a_fetch_that_is_put_off_reserves_no_memory(crowded):
    world, _, _, _ = crowded
    world.fetches()
    reserved = [session.reserved for session in world.planner._sessions.values()]
    assert sorted(map(bool, reserved)) == [False, True], "only the Fetch in flight"


def test_a_transaction_under_way_has_no_records_for_read_committed(make, kit):
    world = make(max_buffered_bytes=2**20, max_partition_fetch_bytes=1000, isolation_level="read_committed")
    full, open_ = world.simple(0, 0)
    world.receive({full.tp: kit.batch(0, 4, size=150_000)})
    open_.high_watermark, open_.last_stable_offset = 10, 0
    assert world.fetches() == {} and world.planner.wake_at(world.now) == world.now + PUT_OFF_S
    world.now += PUT_OFF_S
    assert world.fetch().message.max_wait_ms == 0


def test_a_fetch_that_is_put_off_wakes_nothing_once_there_is_nothing_to_fetch(crowded):
    world, _, empty, _ = crowded
    world.fetches()
    empty.paused = True
    world.fetches()
    world.now += PUT_OFF_S
    assert world.planner.wake_at(world.now) == NEVER and world.fetches() == {}
    empty.paused = False
    assert set(world.fetches()) == {1}
