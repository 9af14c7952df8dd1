"""Records move to other partitions when the partition count of a topic with ordered delivery changes (KIP-253)."""

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer import TopicPartition
from thinconsumer.broker import Disconnect
from thinconsumer.errors import KafkaError
from thinconsumer.linear_hashing import partition_of
from thinconsumer.partitioning import murmur2
from thinconsumer.produce.accumulator import is_unresolved, plan
from thinconsumer.produce.batch import NO_SEQUENCE, BatchEvent, PartitionQueue, ProducerBatch, SendFuture, size_of
from thinconsumer.records.builder import NewRecord
from thinconsumer.support.timers import Backoff, Retry
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.faults import Edit

CONFIGS = {"enable.ordered.delivery": "true"}


def new_queue(number):
    return PartitionQueue(TopicPartition("t", number), Retry(Backoff(0.1, 1.0), random.Random(1)))


def new_batch(queue, *values, deadline=9.0, **more):
    batch = ProducerBatch(queue.tp, deadline, **more)
    batch.records = [NewRecord(b"%d" % value, b"k%d" % value, (), 0) for value in values]
    batch.size = sum(map(size_of, batch.records))
    queue.batches.append(batch)
    return batch


def send(queue, *, maybe_appended=False):
    """The first batch of a queue was sent and rejected, or has got no response."""
    first = queue.batches[0]
    first.move(BatchEvent.SEAL)
    queue.number(first)
    first.move(BatchEvent.SENT)
    first.move(BatchEvent.TRY_AGAIN)
    first.maybe_appended = maybe_appended


def values(queue):
    return [[int(record.value) for record in batch.records] for batch in queue.batches]


def by_value(count):
    return lambda record, size, partition: int(record.value) % count


def move(queues, choose, *, batch_size=1000):
    made = {queue.tp.partition: queue for queue in queues}
    planned = plan(list(queues), 7, choose, lambda number: made.setdefault(number, new_queue(number)), batch_size)
    return planned, made


# -- the plan


def test_futures_follow_split_batches_that_were_moved():
    queue = new_queue(0)
    head, tail = new_batch(queue, 0, 1), new_batch(queue, 2, 3)
    head.split_tail = tail
    futures = [SendFuture(head, index, 0) for index in range(4)]
    planned, made = move([queue], by_value(4))
    planned.carry_out()
    for number in range(4):
        made[number].batches[0].fail(KafkaError(f"of {number}"))
    assert [str(future.error) for future in futures] == [f"of {number}" for number in range(4)]


def test_a_pinned_batch_in_flight_stays_the_first():
    queue, other = new_queue(0), new_queue(1)
    pinned = new_batch(queue, 11, is_pinned=True)
    pinned.move(BatchEvent.SEAL)
    queue.number(pinned)
    pinned.move(BatchEvent.SENT)
    new_batch(other, 4)
    assert not is_unresolved(queue)
    planned, _ = move([other, queue], by_value(2))
    planned.carry_out()
    # Records of another queue may come first in the plan, but not before a batch that is in flight.
    assert queue.batches[0] is pinned
    assert queue.next_sequence == 1


def test_sequence_numbers_of_a_rejected_batch_are_used_again():
    queue = new_queue(0)
    queue.adopt(5, 0)
    queue.next_sequence = 100
    new_batch(queue, 1, 2, 3)
    send(queue)
    assert queue.next_sequence == 103
    planned, _ = move([queue], by_value(2))
    planned.carry_out()
    assert queue.next_sequence == 100
    assert [batch.base_sequence for batch in queue.batches] == [NO_SEQUENCE]


def test_a_queue_is_unresolved_while_its_first_batch_may_be_in_the_log():
    queue = new_queue(0)
    assert not is_unresolved(queue)
    batch = new_batch(queue, 1)
    assert not is_unresolved(queue)
    send(queue, maybe_appended=True)
    assert is_unresolved(queue)
    batch.maybe_appended = False
    assert not is_unresolved(queue)
    batch.move(BatchEvent.SENT)
    assert is_unresolved(queue)


def test_full_batches_are_sealed_and_deadlines_are_those_of_the_records():
    one, two = new_queue(0), new_queue(1)
    new_batch(one, 0, 2, deadline=5.0)
    new_batch(two, 4, 6, deadline=3.0, deadline_extended=True)
    size = size_of(one.batches[0].records[0])
    planned, _ = move([one, two], lambda record, size, partition: 0, batch_size=3 * size)
    planned.carry_out()
    assert values(one) == [[0, 2, 4], [6]]
    assert [batch.state.value for batch in one.batches] == ["sealed", "open"]
    assert [batch.deadline for batch in one.batches] == [3.0, 3.0]
    assert [batch.size for batch in one.batches] == [3 * size, size]
    assert two.batches == deque()


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=8), min_size=1, max_size=4),
    st.integers(1, 6),
    st.integers(30, 300),
)
@settings(max_examples=60)
def test_every_record_is_in_one_batch_and_each_key_in_order(batches, count, batch_size):
    queues = [new_queue(number) for number in range(3)]
    sent, serial = {}, 0
    for rows in batches:
        for key, is_pinned in rows:
            queue = queues[key % 3]
            if not queue.batches or queue.batches[-1].is_pinned is not is_pinned:
                queue.batches.append(ProducerBatch(queue.tp, 9.0, is_pinned=is_pinned))
            queue.batches[-1].records.append(NewRecord(b"%d" % serial, b"%d" % key, (), 0))
            sent.setdefault((key, is_pinned), []).append(serial)
            serial += 1
    planned, made = move(queues, lambda record, size, partition: int(record.key) % count, batch_size=batch_size)
    planned.carry_out()
    found = {}
    for number, queue in made.items():
        for batch in queue.batches:
            for record in batch.records:
                key = int(record.key)
                assert number == (key % 3 if batch.is_pinned else key % count)
                found.setdefault((key, batch.is_pinned), []).append(int(record.value))
    assert found == sent


# -- with brokers


def ordered_world(world, nodes=1, count=2, **options):
    w = world(nodes, {})
    w.cluster.create_topic("t", count, min(nodes, 2), CONFIGS)
    return w, w.producer(**options)


def everything(w):
    """Return {key: values in the order of the log} and {key: partition of each record}."""
    order, places = {}, {}
    for row in w.cluster.controller.image.topics["t"].partitions:
        for record in w.cluster.records("t", row.partition):
            order.setdefault(record.key, []).append(int(record.value))
            places.setdefault(record.key, []).append(row.partition)
    return order, places


def right(key, count, initial=2):
    return partition_of(murmur2(key) & 0x7FFFFFFF, initial, count)


KEYS = [b"key-%d" % number for number in range(24)]


def send_all(producer, first, last):
    return [producer.send("t", b"%d" % n, key=KEYS[n % len(KEYS)]) for n in range(first, last)]


def check_logs(w, futures, *, initial=2):
    """Each record is in the log once, and each future knows where."""
    order, _ = everything(w)
    assert sorted(value for found in order.values() for value in found) == list(range(len(futures)))
    for number, future in enumerate(futures):
        result = future.result()
        records = {record.offset: record for record in w.cluster.records("t", result.partition)}
        assert int(records[result.offset].value) == number


def test_keyed_records_go_to_the_partition_of_linear_hashing(world):
    w, producer = ordered_world(world, count=3)
    w.cluster.expand("t", 5)
    futures = send_all(producer, 0, 48)
    producer.flush()
    _, places = everything(w)
    assert places == {key: [right(key, 5, 3)] * 2 for key in KEYS}
    counts = {topic.undeleted_partition_count for got in w.requests() for topic in got.message.topic_data}
    assert counts == {5}
    check_logs(w, futures)


def test_records_without_a_key_avoid_partitions_marked_for_deletion(world):
    w, producer = ordered_world(world, batch_size=200)
    w.cluster.expand("t", 6)
    w.cluster.shrink("t", 3)
    futures = [producer.send("t", b"v" * 50) for _ in range(40)]
    producer.flush()
    used = {future.result().partition for future in futures}
    assert used <= {0, 1, 2}
    assert len(used) > 1


@pytest.mark.parametrize("change", [("expand", 7), ("shrink", 2)])
def test_queued_records_move_when_a_broker_rejects_the_count(world, change):
    w, producer = ordered_world(world)
    w.cluster.expand("t", 4)
    futures = send_all(producer, 0, 24)
    producer.flush()
    getattr(w.cluster, change[0])("t", change[1])
    futures += send_all(producer, 24, 240)
    producer.flush()
    order, _ = everything(w)
    for key in KEYS:
        assert sorted(order[key]) == [n for n in range(240) if KEYS[n % 24] == key]
    for row in w.cluster.controller.image.topics["t"].partitions:
        values = [int(record.value) for record in w.cluster.records("t", row.partition)]
        counts = [4 if value < 24 else change[1] for value in values]
        keys = [KEYS[value % 24] for value in values]
        assert [right(*pair) for pair in zip(keys, counts, strict=True)] == [row.partition] * len(values)
        for key in KEYS:
            own = [value for value in values if KEYS[value % 24] == key]
            assert own == sorted(own)
    check_logs(w, futures)


def test_records_for_an_explicit_partition_stay_and_are_sent_without_a_count(world):
    w, producer = ordered_world(world)
    w.cluster.expand("t", 4)
    producer.send("t", b"0", key=KEYS[0])
    producer.flush()
    w.cluster.shrink("t", 2)
    future = producer.send("t", b"1", key=KEYS[0], partition=3)
    other = producer.send("t", b"2", key=KEYS[0])
    producer.flush()
    assert future.result().partition == 3
    assert other.result().partition == right(KEYS[0], 2)


def test_a_batch_whose_response_was_lost_is_found_in_the_log(world):
    """It was written with the old count; sent again elsewhere, its records would be in two partitions."""
    w, producer = ordered_world(world)
    producer.send("t", b"0", key=KEYS[0])
    producer.flush()
    w.cluster.on("Produce", Disconnect(after=True, reset=True), times=1)
    w.cluster.on("Metadata", Disconnect(), times=1)
    futures = send_all(producer, 1, 240)
    producer.poll(0)
    w.cluster.expand("t", 8)
    futures += send_all(producer, 240, 480)
    producer.flush()
    order, _ = everything(w)
    assert sorted(value for found in order.values() for value in found) == list(range(480))
    assert all(future.error is None for future in futures)


def test_a_batch_whose_leader_was_deposed_before_the_other_replicas_had_it_is_found_in_the_log(world):
    """The response has an error, and the offset of the batch, as Kafka's DelayedProduce writes it."""

    def depose(call, response):
        for topic in response.responses:
            for one in topic.partition_responses:
                assert one.base_offset >= 0
                one.error_code = Code.NOT_LEADER_OR_FOLLOWER

    w, producer = ordered_world(world)
    w.cluster.on("Produce", Edit(depose), times=1)
    futures = send_all(producer, 0, 240)
    for _ in range(100):
        producer.poll(1)
        if any(w.values(partition=number) for number in (0, 1)):
            break
    w.cluster.expand("t", 8)
    futures += send_all(producer, 240, 480)
    producer.flush()
    order, _ = everything(w)
    assert sorted(value for found in order.values() for value in found) == list(range(480))
    assert all(future.error is None for future in futures)


@pytest.mark.parametrize("seed", range(12))
def test_each_key_stays_in_order_through_changes_and_lost_responses(world, seed):
    """For each key, the records of any partition come before those of the partition that it moved to."""
    chance = random.Random(seed)
    w, producer = ordered_world(world, nodes=2, batch_size=400, delivery_timeout_ms=60_000)
    futures = []
    written = {key: [] for key in KEYS}
    for _ in range(12):
        first = len(futures)
        futures += send_all(producer, first, first + chance.randrange(60))
        if chance.random() < 0.4:
            w.cluster.on("Produce", Disconnect(after=chance.random() < 0.7, reset=True), times=1)
        producer.poll(chance.randrange(20))
        have = w.cluster.controller.image.topics["t"].ordered.undeleted_partition_count
        wanted = chance.choice([2, 3, 4, 5, 8])
        if chance.random() < 0.3:
            w.cluster.move_leader(("t", chance.randrange(have)))
        if wanted != have:
            if wanted > have:
                producer.flush()  # with a partition that is removed, its log forgets what was written
            for row in w.cluster.controller.image.topics["t"].partitions[have:] if wanted > have else ():
                leader = w.cluster.leader(row.tp)
                for record in w.cluster.records("t", row.partition):
                    written[record.key].append(int(record.value))
                w.cluster.delete_records(row.tp, leader.log.end_offset)
            w.cluster.controller.create_partitions("t", wanted)
            if chance.random() < 0.5:
                producer.poll(chance.randrange(200))
    producer.flush()
    assert all(future.error is None for future in futures)
    for row in w.cluster.controller.image.topics["t"].partitions:
        last = {}
        for record in w.cluster.records("t", row.partition):
            assert last.get(record.key, -1) < int(record.value), "a partition has a key out of order or twice"
            last[record.key] = int(record.value)
            written[record.key].append(int(record.value))
    seen = sorted(value for found in written.values() for value in found)
    assert seen == list(range(len(futures)))


def test_a_count_that_the_metadata_do_not_have_yet_is_retried(world):
    w, producer = ordered_world(world)
    w.refuse_produce(*[Code.INVALID_PARTITION_METADATA] * 3)
    futures = send_all(producer, 0, 24)
    producer.flush()
    check_logs(w, futures)
    assert {stamp[:2] for stamp in w.stamps()} == {(0, 0)}


@pytest.mark.parametrize("partition", [None, 1])
def test_both_halves_of_a_batch_that_is_split_have_its_count(world, partition):
    w, producer = ordered_world(world)
    w.refuse_produce(Code.MESSAGE_TOO_LARGE)
    futures = [producer.send("t", b"%d" % number, key=KEYS[0], partition=partition) for number in range(8)]
    producer.flush()
    counts = {topic.undeleted_partition_count for got in w.requests() for topic in got.message.topic_data}
    assert counts == {2 if partition is None else -1}
    check_logs(w, futures)


def test_a_topic_that_was_created_again_without_ordered_delivery(world):
    w, producer = ordered_world(world)
    send_all(producer, 0, 24)
    producer.flush()
    w.cluster.delete_topic("t")
    w.cluster.create_topic("t", 3, 1)
    futures = send_all(producer, 0, 24)
    producer.flush()
    _, places = everything(w)
    assert places == {key: [(murmur2(key) & 0x7FFFFFFF) % 3] for key in KEYS}
    check_logs(w, futures)
