"""Choose partitions by linear hashing in producers of other clients, so that keys stay in order while a topic grows.

With the default partitioner of Java's producer and kafka-python, ``(murmur2(key) & 0x7FFFFFFF) % n``, an added
partition moves keys between all partitions. With linear hashing each key stays where it is or moves to a new partition,
as KIP-253 asks for. A consumer with ``ordered_delivery="barrier"`` then returns the records of one producer and key in
order (docs/ordered-delivery.md).

::

    from kafka import KafkaProducer
    from thinconsumer.partitioning import kafka_python_partitioner

    producer = KafkaProducer(partitioner=kafka_python_partitioner({"orders": 6}), metadata_max_age_ms=60_000)
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from .errors import IllegalArgumentError
from .linear_hashing import partition_of

__all__ = ["ConfluentPartitioner", "kafka_python_partitioner", "partition"]

#: Seconds for which metadata must report a lower partition count than before until the lower count is used. A broker
#: with outdated metadata reports one only for a moment. If a topic was deleted and created again with fewer partitions,
#: all brokers go on reporting the lower count.
LOWER_COUNT_AFTER_S = 60.0

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C


def partition(key: bytes, initial: int, count: int) -> int:
    """Return the partition of a key by linear hashing (KIP-253) of the hash that Java's default partitioner uses.

    Args:
        key: The serialized key. It may be empty.
        initial: The partition count with which linear hashing began. All producers of a topic need the same number, for
            ever. For a topic whose keys were placed by Java's default partitioner so far, it is the n of
            ``(murmur2(key) & 0x7FFFFFFF) % n``: no key moves as long as ``count`` is n.
        count: The present partition count.

    Raises:
        IllegalArgumentError: ``initial`` is less than 1, or more than ``count``.
    """
    if not 1 <= initial <= count:
        raise IllegalArgumentError(f"initial={initial} must be between 1 and the partition count, which is {count}")
    return partition_of(murmur2(key) & 0x7FFFFFFF, initial, count)


def murmur2(data: bytes) -> int:
    """Return Java's murmur2 of ``data`` as an unsigned number of 32 bits."""
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for place in range(0, whole, 4):
        k = int.from_bytes(data[place : place + 4], "little") * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    if size > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


class PartitionCountHistory:
    """The partition count of each topic, without steps back to a broker's older metadata.

    A producer that used a lower count again would write a key's later records to its earlier partition.
    """

    def __init__(self, initial: Mapping[str, int] | int, clock: Callable[[], float]) -> None:
        self._initial = initial
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._lower_since: dict[str, float] = {}

    def partition(self, topic: str, key: bytes, count: int) -> int:
        """Return the partition of a key; ``count`` is the topic's partition count in metadata now."""
        used = self._used(topic, count)
        initial = self._initial if isinstance(self._initial, int) else self._initial.get(topic, used)
        return partition(key, initial, used)

    def _used(self, topic: str, count: int) -> int:
        known = self._counts.get(topic, 0)
        if count >= known:
            self._lower_since.pop(topic, None)
        elif self._clock() < self._lower_since.setdefault(topic, self._clock()) + LOWER_COUNT_AFTER_S:
            return known
        self._counts[topic] = count
        return count


def kafka_python_partitioner(initial: Mapping[str, int] | int, *, clock: Callable[[], float] = time.monotonic) -> Any:
    """Return a partitioner for kafka-python's option ``partitioner``; records without a key go to a random partition.

    The partition count comes from the producer's metadata, which the producer refreshes every ``metadata_max_age_ms``.

    Args:
        initial: The partition count with which linear hashing began, by topic; keys of other topics are placed as by
            Java's default partitioner. Or one number for all topics: with kafka-python 2, which names no topic to a
            partitioner, it must be a number, and each topic needs a producer of its own.
        clock: Returns the time in monotonic seconds.

    Raises:
        ImportError: kafka-python is not installed.
    """
    base: Any = getattr(import_module("kafka.partitioner"), "Partitioner", object)  # kafka-python 2 has no base class
    history = PartitionCountHistory(initial, clock)

    class LinearPartitioner(base):  # type: ignore[misc]
        def partition(self, topic: str, key: Any, raw_key: bytes | None, value: Any, raw: Any, cluster: Any) -> int:
            if raw_key is None:
                available = cluster.available_partitions_for_topic(topic) or cluster.partitions_for_topic(topic)
                chosen: int = random.choice(sorted(available))
                return chosen
            return history.partition(topic, bytes(raw_key), len(cluster.partitions_for_topic(topic)))

        def __call__(self, raw_key: bytes | None, every: Sequence[int], available: Sequence[int]) -> int:
            """Choose a partition for kafka-python 2, which calls a partitioner without the topic."""
            return random.choice(available or every) if raw_key is None else history.partition("", raw_key, len(every))

    return LinearPartitioner()


class ConfluentPartitioner:
    """Chooses partitions for confluent-kafka, which cannot call a partitioner in Python.

    ::

        choose = ConfluentPartitioner(producer, {"orders": 6}, max_age_s=60)
        producer.produce("orders", value, key, partition=choose("orders", key))

    Args:
        producer: A ``confluent_kafka.Producer``, which requests the partition counts.
        initial: The partition count with which linear hashing began, by topic; keys of other topics are placed as
            by Java's default partitioner.
        max_age_s: A partition count that was requested this many seconds ago is requested again before it is used. The
            producer's option ``topic.metadata.refresh.interval.ms`` has no effect on that.
        timeout_s: How many seconds a request for the count may take.
        clock: Returns the time in monotonic seconds.
    """

    def __init__(
        self,
        producer: Any,
        initial: Mapping[str, int],
        *,
        max_age_s: float = 300.0,
        timeout_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._producer = producer
        self._max_age_s = max_age_s
        self._timeout_s = timeout_s
        self._clock = clock
        self._history = PartitionCountHistory(initial, clock)
        self._found: dict[str, tuple[float, int]] = {}  #: By topic: when the count was requested, and the count.

    def __call__(self, topic: str, key: bytes | str | None) -> int:
        """Return the partition of a key; for the key None, -1, which makes librdkafka choose a partition.

        Raises:
            IllegalArgumentError: the brokers name no partition of the topic, or fewer than it began with.
            confluent_kafka.KafkaException: no broker has answered in time.
        """
        if key is None:
            return -1
        return self._history.partition(topic, key.encode() if isinstance(key, str) else key, self._count(topic))

    def _count(self, topic: str) -> int:
        now = self._clock()
        asked_at, count = self._found.get(topic, (float("-inf"), 0))
        if now >= asked_at + self._max_age_s:
            described = self._producer.list_topics(topic, self._timeout_s).topics[topic]
            count = len(described.partitions)
            if not count:
                raise IllegalArgumentError(f"topic {topic}: no partitions are known: {described.error}")
            self._found[topic] = now, count
        return count
