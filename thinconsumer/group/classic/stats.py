"""What a member counts of itself, for metrics and health. Plain numbers; seconds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Timing:
    """How often something took how long."""

    count: int = 0
    last: float = 0.0
    total: float = 0.0
    highest: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.count += 1
        self.last = seconds
        self.total += seconds
        self.highest = max(self.highest, seconds)


@dataclass(slots=True)
class MemberStats:
    """Since the member was made; moments are monotonic seconds, None while there was none."""

    heartbeats: int = 0  #: Sent.
    heartbeat_at: float | None = None  #: When the last one was sent.
    answered_at: float | None = None  #: When a heartbeat, join or sync was answered well for the last time.
    heartbeat: Timing = field(default_factory=Timing)  #: From sent to answered.
    joins: Timing = field(default_factory=Timing)
    syncs: Timing = field(default_factory=Timing)
    rebalances: Timing = field(default_factory=Timing)  #: From its beginning for us to the end of the callbacks.
    failed: int = 0  #: Joins and syncs that brought no share.
    rebalanced_at: float | None = None
    expulsions: int = 0
