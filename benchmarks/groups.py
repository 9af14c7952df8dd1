"""What being a member costs, beside other clients: ``python benchmarks/groups.py``.

Each client in a fresh process, in turns: how long it takes to join a group of one, to share with a second member, and
to leave; how long a commit takes that is waited for; and processor time of a member that polls and gets nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from clusters import broker, child, unique

PARTITIONS = 6
HEARTBEAT_MS, SESSION_MS = 500, 10_000
CLIENTS = ("thinconsumer", "kafka-python", "confluent-kafka")


class Thin:
    """thinconsumer."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        from thinconsumer import Consumer, TopicPartition

        self.tp, self.owned = TopicPartition(topic, 0), 0
        self._consumer: Any = Consumer(topic, bootstrap_servers=bootstrap, **_options(group))

    def poll(self, seconds: float) -> None:
        self._consumer.poll(1000 * seconds)
        self.owned = len(self._consumer.assignment())

    def commit(self, offset: int) -> None:
        self._consumer.commit({min(self._consumer.assignment()): offset})

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(Thin):
    """kafka-python, which joins and heartbeats in a thread."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self.tp, self.owned = TopicPartition(topic, 0), 0
        self._consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, **_options(group))

    def commit(self, offset: int) -> None:
        from kafka import OffsetAndMetadata

        self._consumer.commit({self.tp: OffsetAndMetadata(offset, "", -1)})


class Confluent(Thin):
    """confluent-kafka, with librdkafka's threads."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        from confluent_kafka import Consumer

        self._topic, self.owned = topic, 0
        options = {name.replace("_", "."): value for name, value in _options(group).items()}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **options})
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._assigned)

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        self.owned = 0

    def poll(self, seconds: float) -> None:
        self._consumer.poll(seconds)
        self.owned = len(self._consumer.assignment())

    def commit(self, offset: int) -> None:
        from confluent_kafka import TopicPartition

        self._consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)


KINDS: dict[str, Callable[[str, str, str], Thin]] = dict(zip(CLIENTS, (Thin, KafkaPython, Confluent)))


def _options(group: str) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
    }


def until(members: list[Thin], done: Callable[[], bool]) -> float:
    """Poll all in turn until it is so; return how long that took."""
    began = time.perf_counter()
    while not done():
        for member in members:
            member.poll(0.02)  # kafka-python does not get anywhere in polls of 5 ms
        if time.perf_counter() - began > 60:
            raise TimeoutError(f"they own {[member.owned for member in members]}")
    return time.perf_counter() - began


def measure(client: str, bootstrap: str, topic: str, times: int, seconds: float) -> dict[str, float]:
    """Return one client's figures, in milliseconds; run in a process of its own."""
    joins, shares, leaves, commits = [], [], [], []
    for number in range(times):
        group = f"{topic}-{client}-{number}"
        began = time.perf_counter()
        first = KINDS[client](bootstrap, group, topic)
        until([first], lambda: first.owned == PARTITIONS)  # noqa: B023 - called before the loop goes on
        joins.append(time.perf_counter() - began)
        began = time.perf_counter()
        second = KINDS[client](bootstrap, group, topic)
        until([first, second], lambda: first.owned == second.owned == PARTITIONS // 2)  # noqa: B023
        shares.append(time.perf_counter() - began)
        for offset in range(100 // times):
            began = time.perf_counter()
            first.commit(offset)
            commits.append(time.perf_counter() - began)
        second.close()
        began = time.perf_counter()
        first.close()
        leaves.append(time.perf_counter() - began)
    idle = KINDS[client](bootstrap, f"{topic}-{client}-idle", topic)
    until([idle], lambda: idle.owned == PARTITIONS)
    cpu, began = time.process_time(), time.perf_counter()
    while time.perf_counter() - began < seconds:
        idle.poll(1)
    share = (time.process_time() - cpu) / (time.perf_counter() - began)
    idle.close()
    figures = {"join": joins, "share": shares, "leave": leaves, "commit": commits}
    found = {name: 1000 * median(values) for name, values in figures.items()}
    return {**found, "commit p99": 1000 * sorted(commits)[len(commits) * 99 // 100], "idle, % of a core": 100 * share}


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=5, help="groups per client and round")
    parser.add_argument("--seconds", type=float, default=10, help="of idle polling")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.child is not None:
        print(json.dumps(measure(*told.child, told.times, told.seconds)))
        return 0
    rows: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
    with broker(told.bootstrap) as cluster:
        topic = cluster.create_topic(unique("groups"), PARTITIONS, 1)
        warm = Thin(cluster.bootstrap, topic, topic)  # the first group of all makes the topic for offsets
        until([warm], lambda: warm.owned == PARTITIONS)
        warm.close()
        for _ in range(told.rounds):
            for client in CLIENTS:
                more = ["--times", told.times, "--seconds", told.seconds]
                try:
                    rows[client].append(child(__file__, *more, "--child", client, cluster.bootstrap, topic))
                except RuntimeError as error:
                    print(f"{client} failed: {str(error).splitlines()[-1:]}")
        cluster.delete_topic(topic)
    names = list(rows[CLIENTS[0]][0])
    print(f"| median of {told.rounds} rounds, ms | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
    for client, found in rows.items():
        if found:
            print(f"| {client} | {' | '.join(f'{median(each[name] for each in found):.2f}' for name in names)} |")
    return 0 if all(rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
