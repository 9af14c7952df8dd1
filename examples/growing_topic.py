"""Add partitions to a topic of real Kafka twice, while a producer writes and a consumer reads: keys stay in order.

::

    python examples/growing_topic.py localhost:9092

The producer is confluent-kafka with linear hashing. The consumer has a barrier, with the grace time that the producer's
options need. Exit code 0: no record of a key was read after a later one of the same key.
"""

import argparse
import itertools
import threading
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from thinconsumer import Consumer
from thinconsumer.partitioning import ConfluentPartitioner

INITIAL, LATER = 2, (3, 6)
KEYS = [f"customer-{number}" for number in range(30)]

#: How long a partition count is used, how long a record may wait, and how long a request may take: the grace time is
#: their sum. These are short, for the example; with the defaults it would be eleven minutes.
MAX_AGE_S, DELIVERY_MS, REQUEST_MS = 1.0, 2000, 1000
GRACE_MS = int(MAX_AGE_S * 1000) + DELIVERY_MS + REQUEST_MS


class Writer(threading.Thread):
    """Writes records of all keys, each with a number that counts up, until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__()
        options = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "message.timeout.ms": DELIVERY_MS,
            "socket.timeout.ms": REQUEST_MS,
        }
        self.producer = Producer(options)
        self.choose = ConfluentPartitioner(self.producer, {topic: INITIAL}, max_age_s=MAX_AGE_S)
        self.topic = topic
        self.stopping = threading.Event()
        self.written = 0
        self.failed = 0

    def run(self) -> None:
        """Write until ``stopping`` is set."""
        for number in itertools.count():
            for key in KEYS:
                place = self.choose(self.topic, key)
                self.producer.produce(self.topic, str(number), key, partition=place, on_delivery=self.delivered)
            self.producer.poll(0)
            if self.stopping.wait(0.02):
                break
        self.producer.flush()

    def delivered(self, error: object, message: object) -> None:
        """Count a record that was written or has failed."""
        self.written += error is None
        self.failed += error is not None


class Reader:
    """Reads the topic in a group, more slowly than it is written at first, and compares the numbers of each key."""

    def __init__(self, servers: str, topic: str) -> None:
        self.consumer = Consumer(
            topic,
            bootstrap_servers=servers,
            group_id=topic,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
            metadata_max_age_ms=1000,
            ordered_delivery="barrier",
            ordered_delivery_grace_ms=GRACE_MS,
        )
        self.last: dict[bytes, int] = {}
        self.read = self.wrong = 0

    def poll(self, seconds: float, *, slowly: bool = False) -> None:
        """Read for this long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for records in self.consumer.poll(100, max_records=50 if slowly else 1000).values():
                for record in records:
                    number, key = int(record.value), bytes(record.key)
                    self.wrong += number <= self.last.get(key, -1)
                    self.last[key] = number
                    self.read += 1
            if slowly:
                time.sleep(0.05)


def main() -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", metavar="HOST:PORT")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long to write with each partition count")
    options = parser.parse_args()
    admin = AdminClient({"bootstrap.servers": options.servers})
    topic = f"growing-{time.time_ns()}"
    admin.create_topics([NewTopic(topic, INITIAL)])[topic].result()
    writer, reader = Writer(options.servers, topic), Reader(options.servers, topic)
    print(f"{topic}: {INITIAL} partitions; the grace time is {GRACE_MS / 1000} s")
    writer.start()
    try:
        for count in (*LATER, None):
            reader.poll(options.seconds, slowly=True)
            if count is not None:
                admin.create_partitions([NewPartitions(topic, count)])[topic].result()
                print(f"{count} partitions: {writer.written} records written, {reader.read} read")
    finally:
        writer.stopping.set()
        writer.join()
    deadline = time.monotonic() + 60
    while reader.read < writer.written and time.monotonic() < deadline:
        reader.poll(1)
    reader.consumer.close()
    admin.delete_topics([topic])[topic].result()
    print(f"{writer.written} written ({writer.failed} failed), {reader.read} read, {reader.wrong} out of order")
    return int(reader.wrong > 0 or reader.read < writer.written)


if __name__ == "__main__":
    raise SystemExit(main())
