"""Polls that return records up to an end offset, as ``read_to_end`` does, or to where ordered delivery holds them."""

import pytest

from thinconsumer.config.values import Deserializer
from thinconsumer.errors import RecordError
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import build_marker
from thinconsumer.records.rows import deserialize

BIG = 10_000

pytestmark = pytest.mark.usefixtures("way")


def take(world, **more) -> list[int]:
    poll_result = world.collector.gather(BIG, **more)
    world.collector.settle(poll_result)
    return [record.offset for records in poll_result.records.values() for record in records]


def poison(tp, records):
    return deserialize(records, None, Deserializer.adapt(lambda data: 1 // (int(data) - 5)))


def test_an_end_offset_without_a_record_is_reached(world, kit):
    """Otherwise reading to the end offset would wait for a record that compaction has removed."""
    [a] = world.simple(3)
    world.receive({a.tp: kit.batch(20, 3)})
    assert take(world, ends={a.tp: 10}) == [] and a.cursor.offset == 10
    assert world.collector.gather(BIG, {a.tp: 10}).moves == []
    assert take(world) == [20, 21, 22]


@pytest.mark.parametrize("kind", ["corrupt", "poison", "header"])
def test_an_error_after_the_end_offset_is_not_raised(make, kit, kind):
    world = make(deserialize=poison if kind == "poison" else None)
    [a] = world.simple(0)
    bad = {"corrupt": kit.corrupted(kit.batch(5, 2)), "poison": kit.batch(5, 2), "header": bytes(8) + b"\0\0\0\1" * 20}
    world.receive({a.tp: kit.batch(0, 5) + bad[kind]})
    assert take(world, ends={a.tp: 5}) == [0, 1, 2, 3, 4]
    assert take(world, ends={a.tp: 5}) == []
    with pytest.raises(RecordError):
        world.collector.gather(BIG)


def test_no_record_of_a_later_response_comes_before_an_error(world, kit):
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 2) + kit.corrupted(kit.batch(2, 2))})
    world.receive({a.tp: kit.batch(4, 2)})
    assert take(world) == [0, 1]
    for _ in range(2):
        with pytest.raises(RecordError) as caught:
            world.collector.gather(BIG)
        assert caught.value.offset == 2 and a.cursor.offset == 2


def test_records_from_the_delivery_end_on_are_kept_until_it_moves(world, kit):
    a, b = world.simple(0, 0)
    world.receive({a.tp: kit.batch(0, 4) + kit.batch(4, 4), b.tp: kit.batch(0, 2)})
    a.delivery_end, b.delivery_end = 6, -1
    assert take(world, ends={a.tp: 3}) == [0, 1, 2]
    assert take(world) == [3, 4, 5]
    assert not world.buffer.has_ready() and take(world) == []
    a.delivery_end = b.delivery_end = None
    assert sorted(take(world)) == [0, 1, 6, 7]


@pytest.mark.parametrize("limit", ["end offset", "delivery end"])
def test_a_response_without_records_does_not_move_the_position_past_records_that_are_kept(world, kit, limit):
    """The position went from the end offset to the end of the marker, and a commit then lost what is between."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 10)})
    world.receive({a.tp: build_marker(ControlType.COMMIT, producer_id=7, base_offset=10)})
    if limit == "delivery end":
        a.delivery_end = 5
    assert take(world, ends={a.tp: 5 if limit == "end offset" else 99}) == [0, 1, 2, 3, 4]
    assert a.cursor.offset == 5
    a.delivery_end = None
    assert take(world) == [5, 6, 7, 8, 9] and a.cursor.offset == 11


@pytest.mark.parametrize("end", [4, 6])
@pytest.mark.parametrize("form", ["rows", "raw"])
def test_the_position_at_an_end_before_the_next_response_has_the_epoch_of_the_records_before_it(world, kit, form, end):
    """An older epoch ends below the position: after the next change of the leader, a truncation would be reported."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 4, epoch=7)})
    world.receive({a.tp: kit.batch(end, 4, epoch=8)})
    a.delivery_end = end
    world.collector.settle(world.collector.gather(BIG) if form == "rows" else world.collector.gather_raw(BIG))
    assert (a.cursor.offset, a.cursor.epoch) == (end, 7)
