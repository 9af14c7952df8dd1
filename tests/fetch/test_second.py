"""A second Fetch, on a connection of its own, for partitions that become ready while the broker holds the first one."""

import pytest

from thinconsumer.errors import KafkaConnectionError
from thinconsumer.fetch.planner import CHANNEL
from thinconsumer.fetch.second_fetch import AWAITED_S, LOOK_AFTER_S, LOOK_AT_MAX
from thinconsumer.fetch.second_fetch import CHANNEL as SECOND_CHANNEL
from thinconsumer.fetch.sessions import FINAL_EPOCH, NO_SESSION
from thinconsumer.network.request import Answer
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.support.timers import NEVER


@pytest.fixture
def held(world):
    """Two partitions, read to their ends, and the Fetch for new records, which the broker holds."""
    a, b = world.simple(100, 200)
    world.receive({a.tp: {"high_watermark": 100}, b.tp: {"high_watermark": 200}})
    return world, a, b, world.fetch()


def seek(partition, offset):
    partition.place(PositionEvent.SEEK, offset)


def test_a_seek_to_records_is_followed_at_once(held, kit):
    """Before, each seek took up to ``fetch_max_wait_ms``, in which the broker held a Fetch from the old position."""
    world, a, _, first = held
    assert first.request.target.channel == CHANNEL and first.message.max_wait_ms == 500
    seek(a, 40)
    second = world.second()
    assert second.request.target == first.request.target._replace(channel=SECOND_CHANNEL)
    assert second.message.max_wait_ms == 0, "the broker must not hold this one"
    assert (second.message.session_id, second.message.session_epoch) == (NO_SESSION, FINAL_EPOCH)
    assert {tp: want.fetch_offset for tp, want in second.asked().items()} == {a.tp: 40}
    second.answer({a.tp: {"records": kit.batch(40, 60), "high_watermark": 100}}, session_id=NO_SESSION)
    assert a.cursor.fetch_offset == 100
    assert world.fetches() == world.seconds == {}, "all records are there"
    first.answer({})
    assert world.fetch().asked() == {}, "the session has the position at the end from before the seek"


def test_more_records_are_fetched_until_the_first_fetch_is_answered(held, kit):
    world, a, _, first = held
    seek(a, 40)
    for offset in range(40, 70, 10):
        second = world.second()
        assert second.asked()[a.tp].fetch_offset == offset
        assert world.fetches() == world.seconds == {}, "one at a time"
        second.answer({a.tp: {"records": kit.batch(offset, 10), "high_watermark": 100}}, session_id=NO_SESSION)
    first.answer({})
    assert world.fetch().asked()[a.tp].fetch_offset == 70 and not world.seconds


def test_records_that_both_fetches_return_are_taken_once(held, kit):
    world, a, _, first = held
    seek(a, 40)
    second = world.second()
    first.answer({})
    again = world.fetch()
    assert again.asked()[a.tp].fetch_offset == 40
    data = {a.tp: {"records": kit.batch(40, 10), "high_watermark": 100}}
    second.answer(data, session_id=NO_SESSION)
    again.answer(data)
    assert [record.offset for record in world.collector.gather(100).records[a.tp]] == list(range(40, 50))
    assert world.fetch().asked()[a.tp].fetch_offset == 50


def test_a_seek_to_the_end_waits(held):
    world, a, _, _ = held
    seek(a, 100)
    assert world.fetches() == world.seconds == {} and world.wake_at() == NEVER


def test_a_seek_beyond_the_end_is_out_of_range_at_once(held):
    """Before, the reset to other offsets began up to ``fetch_max_wait_ms`` later."""
    world, a, _, _ = held
    seek(a, 101)
    second = world.second()
    assert {tp: want.fetch_offset for tp, want in second.asked().items()} == {a.tp: 101}
    second.answer({a.tp: {"error_code": 1, "high_watermark": 100}}, session_id=NO_SESSION)
    assert a.state is PositionState.AWAITING_RESET


def test_an_assigned_partition_is_fetched_at_once(held, kit):
    """Nothing is known of its log end."""
    world, a, b, _ = held
    world.cluster({kit.tp(n): (1, 5) for n in range(3)})
    world.partitions.assign([a.tp, b.tp, kit.tp(2)])
    new = world.partitions.get(kit.tp(2))
    seek(new, 7)
    assert new.high_watermark is None
    second = world.second()
    assert {tp: want.fetch_offset for tp, want in second.asked().items()} == {new.tp: 7}
    second.answer({new.tp: {"high_watermark": 7}}, session_id=NO_SESSION)
    assert world.fetches() == world.seconds == {}, "it has no records"


def test_a_fetch_of_partitions_with_unknown_ends_is_held_only_after_a_while(world, kit):
    """They may have records, which are answered within milliseconds."""
    a, b = world.simple(0, 0)
    b.ask_reset(None)
    assert set(world.fetch().asked()) == {a.tp}
    b.place(PositionEvent.RESET_FOUND, 5)
    assert world.fetches() == world.seconds == {}
    assert world.wake_at() == world.now + LOOK_AFTER_S
    world.now += LOOK_AFTER_S
    assert set(world.second().asked()) == {b.tp}
    assert world.wake_at() == NEVER


def test_a_fetch_of_partitions_with_records_is_held_only_if_they_do_not_come(held):
    """The broker may wait for more of them (``fetch_min_bytes``), or be a follower that does not have them yet."""
    world, a, b, _ = held
    b.high_watermark = 201
    seek(a, 40)
    assert world.fetches() == world.seconds == {} and world.wake_at() == world.now + AWAITED_S
    world.now += AWAITED_S
    assert set(world.second().asked()) == {a.tp}


def test_a_fetch_that_was_not_written_yet_will_have_all_partitions(world):
    a, b = world.simple(100, 200)
    world.receive({a.tp: {"high_watermark": 100}, b.tp: {"high_watermark": 200}})
    (request,) = world.planner.step(world.now)
    seek(a, 40)
    assert world.planner.step(world.now) == []
    assert [part.fetch_offset for topic in request.build(17).topics for part in topic.partitions] == [40]


def test_a_second_fetch_that_is_written_late_asks_for_what_is_still_missing(held):
    world, a, _, first = held
    seek(a, 40)
    (request,) = world.planner.step(world.now)
    first.answer({})
    assert world.fetch().asked()[a.tp].fetch_offset == 40
    assert request.build(17).topics == []


def test_after_a_second_fetch_without_partitions_nothing_waits(held):
    """Otherwise polls would run a busy loop until the first Fetch is answered: no response without partitions fits."""
    world, a, _, _ = held
    world.buffer.pinned = 100
    seek(a, 40)
    (request,) = world.planner.step(world.now)
    a.paused = True
    assert request.build(17).topics == []
    world.answers.handle(Answer(request, 1, 17, error=KafkaConnectionError("lost")), world.now)
    world.now += 10
    assert world.fetches() == world.seconds == {} and world.buffer.awaited_by is None


def test_a_partition_is_fetched_at_once_when_the_buffer_has_room_again(make, kit):
    """Before, a partition with records beside others without was read thirty times slower."""
    world = make(max_buffered_bytes=2**20, max_partition_fetch_bytes=1000)
    full, _ = world.simple(0, 0)
    world.receive({full.tp: kit.batch(0, 4, size=150_000), kit.tp(1): {"high_watermark": 0}})
    assert full.tp not in world.fetch().request.context.listed.cursors
    world.collector.settle(world.collector.gather(3))
    assert world.fetches() == world.seconds == {} and world.wake_at() == NEVER
    world.collector.settle(world.collector.gather(1))
    assert world.wake_at() == world.now
    assert set(world.second().asked()) == {full.tp}


def test_no_second_fetch_is_sent_while_the_buffer_is_full(held):
    world, a, _, _ = held
    world.buffer.pinned = world.config.max_buffered_bytes
    seek(a, 40)
    assert world.fetches() == world.seconds == {} and world.wake_at() == NEVER
    world.buffer.pinned = 0
    world.buffer.awaited_by.touch()
    assert world.wake_at() == world.now
    reserved = world.second().request.context.reserved
    assert 0 < reserved <= world.config.max_buffered_bytes


def test_a_position_without_records_is_not_asked_for_again_before_the_first_fetch_is_answered(held):
    """The broker may not return what its last response has shown, as after a truncation: no loop of requests."""
    world, a, b, first = held
    seek(a, 40)
    world.second().answer({a.tp: {"high_watermark": 100}}, session_id=NO_SESSION)
    assert world.fetches() == world.seconds == {} and world.wake_at() == NEVER
    seek(b, 7)
    second = world.second()
    assert set(second.asked()) == {b.tp}, "other positions are"
    second.answer({b.tp: {"high_watermark": 200}}, session_id=NO_SESSION)
    seek(a, 41)
    first.answer({})
    world.fetch()
    world.now += AWAITED_S
    seek(a, 40)
    assert world.second().asked()[a.tp].fetch_offset == 40


def test_records_that_a_full_response_does_not_have_are_asked_for_again(held, kit):
    world, a, b, _ = held
    seek(a, 40)
    seek(b, 50)
    asked = []
    for _ in range(3):
        second = world.second()
        asked.append([one.number for one in map(world.partitions.get, second.asked())])
        one = next(iter(second.asked()))
        offset = second.asked()[one].fetch_offset
        second.answer({one: {"records": kit.batch(offset, 5), "high_watermark": 100}}, session_id=NO_SESSION)
    assert sorted(asked[0]) == sorted(asked[1]) and asked[0] != asked[1] != asked[2], "each is first in turn"
    assert (a.cursor.fetch_offset, b.cursor.fetch_offset) in ((50, 55), (45, 60))


def test_a_seek_while_a_second_fetch_is_in_flight_is_followed_at_once(held, kit):
    """The response has nothing for the new position, but that says nothing about it."""
    world, a, _, _ = held
    seek(a, 40)
    second = world.second()
    seek(a, 50)
    assert world.fetches() == world.seconds == {}
    second.answer({a.tp: {"records": kit.batch(40, 10), "high_watermark": 100}}, session_id=NO_SESSION)
    assert world.second().asked()[a.tp].fetch_offset == 50


def test_log_ends_are_confirmed_by_first_fetches_only(held, kit):
    """health() and lag go by that time: they said STUCK for ever after a seek, since no session had the partition."""
    world, a, b, first = held
    seek(a, 40)
    world.second().answer({a.tp: {"records": kit.batch(40, 60), "high_watermark": 100}}, session_id=NO_SESSION)
    for _ in range(3):
        world.now += 10
        first.answer({})
        assert a.confirmed_at == b.confirmed_at == world.now
        first = world.fetch()


def test_partitions_are_looked_at_once(world, monkeypatch):
    """Each step would take a millisecond with thousands of partitions that were resumed."""
    parts = world.simple(*[0] * 100)
    world.receive({part.tp: {"high_watermark": 0} for part in parts})
    world.fetch()
    looked_at = []
    original = world.planner._has_more
    monkeypatch.setattr(type(world.planner), "_has_more", lambda _, part: looked_at.append(part) or original(part))
    for part in parts[:60]:
        seek(part, 0)
    for _ in range(5):
        assert world.fetches() == world.seconds == {}
    assert len(looked_at) == 60


def test_a_second_fetch_that_fails_is_no_failure_of_the_partition(held):
    """A broker or firewall may allow one connection only; then the first Fetch has the partition later."""
    world, a, _, first = held
    seek(a, 40)
    for _ in range(3):
        world.second().fail(KafkaConnectionError("refused"))
        assert a.last_error is None and a.state is PositionState.FETCHING
        assert world.fetches() == world.seconds == {}, "backing off"
        assert world.now < world.wake_at() < world.now + 2
        world.now = world.wake_at()
    world.second().answer({}, session_id=NO_SESSION, error_code=-1)
    assert world.fetches() == world.seconds == {} and a.last_error is None
    first.answer({})
    assert world.fetch().asked()[a.tp].fetch_offset == 40


def test_a_short_hold_needs_no_second_fetch(make):
    world = make(fetch_max_wait_ms=int(LOOK_AFTER_S * 1000))
    (a,) = world.simple(100)
    world.receive({a.tp: {"high_watermark": 100}})
    world.fetch()
    seek(a, 40)
    assert world.fetches() == world.seconds == {}


def test_many_partitions_are_not_all_looked_at(world):
    """To look at 10,000 partitions takes a millisecond, and each step would do so."""
    parts = world.simple(*[0] * (LOOK_AT_MAX + 1))
    world.receive({part.tp: {"high_watermark": 0} for part in parts})
    world.fetch()
    parts[0].high_watermark = 9
    seek(parts[0], 5)
    assert world.fetches() == world.seconds == {}
    assert world.wake_at() == world.now + LOOK_AFTER_S
    world.now += LOOK_AFTER_S
    assert set(world.second().asked()) == {parts[0].tp}


def test_a_transaction_under_way_has_no_records_for_read_committed(make):
    world = make(isolation_level="read_committed")
    a, b = world.simple(100, 200)
    ends = {"high_watermark": 300, "last_stable_offset": 100}
    world.receive({a.tp: ends, b.tp: {**ends, "last_stable_offset": 200}})
    world.fetch()
    seek(a, 120)
    assert world.fetches() == world.seconds == {}
    seek(a, 99)
    assert set(world.second().asked()) == {a.tp}


def test_partitions_that_are_paused_or_given_up_are_not_fetched(held):
    world, a, b, _ = held
    seek(a, 40)
    a.paused = True
    assert world.fetches() == world.seconds == {}
    world.partitions.assign([b.tp])
    assert world.fetches() == world.seconds == {}


def test_nothing_waits_once_a_node_has_no_partitions(held):
    """Each step would look for them, and wake_at() at the backoff's end."""
    world, a, b, _ = held
    seek(a, 40)
    world.second().fail(KafkaConnectionError("refused"))
    assert world.wake_at() < NEVER
    a.paused = b.paused = True
    assert world.fetches() == world.seconds == {}
    world.now = world.wake_at()
    assert world.fetches() == world.seconds == {} and world.wake_at() == NEVER


def test_after_a_restart_all_begins_anew(held):
    world, a, _, _ = held
    seek(a, 40)
    world.second()
    world.planner.restart(world.now)
    assert set(world.fetch().asked()) == {a.tp, held[2].tp} and not world.seconds


def test_records_from_the_node_of_before_are_followed_by_a_second_fetch_to_the_node_of_now(held, kit):
    """The Fetch to the new node was written before these records came, and asks for them again."""
    world, a, _, before = held
    a.preferred_replica, a.preference = 2, world.agenda.alarm()
    a.preference.set(world.now + 300)
    a.report_change()
    now = world.fetches()[2]
    assert now.asked()[a.tp].fetch_offset == 100
    before.answer({a.tp: {"records": kit.batch(100, 10), "high_watermark": 120}})
    world.fetches()
    assert world.seconds[2].asked()[a.tp].fetch_offset == 110


def test_a_partition_that_the_planner_would_look_at_again_makes_it_due(world, kit):
    """Its former node reports a later log end, and the next Fetch to that node ends what the node confirmed.

    This was reported to the planner, but not to the agenda: records waited until something else made the planner step.
    """
    world.cluster({kit.tp(n): (leader, 5) for n, leader in enumerate((2, 2, 1))})
    a, _, _ = world.assign({kit.tp(0): 100, kit.tp(1): 200, kit.tp(2): 300}, epoch=5)
    a.prefer(1, world.now + 60)
    ends = {
        1: {a.tp: {"high_watermark": 100}, kit.tp(2): {"high_watermark": 300}},
        2: {kit.tp(1): {"high_watermark": 200}},
    }
    for node_id, sent in world.fetches().items():
        sent.answer(ends[node_id])
    held = world.fetches()
    world.now += 60
    for _ in range(2):
        assert world.wake_at() == world.now
        assert world.fetches() == world.seconds == {}, "the leader has nothing more, as far as is known"
    assert world.wake_at() == NEVER
    held[1].answer({a.tp: {"high_watermark": 101}})
    assert world.fetch().forgotten() == {a.tp} and not world.seconds
    assert world.wake_at() == world.now, "the planner is due"
    assert set(world.second().asked()) == {a.tp}
    assert world.wake_at() == NEVER
