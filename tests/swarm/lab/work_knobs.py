"""The parameters of workers in a swarm run, drawn from its seed: their settings, and what their handlers do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thinconsumer.workers import WorkerSettings, dead_letter
from thinconsumer_testing.simulation.streams import Streams

from .knobs import Knobs, draw_knobs, one_of, same_named, sometimes, yes

#: The topic of dead letters. No member subscribes to it, and no fault is aimed at it.
LETTERS = "dead-letters"


@dataclass
class WorkKnobs:
    """The knobs of the workers of one group."""

    order: str = one_of("key", "key", "key", "partition", "none")
    null_key_order: str = one_of("partition", "none")
    concurrency: int = one_of(1, 3, 8)
    batch_size: int | None = one_of(None, None, 1, 3, 20)
    attempts: int | None = one_of(1, 2, 5, None)
    on_failure: str = one_of("stop", "skip")
    writes_letters: bool = yes(0.5)  #: Whether records that would be skipped are written as dead letters.
    backoff: float = one_of(0.0, 0.2, 2.0)
    drain_timeout_ms: float = one_of(0, 300, 1500)
    commit_interval_ms: float = one_of(50, 500, 3000)
    distance_max: int = one_of(5, 50, 1_000_000)
    waiting_max: int = one_of(1, 20, 2000)
    waiting_bytes_max: int = one_of(1000, 10_000_000)
    metadata_max: int = one_of(72, 80, 120, 4096)
    duration_s: float = one_of(0.0, 0.05, 0.5, 3.0)  #: The longest time that a handler takes.
    failure_rate: float = sometimes(0.5, 0.02, 0.2)  #: Share of the calls of handlers that fail.
    crash_rate: float = sometimes(0.4, 0.001, 0.01)  #: Share of the calls of handlers at which the process dies.
    interrupt_rate: float = sometimes(0.3, 0.005, 0.05)  #: Share of the steps with Ctrl-C, in any line of the workers.

    @classmethod
    def draw(cls, seed: int | str) -> WorkKnobs:
        """Draw the knobs of a group from a seed."""
        knobs: WorkKnobs = draw_knobs(cls, Streams(seed))
        return knobs

    def settings(self) -> WorkerSettings:
        """Return the settings of the workers."""
        options: dict[str, Any] = same_named(WorkerSettings, self)
        if self.on_failure == "skip" and self.writes_letters:
            options["on_failure"] = dead_letter(LETTERS)
        return WorkerSettings(**options)


def leave_commits_to_workers(knobs: Knobs) -> Knobs:
    """Let the members of a run make only those calls that a program makes beside its workers."""
    knobs.shards, knobs.group_knobs = 0, [group for group in knobs.group_knobs if not group.shards]
    knobs.consumers = sum(group.members for group in knobs.group_knobs)
    for client in (client for group in knobs.group_knobs for client in group.clients):
        client.commits, client.odd_rate, client.raise_rate = "sync", 0.0, 0.0
        client.asks = client.rewinds = client.drives = False
        client.think_s = 0.0
    return knobs
