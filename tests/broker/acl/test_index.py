"""The index of ACLs finds, for each resource, what a walk over all ACLs would find."""

from hypothesis import given
from hypothesis import strategies as st

from thinconsumer_testing.broker.acl.bindings import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from thinconsumer_testing.broker.acl.index import AclIndex

NAMES = st.sampled_from(["*", "a", "ab", "abc", "abd", "b"])
BINDINGS = st.builds(
    AclBinding,
    st.just(ResourceType.TOPIC),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:alice", "User:*", "User:bob"]),
    st.sampled_from(["*", "10.0.0.1"]),
    st.sampled_from([AclOperation.READ, AclOperation.ALL, AclOperation.WRITE]),
    st.sampled_from([AclPermission.ALLOW, AclPermission.DENY]),
)


@given(st.lists(BINDINGS, max_size=8), st.lists(BINDINGS, max_size=8), NAMES)
def test_the_index_finds_what_a_walk_finds(kept: list[AclBinding], removed: list[AclBinding], name: str) -> None:
    index = AclIndex([*removed, *kept])
    index.remove(one for one in removed if one not in kept)
    index.remove(one for one in removed if one not in kept)
    expected = {
        one
        for one in kept
        if (one.pattern_type is PatternType.LITERAL and one.resource_name in (name, "*"))
        or (one.pattern_type is PatternType.PREFIXED and name.startswith(one.resource_name))
    }
    found = list(index.applying_to(ResourceType.TOPIC, name))
    assert set(found) == expected and len(found) == len(expected)
    assert set(index) == set(kept) and len(index) == len(set(kept))
    assert not list(index.applying_to(ResourceType.GROUP, name))
    assert repr(index) == f"<AclIndex of {len(index)} ACLs>"
    by_filter = index.matching(AclFilter(ResourceType.TOPIC, name, PatternType.MATCH))
    assert set(by_filter) == expected


@given(st.lists(BINDINGS, max_size=5), st.lists(BINDINGS, max_size=5))
def test_equal_indexes_have_the_same_acls(some: list[AclBinding], others: list[AclBinding]) -> None:
    assert (AclIndex(some) == AclIndex(others)) is (set(some) == set(others))
    assert all(one in AclIndex(some) for one in some)
