"""Other clients' transactional producers commit offsets for our members (KIP-447), and not for those of the past."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from groups import Locals
from realkafka import Administration
from realkafka.produce import confluent_producer, kafka_python_producer, numbered, with_confluent

from thinconsumer import Consumer, TopicPartition
from thinconsumer.assignors import GroupMetadata

SECONDS = 30


class Transactions:
    """The common interface of both transactional producers."""

    def begin(self) -> None: ...
    def write(self, topic: str, value: bytes) -> None: ...
    def offsets(self, tp: TopicPartition, offset: int, who: GroupMetadata) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...


class OfConfluent(Transactions):
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        producer.init_transactions(SECONDS)
        self.begin, self.commit = producer.begin_transaction, lambda: producer.commit_transaction(SECONDS)
        self.abort = lambda: producer.abort_transaction(SECONDS)

    def write(self, topic: str, value: bytes) -> None:
        self._producer.produce(topic, value)

    def offsets(self, tp: TopicPartition, offset: int, who: GroupMetadata) -> None:
        from confluent_kafka import TopicPartition as Theirs

        self._producer.send_offsets_to_transaction(
            [Theirs(tp.topic, tp.partition, offset)], who.for_confluent(), SECONDS
        )


class OfKafkaPython(Transactions):
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        producer.init_transactions()
        self.begin, self.commit, self.abort = (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
        )

    def write(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value)

    def offsets(self, tp: TopicPartition, offset: int, who: GroupMetadata) -> None:
        from kafka import ConsumerGroupMetadata, OffsetAndMetadata
        from kafka import TopicPartition as Theirs

        offsets = {Theirs(*tp): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(*who))


@contextmanager
def transactions(kind: str, bootstrap: str, name: str) -> Iterator[Transactions]:
    if kind == "confluent":
        yield OfConfluent(confluent_producer(bootstrap, transactional_id=name))
        return
    with kafka_python_producer(bootstrap, transactional_id=name) as producer:
        yield OfKafkaPython(producer)


def refusals(kind: str) -> type[Exception]:
    if kind == "confluent":
        from confluent_kafka import KafkaException

        return KafkaException
    from kafka.errors import KafkaError

    return KafkaError


def begin(
    producer: Transactions, topic: str, value: bytes, tp: TopicPartition, offset: int, who: GroupMetadata
) -> None:
    """Begin a transaction that writes one record and commits how far was read."""
    producer.begin()
    producer.write(topic, value)
    producer.offsets(tp, offset, who)


@pytest.mark.parametrize("kind", ["confluent", "kafka-python"])
def test_offsets_go_with_the_transaction_and_only_for_members_of_today(
    kafka: Administration, new_topic: Callable[..., str], kind: str
) -> None:
    """Read, process, write: what was read and what was written is committed at once, or neither is."""
    source, target = new_topic(kafka, 2), new_topic(kafka)
    tp = TopicPartition(source, 0)
    with_confluent(kafka.bootstrap, source, numbered(10))
    crew = Locals(kafka.bootstrap, source, source, 2, enable_auto_commit=False)
    member = crew.join()
    try:
        crew.poll_until(lambda: len(member.events) > 1 and crew.is_stable(), 30, "the first member")
        with transactions(kind, kafka.bootstrap, source) as producer:
            before = member.consumer.group_metadata()
            assert before.generation_id > 0 and before.member_id
            begin(producer, target, b"first", tp, 6, before)
            producer.commit()
            assert member.consumer.committed(tp) == 6

            begin(producer, target, b"aborted", tp, 8, before)
            producer.abort()
            assert member.consumer.committed(tp) == 6

            crew.join()
            crew.poll_until(crew.is_stable, 30, "the second member")
            after = member.consumer.group_metadata()
            assert after.generation_id > before.generation_id
            with pytest.raises(refusals(kind)) as caught:
                begin(producer, target, b"from the past", tp, 9, before)
            print(repr(caught.value))
            producer.abort()
            assert member.consumer.committed(tp) == 6

            begin(producer, target, b"last", tp, 10, after)
            producer.commit()
            assert member.consumer.committed(tp) == 10
    finally:
        crew.close()
    with Consumer(
        bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as reader:
        reader.assign([TopicPartition(target, 0)])
        assert [record.value for record in reader.read_to_end(30_000)] == [b"first", b"last"]
