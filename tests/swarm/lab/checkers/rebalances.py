"""Checks that groups settle, and the rates of JoinGroups, heartbeats and log lines."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse
from thinconsumer_testing.simulation.checkers.base import Checker, Member, SimReader, by_reader
from thinconsumer_testing.simulation.client_tap import SentRequest

from .commits import Plans
from .views import EXPULSIONS

WINDOW_S = 10.0
#: The most JoinGroups, and heartbeats, of one member within WINDOW_S: about three times as many as without a bug.
JOINS_MAX = 40
BEATS_MAX = 40
#: Limit of a group's rebalances after all faults have ended: REBALANCES_MAX, plus REBALANCES_PER_MEMBER per member.
REBALANCES_MAX, REBALANCES_PER_MEMBER = 8, 4
#: Limit of a member's lines at INFO and above: LINES_PER_INCIDENT per incident (LogVolumeChecker), and LINES_BESIDES.
LINES_PER_INCIDENT, LINES_BESIDES = 5, 10
#: After a failed join, a member must wait for at least this share of ``retry_backoff_ms``: jitter takes up to a fifth.
BACKOFF_SHARE = 0.8
#: Errors after which a member may join again without a backoff, and how often in a row it may do so.
_AT_ONCE, AT_ONCE_MAX = EXPULSIONS | {Code.REBALANCE_IN_PROGRESS}, 3
#: Limit of a member's JoinGroups before the end of a backoff, between two successful heartbeats. Some are correct: the
#: error response to a JoinGroup that the member has given up may arrive after the member has backed off for it.
EARLY_MAX = 3
_NO_FAILURES = (Code.NONE, Code.MEMBER_ID_REQUIRED)


@dataclass(slots=True)
class _JoinFailures:
    """The failed JoinGroups and SyncGroups of one member since its last successful heartbeat."""

    count: int = 0
    at: float = 0.0  #: The time at which the client read the response to the last failed request.
    code: int = Code.NONE  #: The error code in the response to the last failed request.
    join: SentRequest | None = None  #: The last JoinGroup; ``joined_at`` and ``line`` are its time and its connection.
    joined_at: float = 0.0
    line: int = 0
    early: int = 0  #: Number of JoinGroups that the member sent before the end of its backoff.


@dataclass(eq=False)
class RebalanceChecker(Checker):
    """Limits JoinGroups and heartbeats; checks backoffs after failed joins and that rebalances end after the faults."""

    plans: Plans
    #: Whether any JoinGroup is a violation, since no fault or change occurs that could be a reason for it.
    is_quiet: bool = field(default=False, init=False)
    _since: dict[tuple[SimReader, int], tuple[float, int]] = field(default_factory=dict, init=False)
    _failures: dict[SimReader, _JoinFailures] = by_reader(_JoinFailures)
    #: Number of rebalances of each group until the end of the faults; None: faults still occur.
    _before: Counter[str] | None = field(default=None, init=False)
    _members: Counter[str] = field(default_factory=Counter, init=False)

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        if isinstance(sent.message, JoinGroupRequest):
            failures = self._failures[member]
            failures.joined_at, failures.join, failures.line = self.now(), sent, line
            self._check_backoff(member, failures)
            if self.is_quiet:
                self.accuse(f"{member} joins again without a cause in the group; it says {sent.message.reason!r}")
            self._count(member, sent.api_key, "JoinGroups", JOINS_MAX)
        elif isinstance(sent.message, HeartbeatRequest):
            self._count(member, sent.api_key, "Heartbeats", BEATS_MAX)

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        failures, code = self._failures[member], getattr(response, "error_code", Code.NONE)
        if isinstance(response, HeartbeatResponse) and code == Code.NONE:
            failures.count = failures.early = 0
        elif isinstance(response, (JoinGroupResponse, SyncGroupResponse)) and code not in _NO_FAILURES:
            if line != failures.line:
                return  # a response to an old request: the member has sent a JoinGroup on a newer connection since
            failures.count, failures.at, failures.code = failures.count + 1, self.now(), code
            # The tap reports responses at the end of a step. If the client has joined again within the step, its new
            # JoinGroup was reported before, without a check against this failure.
            if failures.join is not sent and failures.joined_at == failures.at:
                self._check_backoff(member, failures)

    def faults_ended(self) -> None:
        self._before = self.plans.counts.copy()

    def expect(self, group: str, members: int) -> None:
        """Set the number of members of a group, on which its limit of rebalances depends."""
        self._members[group] = members

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        if self._before is None or not isinstance(request, SyncGroupRequest) or not request.assignments:
            return
        group = request.group_id
        count = self.plans.counts[group] - self._before[group]
        limit = REBALANCES_MAX + REBALANCES_PER_MEMBER * self._members[group]
        if count > limit:
            self.accuse(f"group {group} has rebalanced {count} times since the end of the faults; allowed are {limit}")

    def _check_backoff(self, member: Member, failures: _JoinFailures) -> None:
        waited, least = self.now() - failures.at, BACKOFF_SHARE * member.options.get("retry_backoff_ms", 100) / 1000
        failures.early += failures.count > (AT_ONCE_MAX if failures.code in _AT_ONCE else 0) and waited < least
        if failures.early > EARLY_MAX:
            words = f"{Code(failures.code).name}, failure number {failures.count} in a row"
            self.accuse(f"{member} joins {waited:.3f} s after {words}: its backoff is at least {least:.3f} s")

    def _count(self, member: Member, api_key: int, what: str, limit: int) -> None:
        now = self.now()
        since, count = self._since.get((member, api_key), (now, 0))
        if now >= since + WINDOW_S:
            since, count = now, 0
        self._since[member, api_key] = since, count + 1
        if count + 1 > limit:
            self.accuse(f"{member} has sent {count + 1} {what} within {now - since:.1f} s")


@dataclass(eq=False)
class LogVolumeChecker(Checker, logging.Handler):
    """Limits a member's log lines about its group per incident: a rebalance, a callback, a lost connection.

    Calls of ``enforce_rebalance`` are incidents, too: with the consumer group protocol each of them logs a warning.
    """

    #: The members with a call under way. A call that waits runs other members' calls inside it; the innermost is last.
    calling: list[Member] = field(default_factory=list, init=False)
    lines: dict[SimReader, list[str]] = by_reader(list)
    _incidents: Counter[SimReader] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        logging.Handler.__init__(self, logging.INFO)

    def started(self, reader: SimReader) -> None:
        self._incidents[reader] = 1

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        if isinstance(sent.message, SyncGroupRequest):
            self._incidents[member] += 1
        if isinstance(response, ConsumerGroupHeartbeatResponse) and (response.error_code or response.assignment):
            self._incidents[member] += 1

    def connection_closed(self, member: Member, line: int) -> None:
        self._incidents[member] += 1

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        self._incidents[member] += 1

    @contextmanager
    def enforcing(self, member: Member) -> Iterator[None]:
        """Return the context of a call of ``enforce_rebalance``. It may run inside a call of another member."""
        self._incidents[member] += 1
        self.calling.append(member)
        try:
            yield
        finally:
            self.calling.pop()

    def emit(self, record: logging.LogRecord) -> None:
        """Count a log line for the member that is running: the last in ``calling``."""
        if not self.calling:
            return
        member = self.calling[-1]
        lines = self.lines[member]
        lines.append(record.getMessage())
        incidents = self._incidents[member]
        if len(lines) > LINES_BESIDES + LINES_PER_INCIDENT * incidents:
            self.accuse(f"{member} has logged {len(lines)} lines about {incidents} incidents, the last: {lines[-1]}")
