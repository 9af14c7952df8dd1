"""Whether members subscribe to the same topics."""

import pytest

from thinconsumer_testing.broker.group.consumer.assignors.spec import MemberSpec, is_homogeneous

A, B = b"a" * 16, b"b" * 16


@pytest.mark.parametrize(
    ("subscribed", "expected"),
    [([], True), ([{A}], True), ([{A, B}, {B, A}], True), ([{A}, {A}, {A, B}], False), ([set(), {A}], False)],
)
def test_members_are_homogeneous_if_all_topics_are_equal(subscribed: list[set[bytes]], expected: bool) -> None:
    assert is_homogeneous(MemberSpec(frozenset(topics)) for topics in subscribed) is expected
