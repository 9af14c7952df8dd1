"""Latency of single records, from the producer's call to the reader's loop: ``python benchmarks/latency.py``.

Records are written one at a time with a pause after each, so every Fetch response holds one record. Each reader runs in
a fresh process, in turns, and each round begins with another one. Before the first round, the floor reads some thousand
records: a broker that has just started takes up to twice as long, so that the first reader would seem slow. A value is
the time of the producer's call: writer and reader share the machine's clock. CPU is the reader's process, all its
threads, from before the first record to the last. For thinconsumer, the engine's steps for each record are counted,
too: one step handles the response and sends the next Fetch. The floor is a plain socket (``floor.py``): the time of the
producer, the broker and the system, of which no reader can take anything away.

A second table shows polls that return 500 of 5,000 buffered records, which is what a poll costs besides decoding.
``--tree OLD`` measures the thinconsumer of another checkout in the same rounds, to compare two versions.
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

from clusters import broker, environment, rotated, unique
from readers import open_confluent, open_kafka_python, open_thinconsumer
from topics import constant, send

#: Records of one batch in the second table, and records that one poll returns.
BATCH, POLL = 5000, 500
#: Records that are written and read before the first round, by when the broker's code is compiled.
WARM_UP = 5000
#: Bytes of a value in the first table: nanoseconds since the epoch in decimal digits.
VALUE_BYTES = 19


class Probe:
    """Collects the latency of each record in the reader's process."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.latencies: list[int] = []
        self.cpu = 0.0
        self.steps = lambda: 0  #: Returns the number of engine steps so far.
        self._steps = 0

    def ready(self) -> None:
        """Tell the parent that the reader waits for records."""
        self.cpu = time.process_time()
        self._steps = self.steps()
        print("ready", flush=True)

    def took(self, value: bytes) -> bool:
        """Note a record; return whether it was the last one."""
        self.latencies.append(time.time_ns() - int(value))
        if len(self.latencies) < self.count:
            return False
        self.cpu = time.process_time() - self.cpu
        return True

    def figures(self) -> tuple[float, float, float, float]:
        """Return p50 and p99 in milliseconds, CPU time per record in microseconds, and engine steps per record."""
        p50, p99 = median(self.latencies) / 1e6, quantiles(self.latencies, n=100)[98] / 1e6
        return p50, p99, self.cpu / self.count * 1e6, (self.steps() - self._steps) / self.count


def poll_until_done(poll: Callable[[], Mapping[Any, Sequence[Any]]], probe: Probe) -> None:
    """Pass the records of each poll to the probe, until it has them all."""
    while True:
        for records in poll().values():
            for record in records:
                if probe.took(record.value):
                    return


def thinconsumer(bootstrap: str, topic: str, probe: Probe) -> None:
    with open_thinconsumer(bootstrap, [(topic, 0)]) as consumer:
        consumer.poll(timeout_ms=2000)
        probe.steps = lambda: consumer._shell.engine.steps
        probe.ready()
        poll_until_done(lambda: consumer.poll(timeout_ms=1000), probe)


def buffered(bootstrap: str, topic: str, batches: int) -> None:
    """Print the median and the 90th percentile of the time of a poll that returns records decoded before, in us."""
    from thinconsumer import Consumer, TopicPartition

    took = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=POLL) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(took) < batches * (BATCH // POLL - 1):
            began = time.perf_counter()
            records = consumer.poll(timeout_ms=1000).get(TopicPartition(topic, 0), [])
            if records and records[0].offset % BATCH:  # else this poll has decoded the batch
                took.append((time.perf_counter() - began) * 1e6)
    print(median(took), quantiles(took, n=10)[8])


def kafka_python(bootstrap: str, topic: str, probe: Probe) -> None:
    consumer = open_kafka_python(bootstrap, [(topic, 0)])
    consumer.poll(timeout_ms=2000)
    probe.ready()
    poll_until_done(lambda: consumer.poll(timeout_ms=1000), probe)


def confluent(bootstrap: str, topic: str, probe: Probe) -> None:
    consumer = open_confluent(bootstrap, [(topic, 0)])
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


def floor(bootstrap: str, topic: str, probe: Probe) -> None:
    """Read with a socket that waits for each response, and a request made by hand. The rest of a reader's time is its
    own.
    """
    from floor import Floor

    reader = Floor(bootstrap, topic, 1)
    reader.send()
    probe.ready()
    while True:
        batches = list(reader.batches(reader.receive()))
        reader.send()
        for batch in batches:
            # The batch has one record without headers: its last byte is the number of headers.
            if probe.took(bytes(batch[-1 - VALUE_BYTES : -1])):
                return


READERS = {each.__name__: each for each in (thinconsumer, kafka_python, confluent, aiokafka, floor)}
OTHER = "other tree"


def start(tree: str | None, *arguments: str) -> subprocess.Popen[str]:
    """Start this file in a fresh process; with ``tree``, it imports the thinconsumer of that checkout."""
    command = [sys.executable, __file__, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(tree))


def measure(bootstrap: str, topic: str, reader: str, count: int, pause: float, tree: str | None = None) -> list[float]:
    """Start the reader, write ``count`` records, and return the figures of :meth:`Probe.figures`."""
    with start(tree, "--read", reader, bootstrap, topic, str(count)) as process:
        write_one_at_a_time(bootstrap, topic, process, count, pause)
        return [float(figure) for figure in process.communicate()[0].split()]


def write_one_at_a_time(bootstrap: str, topic: str, reader: subprocess.Popen[str], count: int, pause: float) -> None:
    """Write the time as a record, ``count`` times, once the reader has said that it waits; pause after each."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n", "the reader failed"
    for _ in range(count):
        producer.produce(topic, str(time.time_ns()).encode(), partition=0)
        producer.flush()
        time.sleep(pause)


def fill(bootstrap: str, topic: str, batches: int) -> None:
    """Write batches of ``BATCH`` records of 100 bytes."""
    settings = {"linger.ms": 1000, "batch.size": 2**20, "batch.num.messages": BATCH}
    send(bootstrap, topic, 1, constant(BATCH * batches), settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--records", type=int, default=800, help="per reader and round")
    parser.add_argument("--pause", type=float, default=0.005, help="seconds after each record")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--readers", type=lambda text: text.split(","), default=list(READERS))
    parser.add_argument("--tree", help="a checkout whose thinconsumer is measured, too")
    parser.add_argument("--batches", type=int, default=100, help="in the second table; 0 for none")
    parser.add_argument("--read", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--buffered", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.buffered:
        bootstrap, topic, batches = arguments.buffered
        buffered(bootstrap, topic, int(batches))
        return
    if arguments.read:
        reader, bootstrap, topic, count = arguments.read
        probe = Probe(int(count))
        READERS[reader](bootstrap, topic, probe)
        print(*probe.figures())
        return
    names = [*arguments.readers, *([OTHER] if arguments.tree else [])]
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    polls: dict[str, list[list[float]]] = {name: [] for name in ("thinconsumer", OTHER) if name in names}
    with broker(arguments.bootstrap) as cluster:
        full = cluster.create_topic(unique("latency-full"), 1, 1)
        fill(cluster.bootstrap, full, arguments.batches)
        warm = cluster.create_topic(unique("latency-warm-up"), 1, 1)
        measure(cluster.bootstrap, warm, floor.__name__, WARM_UP, 0.0)
        cluster.delete_topic(warm)
        for turn in range(arguments.rounds):
            for name in rotated(names, turn):
                rounds = found[name]
                reader, tree = ("thinconsumer", arguments.tree) if name == OTHER else (name, None)
                topic = cluster.create_topic(unique(f"latency-{reader}-{len(rounds)}"), 1, 1)
                rounds.append(measure(cluster.bootstrap, topic, reader, arguments.records, arguments.pause, tree))
                cluster.delete_topic(topic)
            for name in rotated([*polls], turn) if arguments.batches else ():
                rounds = polls[name]
                tree = arguments.tree if name == OTHER else None
                with start(tree, "--buffered", cluster.bootstrap, full, str(arguments.batches)) as process:
                    rounds.append([float(figure) for figure in process.communicate()[0].split()])
        cluster.delete_topic(full)
    print(f"{'median of rounds':20}{'p50 ms':>10}{'p99 ms':>10}{'CPU us':>10}{'steps':>10}  (CPU and steps per record)")
    for name, rounds in found.items():
        print(f"{name:20}" + "".join(f"{median(figures):10.2f}" for figures in zip(*rounds)))
    print(f"\n{f'poll of {POLL} buffered':20}{'p50 us':>10}{'p90 us':>10}")
    for name, rounds in polls.items():
        print(f"{name:20}" + "".join(f"{median(figures):10.1f}" for figures in zip(*rounds)))


if __name__ == "__main__":
    main()
