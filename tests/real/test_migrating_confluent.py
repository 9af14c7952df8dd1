"""Programs of confluent-kafka and their counterparts in docs/migrating.md come to the same end."""

import contextlib

import pytest

from thinconsumer import Consumer, RebalanceListener, TopicPartition
from thinconsumer.broker import BrokerProcess

confluent = pytest.importorskip("confluent_kafka")

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("leftovers_forgiven")]
EACH = 6
SETTINGS = {"auto.offset.reset": "smallest", "enable.auto.commit": False, "session.timeout.ms": 10000}


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess() as process:
        for topic in ("theirs", "ours"):
            process.create_topic(topic, 2)
            for partition in (0, 1):
                process.produce(topic, [b"%d/%d" % (partition, number) for number in range(EACH)], partition)
        yield process


def settings(broker, group):
    return {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, **SETTINGS}


def committed(broker, group):
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id=group) as consumer:
        return [consumer.committed(TopicPartition(group, partition)) for partition in (0, 1)]


def with_confluent(broker):
    """Read both partitions to their end, partition 1 from offset 2 on, and commit what was read."""
    found, ended = [], set()
    config = settings(broker, "theirs") | {"enable.partition.eof": True, "enable.auto.commit": True}
    consumer = confluent.Consumer(config | {"enable.auto.offset.store": False})

    def on_assign(consumer, partitions):
        for one in partitions:
            one.offset = 2 if one.partition == 1 else 0
        consumer.assign(partitions)

    with contextlib.closing(consumer):
        consumer.subscribe(["theirs"], on_assign=on_assign)
        while len(ended) < 2:
            for message in consumer.consume(100, 0.5):
                if message.error():
                    ended.add(message.partition())
                    continue
                found.append((message.partition(), message.offset(), message.value()))
                consumer.store_offsets(message)
    return sorted(found)


def with_thinconsumer(broker):
    """The same."""

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, assigned):
            for tp in assigned:
                consumer.seek(tp, 2 if tp.partition == 1 else 0)

    found = []
    with Consumer.from_config(settings(broker, "ours")) as consumer:
        consumer.subscribe(["ours"], listener=Listener())
        for record in consumer.read_to_end():
            found.append((record.partition, record.offset, record.value))
            consumer.commit_async(record)
        assert consumer.lag() == {TopicPartition("ours", partition): 0 for partition in (0, 1)}
    return sorted(found)


def test_store_offsets_on_assign_and_the_end_of_a_partition(broker):
    expected = [(partition, n, b"%d/%d" % (partition, n)) for partition in (0, 1) for n in range(partition * 2, EACH)]
    assert with_confluent(broker) == with_thinconsumer(broker) == expected
    assert committed(broker, "theirs") == committed(broker, "ours") == [EACH, EACH]


def test_poll_returns_at_most_that_many_records_and_waits_in_milliseconds(broker):
    with Consumer.from_config(settings(broker, "few")) as consumer:
        consumer.assign([TopicPartition("ours", 0)])
        polled = consumer.poll(5000, max_records=4)
        assert [record.offset for records in polled.values() for record in records] == [0, 1, 2, 3]
