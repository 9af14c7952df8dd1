"""Programs written for kafka-python run unchanged but for their imports, and come to the same end as with it."""

import itertools
from types import SimpleNamespace

import kafka
import pytest
from kafka.structs import OffsetAndMetadata

import thinconsumer
import thinconsumer.compat.kafka
from thinconsumer.broker import BrokerProcess

#: Names from ``kafka`` and ``kafka.structs``, and the names here that replace them.
THEIRS = SimpleNamespace(
    KafkaConsumer=kafka.KafkaConsumer,
    TopicPartition=kafka.TopicPartition,
    OffsetAndMetadata=OffsetAndMetadata,
    ConsumerRebalanceListener=kafka.ConsumerRebalanceListener,
)
OURS = SimpleNamespace(
    KafkaConsumer=thinconsumer.Consumer,
    TopicPartition=thinconsumer.TopicPartition,
    OffsetAndMetadata=thinconsumer.OffsetAndMetadata,
    ConsumerRebalanceListener=thinconsumer.RebalanceListener,
)
LIBRARIES = (THEIRS, OURS, thinconsumer.compat.kafka)
pytestmark = [
    pytest.mark.once,
    pytest.mark.usefixtures("leftovers_forgiven"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PARTITIONS, EACH = 3, 6
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess() as process:
        yield process


@pytest.fixture
def all_three(broker):
    """Run a program with each library on a topic of its own: what it returned, and what it committed."""

    def run(program):
        ends = []
        for library in LIBRARIES:
            topic = f"orders-{next(NUMBERS)}"
            broker.create_topic(topic, PARTITIONS)
            for partition in range(PARTITIONS):
                broker.produce(topic, [f"{partition}/{number}".encode() for number in range(EACH)], partition)
            result = program(library, broker, topic)
            ends.append((result, committed(broker, topic)))
        return ends

    return run


def committed(broker, topic):
    """How far each partition's group is; all programs have one of their topic's name."""
    with thinconsumer.Consumer(bootstrap_servers=broker.bootstrap_servers, group_id=topic) as consumer:
        return [consumer.committed(thinconsumer.TopicPartition(topic, number)) for number in range(PARTITIONS)]


def poll_and_commit(lib, broker, topic):
    """Two runs, as of a program that is started again: each record's offset is committed after its work."""

    def work(count):
        consumer = lib.KafkaConsumer(
            topic,
            bootstrap_servers=[broker.bootstrap_servers],
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=5,
            value_deserializer=lambda data: data.decode(),
        )
        done = []
        while len(done) < count:
            for tp, messages in consumer.poll(timeout_ms=1000).items():
                for message in messages:
                    done.append((tp.partition, message.offset, message.value))
                    consumer.commit({tp: lib.OffsetAndMetadata(message.offset + 1, "", -1)})
        consumer.close()
        return sorted(done)

    first = work(PARTITIONS * EACH)
    for partition in range(PARTITIONS):
        broker.produce(topic, [b"more"], partition)
    return first, work(PARTITIONS)


def iterate(lib, broker, topic):
    """The shortest program there is: everything by itself, until nothing comes any more."""
    consumer = lib.KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=2000,
        auto_commit_interval_ms=100,
    )
    values = [message.value for message in consumer]
    consumer.close()
    return sorted(values)


def listen_and_seek(lib, broker, topic):
    """Positions are kept elsewhere: the listener goes there, and the program goes back once."""
    heard = []

    class Listener(lib.ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned):
            heard.append(("assigned", sorted(tp.partition for tp in assigned)))
            for tp in assigned:
                consumer.seek(tp, EACH - 2)

        def on_partitions_revoked(self, revoked):
            heard.append(("revoked", sorted(tp.partition for tp in revoked)))

    def read(count):
        found = []
        while len(found) < count:
            for messages in consumer.poll(timeout_ms=500, max_records=4).values():
                found += [(message.partition, message.offset) for message in messages]
        return sorted(found)

    consumer = lib.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=topic, enable_auto_commit=False)
    consumer.subscribe(topics=[topic], listener=Listener())
    last = read(PARTITIONS * 2)
    assert consumer.subscription() == {topic}
    one = lib.TopicPartition(topic, 1)
    consumer.pause(lib.TopicPartition(topic, 0))
    consumer.seek_to_beginning(one)
    again = read(EACH)
    consumer.resume(*consumer.paused())
    ends = consumer.end_offsets([one])
    where = [consumer.position(tp) for tp in sorted(consumer.assignment())]
    end = last, again, ends[one], where, consumer.committed(one), [what for what in heard if what[1]]
    consumer.close()
    return end


def without_a_group(lib, broker, topic):
    """A topic that gets a partition, and a pattern with a listener."""
    heard = []
    options = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}

    class Listener(lib.ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned):
            heard.append(assigned)

        def on_partitions_revoked(self, revoked):
            heard.append(revoked)

    def read(count):
        found = []
        while len(found) < count:
            found += [message.value for messages in consumer.poll(timeout_ms=500).values() for message in messages]
        return sorted(found)

    consumer = lib.KafkaConsumer(topic, metadata_max_age_ms=500, **options)
    first = read(PARTITIONS * EACH)
    broker.expand(topic, PARTITIONS + 1)
    broker.produce(topic, [b"added"], PARTITIONS)
    added = read(1)
    numbers = sorted(tp.partition for tp in consumer.assignment())
    consumer.close()
    consumer = lib.KafkaConsumer(**options)
    consumer.subscribe(pattern=f"{topic}$", listener=Listener())
    again = read(PARTITIONS * EACH + 1)
    where = consumer.subscription() == {topic}, consumer.position(lib.TopicPartition(topic, 0))
    end = first, added, numbers, again, where, list(heard)
    consumer.close()
    return end


ALL = [(partition, offset, f"{partition}/{offset}") for partition in range(PARTITIONS) for offset in range(EACH)]


@pytest.mark.filterwarnings("ignore:value_deserializer does not implement:DeprecationWarning")  # kafka-python's own
def test_a_poll_loop_that_commits_by_hand(all_three):
    """Each record once over two runs, and the group's offsets at the ends."""
    theirs, ours, compat = all_three(poll_and_commit)
    assert ours == theirs == compat
    assert ours == ((ALL, [(partition, EACH, "more") for partition in range(PARTITIONS)]), [EACH + 1] * PARTITIONS)


def test_an_iteration_with_auto_commit(all_three):
    """All records, and all of them committed by close()."""
    theirs, ours, compat = all_three(iterate)
    assert ours == theirs == compat
    assert ours == ([value.encode() for _, _, value in ALL], [EACH] * PARTITIONS)


def test_a_listener_that_seeks(all_three):
    """Both clients return the same records after the seek, call the listener alike, and commit nothing."""
    theirs, ours, compat = all_three(listen_and_seek)
    assert ours == theirs == compat
    (last, again, end, where, nothing, heard), offsets = ours
    assert last == [(partition, offset) for partition in range(PARTITIONS) for offset in (EACH - 2, EACH - 1)]
    assert again == [(1, offset) for offset in range(EACH)]
    assert (end, where, nothing) == (EACH, [EACH] * PARTITIONS, None)
    assert heard == [("assigned", [0, 1, 2])]
    assert offsets == [None] * PARTITIONS


def test_topics_without_a_group(all_three):
    """All partitions are read, also one that is added. No listener is called, but by kafka-python's close()."""
    theirs, ours, compat = all_three(without_a_group)
    assert ours == theirs == compat
    values = [value.encode() for _, _, value in ALL]
    assert ours[0] == (values, [b"added"], [0, 1, 2, 3], [*values, b"added"], (True, EACH), [])
