"""Other Kafka clients on the embedded broker: they consume exactly what they produce, once and in order.

Group tests are in ``test_other_clients``. kafka-python and confluent-kafka have threads of their own, so a thread
serves the broker; aiokafka shares its event loop.
"""

import asyncio
import threading
import time
from contextlib import asynccontextmanager, contextmanager

import aiokafka
import aiokafka.errors
import kafka
import pytest
from kafka.structs import TopicPartition as KafkaPythonPartition

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.acl.authorizer import STANDARD_AUTHORIZER
from thinconsumer_testing.broker.faults import Delay, Disconnect, Reply
from thinconsumer_testing.broker.server import EmbeddedBroker

pytestmark = [
    pytest.mark.once,
    pytest.mark.usefixtures("leftovers_forgiven"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
COUNT = 1500


@contextmanager
def served(nodes=1, topics=None, **more):
    """A broker that is served by a thread; use it only before and after, not meanwhile."""
    with EmbeddedBroker(nodes, topics or {"orders": 3}, **more) as broker:
        thread = threading.Thread(target=broker.serve_forever)
        thread.start()
        try:
            yield broker
        finally:
            broker.stop()
            thread.join(10)
        assert broker.cluster.bugs == []


@asynccontextmanager
async def watched(nodes=1, topics=None, **more):
    """A broker that shares the running event loop."""
    loop = asyncio.get_running_loop()
    with EmbeddedBroker(nodes, topics or {"orders": 3}, **more) as broker:
        timer = None

        def step():
            nonlocal timer
            broker.step()
            if timer is not None:
                timer.cancel()
            timer = loop.call_later(max(0.0, min(broker.wake_at() - time.monotonic(), 60.0)), step)

        loop.add_reader(broker.fileno(), step)
        step()
        try:
            yield broker
        finally:
            loop.remove_reader(broker.fileno())
            timer.cancel()
        assert broker.cluster.bugs == []


def by_partition(records):
    """Sort records into (partition, offset, key, value)."""
    return sorted((r.partition, r.offset, r.key, r.value) for r in records)


def expected(sent):
    """Return the expected records; ``sent``: (partition, key, value) in order."""
    ends = {}
    found = []
    for partition, key, value in sent:
        offset = ends.get(partition, 0)
        ends[partition] = offset + 1
        found.append((partition, offset, key, value))
    return sorted(found)


SENT = [(n % 3, b"key-%d" % n if n % 4 else None, b"value-%d" % n * (1 + n % 7)) for n in range(COUNT)]


# -- kafka-python


def kafka_python_reads(broker, count, **options):
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", group_id=None, **options
    )
    consumer.assign([KafkaPythonPartition("orders", partition) for partition in range(3)])
    found, deadline = [], time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(200).values():
            found += records
    consumer.close()
    return found


def test_kafka_python_retries_after_errors_and_lost_responses():
    """Its producer is idempotent: a batch that is resent after a lost response is stored once."""
    with served(nodes=2, topics={"orders": 3}) as broker:
        for action in (Disconnect(after=True), Reply(Code.NOT_LEADER_OR_FOLLOWER), Disconnect(), Delay(0.2)):
            broker.on("Produce", action, times=2)
            broker.on("Fetch", action, times=1)
        producer = kafka.KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, acks="all", enable_idempotence=True, retry_backoff_ms=10,
            reconnect_backoff_ms=10,
        )  # fmt: skip
        sent = SENT[:300]
        for number, (partition, key, value) in enumerate(sent):
            producer.send("orders", value, key=key, partition=partition)
            if number % 30 == 0:
                producer.flush(20)
        producer.flush(20)
        producer.close()
        found = kafka_python_reads(broker, len(sent), retry_backoff_ms=10, reconnect_backoff_ms=10)
        assert len(list(broker.cluster.rules)) == 0
    assert by_partition(found) == expected(sent)


# -- aiokafka


async def aiokafka_reads(broker, count, **options):
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", group_id=None, **options
    )
    await consumer.start()
    consumer.assign([aiokafka.TopicPartition("orders", partition) for partition in range(3)])
    found, deadline = [], time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            found += records
    await consumer.stop()
    return found


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_aiokafka_produces_and_consumes_on_the_brokers_thread(acks):
    async def main():
        async with watched(nodes=2) as broker:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks=acks, linger_ms=2)
            await producer.start()
            for partition, key, value in SENT:
                await producer.send("orders", value, key=key, partition=partition)
            await producer.flush()
            await producer.stop()
            return await aiokafka_reads(broker, COUNT)

    assert by_partition(asyncio.run(main())) == expected(SENT)


def test_aiokafka_follows_leader_changes():
    async def main():
        async with watched(nodes=3) as broker:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True, retry_backoff_ms=10
            )
            await producer.start()
            sent = SENT[:300]
            for number, (partition, key, value) in enumerate(sent):
                future = await producer.send("orders", value, key=key, partition=partition)
                if number in (50, 100):
                    await future
                    broker.kill(1 + number // 100, noticed_after_s=0)
                if number == 75:
                    broker.start(1)
                if number % 10 == 0:
                    await future
            await producer.flush()
            await producer.stop()
            return sent, await aiokafka_reads(broker, len(sent))

    sent, found = asyncio.run(main())
    assert by_partition(found) == expected(sent)


# -- ACLs


def test_kafka_python_manages_acls():
    """The admin client creates, lists and deletes ACLs; a consumer and a producer work as far as they allow."""
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        KafkaAdminClient,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )

    def login(name):
        return {
            "bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
            "sasl_plain_username": name, "sasl_plain_password": "secret",
        }  # fmt: skip

    def acl(kind, name, operation, permission=ACLPermissionType.ALLOW, **pattern):
        resource = ResourcePattern(kind, name, **pattern)
        return ACL("User:alice", "*", operation, permission, resource)

    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
    users = {"security.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN",
             "user_admin": "secret", "user_alice": "secret"}  # fmt: skip
    with served(config=config, security=users) as broker:
        bootstrap = broker.bootstrap_servers
        admin = KafkaAdminClient(**login("admin"))
        consumer = kafka.KafkaConsumer(group_id="billing", auto_offset_reset="earliest", **login("alice"))
        consumer.subscribe(["orders"])
        with pytest.raises(kafka.errors.AuthorizationError):
            consumer.poll(5000)
        prefixed = acl(ResourceType.TOPIC, "ord", ACLOperation.ALL, pattern_type=ACLResourcePatternType.PREFIXED)
        rows = [acl(ResourceType.GROUP, "billing", ACLOperation.READ), prefixed]
        created = admin.create_acls(rows)
        assert (len(created["succeeded"]), created["failed"]) == (2, [])
        producer = kafka.KafkaProducer(**login("alice"))
        producer.send("orders", b"x").get(10)
        producer.close()
        deadline, found = time.monotonic() + 20, {}
        while not found and time.monotonic() < deadline:
            try:
                found = consumer.poll(500)
            except kafka.errors.AuthorizationError:
                pass
        assert [record.value for records in found.values() for record in records] == [b"x"]
        consumer.close()
        everything = ACLFilter(
            "User:alice", None, ACLOperation.ANY, ACLPermissionType.ANY,
            ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
        )  # fmt: skip
        described, error = admin.describe_acls(everything)
        assert error is kafka.errors.NoError and set(described) == set(rows)
        [(_, deleted, error)] = admin.delete_acls([everything])
        assert error is kafka.errors.NoError and len(deleted) == 2
        assert admin.describe_acls(everything)[0] == []
        admin.close()
