"""A member of confluent-kafka (librdkafka), which heartbeats from a thread of its own."""

from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from diary import Diary, orders, settings


class Member:
    """Commits in the background after every record, and before partitions leave."""

    def __init__(self) -> None:
        self.settings = settings()
        self.topic = self.settings["topic"]
        self.diary = Diary(self.settings["diary"])
        self.next: dict[int, int] = {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": self.settings["bootstrap"],
                "group.id": self.settings["group"],
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "on_commit": self.committed,
                **self.settings["options"],
            }
        )

    def commit(self, *, wait: bool) -> None:
        """Commit how far every partition of ours was read."""
        offsets = [TopicPartition(self.topic, partition, offset) for partition, offset in self.next.items()]
        try:
            found = self.consumer.commit(offsets=offsets, asynchronous=not wait) if offsets else None
        except KafkaException as error:
            self.diary.say("trouble", [repr(error)])
        else:
            self.committed(None, found or [])

    def committed(self, error: Any, partitions: list[TopicPartition]) -> None:
        """Note what could not be committed; a commit that is waited for raises no error of a single partition."""
        if failed := [str(tp.error) for tp in partitions if tp.error] or [str(error)] * (error is not None):
            self.diary.say("trouble", failed[:1])

    def assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.diary.say("assigned", sorted(tp.partition for tp in partitions))

    def revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.commit(wait=True)
        for tp in partitions:
            self.next.pop(tp.partition, None)
        self.diary.say("revoked", sorted(tp.partition for tp in partitions))

    def lost(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            self.next.pop(tp.partition, None)
        self.diary.say("lost", sorted(tp.partition for tp in partitions))

    def run(self) -> None:
        """Read until told to leave."""
        self.consumer.subscribe([self.topic], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost)
        self.diary.say("started")
        read = 0
        while "leave" not in orders():
            message = self.consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                self.diary.say("trouble", [repr(message.error())])
                continue
            self.diary.say("records", [message.partition(), message.offset()])
            self.next[message.partition()] = message.offset() + 1
            read += 1
            if read % 20 == 0:
                self.commit(wait=False)
        self.diary.say("leaving")
        self.consumer.close()
        self.diary.say("left")


if __name__ == "__main__":
    Member().run()
