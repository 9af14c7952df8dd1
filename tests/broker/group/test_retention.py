"""Offset expiration (KIP-211), and offsets of deleted topics."""

from typing import Any

import pytest

from thinconsumer.wire.consumer_protocol import encode_subscription


@pytest.fixture
def short(new_world: Any) -> Any:
    """A world with an offset retention of a minute, checked every ten minutes."""
    return new_world(offsets_retention_minutes=1)


def check(world: Any) -> None:
    """Advance to the next expiration check."""
    world.advance(600)


def test_offsets_without_protocol_type_expire_after_their_commit(short: Any) -> None:
    short.advance(595)
    short.commit(partition=0)
    short.advance(10)
    assert short.offset(0) == 5
    check(short)
    assert short.offset(0) == -1
    assert short.shard.latest.groups == {}


def test_offsets_of_an_empty_group_expire_after_it_became_empty(short: Any) -> None:
    (leader,) = short.stable(1, session_ms=1_000_000)
    short.commit(leader)
    short.advance(595)
    short.leave(leader.member_id)
    short.advance(10)
    assert short.offset() == 5
    check(short)
    assert short.offset() == -1


def test_offsets_of_subscribed_topics_never_expire(short: Any) -> None:
    short.put_topic("clicks", 1)
    (leader,) = short.stable(1, session_ms=1_800_000, protocols={"range": encode_subscription(["orders"])})
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
def test_offsets_never_expire_with_unknown_subscriptions(short: Any, kind: str, metadata: bytes) -> None:
    (leader,) = short.stable(1, session_ms=1_800_000, protocol_type=kind, protocols={"p": metadata})
    short.commit(leader)
    check(short)
    assert short.offset() == 5


def test_offsets_do_not_expire_during_a_rebalance(short: Any) -> None:
    leader, _ = short.stable(
        2, session_ms=1_800_000, rebalance_ms=1_800_000, protocols={"range": encode_subscription(["x"])}
    )
    short.commit(leader)
    short.join(
        leader.member_id, session_ms=1_800_000, rebalance_ms=1_800_000, protocols={"range": encode_subscription(["x"])}
    )
    check(short)
    assert short.offset() == 5


def test_unstable_offsets_do_not_expire(short: Any) -> None:
    short.commit()
    short.txn_commit(7)
    check(short)
    assert short.offset() == 5
    short.marker(7, commit=False)
    check(short)
    assert short.offset() == -1


def test_empty_group_without_offsets_is_removed(short: Any) -> None:
    short.newcomer()
    check(short)
    assert short.shard.latest.groups == {}
    short.crash()
    assert short.shard.latest.groups == {}


def test_expired_offsets_are_not_loaded_again(short: Any) -> None:
    short.commit()
    check(short)
    short.crash()
    assert short.offset() == -1
