"""A group member that keeps its offsets in a database, in one transaction with the results: each record counts once.

    python examples/own_offsets.py localhost:9092 orders results.db

It counts how often each value was written to a topic. Start it up to as often as the topic has partitions, with the
same file. However a member ends, also by ``kill -9``, no record is counted twice, and none is left out.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sqlite3
import sys
from collections.abc import Collection, Sequence
from typing import Any

from thinconsumer import Consumer, ConsumerRecord, OffsetAndMetadata, RebalanceListener, TopicPartition, WakeupError

log = logging.getLogger("counter")

TABLES = """
CREATE TABLE IF NOT EXISTS results (value TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT, partition INTEGER, next INTEGER NOT NULL, leader_epoch INTEGER NOT NULL, PRIMARY KEY (topic, partition)
);
"""
BEGINNING = -1  # the value of `next` before the first record


def process(db: sqlite3.Connection, record: ConsumerRecord[bytes | None, bytes | None]) -> None:
    """Replace this by your work. Write results to ``db`` only: anything else may happen twice for a record."""
    value = (record.value or b"").decode(errors="replace")
    db.execute("INSERT INTO results VALUES (?, 1) ON CONFLICT (value) DO UPDATE SET count = count + 1", (value,))


def new_consumer(servers: str, **options: Any) -> Consumer[bytes | None, bytes | None]:
    """Return a consumer that commits nothing to Kafka: the group only divides the partitions among its members."""
    return Consumer(
        bootstrap_servers=servers,
        group_id="counter",
        group_protocol="auto",
        enable_auto_commit=False,
        auto_offset_reset="none",  # if retention has deleted records that were not read, poll raises an error
        **options,
    )


class Counter(RebalanceListener):
    """Reads the partitions that the group assigns, from the offsets in the database."""

    def __init__(self, consumer: Consumer[bytes | None, bytes | None], topic: str, db: sqlite3.Connection) -> None:
        self.consumer, self.db = consumer, db
        self.next: dict[TopicPartition, int] = {}  # the stored offsets, as this member has last read or written them
        self.stopping = False
        db.executescript(TABLES)
        consumer.subscribe([topic], listener=self)

    def run(self) -> None:
        """Count records until :meth:`stop`."""
        with contextlib.suppress(WakeupError):
            while not self.stopping:
                for tp, records in self.consumer.poll(timeout_ms=1000).items():
                    self.store(tp, records)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Start where the member that had these partitions before has stopped."""
        for tp in assigned:
            self.seek(tp)

    def seek(self, tp: TopicPartition) -> None:
        """Read a partition from its stored offset on."""
        with self.db:
            self.db.execute("INSERT OR IGNORE INTO offsets VALUES (?, ?, ?, -1)", (*tp, BEGINNING))
            query = "SELECT next, leader_epoch FROM offsets WHERE topic = ? AND partition = ?"
            self.next[tp], epoch = self.db.execute(query, tp).fetchone()
        if self.next[tp] == BEGINNING:
            self.consumer.seek_to_beginning(tp)
        else:  # with the leader epoch, a truncation of the log is an error and not a gap
            self.consumer.seek(tp, OffsetAndMetadata(self.next[tp], leader_epoch=epoch))

    def store(self, tp: TopicPartition, records: Sequence[ConsumerRecord[bytes | None, bytes | None]]) -> None:
        """Write the results of these records and the offset after them, both or neither.

        The offset is written first, and only if no other member has moved it: this member may have been stopped for so
        long that its partitions, and these records, were assigned to another one.
        """
        after = records[-1].offset + 1
        with self.db:
            moved = self.db.execute(
                "UPDATE offsets SET next = ?, leader_epoch = ? WHERE topic = ? AND partition = ? AND next = ?",
                (after, records[-1].leader_epoch, *tp, self.next[tp]),
            ).rowcount
            if moved:
                for record in records:
                    process(self.db, record)
        if moved:
            self.next[tp] = after
            print(tp.partition, after, flush=True)
        else:
            log.warning("another member has counted records of partition %d from %d on", tp.partition, self.next[tp])
            self.seek(tp)

    def stop(self, number: int, frame: object) -> None:
        """Handle a signal: the current or next poll raises WakeupError. A second signal ends the process at once."""
        signal.signal(number, signal.SIG_DFL)
        self.stopping = True
        self.consumer.wakeup()


def main(servers: str, topic: str, file: str) -> None:
    """Run one member until a signal arrives."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as db, new_consumer(servers) as consumer:
        counter = Counter(consumer, topic, db)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, counter.stop)
        counter.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
