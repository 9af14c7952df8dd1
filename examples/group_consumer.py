"""A group member to copy: it processes one record at a time, and commits the processed records however it ends.

    python examples/group_consumer.py localhost:9092 orders [ALIVE]

Start it up to as often as the topic has partitions. On Ctrl-C or SIGTERM it finishes the current record, commits and
leaves. ALIVE is a file that is touched while the consumer is healthy, for a liveness probe:
``find ALIVE -mmin -1 | grep -q .``
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

from thinconsumer import (
    Consumer,
    ConsumerRecord,
    HealthState,
    KafkaError,
    RebalanceListener,
    TopicPartition,
    WakeupError,
)

log = logging.getLogger("billing")

COMMIT_EVERY, LOOK_EVERY = 5.0, 10.0  # seconds


def process(record: ConsumerRecord[bytes | None, bytes | None]) -> None:
    """Replace this by your work. After a crash it may get a record a second time, so make it idempotent."""
    print(record.partition, record.offset, (record.value or b"").decode(), flush=True)


class Worker(RebalanceListener):
    """Reads a topic together with the group's other members."""

    def __init__(self, servers: str, topic: str, alive: Path | None = None) -> None:
        self.consumer = Consumer(
            bootstrap_servers=servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,  # with True `done` is not needed, and a crash repeats up to a whole batch
            max_poll_records=100,  # a rebalance waits until the current batch is processed
        )
        self.consumer.subscribe([topic], listener=self)
        self.done: dict[TopicPartition, int] = {}  # the next offset to process
        self.alive = alive
        self.stopping = False
        self.commit_at = self.look_at = 0.0

    def run(self) -> None:
        """Process records until :meth:`stop`; closing then calls ``on_partitions_revoked``, which commits."""
        with self.consumer, contextlib.suppress(WakeupError):
            while not self.stopping:
                for tp, records in self.consumer.poll(timeout_ms=1000).items():
                    for record in records:
                        process(record)
                        self.done[tp] = record.offset + 1
                        self.consumer.drive()  # sends a heartbeat if one is due: there is no heartbeat thread
                self.now_and_then(time.monotonic())

    def now_and_then(self, now: float) -> None:
        """Commit and touch the liveness file, at most every few seconds."""
        if self.done and now >= self.commit_at:
            self.consumer.commit_async(self.done, callback=self.committed)
            self.commit_at = now + COMMIT_EVERY
        if self.alive is not None and now >= self.look_at:
            health = self.consumer.health()
            if health.state is HealthState.STUCK:
                log.error("stuck for %.0f s: %s", health.since or 0, health.reason)
            else:
                self.alive.touch()
            self.look_at = now + LOOK_EVERY

    def committed(self, offsets: object, error: Exception | None) -> None:
        """Log a failed background commit. The next one covers the same offsets."""
        if error is not None:
            log.warning("not committed: %s", error)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Commit while the partitions are still owned: their next owner continues from there."""
        offsets = {tp: self.done.pop(tp) for tp in revoked if tp in self.done}
        try:
            if offsets:
                self.consumer.commit(offsets, timeout_ms=5000)
        except KafkaError as error:
            log.warning("not committed, so some records will be processed again: %s", error)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Forget partitions that other members own already. A commit of their offsets would be rejected."""
        for tp in lost:
            self.done.pop(tp, None)

    def stop(self, number: int, frame: object) -> None:
        """Handle a signal: the current or next call raises WakeupError. A second signal ends the process at once."""
        signal.signal(number, signal.SIG_DFL)
        self.stopping = True
        self.consumer.wakeup()


def main(servers: str, topic: str, alive: str | None = None) -> None:
    """Run one member until a signal arrives."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    worker = Worker(servers, topic, Path(alive) if alive else None)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, worker.stop)
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
