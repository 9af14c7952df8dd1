"""The way of one member from its current assignment to its target assignment.

A member first revokes what it must not keep, and stays in its epoch until it no longer reports these partitions as
owned. Then it moves to the epoch of the target assignment, and gets those partitions of the target that no other member
owns any more. A partition has therefore at most one owner at any time. Follows Kafka's ``CurrentAssignmentBuilder``.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from typing import NamedTuple

from thinconsumer.wire.error_codes import Code

from .errors import GroupRequestError
from .member import NO_EPOCH, ConsumerGroupMember, Owned, Partitions, Target
from .states import AssignmentState


class Goal(NamedTuple):
    """The assignment that a member is led to, and the facts that decide how far it can go.

    ``subscribed`` are the ids of the topics that the member subscribes to now; ``owned`` the partitions that it reports
    to own, None without a report; ``partition_epoch`` returns the epoch of a partition's owner, -1 without an owner.
    """

    epoch: int
    target: Target
    subscribed: Container[bytes]
    partition_epoch: Callable[[bytes, int], int]
    owned: Partitions | None = None
    has_subscription_changed: bool = False


def reconcile(member: ConsumerGroupMember, goal: Goal) -> ConsumerGroupMember:
    """Return the member after its next step towards the goal, if it can make one now.

    Raises:
        GroupRequestError: FENCED_MEMBER_EPOCH: the state in the log is unknown, and the member may own partitions.
    """
    if member.state is AssignmentState.STABLE:
        if member.member_epoch != goal.epoch:
            return _next(member, member.member_epoch, goal)
        return _unsubscribed(member, goal) if goal.has_subscription_changed else member
    if member.state is AssignmentState.UNREVOKED_PARTITIONS:
        if not _may_own(goal.owned, member.pending_revocation):
            return _next(member, member.member_epoch, goal)
        return _unsubscribed(member, goal) if goal.has_subscription_changed else member
    if member.state is AssignmentState.UNRELEASED_PARTITIONS:
        return _next(member, member.member_epoch, goal)
    if goal.owned is None or any(goal.owned.values()):
        raise GroupRequestError(
            Code.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )
    return _next(member, goal.epoch, goal)


def _may_own(owned: Partitions | None, partitions: Owned) -> bool:
    """Return whether the member may own any of the partitions; without a report it may own all of them."""
    if owned is None:
        return True
    return any(index in partitions.get(topic_id, ()) for topic_id, indexes in owned.items() for index in indexes)


def _next(member: ConsumerGroupMember, epoch: int, goal: Goal) -> ConsumerGroupMember:
    """Return the member after its next step: it has to revoke, or has the target's epoch and the free partitions."""
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    new: dict[bytes, list[int]] = {}
    must_wait = False
    for topic_id in dict.fromkeys([*goal.target, *member.assigned]):
        wanted = goal.target.get(topic_id, frozenset()) if topic_id in goal.subscribed else frozenset()
        current = member.assigned.get(topic_id, {})
        if keeping := {index: since for index, since in current.items() if index in wanted}:
            kept[topic_id] = keeping
        if revoking := {index: since for index, since in current.items() if index not in wanted}:
            revoked[topic_id] = revoking
        missing = sorted(wanted.difference(current))
        free = [index for index in missing if _is_free(member, topic_id, index, goal)]
        must_wait = must_wait or len(free) < len(missing)
        if free:
            new[topic_id] = free
    if revoked and _may_own(goal.owned, revoked):
        return member.moved(epoch, AssignmentState.UNREVOKED_PARTITIONS, kept, revoked)
    for topic_id, free in new.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(free, goal.epoch))
    state = AssignmentState.UNRELEASED_PARTITIONS if must_wait else AssignmentState.STABLE
    return member.moved(goal.epoch, state, kept, {})


def _is_free(member: ConsumerGroupMember, topic_id: bytes, index: int, goal: Goal) -> bool:
    # A partition that the member itself has just revoked still has the member's epoch, but no other member owns it.
    own = index in member.pending_revocation.get(topic_id, ())
    return own or goal.partition_epoch(topic_id, index) == NO_EPOCH


def _unsubscribed(member: ConsumerGroupMember, goal: Goal) -> ConsumerGroupMember:
    """Return the member without partitions of topics to which it no longer subscribes; its target may still have some.

    The member has to revoke these partitions first, unless it reports that it does not own them.
    """
    gone = {topic_id: found for topic_id, found in member.assigned.items() if topic_id not in goal.subscribed}
    if not gone:
        return member
    kept = {topic_id: found for topic_id, found in member.assigned.items() if topic_id in goal.subscribed}
    pending = dict(member.pending_revocation)
    for topic_id, found in gone.items():
        pending[topic_id] = {**pending.get(topic_id, {}), **found}
    if _may_own(goal.owned, pending):
        return member.moved(member.member_epoch, AssignmentState.UNREVOKED_PARTITIONS, kept, pending)
    return replace(member, previous_member_epoch=member.member_epoch, assigned=kept)
