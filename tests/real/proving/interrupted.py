"""A program that reads a topic while Ctrl-C strikes it at random moments, for its parent to judge.

Run as ``python interrupted.py BOOTSTRAP TOPIC PARTITIONS COUNT``: prints READY, then one line "partition offset" per
record in the order polled, at last the number of interrupts it lived through.
"""

import signal
import sys
from types import FrameType

from thinconsumer import Consumer, TopicPartition


class Blow:
    """Interrupts what the consumer does, once per poll; what this program does with records is its own affair."""

    def __init__(self) -> None:
        self.is_due = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.is_due or frame is None or frame.f_globals is globals():
            return
        if frame.f_globals.get("__name__") == "_weakrefset":
            return  # the interpreter prints and ignores what is raised when it drops a weak reference
        self.is_due = False
        raise KeyboardInterrupt


def main() -> None:
    bootstrap, topic, partitions, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    blow = Blow()
    signal.signal(signal.SIGINT, blow)
    seen: list[str] = []
    interrupts = 0
    consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=30_000)
    consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
    print("READY", flush=True)
    while len(seen) < count:
        found = {}
        blow.is_due = True
        try:
            found = consumer.poll(100, 2)
        except KeyboardInterrupt:
            interrupts += 1
        blow.is_due = False
        seen += [f"{tp.partition} {record.offset}" for tp, records in found.items() for record in records]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted print() may print half
    ends = [str(consumer.position(TopicPartition(topic, partition))) for partition in range(partitions)]
    consumer.close()
    print("\n".join(seen))
    print("INTERRUPTS", interrupts, *ends, flush=True)


main()
