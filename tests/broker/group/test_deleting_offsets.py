"""OffsetDelete at the coordinator."""

from itertools import repeat
from typing import Any

import pytest

ORDERS, OTHERS = (b"\0\1\0\0\0\1\0" + bytes([len(name)]) + name + b"\xff" * 4 for name in (b"orders", b"others"))


def codes(answer: Any) -> list[int]:
    return [one.error_code for topic in answer.topics for one in topic.partitions]


def test_only_the_named_offsets_are_deleted(world: Any) -> None:
    world.commit(partition=0)
    world.commit(partition=1)
    assert codes(world.delete_offsets(1, 2).answer) == [0, 0]
    assert (world.offset(0), world.offset(1)) == (5, -1)
    world.crash()
    assert (world.offset(0), world.offset(1)) == (5, -1)


def test_the_answer_waits_until_the_deletion_is_replicated(world: Any) -> None:
    world.commit()
    world.replica.is_slow = True
    world.replica.codes = repeat(19)
    assert world.delete_offsets(0).code == 15
    assert world.offset() == 5


def test_a_missing_group_has_no_offsets(world: Any) -> None:
    assert world.delete_offsets(0, group="missing").code == 69
    assert world.delete_offsets(0, group="").code == 24


@pytest.mark.parametrize(("metadata", "code", "left"), [(ORDERS, 86, 5), (OTHERS, 0, -1), (b"broken", 86, 5)])
def test_offsets_of_subscribed_topics_stay(world: Any, metadata: bytes, code: int, left: int) -> None:
    (seat,) = world.stable(1, protocols={"range": metadata})
    world.commit(seat)
    assert codes(world.delete_offsets(0, 1).answer) == [code] * 2
    assert world.offset() == left


def test_a_group_of_other_members_is_rejected_as_a_whole(world: Any) -> None:
    (seat,) = world.stable(1, protocol_type="connect")
    world.commit(seat)
    assert world.delete_offsets(0).code == 68
    world.leave(seat.member_id)
    assert codes(world.delete_offsets(0).answer) == [0]


def test_pending_transactional_offsets_are_deleted(world: Any) -> None:
    world.txn_commit(7, 3)
    assert codes(world.delete_offsets(0).answer) == [0]
    world.marker(7)
    assert world.offset() == -1
