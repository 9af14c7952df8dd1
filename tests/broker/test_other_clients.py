"""Other Kafka clients in groups, in transactions and as admin clients, on a broker in its own process.

kafka-python, aiokafka and confluent-kafka each, and all three in one group. Plain producing and consuming is in
``test_clients``.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

import aiokafka
import aiokafka.errors
import kafka
import kafka.errors
import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRange

from thinconsumer_testing.broker.process import BrokerProcess

try:
    import confluent_kafka as confluent
except ImportError:
    confluent = None

#: These libraries do not always close broken sockets. No socket of this project is open in this process.
pytestmark = [
    pytest.mark.once,
    pytest.mark.usefixtures("leftovers_forgiven"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(300),  # some clients wait several times, longer on a busy machine
]

PATIENCE_S = 50.0
NUMBERS = itertools.count(1)


class Member:
    """A consumer of a client library in its own thread, because some wait for other members inside poll.

    Subclasses define ``open(bootstrap, group, instance)``, ``read()``, which polls once, and ``close()``.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, instance: str | None = None) -> None:
        self.topic = topic
        self.values: list[bytes] = []
        self.owned: set[int] = set()  #: The assignment as of the last poll.
        self._thread = ThreadPoolExecutor(1)
        self._polling: Future[None] | None = None
        self._do(self.open, bootstrap, group, instance)

    def poll(self) -> Future[None]:
        """Start a poll unless one is running; raise the last poll's exception."""
        if self._polling is None or self._polling.done():
            if self._polling is not None:
                self._polling.result()
            self._polling = self._thread.submit(self._poll)
        return self._polling

    def commits(self) -> bool:
        """Return whether a commit succeeds now; some libraries leave retries to the user."""
        try:
            self._do(self.commit)
        except FAILURES:
            return False
        return True

    def leave(self) -> None:
        """Leave the group; a static member only closes."""
        self._do(self.close)
        self._thread.shutdown()

    def _poll(self) -> None:
        self.values += self.read()
        self.owned = self.assigned()

    def _do(self, what: Callable[..., None], *arguments: Any) -> None:
        self._thread.submit(what, *arguments).result(2 * PATIENCE_S)

    def assigned(self) -> set[int]:
        """Return the current assignment."""
        return {tp.partition for tp in self._consumer.assignment()}

    def commit(self) -> None:
        """Commit the current positions."""
        self._consumer.commit()


def options_of(bootstrap: str, group: str, instance: str | None, assignor: Any) -> dict[str, Any]:
    """Return the options that a member of kafka-python or aiokafka gets."""
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_instance_id": instance,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "partition_assignment_strategy": [assignor],
        "heartbeat_interval_ms": 100,
        "session_timeout_ms": 6000,
        "fetch_max_wait_ms": 20,
    }


class KafkaPython(Member):
    """kafka-python, with heartbeats in a thread."""

    def open(self, bootstrap: str, group: str, instance: str | None) -> None:
        self._consumer = kafka.KafkaConsumer(**options_of(bootstrap, group, instance, KafkaPythonRange))
        # Without topic metadata its first assignment would be empty.
        assert self._consumer.partitions_for_topic(self.topic)
        self._consumer.subscribe([self.topic])

    def read(self) -> list[bytes]:
        # A join that takes longer than one poll can get lost, and the member then waits for ever, on real Kafka, too.
        return [record.value for records in self._consumer.poll(timeout_ms=500).values() for record in records]

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class Aiokafka(Member):
    """aiokafka, on a loop that only runs during a poll."""

    def open(self, bootstrap: str, group: str, instance: str | None) -> None:
        self._loop = asyncio.new_event_loop()

        async def start() -> None:
            options = options_of(bootstrap, group, instance, AiokafkaRange)
            self._consumer = aiokafka.AIOKafkaConsumer(self.topic, **options, retry_backoff_ms=20)
            self._starting = asyncio.ensure_future(self._consumer.start())

        self._loop.run_until_complete(start())

    def read(self) -> list[bytes]:
        async def turn() -> list[bytes]:
            await self._starting
            found = await self._consumer.getmany(timeout_ms=10)
            return [record.value for records in found.values() for record in records]

        return self._loop.run_until_complete(turn())

    def commit(self) -> None:
        self._loop.run_until_complete(self._consumer.commit())

    def close(self) -> None:
        async def stop() -> None:
            await asyncio.gather(self._starting, return_exceptions=True)
            with suppress(asyncio.CancelledError):  # of a broken connection that it waits for
                await self._consumer.stop()
            # It does not end the reader tasks of broken connections.
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await asyncio.sleep(0.01)  # transports close in a later loop iteration

        self._loop.run_until_complete(stop())
        self._loop.close()


class Confluent(Member):
    """confluent-kafka, with its own threads."""

    strategy = "range"

    def open(self, bootstrap: str, group: str, instance: str | None) -> None:
        options = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": self.strategy,
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 6000,
            "fetch.wait.max.ms": 20,
        }
        self._consumer = confluent.Consumer({**options, **({"group.instance.id": instance} if instance else {})})
        self._consumer.subscribe([self.topic])

    def read(self) -> list[bytes]:
        messages = self._consumer.consume(500, 0.01)
        for message in messages:
            assert message.error() is None, message.error()
        return [message.value() for message in messages]

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class Cooperative(Confluent):
    """confluent-kafka with the cooperative protocol."""

    strategy = "cooperative-sticky"


needs_confluent = pytest.mark.skipif(confluent is None, reason="confluent-kafka is not installed")
CLIENTS = (KafkaPython, Aiokafka, pytest.param(Confluent, marks=needs_confluent))
HERE = (KafkaPython, Aiokafka, Confluent) if confluent else (KafkaPython, Aiokafka)
FAILURES = (kafka.errors.KafkaError, aiokafka.errors.KafkaError, *([confluent.KafkaException] if confluent else []))


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    """Three brokers in their own process, for all tests here."""
    with BrokerProcess(3) as process:
        yield process


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    """A topic with six partitions and 60 records."""
    name = f"t{next(NUMBERS)}"
    broker.create_topic(name, 6)
    for partition in range(6):
        broker.produce(name, [b"%d-%d" % (partition, number) for number in range(10)], partition)
    return name


ALL = sorted(b"%d-%d" % (partition, number) for partition in range(6) for number in range(10))


def until(done: Callable[[], bool], *members: Member) -> None:
    """Poll all members until the condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, [(type(m).__name__, m.owned, len(m.values)) for m in members]
        wait([member.poll() for member in members], 0.02, FIRST_COMPLETED)


def shared(*members: Member) -> bool:
    """Return whether every partition has one owner, and every member a partition."""
    owned = [member.owned for member in members]
    return all(owned) and sum(map(len, owned)) == 6 and set().union(*owned) == set(range(6))


@pytest.fixture
def join(broker: BrokerProcess, topic: str) -> Iterator[Callable[..., Member]]:
    """``join(client, instance=None)``: adds a member to the group named like the topic; all leave at the end."""
    members: list[Member] = []

    def make(client: type[Member], instance: str | None = None) -> Member:
        members.append(client(broker.bootstrap_servers, topic, topic, instance))
        return members[-1]

    yield make
    for member in members:
        with suppress(RuntimeError):  # some members have left already
            member.leave()
    # pytest keeps the fixture's value until all teardowns are over, and with it the members and what they left open.
    members.clear()


def to_all(broker: BrokerProcess, topic: str, value: bytes) -> None:
    """Write one record to each partition."""
    for partition in range(6):
        broker.produce(topic, [value], partition)


@pytest.mark.parametrize("client", [*CLIENTS, pytest.param(Cooperative, marks=needs_confluent)])
def test_two_members_share_partitions_and_one_takes_over(broker, topic, join, client):
    first = join(client)
    until(lambda: len(first.owned) == 6 and sorted(first.values) == ALL, first)
    until(first.commits, first)
    second = join(client)
    until(lambda: shared(first, second), first, second)
    to_all(broker, topic, b"new")
    until(lambda: (first.values + second.values).count(b"new") == 6, first, second)
    assert second.values == [b"new"] * len(second.owned), "what was committed is not read again"
    until(lambda: first.commits() and second.commits(), first, second)
    second.leave()
    until(lambda: len(first.owned) == 6, first)
    to_all(broker, topic, b"last")
    until(lambda: first.values.count(b"last") == 6, first)
    assert len(first.values) + len(second.values) == 60 + 6 + 6


def test_all_three_in_one_group(broker, topic, join):
    members = [join(client) for client in HERE]
    until(lambda: shared(*members), *members)
    share = 6 // len(HERE)
    assert {len(member.owned) for member in members} == {share}
    until(lambda: {value for member in members for value in member.values} == set(ALL), *members)
    to_all(broker, topic, b"new")
    until(lambda: sum(member.values.count(b"new") for member in members) == 6, *members)
    assert {member.values.count(b"new") for member in members} == {share}
    for member in members:
        until(member.commits, *members)
    gone = members.pop(0)
    gone.leave()
    until(lambda: shared(*members), *members)


def test_each_client_continues_from_anothers_commits(broker, topic, join):
    first = join(KafkaPython)
    until(lambda: sorted(first.values) == ALL, first)
    until(first.commits, first)
    first.leave()
    for number, client in enumerate((*HERE[::-1], HERE[-1])):
        to_all(broker, topic, b"%d" % number)
        reader = join(client)
        until(lambda: len(reader.values) >= 6, reader)  # noqa: B023 - used at once
        assert reader.values == [b"%d" % number] * 6
        until(reader.commits, reader)
        reader.leave()


@pytest.mark.parametrize("client", CLIENTS)
def test_coordinator_moves_and_fails(broker, topic, join, client):
    member = join(client)
    until(lambda: sorted(member.values) == ALL, member)
    until(member.commits, member)
    broker.move_coordinator(topic)
    broker.produce(topic, [b"after moving"], 0)
    until(lambda: b"after moving" in member.values, member)
    until(member.commits, member)
    coordinator = broker.move_coordinator(topic)
    broker.kill(coordinator, noticed_after_s=0)
    try:
        broker.produce(topic, [b"after dying"], 1)
        until(lambda: b"after dying" in member.values, member)
        until(member.commits, member)
    finally:
        broker.start(coordinator)
    assert sorted(member.values) == sorted([*ALL, b"after moving", b"after dying"])


@pytest.mark.parametrize("client", CLIENTS)
def test_static_member_returns_without_a_rebalance(join, client):
    first, second = join(client, "one"), join(client, "two")
    until(lambda: shared(first, second), first, second)
    mine, yours = first.owned, second.owned
    second.leave()
    back = join(client, "two")
    until(lambda: shared(first, back), first, back)
    assert (first.owned, back.owned) == (mine, yours)


# -- transactions


def read_committed(broker: BrokerProcess, topic: str) -> list[bytes]:
    """Return the records of a topic with read_committed."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed", fetch_max_wait_ms=20
    )
    partitions = [kafka.TopicPartition(topic, partition) for partition in range(2)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while any(consumer.position(tp) < ends[tp] for tp in partitions):
        assert time.monotonic() < deadline
        values += [record.value for records in consumer.poll(timeout_ms=50).values() for record in records]
    consumer.close()
    return sorted(values)


def committed(broker: BrokerProcess, group: str, topic: str) -> int:
    """Return the group's committed offset of partition 0."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group)
    found = consumer.committed(kafka.TopicPartition(topic, 0))
    consumer.close()
    return int(found)


@pytest.fixture
def pair(broker: BrokerProcess) -> tuple[str, str]:
    """A source topic and a target topic."""
    number = next(NUMBERS)
    for stem in ("in", "out"):
        broker.create_topic(f"{stem}{number}", 2)
    return f"in{number}", f"out{number}"


def test_kafka_python_transactions(broker, pair):
    source, target = pair
    options = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": target, "compression_type": "lz4"}
    producer = kafka.KafkaProducer(**options)
    producer.init_transactions()
    offsets = {kafka.TopicPartition(source, 0): kafka.structs.OffsetAndMetadata(5, "", -1)}
    for number in range(4):
        producer.begin_transaction()
        for partition in range(2):
            producer.send(target, b"%d" % number, partition=partition)
        if number % 2:
            producer.abort_transaction()
        else:
            offsets = {tp: offset._replace(offset=number) for tp, offset in offsets.items()}
            producer.send_offsets_to_transaction(offsets, target)
            producer.commit_transaction()
    assert read_committed(broker, target) == [b"0", b"0", b"2", b"2"]
    assert committed(broker, target, source) == 2
    producer.begin_transaction()
    producer.send(target, b"left behind", partition=0).get(10)
    successor = kafka.KafkaProducer(**options)
    successor.init_transactions()
    with pytest.raises(kafka.errors.KafkaError):
        producer.send(target, b"zombie", partition=0).get(10)
    successor.close()
    producer.close()
    assert read_committed(broker, target) == [b"0", b"0", b"2", b"2"]


def test_aiokafka_transactions(broker, pair):
    source, target = pair

    async def main() -> None:
        options = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": target, "retry_backoff_ms": 5}
        producer = aiokafka.AIOKafkaProducer(**options)
        await producer.start()
        for number in range(4):
            await producer.begin_transaction()
            for partition in range(2):
                await producer.send(target, b"%d" % number, partition=partition)
            if number % 2:
                await producer.abort_transaction()
            else:
                offsets = {aiokafka.TopicPartition(source, 0): number}
                await producer.send_offsets_to_transaction(offsets, target)
                await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(target, b"left behind", partition=0)
        successor = aiokafka.AIOKafkaProducer(**options)
        await successor.start()
        with pytest.raises(aiokafka.errors.ProducerFenced):
            await producer.send_and_wait(target, b"zombie", partition=0)
        await successor.stop()
        await producer.stop()

    asyncio.run(main())
    assert read_committed(broker, target) == [b"0", b"0", b"2", b"2"]
    assert committed(broker, target, source) == 2


@needs_confluent
def test_confluent_kafka_transactions(broker, pair):
    source, target = pair
    options = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": target, "compression.type": "zstd"}
    producer = confluent.Producer(options)
    producer.init_transactions(PATIENCE_S)
    group = confluent.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": target})
    for number in range(4):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(target, b"%d" % number, partition=partition)
        if number % 2:
            producer.abort_transaction(PATIENCE_S)
        else:
            offsets = [confluent.TopicPartition(source, 0, number)]
            producer.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), PATIENCE_S)
            producer.commit_transaction(PATIENCE_S)
    group.close()
    assert read_committed(broker, target) == [b"0", b"0", b"2", b"2"]
    assert committed(broker, target, source) == 2
    producer.begin_transaction()
    producer.produce(target, b"left behind", partition=0)
    producer.flush(PATIENCE_S)
    successor = confluent.Producer(options)
    successor.init_transactions(PATIENCE_S)
    producer.produce(target, b"zombie", partition=0)
    with pytest.raises(confluent.KafkaException, match="fenced|newer|epoch"):
        producer.commit_transaction(PATIENCE_S)
    assert read_committed(broker, target) == [b"0", b"0", b"2", b"2"]


# -- administration


def test_kafka_python_admin_client(broker, topic, join):
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    made = f"made{next(NUMBERS)}"
    admin.create_topics([kafka.admin.NewTopic(made, 2, 1, topic_configs={"retention.ms": "5000"})])
    assert made in admin.list_topics()
    admin.create_partitions({made: kafka.admin.NewPartitions(4)})
    (described,) = admin.describe_topics([made])
    assert len(described["partitions"]) == 4
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        admin.create_topics([kafka.admin.NewTopic(made, 2, 1)])
    member = join(KafkaPython)
    until(lambda: sorted(member.values) == ALL, member)
    until(member.commits, member)
    assert topic in {group["group_id"] for group in admin.list_groups()}
    assert len(admin.describe_groups([topic])[topic]["members"]) == 1
    offsets = admin.list_group_offsets(topic)[topic]
    assert {tp.partition: offset.offset for tp, offset in offsets.items()} == dict.fromkeys(range(6), 10)
    member.leave()
    admin.delete_groups([topic])
    assert topic not in {group["group_id"] for group in admin.list_groups()}
    admin.delete_records({kafka.TopicPartition(topic, 0): 4})
    admin.delete_topics([made])
    assert made not in admin.list_topics()
    admin.close()


@needs_confluent
def test_confluent_kafka_admin_client(broker, topic, join):
    from confluent_kafka import admin as api

    admin = api.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    made = f"made{next(NUMBERS)}"

    def result(futures: Any) -> Any:
        (future,) = futures.values()
        return future.result(PATIENCE_S)

    result(admin.create_topics([api.NewTopic(made, 2, 1, config={"retention.ms": "5000"})]))
    result(admin.create_partitions([api.NewPartitions(made, 4)]))
    resource = api.ConfigResource(api.ResourceType.TOPIC, made)
    assert result(admin.describe_configs([resource]))["retention.ms"].value == "5000"
    with pytest.raises(confluent.KafkaException, match="TOPIC_ALREADY_EXISTS"):
        result(admin.create_topics([api.NewTopic(made, 2, 1)]))
    described = result(admin.describe_topics(confluent.TopicCollection([made])))
    assert [len(p.replicas) for p in described.partitions] == [1, 1, 1, 1]
    assert len(admin.describe_cluster().result(PATIENCE_S).nodes) == 3
    member = join(Confluent)
    until(lambda: sorted(member.values) == ALL, member)
    until(member.commits, member)
    (group,) = [g for g in admin.list_consumer_groups().result(PATIENCE_S).valid if g.group_id == topic]
    assert group.state == confluent.ConsumerGroupState.STABLE
    assert len(result(admin.describe_consumer_groups([topic])).members) == 1
    wanted = [confluent.ConsumerGroupTopicPartitions(topic)]
    offsets = result(admin.list_consumer_group_offsets(wanted)).topic_partitions
    assert {tp.partition: tp.offset for tp in offsets} == dict.fromkeys(range(6), 10)
    member.leave()
    result(admin.delete_consumer_groups([topic]))
    where = {confluent.TopicPartition(topic, 0): api.OffsetSpec.max_timestamp()}
    assert result(admin.list_offsets(where)).offset == 0  # the first of several with the highest offset
    assert result(admin.delete_records([confluent.TopicPartition(topic, 0, 4)])).low_watermark == 4
    result(admin.delete_topics([made]))
    assert made not in admin.list_topics(timeout=PATIENCE_S).topics
