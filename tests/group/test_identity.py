"""The identity of a member after each response that changes it."""

from thinconsumer.group.identity import Identity

JOINED = Identity("g", group_instance_id="i").joined(7, "m")


def test_a_lost_member_keeps_neither_member_id_nor_generation():
    assert JOINED.lost() == Identity("g", -1, "", "i")
    assert not JOINED.lost().is_member


def test_after_illegal_generation_the_member_id_stays():
    assert JOINED.behind() == Identity("g", -1, "m", "i")


def test_a_member_id_without_generation_is_no_membership():
    assert Identity("g").named("m") == Identity("g", -1, "m")
    assert not Identity("g").named("m").is_member
    assert JOINED.is_member
