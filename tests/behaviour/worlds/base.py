"""The interface of all worlds, implemented by requests."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from thinconsumer import Consumer
from thinconsumer.errors import KafkaConnectionError
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.sockets import SelectorDriver
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import BY_CODE, Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from thinconsumer.wire.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from thinconsumer_testing.broker.wire.administration import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from thinconsumer_testing.broker.wire.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
)

from .asking import Asker

NUMBERS = itertools.count(1)
#: Newer ones name topics by id, or let transactions begin by themselves; every world speaks these.
PRODUCE_VERSION, END_TXN_VERSION, ADD_VERSION = 11, 4, 3
GROUP, TRANSACTION = 0, 1
NOT_YET = {
    Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR,
    Code.CONCURRENT_TRANSACTIONS, Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.LEADER_NOT_AVAILABLE, Code.NOT_ENOUGH_REPLICAS,
}  # fmt: skip


class Open(NamedTuple):
    """A transaction that has begun."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator: int


class World:
    """A cluster, and time. Tests close what they open; :meth:`close` closes the world's own."""

    #: Configs that make :meth:`compact` leave something to see.
    COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}

    def __init__(self) -> None:
        self.asker = Asker(self.driver(), self.bootstrap_servers)
        self._leaders: dict[tuple[str, int], int] = {}

    # -- each world's own

    @property
    def bootstrap_servers(self) -> Any:
        raise NotImplementedError

    def driver(self) -> Any:
        """Return a new driver for one client."""
        raise NotImplementedError

    def now(self) -> float:
        """Return monotonic seconds, as this world counts them."""
        raise NotImplementedError

    def compact(self, topic: str) -> None:
        """Clean partition 0 of a topic made with :attr:`COMPACTED`, and wait for that."""
        raise NotImplementedError

    def move_leader(self, topic: str, partition: int = 0) -> None:
        """Let another replica lead, and wait for that."""
        raise NotImplementedError

    def kill(self, node: int) -> None:
        """Kill a broker as ``kill -9`` does."""
        raise NotImplementedError

    def start(self, node: int) -> None:
        """Start it again, and wait until it takes part."""
        raise NotImplementedError

    def close(self) -> None:
        """End what this world started."""
        self.asker.close()

    # -- through the protocol

    def consumer(self, **options: Any) -> Consumer[bytes | None, bytes | None]:
        """Return a consumer in this world."""
        return Consumer(bootstrap_servers=self.bootstrap_servers, driver=self.driver(), **options)

    def name(self) -> str:
        """Return a name that no topic has."""
        return f"behaviour-{os.getpid()}-{next(NUMBERS)}"

    def topic(self, partitions: int = 1, replication: int = 1, name: str | None = None, **configs: str) -> str:
        """Create a topic and wait until it has leaders; its name."""
        name = name or self.name()
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )

        # A topic that was deleted a moment ago may still be going.
        self._accepted(
            f"the topic {name}",
            CreateTopicsRequest(topics=[topic], timeout_ms=10_000),
            lambda response: response.topics[0].error_code,
            Code.TOPIC_ALREADY_EXISTS,
        )
        for partition in range(partitions):
            self.asker.partition(name, partition)
        return name

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, and wait until every broker has forgotten it."""
        (result,) = self.asker.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), version_max=5).responses
        self._check(result.error_code)

        def gone() -> Any:
            return True if all(t.error_code for t in self.asker.metadata(topic).topics) else None

        self.asker.until(gone, f"the end of {topic}")

    def expand(self, topic: str, partitions: int) -> None:
        """Let a topic grow, and wait until the new partitions have leaders."""
        row = CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
        (result,) = self.asker.ask(CreatePartitionsRequest(topics=[row], timeout_ms=10_000)).results
        self._check(result.error_code)
        for partition in range(partitions):
            self.asker.partition(topic, partition)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete what lies before an offset."""
        row = DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=before)]
        )
        leader = self.asker.partition(topic, partition)[0]
        response = self.asker.ask(DeleteRecordsRequest(topics=[row], timeout_ms=10_000), leader)
        self._check(response.topics[0].partitions[0].error_code)

    def write(
        self, topic: str, records: Iterable[bytes | NewRecord | None], partition: int = 0, *, codec: int = 0
    ) -> int:
        """Write one batch with acks=all; its first offset."""
        return self._produce(topic, partition, build_batch(self._dated(records), codec=codec), None)

    def begin(self, topic: str, records: Iterable[bytes | NewRecord | None], partition: int = 0) -> Open:
        """Write one batch within a new transaction, which stays open."""
        transactional_id = f"behaviour-{os.getpid()}-{next(NUMBERS)}"

        def initialized() -> Any:
            node = self._coordinator(transactional_id, TRANSACTION)
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
            given = self.asker.ask(request, node, version_max=4)
            if self._not_yet(given.error_code):
                return None
            return Open(transactional_id, given.producer_id, given.producer_epoch, node)

        begun: Open = self.asker.until(initialized, "a producer id")

        self._accepted(
            "the partition's place in the transaction",
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=begun.producer_id,
                v3_and_below_producer_epoch=begun.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
            ),
            lambda response: response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            node=begun.coordinator,
            version_max=ADD_VERSION,
        )
        batch = build_batch(
            self._dated(records),
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        self._produce(topic, partition, batch, transactional_id)
        return begun

    def end(self, transaction: Open, *, commit: bool) -> None:
        """End a transaction, and wait until its markers are written."""
        request = EndTxnRequest(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            committed=commit,
        )

        node = transaction.coordinator
        self._accepted("the transaction's end", request, node=node, version_max=END_TXN_VERSION)
        # The coordinator answers before the markers are written; it takes nothing new of this id until they are.
        again = InitProducerIdRequest(transactional_id=transaction.transactional_id, transaction_timeout_ms=60_000)
        self._accepted("the transaction's markers", again, node=node, version_max=4)

    def transaction(
        self, topic: str, records: Iterable[bytes | NewRecord | None], partition: int = 0, *, commit: bool
    ) -> None:
        """Write one batch in a transaction of its own."""
        self.end(self.begin(topic, records, partition), commit=commit)

    def kill_leader(self, topic: str, partition: int = 0) -> int:
        """Kill the leader of a partition, and wait for the next one; the dead node's id."""
        leader = self.asker.partition(topic, partition)[0]
        self.kill(leader)

        def moved() -> Any:
            return True if self.asker.partition(topic, partition)[0] != leader else None

        self.asker.until(moved, f"another leader than {leader}")
        return leader

    def kill_coordinator(self, group: str) -> int:
        """Kill a group's coordinator; the dead node's id."""
        node = self._coordinator(group, GROUP)
        self.kill(node)
        return node

    def read(
        self, consumer: Consumer[Any, Any], count: int, seconds: float = 40, *, max_records: int | None = None
    ) -> list[Any]:
        """Poll until there are so many records, and return them."""
        found: list[Any] = []
        deadline = self.now() + seconds
        while len(found) < count:
            assert self.now() < deadline, f"{len(found)} of {count} records after {seconds} s"
            for records in consumer.poll(timeout_ms=200, max_records=max_records).values():
                found += records
        return found

    # -- inside

    def _accepted(
        self,
        what: str,
        message: Message,
        code_of: Callable[[Any], int] = lambda response: int(response.error_code),
        *not_yet: Code,
        node: int | None = None,
        version_max: int | None = None,
    ) -> None:
        """Send a request again and again until its response has no error."""

        def attempt() -> Any:
            response = self.asker.ask(message, node, version_max=version_max)
            return None if self._not_yet(code_of(response), *not_yet) else True

        self.asker.until(attempt, what)

    def _coordinator(self, key: str, kind: int) -> int:
        def found() -> Any:
            self.asker.metadata()
            answer = self.asker.ask(FindCoordinatorRequest(key=key, key_type=kind), version_max=3)
            return None if self._not_yet(answer.error_code) else (answer.node_id,)

        return int(self.asker.until(found, f"the coordinator of {key}")[0])

    def _dated(self, records: Iterable[bytes | NewRecord | None]) -> list[NewRecord]:
        now_ms = int(self.asker.driver.wall_time() * 1000)
        news = [record if isinstance(record, NewRecord) else NewRecord(record) for record in records]
        return [record._replace(timestamp=now_ms) if record.timestamp < 0 else record for record in news]

    def _produce(self, topic: str, partition: int, batch: bytes, transactional_id: str | None) -> int:
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=partition, records=memoryview(batch))]
                )
            ],
        )

        def produced() -> Any:
            leader = self._leaders.pop((topic, partition), None)
            if leader is None:
                leader = self.asker.partition(topic, partition)[0]
            try:
                response = self.asker.ask(request, leader, version_max=PRODUCE_VERSION)
            except KafkaConnectionError:
                return None
            (answer,) = response.responses[0].partition_responses
            if self._not_yet(answer.error_code):
                return None
            self._leaders[topic, partition] = leader  # asked for every time, it would look like a client gone wild
            return answer.base_offset

        offset: int = self.asker.until(produced, f"{topic}-{partition} to be written")
        return offset

    def _not_yet(self, code: int, *more: Code) -> bool:
        if code in NOT_YET or code in more:
            return True
        self._check(code)
        return False

    def _check(self, code: int) -> None:
        assert code == 0, f"refused: {BY_CODE[code]}"


class SocketWorld(World):
    """A world of processes, real sockets and real time."""

    def driver(self) -> SelectorDriver:
        return SelectorDriver()

    def now(self) -> float:
        return time.monotonic()
