"""Counters and timings of a member, for metrics and health checks. Durations are in seconds."""

from __future__ import annotations

from ..lazy_dataclass import dataclass, field


@dataclass(slots=True)
class Timing:
    """Count how often an operation was done, and how long it took in seconds."""

    count: int = 0
    last: float = 0.0
    total: float = 0.0
    highest: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.last = seconds
        self.total += seconds
        self.highest = max(self.highest, seconds)


@dataclass(slots=True)
class MemberStats:
    """Hold a member's counters since it was created; times are monotonic seconds, None before the first event."""

    heartbeats: int = 0  #: Heartbeats sent.
    heartbeat_at: float | None = None  #: When the last heartbeat was sent.
    answered_at: float | None = None  #: When the last Heartbeat, JoinGroup or SyncGroup succeeded.
    heartbeat: Timing = field(default_factory=Timing)  #: From each Heartbeat request to its response.
    joins: Timing = field(default_factory=Timing)
    syncs: Timing = field(default_factory=Timing)
    rebalances: Timing = field(default_factory=Timing)  #: From the start of a rebalance to the end of its callbacks.
    #: Requests to join or to sync that failed, and reconciliations (KIP-848) that the end of the membership cut off.
    failed: int = 0
    rebalanced_at: float | None = None
    expulsions: int = 0
