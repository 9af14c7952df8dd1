"""Real Kafka, as the fixtures of ``realkafka`` start it."""

import time
from collections.abc import Mapping
from typing import Any

from realkafka import Administration, KafkaCluster

from thinconsumer.records.builder import NewRecord

from .base import SocketWorld


class RealWorld(SocketWorld):
    """A running cluster; what it may be told to do depends on whether it is ours."""

    #: A cleaner that is not asked twice, and segments small enough to be left behind at once.
    COMPACTED: Mapping[str, str] = {
        "cleanup.policy": "compact", "segment.bytes": "1048576", "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "100",
    }  # fmt: skip

    def __init__(self, cluster: Administration) -> None:
        self.cluster = cluster
        super().__init__()

    @property
    def bootstrap_servers(self) -> Any:
        return self.cluster.bootstrap

    def compact(self, topic: str) -> None:
        """Wait until the cleaner has been there: an old value of some key is gone."""
        keys = [b"k0", b"k1", b"k2"]

        def cleaned() -> Any:
            time.sleep(0.2)
            self.write(topic, [NewRecord(b"roll", b"roll")])  # what is in the active segment is never cleaned
            with self.consumer(auto_offset_reset="earliest") as consumer:
                from thinconsumer import TopicPartition

                consumer.assign([TopicPartition(topic, 0)])
                found = [record.key for record in consumer.read_to_end(timeout_ms=10_000)]
            return True if sum(found.count(key) for key in keys) < 190 else None

        self.asker.until(cleaned, "the log cleaner")

    def move_leader(self, topic: str, partition: int = 0) -> None:
        """Reassign the replicas in another order and elect the first: what brings a leader to another broker."""
        leader, replicas, _, _ = self.asker.partition(topic, partition)
        order = [*(node for node in replicas if node != leader), leader]
        self._own.elect(topic, partition, order)

        def moved() -> Any:
            return True if self.asker.partition(topic, partition)[0] == order[0] else None

        self.asker.until(moved, f"{order[0]} to lead")

    def kill(self, node: int) -> None:
        self._own.kill(node)

    def start(self, node: int) -> None:
        # Waiting for it would keep members in this thread from polling for longer than their session timeout.
        self._own.restart(node, wait=False)

    @property
    def _own(self) -> KafkaCluster:
        assert isinstance(self.cluster, KafkaCluster)
        return self.cluster
