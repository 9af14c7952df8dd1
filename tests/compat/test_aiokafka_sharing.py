"""Several tasks call aiokafka's consumer at random, and are cancelled at random; and it works without aiokafka."""

import asyncio
import random
import subprocess
import sys
from collections import Counter
from functools import partial

import pytest

from thinconsumer import KafkaError
from thinconsumer.compat.aiokafka import AIOKafkaConsumer
from thinconsumer_testing.broker.process import BrokerProcess

pytestmark = pytest.mark.once
PARTITIONS, EACH = 3, 200
TOTAL = PARTITIONS * EACH


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess(nodes=1) as found:
        yield found


class Reader:
    """Tasks that call one consumer, until all records were returned."""

    def __init__(self, consumer, chance, found):
        self.consumer = consumer
        self.chance = chance
        self.found = found

    async def read(self):
        while len(self.found) < TOTAL:
            await self.call()

    async def call(self):
        """Make one call, and perhaps cancel it; count the records that it returns."""
        chance, consumer = self.chance, self.consumer
        kind = chance.choice(["one", "many", "many", "commit", "topics", "pause"])
        assignment = list(consumer.assignment())
        some = chance.sample(assignment, 1) if assignment and chance.random() < 0.5 else ()
        if kind == "pause":
            if assignment:
                tp = chance.choice(assignment)
                consumer.pause(tp)
                consumer.resume(tp)
            await asyncio.sleep(0)
            return
        calls = {"one": partial(consumer.getone, *some), "commit": consumer.commit, "topics": consumer.topics}
        many = consumer.getmany(*some, timeout_ms=20, max_records=chance.randrange(1, 20)) if kind == "many" else None
        task = asyncio.ensure_future(many if many is not None else calls[kind]())
        if chance.random() < 0.4:
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
        else:
            await asyncio.wait([task], timeout=0.2)
        task.cancel()
        try:
            result = await task
        except (asyncio.CancelledError, KafkaError):  # a commit during a rebalance
            return
        lists = [[result]] if kind == "one" else result.values() if kind == "many" else []
        self.found.update((record.partition, record.offset) for records in lists for record in records)


@pytest.mark.parametrize("seed", range(3))
def test_each_record_is_returned_once_to_tasks_that_are_cancelled_at_random(broker, seed):
    topic, group = f"shared-{seed}", f"shared-{seed}"
    broker.create_topic(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        for n in range(0, EACH, 10):
            broker.produce(topic, [b"%d" % m for m in range(n, n + 10)], partition)

    async def main():
        chance, found = random.Random(seed), Counter()
        options = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
        options |= {"heartbeat_interval_ms": 50, "auto_commit_interval_ms": 50}
        one, two = (AIOKafkaConsumer(topic, group_id=group, **options) for _ in range(2))

        async def join():
            await two.start()
            await Reader(two, chance, found).read()

        async with one:
            tasks = [asyncio.ensure_future(Reader(one, chance, found).read()) for _ in range(3)]
            tasks.append(asyncio.ensure_future(join()))
            await asyncio.gather(*tasks)
            await two.stop()
        left = [task for task in asyncio.all_tasks() if "/thinconsumer/" in repr(task)]
        return found, left

    found, left = asyncio.run(asyncio.wait_for(main(), 50))
    assert len(found) == TOTAL
    assert set(found.values()) == {1}
    assert left == []


WITHOUT_AIOKAFKA = """
import asyncio, sys
sys.modules["aiokafka"] = None
from thinconsumer import errors
from thinconsumer.compat.aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from thinconsumer.compat.aiokafka.errors import CorruptRecordException, KafkaError, NoOffsetForPartitionError
from thinconsumer.compat.aiokafka.structs import OffsetAndMetadata

class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked): pass
    def on_partitions_assigned(self, assigned): print(sorted(assigned))

async def main():
    async with AIOKafkaConsumer(bootstrap_servers=sys.argv[1], group_id="alone", auto_offset_reset="none") as consumer:
        consumer.subscribe(["alone"], listener=Listener())
        try:
            await consumer.getone()
        except NoOffsetForPartitionError as error:
            print(isinstance(error, errors.NoOffsetForPartitionError), isinstance(error, KafkaError))
        tp = TopicPartition("alone", 0)
        consumer.seek(tp, 0)
        print((await consumer.getone()).value)
        await consumer.commit({tp: OffsetAndMetadata(1, "")})
        print(await consumer.committed(tp), CorruptRecordException is errors.CorruptRecordError)

asyncio.run(main())
"""


def test_without_aiokafka_this_packages_classes_have_its_names(broker):
    broker.create_topic("alone", 1)
    broker.produce("alone", [b"first"])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_AIOKAFKA, broker.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[TopicPartition(topic='alone', partition=0)]",
        "True True",
        "b'first'",
        "1 True",
    ]


@pytest.mark.parametrize("timeout_ms", [60_000, float("inf")])
@pytest.mark.parametrize("turns", range(4))
def test_a_cancellation_that_comes_with_the_end_of_a_wait_is_kept(broker, turns, timeout_ms):
    async def main():
        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            waiting = asyncio.ensure_future(consumer.getmany(timeout_ms=timeout_ms))  # nothing is assigned
            await asyncio.sleep(0.02)
            consumer._consumer._wake()
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting], timeout=2)
            return waiting.cancelled()

    assert asyncio.run(main())
