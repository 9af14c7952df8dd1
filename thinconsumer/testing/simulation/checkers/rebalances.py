"""Checks that groups settle, and the rates of JoinGroups, heartbeats and log lines."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ....types import TopicPartition
from ....wire import Message
from ....wire.heartbeat import HeartbeatRequest
from ....wire.join_group import JoinGroupRequest
from ....wire.sync_group import SyncGroupRequest
from ..client_tap import SentRequest
from .base import Checker, Member, SimReader
from .commits import Plans

WINDOW_S = 10.0
#: Joins, and heartbeats, of one member within the window: about three times as many as in runs without a bug.
JOINS_MAX = 40
BEATS_MAX = 40
#: Limit of a group's rebalances after the end of all faults, and its increase per member.
REBALANCES_MAX, REBALANCES_PER_MEMBER = 8, 4
#: Limit of a member's log lines at INFO and above: so many per incident, and a constant.
LINES_PER_INCIDENT, LINES_BESIDES = 5, 10


@dataclass(eq=False)
class RebalanceChecker(Checker):
    """Limits the rates of JoinGroups and Heartbeats, and checks that rebalances stop some time after the faults."""

    plans: Plans
    is_quiet: bool = field(default=False, init=False)  #: Whether a join is a violation.
    _since: dict[tuple[SimReader, int], tuple[float, int]] = field(default_factory=dict, init=False)
    _now: float = field(default=0.0, init=False)
    #: Rebalances by group before the faults ended.
    _before: Counter[str] | None = field(default=None, init=False)
    _members: Counter[str] = field(default_factory=Counter, init=False)

    def requested(self, client: str, node: int, request: Message, now: float) -> None:
        self._now = now

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        if isinstance(sent.message, JoinGroupRequest):
            if self.is_quiet:
                self.accuse(f"{member} joins again, and nothing has happened: {sent.message.reason}")
            self._count(member, sent.api_key, "JoinGroups", JOINS_MAX)
        elif isinstance(sent.message, HeartbeatRequest):
            self._count(member, sent.api_key, "Heartbeats", BEATS_MAX)

    def faults_ended(self) -> None:
        self._before = self.plans.counts.copy()

    def expect(self, group: str, members: int) -> None:
        """Set the number of members of a group, which raises its limit of rebalances."""
        self._members[group] = members

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        if self._before is None or not isinstance(request, SyncGroupRequest) or not request.assignments:
            return
        group = request.group_id
        count = self.plans.counts[group] - self._before[group]
        limit = REBALANCES_MAX + REBALANCES_PER_MEMBER * self._members[group]
        if count > limit:
            self.accuse(f"group {group} has rebalanced {count} times since the faults are over")

    def _count(self, member: Member, api_key: int, what: str, limit: int) -> None:
        since, count = self._since.get((member, api_key), (self._now, 0))
        if self._now >= since + WINDOW_S:
            since, count = self._now, 0
        self._since[member, api_key] = since, count + 1
        if count + 1 > limit:
            self.accuse(f"{member} has sent {count + 1} {what} within {self._now - since:.1f} s")


@dataclass(eq=False)
class LogVolumeChecker(Checker, logging.Handler):
    """Limits a member's log lines about its group per incident: a rebalance, a callback, a lost connection."""

    calling: list[Member] = field(default_factory=list, init=False)  #: The members in a call, the innermost last.
    lines: dict[SimReader, list[str]] = field(default_factory=dict, init=False)
    _incidents: Counter[SimReader] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        logging.Handler.__init__(self, logging.INFO)

    def started(self, reader: SimReader) -> None:
        self._incidents[reader] = 1
        self.lines[reader] = []

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        if isinstance(sent.message, SyncGroupRequest):
            self._incidents[member] += 1

    def connection_closed(self, member: Member, line: int) -> None:
        self._incidents[member] += 1

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        self._incidents[member] += 1

    def emit(self, record: logging.LogRecord) -> None:
        """Count a line for the innermost member that is inside a call."""
        if not self.calling:
            return
        member = self.calling[-1]
        lines = self.lines.setdefault(member, [])
        lines.append(record.getMessage())
        incidents = self._incidents[member]
        if len(lines) > LINES_BESIDES + LINES_PER_INCIDENT * incidents:
            self.accuse(f"{member} has written {len(lines)} lines about {incidents} incidents, the last: {lines[-1]}")
