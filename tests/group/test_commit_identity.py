"""Which offsets may be committed: pairs of the identity when they were queued and the current one."""

import pytest

from thinconsumer.group.identity import Identity
from thinconsumer.group.offsets.commit_identity import CommitIdentity

BY_HAND = Identity("g")
FIVE, SIX, SEVEN = (Identity("g", generation, "me") for generation in (5, 6, 7))


def member(identity: Identity, *, is_rebalancing: bool = False, before: Identity | None = None) -> CommitIdentity:
    """Return the commit identity of a subscribed consumer; ``before`` is its identity before the rebalance."""
    return CommitIdentity(identity, True, is_rebalancing, settled=before or identity)


MANUAL = CommitIdentity(BY_HAND)


def test_generation_0_is_one():
    """Kafka counts from 1, but only NO_GENERATION stands for none."""
    assert Identity("g", 0, "me").is_member and not BY_HAND.is_member


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        (FIVE, member(FIVE), None),
        (FIVE, member(SIX), None),
        # In the missed generation another member may have owned the partition.
        (FIVE, member(SEVEN), "rebalance_in_progress"),
        (FIVE, member(FIVE.behind()), "illegal_generation"),
        (FIVE, member(FIVE.lost()), "unknown_member"),
        (FIVE, member(Identity("g", 6, "reborn")), "unknown_member"),
        (FIVE, MANUAL, "unknown_member"),
        (BY_HAND, member(FIVE), "refused"),
        (BY_HAND, MANUAL, None),
    ],
)
def test_offsets_queued_under_another_identity_are_rejected(before, now, reason):
    """Offsets are committed under the identity of their queueing, or by the same member in the next generation."""
    objection = now.objection(before, is_assigned=True)
    assert (objection.reason if objection is not None else None) == reason


def test_offsets_of_a_revoked_partition_are_rejected_in_the_next_generation():
    assert member(FIVE).objection(FIVE, is_assigned=False) is None
    assert member(SIX).objection(FIVE, is_assigned=False).reason == "rebalance_in_progress"


@pytest.mark.parametrize(
    ("now", "who"),
    [
        (member(FIVE), FIVE),
        (member(FIVE, is_rebalancing=True), FIVE),
        (member(FIVE.lost()), None),
        (member(FIVE.behind()), None),
        (MANUAL, BY_HAND),
    ],
)
def test_the_identity_to_commit_under(now, who):
    """A lost member must not commit as a consumer with manual assignment."""
    assert now.who == who


@pytest.mark.parametrize(
    ("now", "awaits_sync"),
    [
        (member(FIVE), False),
        (member(FIVE, is_rebalancing=True), False),  # the coordinator accepts the old generation while others join
        (member(FIVE, is_rebalancing=True)._replace(refused=FIVE), True),
        (member(SIX, is_rebalancing=True, before=FIVE), True),
        (member(SIX, before=FIVE), False),
        (MANUAL, False),
    ],
)
def test_commits_are_held_from_the_join_until_the_sync(now, awaits_sync):
    """Meanwhile the coordinator rejects commits of every generation."""
    assert now.awaits_sync is awaits_sync


@pytest.mark.parametrize(
    ("identity", "is_rebalancing", "expected"),
    [
        (FIVE, True, FIVE),
        (SIX, True, SIX),
        (SEVEN, True, FIVE),
        (Identity("g", 7, "reborn"), True, Identity("g", 7, "reborn")),
        (FIVE.lost(), True, None),
        (SEVEN, False, SEVEN),
    ],
)
def test_offsets_queued_after_a_missed_generation_belong_to_the_generation_before(identity, is_rebalancing, expected):
    """Another member may have owned the partition in the missed generation."""
    assert member(identity, is_rebalancing=is_rebalancing, before=FIVE).consumed_as == expected


def test_commits_without_membership_fail_with_the_reason():
    """The reason tells a rebalance in progress from a lost membership."""
    assert member(Identity("g"), is_rebalancing=True).outside().reason == "rebalance_in_progress"
    assert member(Identity("g")).outside().reason == "unknown_member"


@pytest.mark.parametrize(
    ("before", "now", "is_assigned", "reason"),
    [
        (FIVE, member(SEVEN), True, None),
        (FIVE, member(SEVEN), False, "rebalance_in_progress"),
        (FIVE, member(SEVEN._replace(incarnation=1)), True, "illegal_generation"),
        (FIVE, member(FIVE.outside()), True, "illegal_generation"),
    ],
)
def test_in_a_consumer_group_epochs_may_be_skipped_but_no_membership_survives_its_end(before, now, is_assigned, reason):
    """KIP-848: a member keeps its id when it joins again, so that only the incarnation tells the two apart."""
    objection = now._replace(has_epochs=True).objection(before, is_assigned=is_assigned)
    assert (objection.reason if objection is not None else None) == reason


# -- the identity of a member after each response that changes it

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
