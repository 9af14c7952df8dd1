"""Which offsets are too old (KIP-211), and which belong to topics that are gone."""

from __future__ import annotations

from typing import Any

import pytest

MINUTE = 60.0


def subscription(*topics: str) -> bytes:
    return b"\0\0" + len(topics).to_bytes(4, "big") + b"".join(len(t).to_bytes(2, "big") + t.encode() for t in topics)


@pytest.fixture
def short(new_world: Any) -> Any:
    """Offsets are kept for a minute, and looked at every ten."""
    return new_world(offsets_retention_minutes=1)


def check(world: Any) -> None:
    """Come to where offsets are looked at next."""
    world.advance(600)


def test_offsets_of_a_group_without_members_age_from_their_commit(short: Any) -> None:
    short.advance(595)
    short.commit(partition=0)
    short.advance(10)
    assert short.offset(0) == 5
    check(short)
    assert short.offset(0) == -1
    assert short.shard.latest.groups == {}


def test_offsets_of_a_group_that_has_become_empty_age_from_then_on(short: Any) -> None:
    (leader,) = short.stable(1, session_ms=1_000_000)
    short.commit(leader)
    short.advance(595)
    short.leave(leader.member_id)
    short.advance(10)
    assert short.offset() == 5
    check(short)
    assert short.offset() == -1


def test_offsets_of_topics_that_a_stable_group_reads_never_age(short: Any) -> None:
    short.put_topic("clicks", 1)
    (leader,) = short.stable(1, session_ms=1_800_000, protocols={"range": subscription("orders")})
    short.commit(leader)
    short.commit(leader, topic="clicks")
    check(short)
    check(short)
    assert short.offset() == 5
    assert [t.name for t in short.fetch().answer[1]] == ["orders"]
    assert short.group.members


@pytest.mark.parametrize(
    ("kind", "metadata"), [("connect", b""), ("consumer", b"no subscription")], ids=["other kind", "unreadable"]
)
def test_where_nobody_knows_what_a_group_reads_nothing_ages(short: Any, kind: str, metadata: bytes) -> None:
    (leader,) = short.stable(1, session_ms=1_800_000, protocol_type=kind, protocols={"p": metadata})
    short.commit(leader)
    check(short)
    assert short.offset() == 5


def test_a_rebalancing_group_loses_nothing(short: Any) -> None:
    leader, _ = short.stable(2, session_ms=1_800_000, rebalance_ms=1_800_000, protocols={"range": subscription("x")})
    short.commit(leader)
    short.join(leader.member_id, session_ms=1_800_000, rebalance_ms=1_800_000, protocols={"range": subscription("x")})
    check(short)
    assert short.offset() == 5


def test_an_offset_that_a_transaction_may_change_is_kept(short: Any) -> None:
    short.commit()
    short.txn_commit(7)
    check(short)
    assert short.offset() == 5
    short.marker(7, commit=False)
    check(short)
    assert short.offset() == -1


def test_a_group_that_has_nothing_is_forgotten(short: Any) -> None:
    short.newcomer()
    check(short)
    assert short.shard.latest.groups == {}
    short.crash()
    assert short.shard.latest.groups == {}


def test_what_is_forgotten_stays_so(short: Any) -> None:
    short.commit()
    check(short)
    short.crash()
    assert short.offset() == -1
