"""The knobs of a run: the random parameters of its simulation, all drawn from the seed.

A knob declares the range from which it is drawn: for simulations of readers and, if it differs, for those of groups.
Each knob has its own random generator, so a new knob changes no other. Runs in which many clients fetch often from many
brokers would take seconds each: :meth:`Knobs.draw` lets them fetch and write less often. ``str(knobs)`` prints all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any, TypeVar

from thinconsumer_testing.simulation.actors.application import Behaviour
from thinconsumer_testing.simulation.streams import Streams

T = TypeVar("T")

#: Limit of the cost of a run's Fetch requests and polls, about 0.25 s of CPU time. More brokers make a Fetch cost more.
BUDGET = 700.0

#: Share of the runs in which clients log in.
LOGINS_SHARE = 0.08
OAUTHBEARER = "OAUTHBEARER"

RANGE, ROBIN, STICKY, COOPERATIVE = "range", "roundrobin", "sticky", "cooperative-sticky"
#: By a group's style: the successive values of ``partition_assignment_strategy`` of its members. A rolling bounce takes
#: all members from one value to the next, which has an assignor in common with the one before.
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


def knob(draw: Callable[[Random], Any], groups: Any = None) -> Any:
    """Declare a knob by ``draw``, which draws its value. With groups, knob ``groups`` draws it instead, if given."""
    return field(metadata={"readers": draw, "groups": draw if groups is None else groups.metadata["readers"]})


def always(value: Any, groups: Any = None) -> Any:
    """Declare a knob that always has this value. ``None`` leaves an option at the Consumer's default."""
    return knob(lambda random: value, groups)


def one_of(*values: Any, groups: Any = None) -> Any:
    """Declare a knob that has one of these values, each with the same probability."""
    return knob(lambda random: random.choice(values), groups)


def whole(low: int, high: int, groups: Any = None) -> Any:
    """Declare a knob that is an integer from ``low`` to ``high``."""
    return knob(lambda random: random.randint(low, high), groups)


def between(low: float, high: float, groups: Any = None) -> Any:
    """Declare a knob that is a float from ``low`` to ``high``."""
    return knob(lambda random: round(random.uniform(low, high), 4), groups)


def sometimes(share: float, low: float, high: float, groups: Any = None) -> Any:
    """Declare a float, in a ``share`` of runs only (else 0): runs without some kinds of faults find more bugs."""
    return knob(lambda random: round(random.uniform(low, high), 5) if random.random() < share else 0.0, groups)


def yes(share: float, groups: Any = None) -> Any:
    """Declare a knob that is True in a ``share`` of the runs, and False in all others."""
    return knob(lambda random: random.random() < share, groups)


@dataclass
class LoginKnobs:
    """The knobs of logins, in the runs in which clients log in. Rates are in events per virtual minute."""

    share: float = between(0.0, 1.0)  #: Clients log in if this is below LOGINS_SHARE.
    mechanism: str = one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER, OAUTHBEARER)
    session_s: float = between(4.0, 20.0, groups=between(3.0, 10.0))  #: Lifetime of a session, at most.
    token_s: float = between(8.0, 30.0)  #: Lifetime of a token, which ends its sessions, too.
    rejections: float = sometimes(0.6, 1, 4)  #: The password changes for a while, or tokens are invalid.
    provider_outages: float = sometimes(0.6, 1, 4)
    lost_closes: float = sometimes(0.7, 0.1, 0.7)  #: Share of connections on which a close by the broker never arrives.

    def fit(self, knobs: Knobs) -> None:
        """Let sessions be long enough for the network's latency, and for a run's CPU time."""
        # A request that is written after 95 % of the lifetime must arrive before its end.
        slowest = 50 * (knobs.latency_max_s + knobs.jitter_s)
        login_s = 1.2 if self.mechanism.startswith("SCRAM-") else 0.4  # SCRAM computes thousands of hashes
        self.session_s = max(self.session_s, slowest, login_s * knobs.consumers * knobs.brokers)
        self.token_s = max(self.token_s, slowest)
        if self.mechanism != OAUTHBEARER:
            self.provider_outages = 0.0
            return
        # Tokens expire by the wall clock. With wrong clocks, no client could log in.
        knobs.clock_jumps = 0.0
        for client in (*knobs.clients, *(client for group in knobs.group_knobs for client in group.clients)):
            client.wall_skew_s = 0.0


#: Values of ``groups``, for knobs that only simulations of readers draw: DEFAULT leaves an option at its default, and
#: ABSENT sets the rate of a fault to 0.
DEFAULT, ABSENT = always(None), always(0.0)


@dataclass
class ClientKnobs:
    """The knobs of one consumer: one with assigned partitions (a reader), or a member of a group."""

    isolation_level: str = one_of("read_uncommitted", "read_committed", groups=DEFAULT)
    auto_offset_reset: str = one_of("earliest", "earliest", "earliest", "latest", "none", groups=DEFAULT)
    check_crcs: bool = yes(0.5, groups=yes(0.3))
    enable_incremental_fetch_sessions: bool = yes(0.85, groups=DEFAULT)
    max_poll_records: int = one_of(1, 3, 10, 50, 500, 500, groups=one_of(3, 20, 500))
    fetch_min_bytes: int = one_of(1, 1, 1, 300, 5000, groups=DEFAULT)
    max_partition_fetch_bytes: int = one_of(100, 1000, 10_000, 1_048_576, 1_048_576, groups=DEFAULT)
    fetch_max_bytes: int = one_of(500, 5000, 52_428_800, 52_428_800, groups=DEFAULT)
    max_buffered_bytes: int = one_of(65_536, 1_000_000, 67_108_864, groups=DEFAULT)
    request_timeout_ms: int = one_of(600, 2000, 5000, 30_000, groups=one_of(1500, 3000, 4000))
    default_api_timeout_ms: int = one_of(500, 5000, 60_000, groups=always(5000))
    metadata_max_age_ms: int = one_of(700, 5000, 60_000, 300_000, groups=one_of(1500, 4000))
    retry_backoff_ms: int = one_of(20, 100, 100, 500, groups=one_of(20, 100, 100))
    retry_backoff_max_ms: int = one_of(500, 1000, 3000, groups=one_of(500, 1000))
    reconnect_backoff_ms: int = one_of(20, 50, 500, groups=one_of(20, 50))
    reconnect_backoff_max_ms: int = one_of(500, 1000, 5000, groups=one_of(500, 1000))
    socket_connection_setup_timeout_ms: int = one_of(300, 1500, 10_000, groups=one_of(500, 2000))
    connections_max_idle_ms: int = one_of(3000, 540_000, 540_000, groups=DEFAULT)
    max_in_flight_requests_per_connection: int = one_of(1, 5, groups=DEFAULT)
    bootstrap_timeout_ms: int = one_of(2000, 30_000, groups=DEFAULT)
    metadata_recovery_rebootstrap_trigger_ms: int = one_of(3000, 300_000, groups=DEFAULT)
    auto_commit_interval_ms: int = always(None, groups=one_of(50, 1000, 3000))
    # how the application uses its consumer
    follows_racks: bool = yes(0.4, groups=always(False))
    blocks: bool = yes(0.5)
    poll_timeout_ms: int = one_of(0, 10, 200, 1000, 3000, groups=one_of(100, 500, 2000))
    think_s: float = sometimes(0.5, 0.001, 0.5, groups=sometimes(0.6, 0.01, 3.0))
    think_rate: float = always(0.3, groups=always(1.0))
    odd_rate: float = sometimes(0.6, 0.01, 0.15, groups=sometimes(0.5, 0.01, 0.1))
    jumps_far: bool = yes(0.3, groups=always(False))
    wall_skew_s: float = sometimes(0.2, -1000, 1000, groups=ABSENT)
    share: float = between(0.3, 1.2)  #: The probability that a reader reads a partition; from 1 on, it reads all.
    commits: str = always("auto", groups=one_of("auto", "auto", "auto", "sync", "async", "offsets"))
    drives: bool = always(False, groups=yes(0.5))
    raise_rate: float = always(0.0, groups=sometimes(0.3, 0.05, 0.4))
    asks: bool = always(False, groups=yes(0.3))
    rewinds: bool = always(False, groups=yes(0.2))
    columns: bool = False

    #: The names of the knobs that are not options of the Consumer.
    OWN = frozenset({"follows_racks", "wall_skew_s", "share", *(f.name for f in fields(Behaviour))})

    def fit(self, fetch_max_wait_ms: int) -> None:
        """Keep a reader's options consistent with each other and with ``fetch_max_wait_ms``."""
        self.request_timeout_ms = max(self.request_timeout_ms, 2 * fetch_max_wait_ms)
        self.connections_max_idle_ms = max(self.connections_max_idle_ms, self.request_timeout_ms + 500)
        # If the limit of a partition were below fetch_min_bytes, every Fetch would wait for fetch_max_wait_ms.
        self.fetch_min_bytes = min(self.fetch_min_bytes, self.fetch_max_bytes, self.max_partition_fetch_bytes)
        if self.blocks:
            # Shorter timeouts would cause thousands of polls without records, which take CPU time and test nothing.
            self.poll_timeout_ms = max(self.poll_timeout_ms, 100)

    def options(self, rack: str = "") -> dict[str, Any]:
        """Return the Consumer's options, without those left at their defaults."""
        options = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.OWN}
        options["retry_backoff_max_ms"] = max(self.retry_backoff_max_ms, self.retry_backoff_ms)
        options["reconnect_backoff_max_ms"] = max(self.reconnect_backoff_max_ms, self.reconnect_backoff_ms)
        options["client_rack"] = rack if self.follows_racks else ""
        return {name: value for name, value in options.items() if value is not None}

    def behaviour(self) -> Behaviour:
        """Return the :class:`.Behaviour` of the application: how it uses its consumer."""
        polls, thinks = (self.poll_timeout_ms // 2, self.poll_timeout_ms), (0.0, self.think_s)
        return Behaviour(**{**same_named(Behaviour, self), "poll_timeout_ms": polls, "think_s": thinks})


@dataclass
class GroupKnobs:
    """The knobs of one group."""

    members: int = one_of(2, 3, 3, 4)
    style: str = one_of(*STYLES, "cooperative", "up")
    static_share: float = sometimes(0.35, 0.3, 1.0)
    pattern: bool = yes(0.3)
    mixed_topics: bool = yes(0.25)  #: Whether members subscribe to different topics.
    isolation_level: str = one_of("read_uncommitted", "read_uncommitted", "read_committed")
    session_timeout_ms: int = whole(3000, 9000)
    beats_per_session: int = one_of(3, 3, 5)
    max_poll_interval_ms: int = whole(4000, 14_000)
    #: The option ``group_protocol`` of all members; or "mixed": members of both protocols, which change it by restarts.
    protocol: str = "classic"
    remote_assignor: str | None = None
    broker_pattern: bool = False  #: Whether members subscribe by a ``SubscriptionPattern``, which the broker matches.
    shards: int = 0  #: Number of shards that the members distribute, as workers; 0: the members are consumers.

    clients: list[ClientKnobs] = field(default_factory=list)

    @property
    def heartbeat_interval_ms(self) -> int:
        """The heartbeat interval: the session timeout divided by ``beats_per_session``."""
        return self.session_timeout_ms // self.beats_per_session

    @property
    def patience_s(self) -> float:
        """Seconds without faults after which the members and the coordinator have noticed every lost connection."""
        slowest = max(client.request_timeout_ms for client in self.clients)
        return (self.heartbeat_interval_ms + slowest + self.session_timeout_ms) / 1000

    def options(self) -> dict[str, Any]:
        """Return the Consumer's options that are the same for all members until a rolling bounce begins."""
        return self.consumer_options() if self.protocol != "classic" else self.classic_options()

    def consumer_options(self) -> dict[str, Any]:
        """Return the options of a member of the consumer group protocol."""
        protocol = "consumer" if self.protocol == "mixed" else self.protocol
        return {**self._options(), "group_protocol": protocol, "group_remote_assignor": self.remote_assignor}

    def classic_options(self) -> dict[str, Any]:
        """Return the options of a member of the classic protocol."""
        return {
            **self._options(),
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "partition_assignment_strategy": list(STYLES[self.style][0]),
        }

    def _options(self) -> dict[str, Any]:
        isolation_level, poll_ms = self.isolation_level, self.max_poll_interval_ms
        return {"max_poll_interval_ms": poll_ms, "isolation_level": isolation_level, "auto_offset_reset": "earliest"}


@dataclass
class Knobs:
    """The knobs of one run. A fault's rate is its number of events per virtual minute, or a probability where said so.

    Simulations of groups never lose committed records or offsets, since their checkers require that every record is
    processed; those of workers lose records (the checkers know which), and never offsets.
    """

    #: Whether brokers ask clients for metrics (KIP-714).
    pushes_metrics: bool = yes(0.1)

    # the cluster
    groups: int = always(0, groups=one_of(1, 1, 1, 2))
    shards: int = always(0, groups=knob(lambda random: random.randint(1, 8) if random.random() < 0.08 else 0))
    columns: bool = yes(0.05, groups=always(False))  #: Whether readers call ``poll_batches``, too, not only ``poll``.
    brokers: int = whole(2, 5, groups=one_of(2, 3, 3, 4, 5))
    consumers: int = whole(1, 6)
    topics: int = whole(1, 3)
    partitions: int = whole(1, 4, groups=whole(1, 5))  #: The most partitions that a topic has at first.
    replication: int = whole(1, 3)
    min_insync_replicas: int = whole(1, 2, groups=always(1))
    racks: int = whole(1, 3)
    unclean: bool = yes(0.5, groups=always(False))
    metadata_lag_s: float = sometimes(0.6, 0.01, 3.0, groups=sometimes(0.5, 0.01, 1.5))
    replication_s: float = sometimes(0.6, 0.001, 0.5)
    broker_session_timeout_ms: int = whole(200, 4000)
    replica_lag_time_max_ms: int = whole(500, 8000)
    session_slots: int = one_of(0, 2, 1000, 1000, 1000, groups=one_of(2, 1000, 1000))
    compacted: bool = yes(0.3, groups=always(False))
    coordinator_load_s: float = always(0.0, groups=sometimes(0.5, 0.05, 2.0))
    initial_delay_ms: int = always(0, groups=one_of(0, 0, 300, 1500))
    # the records that are written
    writes: int = whole(15, 80, groups=whole(20, 50))  #: Number of batches that the log writer appends.
    records_max: int = one_of(1, 5, 40, 200, groups=one_of(1, 5, 20))  #: The most records in a batch.
    record_size_max: int = one_of(10, 100, 2000, groups=one_of(10, 100))
    compression: bool = yes(0.4)
    transactional: float = sometimes(0.6, 0.1, 0.9, groups=sometimes(0.3, 0.1, 0.6))  #: Share of transactional batches.
    producers: int = one_of(0, 0, 1, groups=always(0))
    fetch_max_wait_ms: int = one_of(50, 500, 500, 2000, 5000, groups=one_of(100, 500, 500, 1500))
    # the network
    latency_max_s: float = one_of(0.001, 0.01, 0.05, 0.2, groups=one_of(0.001, 0.01, 0.05))
    jitter_s: float = sometimes(0.7, 0.001, 0.1)
    split_rate: float = sometimes(0.3, 0.01, 0.3)
    reset_rate: float = sometimes(0.4, 0.0005, 0.01)
    refuse_rate: float = sometimes(0.3, 0.01, 0.3)
    swallow_rate: float = sometimes(0.3, 0.005, 0.05)
    dns_failure_rate: float = sometimes(0.2, 0.01, 0.3)
    chunk: int | None = one_of(None, None, None, 4096, 100, groups=one_of(None, None, None, 100))
    # faults, as events per virtual minute
    kills: float = sometimes(0.6, 0.5, 5, groups=sometimes(0.4, 0.5, 2))
    silent_share: float = between(0, 0.6)  #: Share of kills and crashes after which connections are not reset.
    pauses: float = sometimes(0.5, 0.5, 4, groups=sometimes(0.4, 0.5, 2))
    cuts: float = sometimes(0.6, 0.5, 5, groups=sometimes(0.5, 0.5, 4))
    one_way_share: float = between(0, 0.7)
    resets: float = sometimes(0.5, 0.5, 8, groups=sometimes(0.5, 0.5, 6))
    slow: float = sometimes(0.4, 0.5, 3, groups=sometimes(0.3, 0.5, 2))
    leader_moves: float = sometimes(0.7, 1, 12, groups=sometimes(0.5, 1, 6))
    unclean_elections: float = sometimes(0.8, 1, 8)  #: Unclean elections occur only if the knob ``unclean`` is true.
    takeovers: float = sometimes(0.8, 2, 8)  #: Number of faults of :mod:`.takeover`; none unless ``unclean``.
    deletions: float = sometimes(0.5, 0.5, 6, groups=ABSENT)
    compactions: float = sometimes(0.7, 1, 6, groups=ABSENT)
    expansions: float = sometimes(0.3, 0.5, 2, groups=ABSENT)  #: A topic gets one more partition.
    clock_jumps: float = sometimes(0.3, 0.5, 4)
    stalls: float = sometimes(0.5, 0.5, 4, groups=sometimes(0.6, 0.5, 4))
    crashes: float = sometimes(0.5, 0.5, 4, groups=sometimes(0.6, 0.5, 4))
    coordinator_kills: float = always(0.0, groups=sometimes(0.5, 0.5, 3))
    coordinator_pauses: float = always(0.0, groups=sometimes(0.4, 0.5, 3))
    coordinator_moves: float = always(0.0, groups=sometimes(0.5, 0.5, 5))
    #: A member stalls for about its session timeout or its maximum poll interval.
    absences: float = always(0.0, groups=sometimes(0.5, 0.5, 4))
    departures: float = always(0.0, groups=sometimes(0.6, 0.5, 4))  #: A member is closed, and started again later.
    growths: float = always(0.0, groups=sometimes(0.4, 0.5, 3))
    appearances: float = always(0.0, groups=sometimes(0.4, 0.5, 2))
    vanishings: float = always(0.0, groups=sometimes(0.3, 0.5, 1.5))
    changes_of_mind: float = always(0.0, groups=sometimes(0.3, 0.5, 3))  #: A member changes its subscription.
    # faults of requests, as probabilities per request
    error_rate: float = sometimes(0.4, 0.002, 0.05)
    delay_rate: float = sometimes(0.3, 0.002, 0.05)
    silence_rate: float = sometimes(0.3, 0.001, 0.01)
    disconnect_rate: float = sometimes(0.3, 0.001, 0.02)
    corruptions: float = sometimes(0.3, 0.005, 0.1, groups=ABSENT)  #: Share of Fetch responses corrupted.
    group_error_rate: float = always(0.0, groups=sometimes(0.4, 0.005, 0.08))  #: Share of group requests that fail.

    clients: list[ClientKnobs] = field(default_factory=list)  #: The knobs of each consumer with assigned partitions.
    group_knobs: list[GroupKnobs] = field(default_factory=list)
    #: The brokers' session timeout and heartbeat interval of the consumer group protocol, in runs that have it.
    session_timeout_ms: int = 0
    heartbeat_interval_ms: int = 0
    #: In those runs: a member stalls twice for longer than its session, the first time while its coordinator moves.
    double_absences: float = 0.0
    naps: float = 0.0  #: In those runs: a member makes one call every few seconds, several times in a row.
    logins: LoginKnobs | None = None  #: None if clients do not log in.
    work: list[Any] = field(default_factory=list)  #: The knobs of each group's workers, in runs of workers.

    @classmethod
    def draw(cls, seed: int | str, *, groups: bool = False) -> Knobs:
        """Draw the knobs of a run from its seed: for a simulation of readers, or of groups."""
        knobs = cls._draw_groups(seed) if groups else cls._draw_readers(seed)
        kind = "groups" if groups else "readers"
        logins: LoginKnobs = draw_knobs(LoginKnobs, Streams(f"{seed}/logins/{kind}"), kind)
        if logins.share < LOGINS_SHARE:
            logins.fit(knobs)
            knobs.logins = logins
        return knobs

    @classmethod
    def draw_consumer_groups(cls, seed: int | str) -> Knobs:
        """Draw the knobs of a run in which groups use the consumer group protocol (KIP-848).

        Session timeout and heartbeat interval are the brokers', so that all groups have the same.
        """
        knobs = cls.draw(f"{seed}/consumer", groups=True)
        random = Streams(f"{seed}/consumer/protocol")
        knobs.shards, knobs.group_knobs = 0, [group for group in knobs.group_knobs if not group.shards]
        knobs.consumers = sum(group.members for group in knobs.group_knobs)
        knobs.session_timeout_ms = knobs.group_knobs[0].session_timeout_ms
        knobs.heartbeat_interval_ms = knobs.group_knobs[0].heartbeat_interval_ms
        for number, group in enumerate(knobs.group_knobs):
            drawn = random(f"group {number}")
            group.protocol = drawn.choice(("consumer", "consumer", "consumer", "auto", "mixed"))
            group.remote_assignor = drawn.choice((None, None, "uniform", "range"))
            group.style = drawn.choice(("range", "cooperative", "sticky")) if group.protocol == "mixed" else "range"
            if group.protocol == "mixed":
                knobs.group_error_rate = 0.0  # errors of one protocol must not go to members of the other
            else:
                group.broker_pattern = random(f"broker pattern {number}").random() < 0.3
            group.session_timeout_ms = knobs.session_timeout_ms
            group.beats_per_session = knobs.group_knobs[0].beats_per_session
        doubled = random("absences with moves")
        knobs.double_absences = round(doubled.uniform(1, 3), 5) if doubled.random() < 0.25 else 0.0
        naps = random("naps")
        knobs.naps = round(naps.uniform(1, 3), 5) if naps.random() < 0.2 else 0.0
        return knobs

    @classmethod
    def _draw_readers(cls, seed: int | str) -> Knobs:
        knobs: Knobs = draw_knobs(cls, Streams(f"{seed}/knobs"))
        knobs.clients = [draw_knobs(ClientKnobs, Streams(f"{seed}/knobs/{n}")) for n in range(knobs.consumers)]
        for client in knobs.clients:
            client.columns = knobs.columns
        knobs.replication = min(knobs.replication, knobs.brokers)
        knobs.min_insync_replicas = min(knobs.min_insync_replicas, knobs.replication)
        knobs._stay_within(BUDGET)
        return knobs

    @classmethod
    def _draw_groups(cls, seed: int | str) -> Knobs:
        knobs: Knobs = draw_knobs(cls, Streams(f"{seed}/groups"), "groups")
        knobs.group_knobs = [draw_knobs(GroupKnobs, Streams(f"{seed}/groups/{n}")) for n in range(knobs.groups)]
        for number, group in enumerate(knobs.group_knobs):
            if knobs.groups > 1:
                group.members = min(group.members, 3)
            streams = (Streams(f"{seed}/groups/{number}/{n}") for n in range(group.members))
            group.clients = [draw_knobs(ClientKnobs, mine, "groups") for mine in streams]
        if knobs.shards:
            knobs.group_knobs.append(cls._draw_workers(f"{seed}/workers", knobs.shards))
        knobs.consumers = sum(group.members for group in knobs.group_knobs)
        knobs.replication = min(knobs.replication, knobs.brokers)
        if knobs.vanishings:
            knobs.transactional = 0.0  # an open transaction in a topic that is deleted would never end
        knobs._wait_within(BUDGET * 0.3)
        for client in (client for group in knobs.group_knobs for client in group.clients):
            client.request_timeout_ms = max(client.request_timeout_ms, knobs.fetch_max_wait_ms + 500)
            client.max_poll_records = max(client.max_poll_records, knobs.records_max)
        return knobs

    @staticmethod
    def _draw_workers(seed: str, shards: int) -> GroupKnobs:
        workers: GroupKnobs = draw_knobs(GroupKnobs, Streams(seed))
        workers.style, workers.shards = "cooperative" if shards % 2 else "range", shards
        workers.clients = [draw_knobs(ClientKnobs, Streams(f"{seed}/{n}"), "groups") for n in range(workers.members)]
        for client in workers.clients:
            # Workers' callbacks never raise. If on_join_complete() raised, the worker would own no shards, while the
            # checkers expect that partitions are owned even if a consumer's callback raised.
            client.raise_rate, client.commits = 0.0, "auto"
        return workers

    def _wait_within(self, budget: float) -> float:
        """Raise ``fetch_max_wait_ms`` until idle Fetches cost at most ``budget``; return the cost of one Fetch."""
        weight = 0.4 + 0.2 * self.brokers
        idle = self.consumers * self.brokers * 60_000 * weight
        self.fetch_max_wait_ms = max(self.fetch_max_wait_ms, round(idle / budget))
        return weight

    def _stay_within(self, budget: float) -> None:
        """Limit how often readers fetch and the log writer appends, so that the run costs at most ``budget``."""
        weight = self._wait_within(budget * 0.5)
        self.writes = max(12, min(self.writes, round(budget * 0.5 / weight / self.consumers * 1.5)))
        for client in self.clients:
            client.fit(self.fetch_max_wait_ms)
            # Each poll takes a step of the client: polls of a few records each would take most of the run's CPU time.
            records = self.writes * self.records_max / 2
            client.max_poll_records = max(client.max_poll_records, round(records * self.consumers / 600))
        if self.chunk is not None:
            # Clients receive at most ``chunk`` bytes at a time. Large responses would come in too many pieces.
            self.records_max = min(self.records_max, 40)
            self.record_size_max = min(self.record_size_max, 100)

    def __str__(self) -> str:
        lines = [_words(self, "clients", "group_knobs", "work")]
        lines += [f"consumer {n}: {_words(client)}" for n, client in enumerate(self.clients, start=1)]
        for number, group in enumerate(self.group_knobs, start=1):
            lines.append(f"group {number}: {_words(group, 'clients')}")
            lines += [f"  member {n}: {_words(client)}" for n, client in enumerate(group.clients, start=1)]
        lines += [f"workers {number}: {_words(work)}" for number, work in enumerate(self.work, start=1)]
        return "\n".join(lines)


def same_named(kind: type, knobs: Any) -> dict[str, Any]:
    """Return, by name, the values of those knobs that are also fields of the dataclass ``kind``."""
    return {f.name: getattr(knobs, f.name) for f in fields(kind) if hasattr(knobs, f.name)}


def draw_knobs(cls: type[T], streams: Streams, kind: str = "readers") -> T:
    """Draw the knobs that a dataclass declares."""
    values = {f.name: f.metadata[kind](streams(f.name)) for f in fields(cls) if kind in f.metadata}  # type: ignore[arg-type]
    return cls(**values)


def _words(knobs: Any, *but: str) -> str:
    shown = {f.name: getattr(knobs, f.name) for f in fields(knobs) if f.name not in but}
    return " ".join(f"{name}={value!r}" for name, value in shown.items())
