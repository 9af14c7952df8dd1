"""Read a topic from its beginning to its current end, and print the progress.

    python examples/read_topic.py BOOTSTRAP_SERVERS TOPIC    a topic of your own
    python examples/read_topic.py                            an own broker from Kafka's jars, some orders

Without arguments it needs Java and, for the first run, Maven, and uses this checkout's tests to start the broker.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from thinconsumer import Consumer, TopicPartition

ORDERS = 30_000
PRODUCTS = ("espresso", "flat white", "cortado", "filter", "oat milk", "croissant")


def read(bootstrap: str, topic: str) -> int:
    """Read all records up to the current end, print progress once a second, and return their number."""
    count, size, started = 0, 0, time.monotonic()
    report_at = started
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        numbers = consumer.partitions_for_topic(topic)
        if not numbers:
            sys.exit(f"{bootstrap} has no topic {topic!r}")
        partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        print(f"{topic}: {len(partitions)} partitions, ends {[ends[tp] for tp in partitions]}")
        record = None
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            for records in consumer.poll(timeout_ms=1000, max_records=500).values():
                for record in records:
                    count += 1
                    size += len(record.value or b"")
            if record is not None and time.monotonic() >= report_at:
                behind = sum(lag or 0 for lag in consumer.lag().values())
                print(
                    f"{count:>9,} records, {behind:,} behind; {record.partition}@{record.offset}: {record.value!r:.90}"
                )
                report_at += 1
    seconds = time.monotonic() - started
    print(f"{count:,} records, {size / 1e6:.1f} MB of values, in {seconds:.1f} s, connecting included")
    return count


def write_orders(bootstrap: str, topic: str) -> None:
    """Write random orders of a café with kafka-python."""
    from kafka import KafkaProducer

    chance = random.Random(1)
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="lz4", linger_ms=20)
    for number in range(ORDERS):
        order = {
            "order": number,
            "till": f"till-{chance.randrange(12)}",
            "items": chance.choices(PRODUCTS, k=chance.randint(1, 4)),
            "paid": round(chance.uniform(2, 30), 2),
        }
        producer.send(topic, json.dumps(order).encode(), order["till"].encode(), headers=[("source", b"example")])
    producer.close()


def main() -> None:
    """Read the given topic, or a new one on a broker of its own."""
    if len(sys.argv) == 3:
        read(sys.argv[1], sys.argv[2])
        return
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "real"))
    from realkafka import CURRENT, new_cluster

    print(f"starting a broker of Kafka {CURRENT} (the first time its jars are downloaded, 54 MB)")
    with new_cluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        print(f"writing {ORDERS:,} orders with kafka-python to {cluster.bootstrap}")
        write_orders(cluster.bootstrap, "orders")
        assert read(cluster.bootstrap, "orders") == ORDERS


if __name__ == "__main__":
    main()
