"""A member of thinconsumer: commits in the background after every poll, and in its listener before partitions leave.

With ``enable_auto_commit`` among its options it leaves both to the consumer.
"""

import contextlib
import logging
import time
from typing import Any

from diary import Diary, orders, settings

from thinconsumer import Consumer, KafkaError, TopicPartition


class Member:
    def __init__(self) -> None:
        self.settings = settings()
        self.diary = Diary(self.settings["diary"])
        self.consumer: Consumer[Any, Any] = Consumer(
            bootstrap_servers=self.settings["bootstrap"],
            group_id=self.settings["group"],
            auto_offset_reset="earliest",
            **{"enable_auto_commit": False, **self.settings["options"]},
        )
        self.commits = not self.consumer.config.enable_auto_commit

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.diary.say("assigned", sorted(tp.partition for tp in assigned))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        began = time.monotonic()
        try:
            if self.commits:
                self.consumer.commit(timeout_ms=5000)
        except KafkaError as error:
            self.diary.say("trouble", [f"{time.monotonic() - began:.3f}", repr(error)])
        self.diary.say("revoked", sorted(tp.partition for tp in revoked))

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self.diary.say("lost", sorted(tp.partition for tp in lost))

    def run(self) -> None:
        """Read until told to leave."""
        self.consumer.subscribe([self.settings["topic"]], listener=self)
        self.diary.say("started")
        while "leave" not in orders():
            began = time.monotonic()
            try:
                found = self.consumer.poll(100)
            except KafkaError as error:
                self.diary.say("trouble", [repr(error)])
                continue
            took = time.monotonic() - began
            if took > 1:
                self.diary.say("slow", [f"{took:.3f}"])
            for tp, records in found.items():
                self.diary.say("records", [tp.partition, *(record.offset for record in records)])
            if found and self.commits:
                self.consumer.commit_async(callback=self.committed)
        self.diary.say("leaving")
        with contextlib.suppress(KafkaError):
            self.consumer.close()
        self.diary.say("left")

    def committed(self, offsets: Any, error: Exception | None) -> None:
        """Note what could not be committed: it will be committed again, or read again elsewhere."""
        if error is not None:
            self.diary.say("trouble", [repr(error)])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(levelname)s %(name)s %(message)s")
    Member().run()
