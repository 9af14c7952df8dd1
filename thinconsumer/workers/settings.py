"""The options of workers: order, pool, bounds, attempts, and the fate of records that were given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from ..config.values import DeadLetter
from ..errors import KafkaConfigurationError

Order = Literal["key", "partition", "none"]
NullKeyOrder = Literal["partition", "none"]
PoolName = Literal["inline", "threads", "processes", "tasks"]


def exponential(first_s: float = 0.1, factor: float = 2.0, longest_s: float = 60.0) -> Callable[[int], float]:
    """Return a ``backoff`` that begins with ``first_s``, and is ``factor`` times as long after each failed attempt."""

    def seconds(failed: int) -> float:
        return min(first_s * factor ** min(failed - 1, 64), longest_s)

    return seconds


OnFailure = Literal["stop", "skip"] | DeadLetter


class WorkerOptions(TypedDict, total=False):
    """The keywords of :func:`thinconsumer.workers.run`, for type checkers; meanings and defaults: docs/workers.md."""

    order: Order
    null_key_order: NullKeyOrder
    concurrency: int
    pool: PoolName
    batch_size: int | None
    attempts: int | None
    backoff: float | Callable[[int], float]
    on_failure: OnFailure
    drain_timeout_ms: float
    commit_interval_ms: float
    distance_max: int
    waiting_max: int
    waiting_bytes_max: int
    metadata_max: int
    take_over: Literal["parallel-consumer"] | None


@dataclass(frozen=True)
class WorkerSettings:
    """The options of :func:`thinconsumer.workers.run`, with its keywords' names."""

    order: Order = "key"
    null_key_order: NullKeyOrder = "none"
    concurrency: int = 8
    pool: PoolName = "inline"
    batch_size: int | None = None
    attempts: int | None = 5
    backoff: float | Callable[[int], float] = exponential()
    on_failure: OnFailure = "stop"
    drain_timeout_ms: float = 10_000
    commit_interval_ms: float = 5_000
    distance_max: int = 1_000_000
    waiting_max: int = 2_000
    waiting_bytes_max: int = 64 * 1024 * 1024
    metadata_max: int = 4_096
    take_over: Literal["parallel-consumer"] | None = None

    def check(self) -> None:
        """Raise KafkaConfigurationError, which names all invalid options."""
        wrong = [f"{name} must be {words}, not {getattr(self, name)!r}" for name, words in self._wrong()]
        if wrong:
            raise KafkaConfigurationError("; ".join(wrong))

    def _wrong(self) -> list[tuple[str, str]]:
        def is_number(value: Any, least: float) -> bool:
            return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= least

        def is_count(value: Any, least: int) -> bool:
            return isinstance(value, int) and is_number(value, least)

        rules = [
            ("order", "'key', 'partition' or 'none'", self.order in ("key", "partition", "none")),
            ("null_key_order", "'partition' or 'none'", self.null_key_order in ("partition", "none")),
            (
                "pool",
                "'inline', 'threads', 'processes' or 'tasks'",
                self.pool in ("inline", "threads", "processes", "tasks"),
            ),
            ("batch_size", "None or a positive int", self.batch_size is None or is_count(self.batch_size, 1)),
            ("attempts", "None or a positive int", self.attempts is None or is_count(self.attempts, 1)),
            ("backoff", "seconds, or a function", callable(self.backoff) or is_number(self.backoff, 0)),
            (
                "on_failure",
                "'stop', 'skip' or dead_letter(topic)",
                self.on_failure in ("stop", "skip") or isinstance(self.on_failure, DeadLetter),
            ),
            ("take_over", "'parallel-consumer' or None", self.take_over in ("parallel-consumer", None)),
            *((name, "a positive int", is_count(getattr(self, name), 1)) for name in _COUNTS),
            *((name, "0 or a positive number", is_number(getattr(self, name), 0)) for name in _TIMES),
        ]
        return [(name, words) for name, words, holds in rules if not holds]

    def backoff_s(self, failed: int) -> float:
        """Return the seconds until the next attempt, after so many failed ones."""
        return self.backoff(failed) if callable(self.backoff) else self.backoff


_COUNTS = ("concurrency", "distance_max", "waiting_max", "waiting_bytes_max", "metadata_max")
_TIMES = ("drain_timeout_ms", "commit_interval_ms")
