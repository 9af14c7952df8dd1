"""Every knob of a run with groups, drawn from the seed: the world's own, what each group is like, and its members.

What is about brokers and the network is as in :mod:`..knobs`; what would lose committed records, or offsets, is left
out here, since "everything is processed" must mean everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from ..knobs import BUDGET, Knobs, _drawn, _words, knob, one_of, sometimes, whole, yes
from ..streams import Streams

RANGE, ROBIN, STICKY, COOPERATIVE = "range", "roundrobin", "sticky", "cooperative-sticky"
#: What members list, by step: a group goes from one to the next by restarting its members one by one. Neighbours have
#: an assignor in common.
STYLES: dict[str, tuple[tuple[str, ...], ...]] = {
    "range": ((RANGE,),),
    "roundrobin": ((ROBIN,),),
    "sticky": ((STICKY,),),
    "cooperative": ((COOPERATIVE,),),
    "java's default": ((RANGE, COOPERATIVE),),
    "many": ((STICKY, ROBIN, RANGE),),
    "up": ((RANGE,), (COOPERATIVE, RANGE), (COOPERATIVE,)),
    "down": ((COOPERATIVE,), (COOPERATIVE, STICKY), (STICKY,)),
}


def never() -> Any:
    """Nothing of the kind happens here."""
    return knob(lambda random: 0.0)


@dataclass
class MemberKnobs:
    """One member's."""

    commits: str = one_of("auto", "auto", "auto", "sync", "async", "offsets")
    auto_commit_interval_ms: int = one_of(50, 1000, 3000)
    max_poll_records: int = one_of(3, 20, 500)
    request_timeout_ms: int = one_of(1500, 3000, 4000)
    retry_backoff_ms: int = one_of(20, 100, 100)
    retry_backoff_max_ms: int = one_of(500, 1000)
    reconnect_backoff_ms: int = one_of(20, 50)
    reconnect_backoff_max_ms: int = one_of(500, 1000)
    socket_connection_setup_timeout_ms: int = one_of(500, 2000)
    metadata_max_age_ms: int = one_of(1500, 4000)
    check_crcs: bool = yes(0.3)
    # what the application does
    blocks: bool = yes(0.5)
    poll_timeout_ms: int = one_of(100, 500, 2000)
    think_s: float = sometimes(0.6, 0.01, 3.0)
    drives: bool = yes(0.5)
    odd_rate: float = sometimes(0.5, 0.01, 0.1)
    raise_rate: float = sometimes(0.3, 0.05, 0.4)
    asks: bool = yes(0.3)
    rewinds: bool = yes(0.2)

    #: Those that are no options of the Consumer.
    OWN = ("commits", "blocks", "poll_timeout_ms", "think_s", "drives", "odd_rate", "raise_rate", "asks", "rewinds")

    def options(self) -> dict[str, Any]:
        """Return the Consumer's options."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.OWN}


@dataclass
class GroupKnobs:
    """One group's."""

    members: int = one_of(2, 3, 3, 4)
    style: str = one_of(*STYLES, "cooperative", "up")
    static_share: float = sometimes(0.35, 0.3, 1.0)
    pattern: bool = yes(0.3)
    mixed_topics: bool = yes(0.25)  #: Members subscribe to different topics.
    isolation_level: str = one_of("read_uncommitted", "read_uncommitted", "read_committed")
    session_timeout_ms: int = whole(3000, 9000)
    beats_per_session: int = one_of(3, 3, 5)
    max_poll_interval_ms: int = whole(4000, 14_000)

    mates: list[MemberKnobs] = field(default_factory=list)

    @property
    def heartbeat_interval_ms(self) -> int:
        """A share of the session."""
        return self.session_timeout_ms // self.beats_per_session

    @property
    def patience_s(self) -> float:
        """After so long without faults every member and the coordinator know whom they have lost."""
        slowest = max(mate.request_timeout_ms for mate in self.mates)
        return (self.heartbeat_interval_ms + slowest + self.session_timeout_ms) / 1000


@dataclass(kw_only=True)
class GroupWorldKnobs(Knobs):
    """One run's. Rates of faults are events per virtual minute."""

    groups: int = one_of(1, 1, 1, 2)
    brokers: int = one_of(2, 3, 3, 4, 5)
    topics: int = whole(1, 3)
    partitions: int = whole(1, 5)
    replication: int = whole(1, 3)
    min_insync_replicas: int = one_of(1)
    unclean: bool = yes(0.0)
    compacted: bool = yes(0.0)
    deletions: float = never()
    compactions: float = never()
    expansions: float = never()  #: See ``growths``.
    corruptions: float = never()
    wall_skew: float = never()
    session_slots: int = one_of(2, 1000, 1000)
    metadata_lag_s: float = sometimes(0.5, 0.01, 1.5)
    coordinator_load_s: float = sometimes(0.5, 0.05, 2.0)
    initial_delay_ms: int = one_of(0, 0, 300, 1500)
    writes: int = whole(20, 50)
    records_max: int = one_of(1, 5, 20)
    record_size_max: int = one_of(10, 100)
    transactional: float = sometimes(0.3, 0.1, 0.6)
    producers: int = one_of(0)
    fetch_max_wait_ms: int = one_of(100, 500, 500, 1500)
    latency_max_s: float = one_of(0.001, 0.01, 0.05)
    chunk: int | None = one_of(None, None, None, 100)
    kills: float = sometimes(0.4, 0.5, 2)
    pauses: float = sometimes(0.4, 0.5, 2)
    cuts: float = sometimes(0.5, 0.5, 4)
    resets: float = sometimes(0.5, 0.5, 6)
    slow: float = sometimes(0.3, 0.5, 2)
    leader_moves: float = sometimes(0.5, 1, 6)
    stalls: float = sometimes(0.6, 0.5, 4)
    crashes: float = sometimes(0.6, 0.5, 4)
    # of groups
    coordinator_kills: float = sometimes(0.5, 0.5, 3)
    coordinator_pauses: float = sometimes(0.4, 0.5, 3)
    coordinator_moves: float = sometimes(0.5, 0.5, 5)
    absences: float = sometimes(0.5, 0.5, 4)  #: Stalls around the session timeout, or the poll interval.
    departures: float = sometimes(0.6, 0.5, 4)  #: A member closes, and comes back.
    growths: float = sometimes(0.4, 0.5, 3)
    appearances: float = sometimes(0.4, 0.5, 2)
    vanishings: float = sometimes(0.3, 0.5, 1.5)
    changes_of_mind: float = sometimes(0.3, 0.5, 3)  #: A member subscribes to something else.
    group_error_rate: float = sometimes(0.4, 0.005, 0.08)  #: Per request about groups.

    teams: list[GroupKnobs] = field(default_factory=list)

    @classmethod
    def draw(cls, seed: int | str) -> GroupWorldKnobs:
        """Draw all of them."""
        knobs: GroupWorldKnobs = _drawn(cls, Streams(f"{seed}/groups"))
        knobs.teams = [_drawn(GroupKnobs, Streams(f"{seed}/groups/{n}")) for n in range(knobs.groups)]
        if knobs.groups > 1:
            for team in knobs.teams:
                team.members = min(team.members, 3)
        for number, team in enumerate(knobs.teams):
            streams = (Streams(f"{seed}/groups/{number}/{n}") for n in range(team.members))
            team.mates = [_drawn(MemberKnobs, mine) for mine in streams]
        knobs.consumers = sum(team.members for team in knobs.teams)
        knobs.replication = min(knobs.replication, knobs.brokers)
        if knobs.vanishings:
            knobs.transactional = 0.0  # a transaction in a topic that is gone is never over
        weight = 0.4 + 0.2 * knobs.brokers
        idle = knobs.consumers * knobs.brokers * 60_000 * weight
        knobs.fetch_max_wait_ms = max(knobs.fetch_max_wait_ms, round(idle / (BUDGET * 0.3)))
        for team in knobs.teams:
            for mate in team.mates:
                mate.request_timeout_ms = max(mate.request_timeout_ms, knobs.fetch_max_wait_ms + 500)
                mate.max_poll_records = max(mate.max_poll_records, knobs.records_max)
        return knobs

    def __str__(self) -> str:
        lines = [_words(self, "teams", "clients")]
        for number, team in enumerate(self.teams, start=1):
            lines.append(f"group {number}: {_words(team, 'mates')}")
            lines += [f"  member {n}: {_words(mate)}" for n, mate in enumerate(team.mates, start=1)]
        return "\n".join(lines)
