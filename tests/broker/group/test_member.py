"""One member: its protocols, its vote, and when it needs no heartbeats."""

from typing import Any

from thinconsumer.broker.group.member import ClassicGroupMember, protocols_of
from thinconsumer.wire.join_group import JoinGroupRequestProtocol


def member(**options: Any) -> ClassicGroupMember:
    protocols = (("range", b"r"), ("sticky", b"s"))
    return ClassicGroupMember("m", options.pop("instance", None), "c", "/h", 1, 1, "consumer", protocols, **options)


def test_member_votes_for_its_first_candidate() -> None:
    assert member().vote({"sticky", "range"}) == "range"
    assert member().vote({"sticky", "other"}) == "sticky"


def test_metadata_by_protocol() -> None:
    assert member().metadata("sticky") == b"s"
    assert member().protocol_names == ["range", "sticky"]


def test_instance_id_makes_a_member_static() -> None:
    assert member(instance="i").is_static
    assert not member().is_static


def test_parked_request_replaces_heartbeats_except_for_new_members() -> None:
    """A new member's client may have disconnected without a trace, and the member would never be removed."""
    assert not member().has_satisfied_heartbeat
    assert member(join=print).has_satisfied_heartbeat
    assert member(sync=print).has_satisfied_heartbeat
    assert not member(join=print, is_new=True).has_satisfied_heartbeat


def test_first_of_two_protocols_with_the_same_name_counts() -> None:
    listed = [JoinGroupRequestProtocol(name="a", metadata=b"1"), JoinGroupRequestProtocol(name="a", metadata=b"2")]
    assert protocols_of(listed) == (("a", b"1"),)
