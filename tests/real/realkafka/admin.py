"""Topics of a cluster, made and changed through kafka-python, and the waiting that real clusters need.

Needs only the bootstrap servers of a cluster. Each call makes a client: one that outlives a killed broker would keep
broken connections and backoffs that have nothing to do with the test.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from . import processes
from .jars import tools_class_path
from .metadata import Partition, Picture, ask

T = TypeVar("T")


def wait_for(condition: Callable[[], T], seconds: float, what: str) -> T:
    """Return the condition's first true value; raise ``TimeoutError`` naming ``what`` after that long."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
            raise TimeoutError(f"{what}: not within {seconds} s; load average {load}, {os.cpu_count()} processors")
        time.sleep(0.05)
    return value


class Administration:
    """Operations on a cluster over the network."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    # -- topics

    def create_topic(
        self, name: str, partitions: int = 1, replication: int = -1, config: Mapping[str, object] | None = None
    ) -> str:
        """Create a topic, wait until its leaders are named by every broker and answer, and return its name.

        ``replication`` -1 is the cluster's default: 3 with three brokers.
        """
        from kafka import TopicPartition
        from kafka.admin import OffsetSpec

        options: dict[str, Any] = {"num_partitions": partitions, "replication_factor": replication}
        if config:
            options["configs"] = {key: str(value) for key, value in config.items()}
        self._administer(lambda admin: admin.create_topics({name: options}), done_if="TopicAlreadyExistsError")
        self.wait_for_partitions(name, partitions)
        # A busy broker is named before it leads. An idempotent librdkafka that meets it then (NOT_LEADER_OR_FOLLOWER)
        # has acknowledged first records that were in no log afterwards (observed).
        ends = dict.fromkeys((TopicPartition(name, number) for number in range(partitions)), OffsetSpec.LATEST)
        self._administer(lambda admin: admin.list_partition_offsets(ends))
        return name

    def add_partitions(self, name: str, partitions: int) -> None:
        self._administer(lambda admin: admin.create_partitions({name: partitions}), done_if="InvalidPartitionsError")
        self.wait_for_partitions(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete the topic and wait until no broker knows it any more."""
        self._administer(lambda admin: admin.delete_topics([name]), done_if="UnknownTopicOrPartitionError")
        wait_for(lambda: not any(name in each.topics for each in self._pictures(name)), 10, f"deletion of {name}")

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Move the partition's beginning up to ``before_offset``."""
        from kafka import TopicPartition

        self._administer(lambda admin: admin.delete_records({TopicPartition(topic, partition): before_offset}))

    def elect(self, topic: str, partition: int, replicas: list[int]) -> None:
        """Give the replicas another order, and let the first of them lead."""
        from kafka import TopicPartition

        def do(admin: Any) -> None:
            admin.alter_partition_reassignments({TopicPartition(topic, partition): replicas})
            admin.elect_leaders(0, {topic: [partition]})

        self._administer(do)

    def set_topic_config(self, name: str, config: Mapping[str, object]) -> None:
        from kafka.admin import ConfigResource, ConfigResourceType

        values = {key: str(value) for key, value in config.items()}
        self._administer(
            lambda admin: admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs=values)])
        )

    def allow_only(self, principal: str, topic: str, *operations: str) -> None:
        """Let this principal alone do these operations (default: read) to the topic: an ACL excludes all others."""
        from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

        pattern = ResourcePattern(ResourceType.TOPIC, topic)
        acls = [
            ACL(principal, "*", ACLOperation[operation.upper()], ACLPermissionType.ALLOW, pattern)
            for operation in operations or ("read",)
        ]
        self._administer(lambda admin: admin.create_acls(acls))

    # -- asking

    def describe(self, name: str) -> dict[int, Partition]:
        """Return what the first broker that answers says of each partition; {} if it knows no such topic."""
        return next(iter(self._pictures(name))).topics.get(name, {})

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the node that leads the partition; -1 while none does."""
        return self.describe(topic)[partition].leader

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        return set(self.describe(topic)[partition].in_sync)

    def nodes(self) -> set[int]:
        """Return the nodes that take part now, as the first broker that answers sees it."""
        return set(next(iter(self._pictures())).nodes)

    def wait_for_leader(self, topic: str, partition: int = 0, *, other_than: int = -1, seconds: float = 30) -> int:
        """Wait until another node than ``other_than`` leads the partition, and return its id."""

        def found() -> int | None:
            leader = self.leader(topic, partition)
            return leader if leader not in (-1, other_than) else None

        return wait_for(found, seconds, f"a leader of {topic}-{partition} other than {other_than}")

    def wait_in_sync(self, topic: str, partition: int = 0, *, replicas: int = 3, seconds: float = 60) -> None:
        wait_for(
            lambda: len(self.in_sync(topic, partition)) >= replicas,
            seconds,
            f"{replicas} replicas of {topic}-{partition} in sync",
        )

    def wait_for_partitions(self, name: str, partitions: int, seconds: float = 15) -> None:
        """Wait until every broker that answers knows that many partitions and their leaders."""

        def known_to(picture: Picture) -> bool:
            found = picture.topics.get(name, {})
            return len(found) == partitions and all(each.leader >= 0 and each.error == 0 for each in found.values())

        wait_for(
            lambda: all(known_to(picture) for picture in self._pictures(name)),
            seconds,
            f"{partitions} led partitions of {name}",
        )

    # -- Java

    def java_tool(self, tool: str, *arguments: str, seconds: float = 60) -> str:
        """Run one of Kafka's tools, ``org.apache.kafka.tools.TopicCommand`` for instance, and return what it prints.

        ``--bootstrap-server`` is added.
        """
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-cp", tools_class_path(), tool]
        return processes.run([*options, *arguments, "--bootstrap-server", self.bootstrap], seconds)

    # -- inside

    def _pictures(self, *topics: str) -> Iterator[Picture]:
        """Yield the picture of each broker that answers; raise if none does. A paused one costs a second."""
        errors = []
        answered = False
        for server in self.bootstrap.split(","):
            host, _, port = server.rpartition(":")
            try:
                picture = ask(host, int(port), *topics, seconds=1)
            except OSError as error:
                errors.append(f"{server}: {error}")
                continue
            answered = True
            yield picture
        if not answered:
            raise ConnectionError(f"no broker answers: {'; '.join(errors)}")

    def _administer(self, do: Callable[[Any], Any], *, done_if: str = "", seconds: float = 30) -> None:
        """Let an admin client of kafka-python do it, again while the broker it picked is not there.

        ``done_if`` is the error by which a second attempt learns that the first one did work.
        """
        from kafka import errors

        deadline = time.monotonic() + seconds
        attempt = 0
        while True:
            try:
                with self.admin() as admin:
                    do(admin)
                return
            except errors.KafkaError as error:
                attempt += 1
                if attempt > 1 and type(error).__name__ == done_if:
                    return
                if not error.retriable or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    @contextlib.contextmanager
    def admin(self) -> Iterator[Any]:
        """An admin client of kafka-python for as long as the block runs."""
        from kafka.admin import KafkaAdminClient

        client = KafkaAdminClient.__new__(KafkaAdminClient)
        with quiet_kafka_python():
            try:
                client.__init__(
                    bootstrap_servers=self.bootstrap.split(","), request_timeout_ms=15000, reconnect_backoff_max_ms=200
                )
                yield client
            finally:
                # Its constructor connects; when that fails it leaves a thread and sockets, which close() ignores.
                client._closed = False
                client.close()


@contextlib.contextmanager
def quiet_kafka_python() -> Iterator[None]:
    """Keep kafka-python's complaints about brokers that were just killed out of every test's output."""
    logger = logging.getLogger("kafka")
    level, logger.level = logger.level, logging.CRITICAL
    try:
        yield
    finally:
        logger.level = level
