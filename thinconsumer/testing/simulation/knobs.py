"""Every knob of a swarm run, drawn from the seed, each from a stream of its own.

Owns what may be drawn, and what a run may cost: worlds in which many clients fetch often from many brokers would take
seconds each, so the pace of fetching and writing follows from the number of those who do it. A knob says its range
where it is declared; ``str(knobs)`` prints all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any, TypeVar

from .streams import Streams

T = TypeVar("T")

#: Fetches and deliveries that a run may bring about, weighed by the number of brokers: a quarter of a second.
BUDGET = 700.0


def knob(draw: Callable[[Random], Any]) -> Any:
    """Declare a knob by how it is drawn."""
    return field(metadata={"draw": draw})


def one_of(*values: Any) -> Any:
    """One of these, each as likely."""
    return knob(lambda random: random.choice(values))


def whole(low: int, high: int) -> Any:
    """A whole number between two."""
    return knob(lambda random: random.randint(low, high))


def between(low: float, high: float) -> Any:
    """A number between two."""
    return knob(lambda random: round(random.uniform(low, high), 4))


def sometimes(share: float, low: float, high: float) -> Any:
    """Zero, but in a share of all runs a number between two: swarms find more when things are left out, too."""
    return knob(lambda random: round(random.uniform(low, high), 5) if random.random() < share else 0.0)


def yes(share: float) -> Any:
    """True in a share of all runs."""
    return knob(lambda random: random.random() < share)


@dataclass
class ClientKnobs:
    """One consumer's."""

    isolation_level: str = one_of("read_uncommitted", "read_committed")
    auto_offset_reset: str = one_of("earliest", "earliest", "earliest", "latest", "none")
    check_crcs: bool = yes(0.5)
    enable_incremental_fetch_sessions: bool = yes(0.85)
    max_poll_records: int = one_of(1, 3, 10, 50, 500, 500)
    fetch_min_bytes: int = one_of(1, 1, 1, 300, 5000)
    max_partition_fetch_bytes: int = one_of(100, 1000, 10_000, 1_048_576, 1_048_576)
    fetch_max_bytes: int = one_of(500, 5000, 52_428_800, 52_428_800)
    max_buffered_bytes: int = one_of(65_536, 1_000_000, 67_108_864)
    request_timeout_ms: int = one_of(600, 2000, 5000, 30_000)
    default_api_timeout_ms: int = one_of(500, 5000, 60_000)
    metadata_max_age_ms: int = one_of(700, 5000, 60_000, 300_000)
    retry_backoff_ms: int = one_of(20, 100, 100, 500)
    retry_backoff_max_ms: int = one_of(500, 1000, 3000)
    reconnect_backoff_ms: int = one_of(20, 50, 500)
    reconnect_backoff_max_ms: int = one_of(500, 1000, 5000)
    socket_connection_setup_timeout_ms: int = one_of(300, 1500, 10_000)
    connections_max_idle_ms: int = one_of(3000, 540_000, 540_000)
    max_in_flight_requests_per_connection: int = one_of(1, 5)
    bootstrap_timeout_ms: int = one_of(2000, 30_000)
    follows_racks: bool = yes(0.4)
    metadata_recovery_rebootstrap_trigger_ms: int = one_of(3000, 300_000)
    # what the application does
    blocks: bool = yes(0.5)
    poll_timeout_ms: int = one_of(0, 10, 200, 1000, 3000)
    think_s: float = sometimes(0.5, 0.001, 0.5)
    odd_rate: float = sometimes(0.6, 0.01, 0.15)
    jumps_far: bool = yes(0.3)
    wall_skew_s: float = sometimes(0.2, -1000, 1000)
    share: float = between(0.3, 1.2)  #: Of the partitions that it reads.

    #: Those that are no options of the Consumer.
    OWN = ("blocks", "poll_timeout_ms", "think_s", "odd_rate", "jumps_far", "follows_racks", "wall_skew_s", "share")

    def fit(self, fetch_max_wait_ms: int) -> None:
        """Contradict neither each other nor how long brokers may wait."""
        self.request_timeout_ms = max(self.request_timeout_ms, 2 * fetch_max_wait_ms)
        self.connections_max_idle_ms = max(self.connections_max_idle_ms, self.request_timeout_ms + 500)
        # With less of one partition than brokers wait for, each batch takes the whole fetch_max_wait_ms, as on Kafka.
        self.fetch_min_bytes = min(self.fetch_min_bytes, self.fetch_max_bytes, self.max_partition_fetch_bytes)
        if self.blocks:
            # A loop of polls of 10 ms is thousands of steps in which nothing happens.
            self.poll_timeout_ms = max(self.poll_timeout_ms, 100)

    def options(self, rack: str) -> dict[str, Any]:
        """Return the Consumer's options."""
        options = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.OWN}
        options["retry_backoff_max_ms"] = max(self.retry_backoff_max_ms, self.retry_backoff_ms)
        options["reconnect_backoff_max_ms"] = max(self.reconnect_backoff_max_ms, self.reconnect_backoff_ms)
        return {**options, "client_rack": rack if self.follows_racks else ""}


@dataclass
class Knobs:
    """One run's. Rates of faults are events per virtual minute, unless they are probabilities of each message."""

    # the cluster
    brokers: int = whole(2, 5)
    consumers: int = whole(1, 6)
    topics: int = whole(1, 3)
    partitions: int = whole(1, 4)  #: At most; of each topic.
    replication: int = whole(1, 3)
    min_insync_replicas: int = whole(1, 2)
    racks: int = whole(1, 3)
    unclean: bool = yes(0.5)
    metadata_lag_s: float = sometimes(0.6, 0.01, 3.0)
    replication_s: float = sometimes(0.6, 0.001, 0.5)
    broker_session_timeout_ms: int = whole(200, 4000)
    replica_lag_time_max_ms: int = whole(500, 8000)
    session_slots: int = one_of(0, 2, 1000, 1000, 1000)
    compacted: bool = yes(0.3)
    # what is written
    writes: int = whole(15, 80)  #: Batches.
    records_max: int = one_of(1, 5, 40, 200)  #: In one batch.
    record_size_max: int = one_of(10, 100, 2000)
    compression: bool = yes(0.4)
    transactional: float = sometimes(0.6, 0.1, 0.9)  #: Share of batches.
    producers: int = one_of(0, 0, 1)
    # reading
    fetch_max_wait_ms: int = one_of(50, 500, 500, 2000, 5000)
    # the network
    latency_max_s: float = one_of(0.001, 0.01, 0.05, 0.2)
    jitter_s: float = sometimes(0.7, 0.001, 0.1)
    split_rate: float = sometimes(0.3, 0.01, 0.3)
    reset_rate: float = sometimes(0.4, 0.0005, 0.01)
    refuse_rate: float = sometimes(0.3, 0.01, 0.3)
    swallow_rate: float = sometimes(0.3, 0.005, 0.05)
    dns_failure_rate: float = sometimes(0.2, 0.01, 0.3)
    chunk: int | None = one_of(None, None, None, 4096, 100)
    # faults per minute
    kills: float = sometimes(0.6, 0.5, 5)
    silent_share: float = between(0, 0.6)  #: Of kills and crashes.
    pauses: float = sometimes(0.5, 0.5, 4)
    cuts: float = sometimes(0.6, 0.5, 5)
    one_way_share: float = between(0, 0.7)
    resets: float = sometimes(0.5, 0.5, 8)
    slow: float = sometimes(0.4, 0.5, 3)
    leader_moves: float = sometimes(0.7, 1, 12)
    unclean_elections: float = sometimes(0.8, 1, 8)  #: Only where they are allowed.
    takeovers: float = sometimes(0.8, 2, 8)  #: These, too.
    deletions: float = sometimes(0.5, 0.5, 6)
    compactions: float = sometimes(0.7, 1, 6)
    expansions: float = sometimes(0.3, 0.5, 2)
    clock_jumps: float = sometimes(0.3, 0.5, 4)
    stalls: float = sometimes(0.5, 0.5, 4)
    crashes: float = sometimes(0.5, 0.5, 4)
    # faults per request
    error_rate: float = sometimes(0.4, 0.002, 0.05)
    delay_rate: float = sometimes(0.3, 0.002, 0.05)
    silence_rate: float = sometimes(0.3, 0.001, 0.01)
    disconnect_rate: float = sometimes(0.3, 0.001, 0.02)
    corruptions: float = sometimes(0.3, 0.005, 0.1)  #: Per answer with records.

    clients: list[ClientKnobs] = field(default_factory=list)

    @classmethod
    def draw(cls, seed: int | str) -> Knobs:
        """Draw all of them."""
        knobs: Knobs = _drawn(cls, Streams(f"{seed}/knobs"))
        knobs.clients = [_drawn(ClientKnobs, Streams(f"{seed}/knobs/{n}")) for n in range(knobs.consumers)]
        knobs.replication = min(knobs.replication, knobs.brokers)
        knobs.min_insync_replicas = min(knobs.min_insync_replicas, knobs.replication)
        knobs._stay_within(BUDGET)
        return knobs

    def _stay_within(self, budget: float) -> None:
        """Fetch and write no more often than the machine can take."""
        weight = 0.4 + 0.2 * self.brokers
        idle = self.consumers * self.brokers * 60_000 * weight
        self.fetch_max_wait_ms = max(self.fetch_max_wait_ms, round(idle / (budget * 0.5)))
        self.writes = max(12, min(self.writes, round(budget * 0.5 / weight / self.consumers * 1.5)))
        for client in self.clients:
            client.fit(self.fetch_max_wait_ms)
            # Each poll is a step: thousands of records one by one would take most of the time.
            records = self.writes * self.records_max / 2
            client.max_poll_records = max(client.max_poll_records, round(records * self.consumers / 600))
        if self.chunk is not None:
            # A large answer in small pieces is a step for each of them.
            self.records_max = min(self.records_max, 40)
            self.record_size_max = min(self.record_size_max, 100)

    def __str__(self) -> str:
        lines = [_words(self, "clients")]
        lines += [f"consumer {n}: {_words(client)}" for n, client in enumerate(self.clients, start=1)]
        return "\n".join(lines)


def _drawn(cls: type[T], streams: Streams) -> T:
    drawn = {f.name: f.metadata["draw"](streams(f.name)) for f in fields(cls) if "draw" in f.metadata}  # type: ignore[arg-type]
    return cls(**drawn)


def _words(knobs: Any, *but: str) -> str:
    return " ".join(f"{f.name}={getattr(knobs, f.name)!r}" for f in fields(knobs) if f.name not in but)
