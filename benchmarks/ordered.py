"""The cost of ordered delivery on a topic whose partition count never changed: ``python benchmarks/ordered.py``.

The same records are read from a topic with ``enable.ordered.delivery`` and from one without, on an embedded broker in a
process of its own: in pairs, each reader in a fresh process, and the order of a pair turned round each time. The figure
is the median of the pairs' ratios. CPU is the reader's process from its first poll on, without imports and connecting.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from statistics import median

from clusters import child

TOPICS = {"plain": "false", "ordered": "true"}
PARTITIONS = 6
IDLE_POLLS = 5_000


def main() -> int:
    """Print the figures of all pairs, or be the reader of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--read", nargs=2, metavar=("SERVERS", "TOPIC"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        print(json.dumps(read(*arguments.read, arguments.records)))
        return 0
    from thinconsumer_testing.broker.process import BrokerProcess

    with BrokerProcess() as broker:
        for topic, enabled in TOPICS.items():
            broker.create_topic(topic, PARTITIONS, 1, {"enable.ordered.delivery": enabled})
            fill(broker.bootstrap_servers, topic, arguments.records)
        pairs = [pair(broker.bootstrap_servers, number, arguments.records) for number in range(arguments.pairs)]
    report(pairs[1:] or pairs)  # the first pair warms up
    return 0


def pair(servers: str, number: int, records: int) -> dict[str, dict[str, float]]:
    """Read both topics, each in a fresh process."""
    found = {}
    for topic in list(TOPICS)[:: -1 if number % 2 else 1]:
        found[topic] = child(__file__, "--records", records, "--read", servers, topic)
    return found


def fill(servers: str, topic: str, records: int) -> None:
    """Write records of 100 bytes with keys."""
    from thinconsumer.produce import Producer, ProducerSettings
    from thinconsumer.sockets.secured import open_driver

    settings = ProducerSettings.from_options(bootstrap_servers=servers, batch_size=16_384)
    with Producer(settings, driver=open_driver(settings)) as producer:
        for number in range(records):
            producer.send(topic, b"%0100d" % number, key=b"%d" % (number % 1000))
            if number % 5000 == 0:
                producer.poll(0)
        producer.flush()


def read(servers: str, topic: str, records: int) -> dict[str, float]:
    """Read all records, and poll an idle topic after that; return CPU seconds, or microseconds of one idle poll."""
    from thinconsumer import Consumer, TopicPartition

    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        left = records - sum(map(len, consumer.poll(10_000, max_records=1).values()))
        began = time.process_time()
        while left > 0:
            left -= sum(map(len, consumer.poll(10_000, max_records=500).values()))
        reading, began = time.process_time() - began, time.process_time()
        for _ in range(IDLE_POLLS):
            consumer.poll(0)
        return {"reading": reading, "idle poll": (time.process_time() - began) / IDLE_POLLS * 1e6}


def report(pairs: list[dict[str, dict[str, float]]]) -> None:
    """Print medians of both topics, and of the pairs' ratios."""
    for what, unit in (("reading", "s"), ("idle poll", "us")):
        ratios = sorted(one["ordered"][what] / one["plain"][what] for one in pairs)
        plain, ordered = (median(one[topic][what] for one in pairs) for topic in TOPICS)
        print(
            f"{what}: CPU {plain:.3f} {unit} without, {ordered:.3f} {unit} with enable.ordered.delivery; "
            f"ratio in pairs: median {median(ratios):.3f}, {ratios[0]:.3f} to {ratios[-1]:.3f} ({len(ratios)} pairs)"
        )


if __name__ == "__main__":
    sys.exit(main())
