"""Workers in processes, whose handlers write down when they begin and end with a record, all into one file.

``python workers.py JSON`` works until SIGTERM, then commits and leaves. Lines are appended by one write each, so that
the file has them in the order in which they happened, whatever process wrote them.
"""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Collection
from typing import Any

from thinconsumer import Consumer, TopicPartition
from thinconsumer.workers import Workers, WorkerSettings

SETTINGS: dict[str, Any] = json.loads(os.environ.setdefault("WORKERS", sys.argv[1] if len(sys.argv) > 1 else "{}"))
DIARY = os.open(SETTINGS["diary"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def say(*words: object) -> None:
    os.write(DIARY, (" ".join(map(str, (SETTINGS["incarnation"], *words))) + "\n").encode())


def handle(record: Any) -> None:
    """Take up to 9 ms, with one key 100 ms: records finish in another order than that of the log."""
    place = (record.partition, record.offset, record.key.decode())
    say("begin", *place)
    time.sleep(0.1 if record.key == b"k0" else record.offset * 7919 % 7 * 0.0015)
    say("end", *place)


class Listener:
    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        say("assigned", *(each.partition for each in assigned))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        say("revoked", *(each.partition for each in revoked))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        say("lost", *(each.partition for each in lost))


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    settings = WorkerSettings(**SETTINGS["settings"])
    with Consumer(**SETTINGS["options"], enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([SETTINGS["topic"]], listener=Listener())
        with Workers(consumer, handle, settings) as workers:
            signal.signal(signal.SIGTERM, lambda *_: workers.stop())
            workers.run()


if __name__ == "__main__":
    main()
