"""A program that reads a topic while Ctrl-C strikes it at random moments, for its parent to judge.

Run as ``python interrupted.py BOOTSTRAP TOPIC PARTITIONS COUNT``: prints READY, then one line "partition offset" per
record in the order polled, at last the number of interrupts it lived through.
"""

from __future__ import annotations

import signal
import sys

from thinconsumer import Consumer, TopicPartition


def main() -> None:
    bootstrap, topic, partitions, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    seen: list[str] = []
    interrupts = 0
    consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=30_000)
    consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
    print("READY", flush=True)
    while len(seen) < count:
        found = {}
        try:
            # Only poll is struck: what a program does with records is its own affair.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            found = consumer.poll(100, 10)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            interrupts += 1
        seen += [f"{tp.partition} {record.offset}" for tp, records in found.items() for record in records]
    ends = [str(consumer.position(TopicPartition(topic, partition))) for partition in range(partitions)]
    consumer.close()
    print("\n".join(seen))
    print("INTERRUPTS", interrupts, *ends, flush=True)


main()
