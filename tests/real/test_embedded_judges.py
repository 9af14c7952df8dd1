"""The embedded broker before its judges: other people's clients write to it, read from it, and share a group on it.

Kafka's own tools come from its jars, which is why this is here; no real broker runs.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from realkafka.admin import quiet_kafka_python
from realkafka.jars import NoJars, java, tools_class_path

from thinconsumer_testing.broker.process import BrokerProcess

TOOLS = "org.apache.kafka.tools."
CONSOLE_CONSUMER = f"{TOOLS}consumer.ConsoleConsumer"
PARTITIONS = 8
EACH = 400


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(nodes=3) as found:
        yield found


@pytest.fixture(scope="module")
def java_command() -> Callable[..., list[str]]:
    """``java_command(tool, *arguments)`` is what to run."""
    try:
        classes = tools_class_path()
    except NoJars as error:
        pytest.skip(str(error))
    start = [java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes]
    return lambda tool, *arguments: [*start, tool, *arguments]


def lines(count: int, who: str) -> list[str]:
    return [f"{who}-{n}" for n in range(count)]


class Member:
    """One consumer in the shared group, on a thread of its own; ``values`` is what it was given."""

    def __init__(self, name: str, run: Callable[[Member], None]) -> None:
        self.name = name
        self.values: list[str] = []
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self._run = run
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run(self)
        except BaseException as error:  # noqa: BLE001 - told in the test's own thread
            self.errors.append(error)

    def close(self) -> None:
        self.stop.set()
        self._thread.join(30)
        assert not self.errors, f"{self.name}: {self.errors}"
        assert not self._thread.is_alive(), self.name


def kafka_python_member(bootstrap: str) -> Callable[[Member], None]:
    def run(member: Member) -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        consumer = KafkaConsumer(
            "shared", bootstrap_servers=bootstrap, group_id="judges", auto_offset_reset="earliest",
            partition_assignment_strategy=[RangePartitionAssignor], client_id="kafka-python",
        )  # fmt: skip
        while not member.stop.is_set():
            for records in consumer.poll(100).values():
                member.values += [record.value.decode() for record in records]
        consumer.close()

    return run


def confluent_member(bootstrap: str) -> Callable[[Member], None]:
    def run(member: Member) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "judges", "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range", "client.id": "confluent", "log_level": 0,
        })  # fmt: skip
        consumer.subscribe(["shared"])
        while not member.stop.is_set():
            for message in consumer.consume(100, 0.1):
                if message.error() is None:
                    member.values.append(message.value().decode())
        consumer.close()

    return run


def aiokafka_member(bootstrap: str) -> Callable[[Member], None]:
    async def read(member: Member) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        consumer = AIOKafkaConsumer(
            "shared", bootstrap_servers=bootstrap, group_id="judges", auto_offset_reset="earliest",
            partition_assignment_strategy=[RangePartitionAssignor], client_id="aiokafka",
        )  # fmt: skip
        await consumer.start()
        while not member.stop.is_set():
            for records in (await consumer.getmany(timeout_ms=100)).values():
                member.values += [record.value.decode() for record in records]
        await consumer.stop()

    return lambda member: asyncio.run(read(member))


def java_member(bootstrap: str, java_command: Any) -> Callable[[Member], None]:
    def run(member: Member) -> None:
        strategy = "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor"
        command = java_command(
            CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", "shared", "--group", "judges",
            "--from-beginning", "--command-property", strategy, "--command-property", "client.id=java",
        )  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        reader = threading.Thread(
            target=lambda: [member.values.append(line.strip()) for line in process.stdout], daemon=True
        )
        reader.start()
        member.stop.wait()
        process.terminate()
        process.wait(20)
        reader.join(5)
        process.stdout.close()

    return run


def write_with_all(bootstrap: str, java_command: Any) -> set[str]:
    """Let four clients write; what was written."""
    from aiokafka import AIOKafkaProducer
    from confluent_kafka import Producer
    from kafka import KafkaProducer

    with quiet_kafka_python():
        first = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
        futures = [first.send("shared", value.encode()) for value in lines(EACH, "kafka-python")]
        first.flush()
        assert all(future.succeeded() for future in futures)
        first.close()

    async def second() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
        await producer.start()
        for value in lines(EACH, "aiokafka"):
            await producer.send("shared", value.encode())
        await producer.stop()

    asyncio.run(second())
    third = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for value in lines(EACH, "confluent"):
        third.produce("shared", value.encode())
    assert third.flush(20) == 0
    command = java_command(f"{TOOLS}ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", "shared")
    subprocess.run(
        command, input="\n".join(lines(EACH, "java")) + "\n", text=True, timeout=60, check=True, capture_output=True
    )
    return {value for who in ("kafka-python", "aiokafka", "confluent", "java") for value in lines(EACH, who)}


def until(condition: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def test_four_clients_share_one_group(broker: BrokerProcess, java_command: Any, tmp_path: Path) -> None:
    """Each gets its share; one leaves, and the others get what it had; nothing is lost, nothing read twice."""
    bootstrap = broker.bootstrap_servers
    broker.create_topic("shared", PARTITIONS, 3)
    members = [
        Member("java", java_member(bootstrap, java_command)),
        Member("kafka-python", kafka_python_member(bootstrap)),
        Member("confluent", confluent_member(bootstrap)),
        Member("aiokafka", aiokafka_member(bootstrap)),
    ]
    try:
        until(lambda: state_of(bootstrap) == ("Stable", 4), 60, lambda: f"the group is {state_of(bootstrap)}")
        written = write_with_all(bootstrap, java_command)

        def counts() -> Counter[str]:
            return Counter(value for member in members for value in member.values)

        until(
            lambda: set(counts()) >= written,
            60,
            lambda: f"{len(written - set(counts()))} of {len(written)} not read: {[len(m.values) for m in members]}",
        )
        assert all(member.values for member in members), [(m.name, len(m.values)) for m in members]
        assert set(counts()) == written
        assert max(counts().values()) == 1, "read twice in a group that nobody left"
        leaver = members[2]
        leaver.close()
        until(lambda: state_of(bootstrap) == ("Stable", 3), 60, lambda: f"the group is {state_of(bootstrap)}")
        before = sum(len(member.values) for member in members)
        from confluent_kafka import Producer

        more = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for partition in range(PARTITIONS):
            more.produce("shared", b"more-%d" % partition, partition=partition)
        assert more.flush(20) == 0
        until(
            lambda: (
                {value for value in counts() if value.startswith("more")} == {f"more-{n}" for n in range(PARTITIONS)}
            ),
            30,
            lambda: f"{before} before, {sum(counts().values())} now",
        )
    finally:
        for member in members:
            member.stop.set()
    for member in members:
        member.close()


def state_of(bootstrap: str) -> tuple[str, int]:
    """Return the group's state and how many members it has."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    found = admin.describe_consumer_groups(["judges"])["judges"].result(20)
    return found.state.name.capitalize(), len(found.members)
