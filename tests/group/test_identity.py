"""Who a member is: what each verdict of the coordinator leaves of it."""

from __future__ import annotations

from thinconsumer.group.identity import Identity

JOINED = Identity("g", group_instance_id="i").joined(7, "m")


def test_a_lost_member_keeps_neither_id_nor_generation():
    assert JOINED.lost() == Identity("g", -1, "", "i")
    assert not JOINED.lost().is_member


def test_an_old_generation_keeps_the_id_or_the_group_would_wait_for_a_ghost():
    assert JOINED.behind() == Identity("g", -1, "m", "i")


def test_a_named_newcomer_is_no_member_yet():
    assert Identity("g").named("m") == Identity("g", -1, "m")
    assert not Identity("g").named("m").is_member
    assert JOINED.is_member
