"""A member of kafka-python, which runs heartbeats, joins and listeners in a thread of its own."""

import logging
from typing import Any

from diary import Diary, orders, settings
from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Listener(AsyncConsumerRebalanceListener):
    """Commits what has been processed before partitions leave; its blocking calls are refused in there."""

    def __init__(self, consumer: Any, diary: Diary) -> None:
        self.consumer, self.diary = consumer, diary
        self.next: dict[Any, Any] = {}

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.diary.say("assigned", sorted(tp.partition for tp in assigned))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        try:
            if offsets := {tp: self.next.pop(tp) for tp in revoked if tp in self.next}:
                await self.consumer.commit_async(offsets)
        except KafkaError as error:
            self.diary.say("trouble", [repr(error)])
        self.diary.say("revoked", sorted(tp.partition for tp in revoked))

    async def on_partitions_lost(self, lost: Any) -> None:
        for tp in lost:
            self.next.pop(tp, None)
        self.diary.say("lost", sorted(tp.partition for tp in lost))


def main() -> None:
    told = settings()
    diary = Diary(told["diary"])
    options = told["options"]
    if names := options.pop("partition_assignment_strategy", ()):
        options["partition_assignment_strategy"] = [ASSIGNORS[name] for name in names]
    consumer = KafkaConsumer(
        bootstrap_servers=told["bootstrap"].split(","),
        group_id=told["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    )
    listener = Listener(consumer, diary)
    consumer.subscribe([told["topic"]], listener=listener)
    diary.say("started")
    while "leave" not in orders():
        try:
            found = consumer.poll(100)
        except KafkaError as error:
            diary.say("trouble", [repr(error)])
            continue
        for tp, records in found.items():
            diary.say("records", [tp.partition, *(record.offset for record in records)])
            listener.next[tp] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        if offsets := dict(listener.next):
            consumer.commit_async(offsets)
    diary.say("leaving")
    consumer.close()
    diary.say("left")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main()
