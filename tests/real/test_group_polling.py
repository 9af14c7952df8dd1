"""A loop of ``poll(0)`` and 10 ms of sleep joins a group within a second, and no call takes long.

Both bounds are about an idle machine. One that is busy takes the processor away in the middle of a call, so the time on
the clock may be too long in some of the attempts, but not in all; processor time and waiting are ours in every one.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from realkafka import Administration

from thinconsumer import Consumer

PARTITIONS = 6
JOINED_WITHIN, CALL_WITHIN = 1.0, 0.020
ATTEMPTS, CALLS = 4, 350


class Polled(NamedTuple):
    """One call of ``poll(0)``; seconds."""

    wall: float
    processor: float
    waits: int  #: How often it gave the processor away by itself.


class Listener:
    """Takes the time of users' code out of the measurement: there is none."""

    def __init__(self) -> None:
        self.assigned_at: float | None = None

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.assigned_at = time.monotonic()

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing to do."""


def poll(consumer: Consumer[Any, Any]) -> Polled:
    waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    processor, wall = time.thread_time(), time.perf_counter()
    consumer.poll(0)
    wall, processor = time.perf_counter() - wall, time.thread_time() - processor
    return Polled(wall, processor, resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - waits)


def attempt(bootstrap: str, topic: str, group: str) -> tuple[float, list[Polled]]:
    """Join a group of one; return after how long, and all calls until long after that."""
    listener = Listener()
    calls = []
    with Consumer(bootstrap_servers=bootstrap, group_id=group, session_timeout_ms=10_000) as consumer:
        consumer.subscribe([topic], listener=listener)
        began = time.monotonic()
        while len(calls) < CALLS or listener.assigned_at is None:
            assert time.monotonic() - began < 60, "never joined"
            calls.append(poll(consumer))
            time.sleep(0.01)
    return listener.assigned_at - began, calls


def at(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def test_polling_without_waiting_joins_within_a_second_and_never_takes_long(
    kafka: Administration, new_topic: Callable[..., str], record_property: Callable[..., None]
) -> None:
    """A member joins within a second, and each poll is short."""
    topic = new_topic(kafka, PARTITIONS)
    attempt(kafka.bootstrap, topic, f"{topic}-first")  # from here on the brokers have a topic for offsets
    joined, calls = zip(*(attempt(kafka.bootstrap, topic, f"{topic}-{n}") for n in range(ATTEMPTS)))
    every = [call for each in calls for call in each]
    processor = at([call.processor for call in every], 0.999)
    walls = [at([call.wall for call in each], 0.999) for each in calls]
    waiting = sum(call.waits > 0 for call in every)
    said = (
        f"joined after {', '.join(f'{seconds:.2f}' for seconds in joined)} s; {len(every)} calls of poll(0): p50 "
        f"{at([call.wall for call in every], 0.5) * 1000:.2f} ms, p99.9 {processor * 1000:.1f} ms of processor time, "
        f"{', '.join(f'{wall * 1000:.1f}' for wall in walls)} ms on the clock, by attempt; {waiting} waited"
    )
    print(said)
    record_property("poll(0)", said)
    assert min(joined) <= JOINED_WITHIN
    assert min(walls) <= CALL_WITHIN
    assert processor <= CALL_WITHIN
    assert waiting <= len(every) // 1000
