"""Which fields a heartbeat has: all after a join or a loss, else what has changed."""

import random
import re

import pytest

from thinconsumer.group.consumer.heartbeat import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    Gaps,
    HeartbeatFields,
    KnownFields,
    bare_heartbeat,
    heartbeat,
    leave_epoch,
    new_member_id,
)
from thinconsumer.group.identity import Identity

T = b"t" * 16
OUTSIDE, MEMBER = Identity("g", -1, "m"), Identity("g", 7, "m")
FIELDS = HeartbeatFields(300_000, frozenset({"b", "a"}), None, "uniform", frozenset({(T, 1), (T, 0)}))


def shown(request):
    """Return the fields that are present, besides group and member."""
    found = {
        "rack": request.rack_id,
        "topics": request.subscribed_topic_names,
        "regex": request.subscribed_topic_regex,
        "assignor": request.server_assignor,
        "timeout": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        "owned": None
        if request.topic_partitions is None
        else [(topic.topic_id, topic.partitions) for topic in request.topic_partitions],
    }
    return {name: value for name, value in found.items() if value is not None}


def test_a_join_has_all_fields_epoch_0_and_owns_nothing():
    for sent in (None, FIELDS):
        request = heartbeat(OUTSIDE, "r", FIELDS, sent)
        assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m", JOIN_EPOCH)
        assert shown(request) == {
            "rack": "r", "topics": ["a", "b"], "assignor": "uniform", "timeout": 300_000, "owned": [],
        }  # fmt: skip


def test_a_full_heartbeat_has_what_is_owned():
    request = heartbeat(MEMBER, None, FIELDS, None)
    assert request.member_epoch == 7
    assert shown(request) == {
        "topics": ["a", "b"], "assignor": "uniform", "timeout": 300_000, "owned": [(T, [0, 1])],
    }  # fmt: skip


def test_an_unchanged_heartbeat_has_only_the_epoch():
    assert shown(heartbeat(MEMBER, "r", FIELDS, FIELDS)) == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"topics": frozenset()}, {"topics": []}),
        ({"regex": "a.*"}, {"regex": "a.*"}),
        ({"owned": frozenset()}, {"owned": []}),
        ({"rebalance_timeout_ms": 5}, {"timeout": 5}),
        ({"assignor": "range"}, {"assignor": "range"}),
    ],
)
def test_a_delta_has_what_has_changed(change, expected):
    assert shown(heartbeat(MEMBER, "r", FIELDS._replace(**change), FIELDS)) == expected


def test_an_empty_expression_ends_the_former_one():
    before = FIELDS._replace(topics=frozenset(), regex="a.*")
    assert shown(heartbeat(MEMBER, None, FIELDS, before)) == {"topics": ["a", "b"], "regex": ""}


def test_static_members_always_name_themselves():
    static = MEMBER._replace(group_instance_id="i")
    assert heartbeat(static, None, FIELDS, FIELDS).instance_id == "i"
    assert bare_heartbeat(static, LEAVE_STATIC_EPOCH).instance_id == "i"


@pytest.mark.parametrize(
    ("static", "leave_group", "epoch"),
    [
        (False, None, LEAVE_EPOCH),
        (False, True, LEAVE_EPOCH),
        (False, False, None),
        (True, None, LEAVE_STATIC_EPOCH),
        (True, True, LEAVE_EPOCH),
        (True, False, LEAVE_STATIC_EPOCH),
    ],
)
def test_the_epoch_to_leave_with(static, leave_group, epoch):
    assert leave_epoch(MEMBER._replace(group_instance_id="i" if static else None), leave_group) == epoch


def test_member_ids_are_random_and_in_kafkas_form():
    rng = random.Random(1)
    ids = {new_member_id(rng) for _ in range(500)}
    assert len(ids) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", found) for found in ids)


@pytest.mark.parametrize(("seconds", "trusted"), [((9.0,), False), ((9.0, 9.0), True), ((9.0, 11.0), False)])
def test_a_gap_is_trusted_behind_another_one_if_a_gap_of_its_length_was_survived(seconds, trusted):
    gaps = Gaps().confirmed(0.0, is_first=True, is_session=False).confirmed(10.0, is_first=False, is_session=True)
    for number, gap in enumerate(seconds):
        gaps = gaps.away(gap, is_unconfirmed=number > 0)
    assert gaps.are_survivable is trusted
    assert not gaps.confirmed(20.0, is_first=True, is_session=False).are_survivable


def test_a_join_makes_no_partition_known_and_a_revoked_one_counts_until_it_is_named():
    known = KnownFields()
    known.wrote(FIELDS)
    assert known.fields is None and known.may_have_member and not known.may_have_regex
    known.wrote(FIELDS._replace(regex="t.*"))
    assert known.may_have_regex
    known.answered(is_join=True)
    assert known.fields is not None and known.fields.owned == frozenset()
    known.count_as_owned(frozenset({(T, 2)}))
    assert known.fields.owned == {(T, 2)}
