"""What many members of one consumer group (KIP-848) cost the embedded broker: ``python benchmarks/group_members.py``.

The members and a broker share this process and a clock that jumps, so that only work takes time: the processor time
until all have joined and own their partitions, that of a minute in which nothing happens, and of a crash of one member.
Each member sends its heartbeats as bytes, over a connection of its own; what it costs to encode and decode them counts.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import resource
import time
from collections.abc import Callable
from typing import Any

from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from thinconsumer.wire.header import decode_response_header, encode_request
from thinconsumer_testing.broker.cluster import Cluster
from thinconsumer_testing.broker.config import BrokerConfig

VERSION = 1


class Member:
    """A member that does what the protocol asks of it, and revokes at once."""

    client_host = "/127.0.0.1"

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.name = f"member-{number}"
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self.said: list[TopicPartitions] | None = None
        self.answer: Any = None
        self.heartbeats = 0
        self._received = bytearray()
        self._connection = cluster.connect(1, self)

    def write(self, data: bytes) -> None:
        self._received += data

    def close(self) -> None:
        raise AssertionError("the broker has closed the connection")

    reset = close

    def beat(self) -> float:
        """Send a heartbeat and read its response; return the seconds until the next one."""
        joins = self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=self.name, member_epoch=self.epoch)
        if joins:
            request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = 60_000, ["t"], []
        elif self.said != self.owned:
            request.topic_partitions = self.said = self.owned
        data = encode_request(request, VERSION, self.heartbeats, "benchmark")
        self.heartbeats += 1
        self._connection.data_received(len(data).to_bytes(4, "big") + data)
        frame = bytes(self._received[4:])
        self._received.clear()
        _, start = decode_response_header(frame, ConsumerGroupHeartbeatRequest, VERSION)
        answer = ConsumerGroupHeartbeatRequest.RESPONSE.decode(frame, VERSION, start)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions
            return 0.0  # what has changed is acknowledged at once
        return float(answer.heartbeat_interval_ms) / 1000


class Run:
    """A cluster with one group; its clock jumps from one heartbeat to the next."""

    def __init__(self, partitions: int, assignor: str) -> None:
        config = BrokerConfig(group_consumer_heartbeat_interval_ms=5_000, group_consumer_assignors=assignor)
        self.cluster = Cluster(1, {"t": partitions}, random=random.Random(1), config=config)
        self.cluster.controller.ensure_internal_topic("__consumer_offsets")
        self._due: list[tuple[float, int, Member]] = []
        self._order = itertools.count()

    def add(self, member: Member, at: float) -> None:
        heapq.heappush(self._due, (at, next(self._order), member))

    def remove(self, member: Member) -> None:
        self._due = [row for row in self._due if row[2] is not member]
        heapq.heapify(self._due)

    def run(self, until: Callable[[], bool]) -> None:
        while not until():
            at, _, member = heapq.heappop(self._due)
            self.cluster.advance(max(at, self.cluster.schedule.now))
            self.add(member, self.cluster.schedule.now + member.beat())

    @property
    def group(self) -> Any:
        shards = self.cluster.nodes[1].group_coordinator.shards.values()
        return next(shard.latest.groups["g"] for shard in shards if "g" in shard.latest.groups)


def measure(title: str, work: Callable[[], object]) -> None:
    """Print how much processor time a piece of work takes, and the memory of this process after it."""
    began = time.process_time()
    work()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{title:55} {time.process_time() - began:7.2f} s of CPU, {memory:6.0f} MiB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--assignor", default="uniform", choices=("uniform", "range"))
    options = parser.parse_args()
    run = Run(options.partitions, options.assignor)
    members = [Member(run.cluster, number) for number in range(options.members)]
    measure("before any member", lambda: None)
    for number, member in enumerate(members):
        run.add(member, number * 0.01)

    def is_settled() -> bool:
        return all(member.epoch for member in members) and run.group.state.value == "Stable"

    def count() -> int:
        return sum(member.heartbeats for member in members)

    # The state of the group is looked at once a second only: it takes a look at each member.
    def settle() -> None:
        while not is_settled():
            run_for(1.0)

    def run_for(seconds: float) -> None:
        end = run.cluster.schedule.now + seconds
        run.run(lambda: run.cluster.schedule.now >= end)

    measure(f"{options.members} members join within {options.members * 0.01:.0f} s, and settle", settle)
    print(f"  after {run.cluster.schedule.now:.1f} s of the clock, epoch {run.group.epoch}, {count()} heartbeats")
    before = count()
    measure("a minute in which nothing happens", lambda: run_for(60.0))
    print(f"  {count() - before} heartbeats")
    run.remove(members.pop())
    began = run.cluster.schedule.now
    measure("one member is dead: its session ends", lambda: run.run(lambda: len(run.group.members) == len(members)))
    measure("its partitions move, and the group settles", settle)
    print(f"  {run.cluster.schedule.now - began:.1f} s of the clock after its last heartbeat at most")


if __name__ == "__main__":
    main()
