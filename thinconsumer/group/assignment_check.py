"""DescribeGroups: read all members' assignments, for a static leader that has restarted.

Such a leader has to keep the group's assignment (KIP-814) without having computed it: partitions that were added while
the leader was down would stay unassigned. Java's leader misses these partitions: it takes the partition counts at its
restart for those of the assignment. DescribeGroups needs the operation DESCRIBE on the group. READ, which a join needs,
implies DESCRIBE.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..failures import Action
from ..network.request import Answer, Request
from ..support.timers import Random
from ..wire.error_codes import Code
from ..wire.groups import DescribedGroup, DescribeGroupsRequest
from .coordinator import Coordinator, RequestSettings, judge
from .coordinator_requests import CoordinatorRequests
from .identity import Identity

if TYPE_CHECKING:
    from .consumer_role import ConsumerRole

log = logging.getLogger(__name__)

STABLE, DEAD = "Stable", "Dead"


class AssignmentCheck:
    """Send DescribeGroups after a static leader's restart, until the group is stable."""

    asker = "assignment check"

    def __init__(
        self,
        settings: RequestSettings,
        coordinator: Coordinator,
        role: ConsumerRole,
        random: Random,
        read_identity: Callable[[], Identity],
    ) -> None:
        self._coordinator = coordinator
        self._role = role
        self._read_identity = read_identity
        self._requests = CoordinatorRequests(self.asker, settings, coordinator, random)

    def step(self, now: float) -> list[Request]:
        if not self._role.notes.awaits_assignments or not self._read_identity().is_member:
            self._requests.in_flight = None
            return []
        self._requests.abandon_if_moved()
        if not self._requests.may_send(now):
            return []
        question = DescribeGroupsRequest(groups=[self._coordinator.group_id])
        return [self._requests.send(DescribeGroupsRequest, lambda version: question, now)]

    def handle(self, answer: Answer, now: float) -> None:
        if not self._requests.take(answer):
            return
        group_id = self._coordinator.group_id
        rows = [] if answer.response is None else [row for row in answer.response.groups if row.group_id == group_id]
        if answer.error is None and not rows:
            self._requests.retry.failed(now)
            return
        row: DescribedGroup | None = rows[0] if rows else None
        action, error = judge(answer, group_id, row)
        self._coordinator.report(action, error, answer, now)
        if row is not None and (row.error_code == Code.GROUP_ID_NOT_FOUND or row.group_state == DEAD):
            # The group has moved to the consumer group protocol, in which the coordinator assigns; or the group is
            # gone, which a heartbeat will show.
            self._role.notes.awaits_assignments = False
        elif action in (Action.FAIL, Action.RAISE):
            log.info("group %s: cannot read the assignments of its members: %s", group_id, error)
            self._role.compare_assignments(None)
        elif action is not Action.ACCEPT or row is None or not self._is_in(row):
            self._requests.retry.failed(now)
        else:
            self._requests.retry.succeeded()
            self._role.compare_assignments(member.member_assignment for member in row.members)

    def restart(self, now: float) -> None:
        self._requests.restart()

    def _is_in(self, row: DescribedGroup) -> bool:
        """Return whether the group is stable and has this member. In a rebalance the response has no assignments."""
        member_id = self._read_identity().member_id
        return row.group_state == STABLE and any(member.member_id == member_id for member in row.members)
