"""One member: its protocols, its vote, and when it need not send heartbeats."""

from __future__ import annotations

from typing import Any

from thinconsumer.broker.group.member import ClassicGroupMember, protocols_of
from thinconsumer.wire.join_group import JoinGroupRequestProtocol


def member(**options: Any) -> ClassicGroupMember:
    protocols = (("range", b"r"), ("sticky", b"s"))
    return ClassicGroupMember("m", options.pop("instance", None), "c", "/h", 1, 1, "consumer", protocols, **options)


def test_votes_for_its_first_choice_among_the_candidates() -> None:
    assert member().vote({"sticky", "range"}) == "range"
    assert member().vote({"sticky", "other"}) == "sticky"


def test_tells_its_metadata_by_protocol() -> None:
    assert member().metadata("sticky") == b"s"
    assert member().protocol_names == ["range", "sticky"]


def test_is_static_with_an_instance_id() -> None:
    assert member(instance="i").is_static
    assert not member().is_static


def test_a_parked_call_stands_for_heartbeats_unless_the_member_is_new() -> None:
    """A newcomer's client may be gone without a trace: nothing else would ever end its membership."""
    assert not member().has_satisfied_heartbeat
    assert member(join=print).has_satisfied_heartbeat
    assert member(sync=print).has_satisfied_heartbeat
    assert not member(join=print, is_new=True).has_satisfied_heartbeat


def test_keeps_the_first_of_two_protocols_of_one_name() -> None:
    listed = [JoinGroupRequestProtocol(name="a", metadata=b"1"), JoinGroupRequestProtocol(name="a", metadata=b"2")]
    assert protocols_of(listed) == (("a", b"1"),)
