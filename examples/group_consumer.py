"""A member of a group, to be copied: it processes one record at a time and commits what is processed, whatever ends it.

    python examples/group_consumer.py localhost:9092 orders [ALIVE]

Start it as often as the topic has partitions. Ctrl-C and SIGTERM finish the record in hand, commit and leave. ALIVE is
a file that is touched while all is well, for a liveness probe: ``find ALIVE -mmin -1 | grep -q .``
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
    """Stands for your work. It may be given a record again after a crash: let that do no harm."""
    print(record.partition, record.offset, (record.value or b"").decode(), flush=True)


class Worker(RebalanceListener):
    """Reads a topic together with the group's other members."""

    def __init__(self, servers: str, topic: str, alive: Path | None = None) -> None:
        self.consumer = Consumer(
            bootstrap_servers=servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,  # or leave it on and forget about `done`, if a batch repeated does no harm
            max_poll_records=100,  # a rebalance waits for the batch in hand: keep it short
        )
        self.consumer.subscribe([topic], listener=self)
        self.done: dict[TopicPartition, int] = {}  # where to go on: behind the last record that is processed
        self.alive = alive
        self.stopping = False
        self.commit_at = self.look_at = 0.0

    def run(self) -> None:
        """Work until told to stop. Closing calls ``on_partitions_revoked``, and that commits."""
        with self.consumer, contextlib.suppress(WakeupError):
            while not self.stopping:
                for tp, records in self.consumer.poll(timeout_ms=1000).items():
                    for record in records:
                        process(record)
                        self.done[tp] = record.offset + 1
                        self.consumer.drive()  # there is no heartbeat thread: this says that we live
                self.now_and_then(time.monotonic())

    def now_and_then(self, now: float) -> None:
        """Commit, and say that all is well, but not after each and every batch."""
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
        """A commit in the background is through, or has failed: the next one covers what it covered."""
        if error is not None:
            log.warning("not committed: %s", error)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """They are still ours: write down how far we are, so that whoever gets them goes on from there."""
        offsets = {tp: self.done.pop(tp) for tp in revoked if tp in self.done}
        try:
            if offsets:
                self.consumer.commit(offsets, timeout_ms=5000)
        except KafkaError as error:
            log.warning("others will process some records again: %s", error)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """They are others' already, who went on from our last commit; a commit of ours would be refused."""
        for tp in lost:
            self.done.pop(tp, None)

    def stop(self, number: int, frame: object) -> None:
        """Handle a signal: let the current call, or the next one, raise WakeupError. The same signal again kills."""
        signal.signal(number, signal.SIG_DFL)
        self.stopping = True
        self.consumer.wakeup()


def main(servers: str, topic: str, alive: str | None = None) -> None:
    """Run one member until a signal comes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    worker = Worker(servers, topic, Path(alive) if alive else None)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, worker.stop)
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
