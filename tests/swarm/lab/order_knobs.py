"""The parameters of a swarm run of ordered delivery, drawn from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class OrderKnobs:
    """The parameters of a run, drawn from its seed."""

    initial: int
    keys: int
    members: int
    writers: int
    protocol: str  #: The option ``group_protocol`` of the members; "mixed": each draws its own.
    strategy: str
    remote_assignor: str
    auto_commits: bool
    commit_rate: float  #: Without ``auto_commits``, the probability that a member commits after a poll.
    has_key_listener: bool
    paces: tuple[float, ...]  #: The virtual seconds between two polls of a member, which draws one of them.
    max_poll_records: int
    metadata_max_age_ms: int
    delivery_timeout_ms: int
    compacted: bool
    retention: float  #: The probability that a marked partition is emptied before it is read.
    replication_s: float  #: The mean delay after which followers copy a batch.
    lag_s: float  #: The most seconds after which a lagging broker applies a change of the metadata.
    write_every_s: float
    fault_every_s: float
    churn: int  #: How often members come and go, compared with other faults.
    disturbance: float  #: The probability that the group is disturbed when a member sends positions.

    @classmethod
    def draw(cls, seed: int) -> OrderKnobs:
        """Draw the knobs of a seed."""
        rng = random.Random(f"knobs/{seed}")
        return cls(
            initial=rng.randint(1, 3),
            keys=rng.choice([2, 5, 12]),
            members=rng.randint(1, 4),
            writers=rng.randint(1, 3),
            protocol=rng.choice(["classic", "classic", "consumer", "consumer", "mixed"]),
            strategy=rng.choice(["range", "roundrobin", "sticky", "cooperative-sticky", "cooperative-sticky"]),
            remote_assignor=rng.choice(["uniform", "range"]),
            auto_commits=rng.random() < 0.5,
            commit_rate=random.Random(f"commits/{seed}").choice([0.2, 0.02, 0.0]),
            has_key_listener=rng.random() < 0.85,
            paces=rng.choice([(0.2, 0.5, 1.0), (0.2, 0.5, 1.0), (1.0, 3.0)]),
            max_poll_records=rng.choice([1, 3, 20, 500]),
            metadata_max_age_ms=rng.choice([1000, 5000, 20_000]),
            delivery_timeout_ms=rng.choice([6000, 120_000, 120_000]),
            compacted=rng.random() < 0.2,
            retention=rng.choice([0.0, 0.0, 0.2]),
            replication_s=rng.choice([0.0, 0.0, 0.01, 0.3]),
            lag_s=rng.choice([0.0, 0.3, 3.0, 10.0]),
            write_every_s=rng.choice([0.2, 0.5, 2.0]),
            fault_every_s=rng.choice([0.5, 2.0, 6.0]),
            churn=rng.choice([1, 1, 4]),
            disturbance=rng.choice([0.0, 0.5, 1.0]),
        )
