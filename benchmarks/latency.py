"""Latency of single records, from the producer's call to the reader's loop: ``python benchmarks/latency.py``.

Records are written one at a time with a pause after each, so every Fetch response holds one record. Each reader runs in
a fresh process, in turns. A value is the time of the producer's call: writer and reader share the machine's clock. CPU
is the reader's process, all its threads, from before the first record to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median, quantiles
from typing import Any

from clusters import broker, environment, unique


class Probe:
    """Collects the latency of each record in the reader's process."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.latencies: list[int] = []
        self.cpu = 0.0

    def ready(self) -> None:
        """Tell the parent that the reader waits for records."""
        self.cpu = time.process_time()
        print("ready", flush=True)

    def took(self, value: bytes) -> bool:
        """Note a record; return whether it was the last one."""
        self.latencies.append(time.time_ns() - int(value))
        if len(self.latencies) < self.count:
            return False
        self.cpu = time.process_time() - self.cpu
        return True

    def report(self) -> None:
        """Print p50 and p99 in milliseconds, and CPU time per record in microseconds."""
        print(median(self.latencies) / 1e6, quantiles(self.latencies, n=100)[98] / 1e6, self.cpu / self.count * 1e6)


def poll_until_done(poll: Callable[[], Mapping[Any, Sequence[Any]]], probe: Probe) -> None:
    """Pass the records of each poll to the probe, until it has them all."""
    while True:
        for records in poll().values():
            for record in records:
                if probe.took(record.value):
                    return


def thinconsumer(bootstrap: str, topic: str, probe: Probe) -> None:
    from thinconsumer import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.poll(timeout_ms=2000)
        probe.ready()
        poll_until_done(lambda: consumer.poll(timeout_ms=1000), probe)


def kafka_python(bootstrap: str, topic: str, probe: Probe) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.poll(timeout_ms=2000)
    probe.ready()
    poll_until_done(lambda: consumer.poll(timeout_ms=1000), probe)


def confluent(bootstrap: str, topic: str, probe: Probe) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(2)
    probe.ready()
    while True:
        message = consumer.poll(1)
        if message is not None and not message.error() and probe.took(message.value()):
            return


def aiokafka(bootstrap: str, topic: str, probe: Probe) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> None:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.getmany(timeout_ms=2000)
            probe.ready()
            while True:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    for record in records:
                        if probe.took(record.value):
                            return

    asyncio.run(read())


READERS = {each.__name__: each for each in (thinconsumer, kafka_python, confluent, aiokafka)}


def measure(bootstrap: str, topic: str, reader: str, count: int, pause: float) -> list[float]:
    """Start the reader, write ``count`` records, and return the figures of :meth:`Probe.report`."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    command = [sys.executable, __file__, "--read", reader, bootstrap, topic, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", f"{reader} failed"
        for _ in range(count):
            producer.produce(topic, str(time.time_ns()).encode(), partition=0)
            producer.flush()
            time.sleep(pause)
        return [float(figure) for figure in process.stdout.read().split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--records", type=int, default=2000, help="per reader and round")
    parser.add_argument("--pause", type=float, default=0.005, help="seconds after each record")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        reader, bootstrap, topic, count = arguments.read
        probe = Probe(int(count))
        READERS[reader](bootstrap, topic, probe)
        probe.report()
        return
    found: dict[str, list[list[float]]] = {reader: [] for reader in READERS}
    with broker(arguments.bootstrap) as cluster:
        for _ in range(arguments.rounds):
            for reader, rounds in found.items():
                topic = cluster.create_topic(unique(f"latency-{reader}-{len(rounds)}"), 1, 1)
                rounds.append(measure(cluster.bootstrap, topic, reader, arguments.records, arguments.pause))
                cluster.delete_topic(topic)
    print(f"{'median of rounds':20}{'p50 ms':>10}{'p99 ms':>10}{'CPU us':>10}  (CPU per record)")
    for reader, rounds in found.items():
        print(f"{reader:20}" + "".join(f"{median(figures):10.2f}" for figures in zip(*rounds)))


if __name__ == "__main__":
    main()
