"""Records for tests, written by other people's producers: kafka-python's and librdkafka's (confluent-kafka).

Owns no cluster. Two writers, because what one never does (raw snappy, lz4 frames with content sizes, batches of one)
the other does.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .admin import Record, quiet_kafka_python

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DELIVERY_SECONDS = 60


class New(NamedTuple):
    """A record to write; a value of None is a tombstone, a timestamp of None is now."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int = 0


def numbered(count: int, *, partition: int = 0, size: int = 0) -> list[New]:
    """Return records with values that count up, padded to ``size`` bytes."""
    return [New(str(number).encode().ljust(size, b"."), partition=partition) for number in range(count)]


# -- librdkafka


def confluent_producer(bootstrap: str, codec: str = "none", **options: Any) -> Any:
    """A confluent-kafka producer; options by librdkafka's names with underscores for dots."""
    from confluent_kafka import Producer

    config = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, "log_level": 0}
    config.update({name.replace("_", "."): value for name, value in options.items()})
    return Producer(config)


def with_confluent(
    bootstrap: str, topic: str, records: Iterable[New], codec: str = "none", **options: Any
) -> list[Record]:
    """Write the records and return them as they were acknowledged, in order; options as librdkafka's.

    ``enable_idempotence=True`` for instance; ``batch_num_messages`` and ``linger_ms`` shape batches.
    """
    producer = confluent_producer(bootstrap, codec, **options)
    return _produce(producer, topic, records)


def transactions_with_confluent(
    bootstrap: str, topic: str, transactions: Sequence[tuple[bool, Sequence[New]]], codec: str = "none"
) -> list[Record]:
    """Write one transaction after the other, each committed or aborted, and return the records of committed ones."""
    producer = confluent_producer(bootstrap, codec, transactional_id=f"tx-{topic}")
    producer.init_transactions(DELIVERY_SECONDS)
    committed = []
    for commit, records in transactions:
        producer.begin_transaction()
        written = _produce(producer, topic, records)
        if commit:
            producer.commit_transaction(DELIVERY_SECONDS)
            committed += written
        else:
            producer.abort_transaction(DELIVERY_SECONDS)
    return committed


def _produce(producer: Any, topic: str, records: Iterable[New]) -> list[Record]:
    acknowledged: list[Record] = []
    errors: list[Any] = []

    def delivered(record: New, error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)
            return
        kind, timestamp = message.timestamp()
        kind -= 1  # librdkafka counts from "not available"
        place = (message.partition(), message.offset(), timestamp, kind)
        acknowledged.append(Record(*place, record.key, record.value, record.headers))  # it forgets the headers

    for record in records:
        more: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    record.partition,
                    headers=list(record.headers),
                    on_delivery=functools.partial(delivered, record),
                    **more,
                )
                break
            except BufferError:  # its queue is full
                producer.poll(1)
        producer.poll(0)
    left = producer.flush(DELIVERY_SECONDS)
    if left or errors:
        raise RuntimeError(f"{left} records not delivered, {len(errors)} refused: {errors[:3]}")
    return sorted(acknowledged, key=lambda record: record[:2])


# -- kafka-python


@contextlib.contextmanager
def kafka_python_producer(bootstrap: str, codec: str = "none", **options: Any) -> Iterator[Any]:
    """A kafka-python producer for as long as the block runs; options as kafka-python's."""
    from kafka import KafkaProducer

    with quiet_kafka_python():
        producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            compression_type=None if codec == "none" else codec,
            **{"linger_ms": 5, **options},
        )
        try:
            yield producer
        finally:
            producer.close(timeout=60)  # its thread closes the sockets, and has to get that far


def with_kafka_python(
    bootstrap: str, topic: str, records: Iterable[New], codec: str = "none", **options: Any
) -> list[Record]:
    """Write the records and return them as they were acknowledged, in order; options as kafka-python's.

    It refuses headers without a value, and records with neither key nor value.
    """
    with kafka_python_producer(bootstrap, codec, **options) as producer:
        return _send(producer, topic, records)


def transactions_with_kafka_python(
    bootstrap: str, topic: str, transactions: Sequence[tuple[bool, Sequence[New]]], codec: str = "none"
) -> list[Record]:
    """Write one transaction after the other, each committed or aborted, and return the records of committed ones."""
    committed = []
    with kafka_python_producer(bootstrap, codec, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        for commit, records in transactions:
            producer.begin_transaction()
            written = _send(producer, topic, records)
            if commit:
                producer.commit_transaction()
                committed += written
            else:
                producer.abort_transaction()
    return committed


def _send(producer: Any, topic: str, records: Iterable[New]) -> list[Record]:
    sent = []
    for record in records:
        future = producer.send(
            topic, record.value, record.key, list(record.headers), record.partition, record.timestamp
        )
        sent.append((record, future))
    producer.flush(DELIVERY_SECONDS)
    written = []
    for record, future in sent:
        done = future.get(DELIVERY_SECONDS)
        written.append(Record(done.partition, done.offset, done.timestamp, 0, record.key, record.value, record.headers))
    return sorted(written, key=lambda record: record[:2])


# -- for as long as something else happens


class SteadyProducer:
    """An idempotent producer (acks=all) that writes counting values to every partition until told to stop.

    ``acknowledged[partition]`` counts what the cluster has promised to keep.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, records_per_second: float = 500) -> None:
        self.acknowledged = dict.fromkeys(range(partitions), 0)
        self.errors: list[str] = []
        self._producer = confluent_producer(
            bootstrap,
            enable_idempotence=True,
            acks="all",
            delivery_timeout_ms=300_000,
            reconnect_backoff_max_ms=500,
            retry_backoff_max_ms=500,
        )
        self._topic = topic
        self._pause = partitions / records_per_second
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> dict[int, int]:
        """Stop, wait until everything is acknowledged, and return how many records each partition got."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
            left = self._producer.flush(120)
            if left or self.errors:
                raise RuntimeError(f"{left} records not delivered; {self.errors[:3]}")
        return dict(self.acknowledged)

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(self._pause):
            for partition in self.acknowledged:
                with contextlib.suppress(BufferError):
                    self._producer.produce(
                        self._topic, str(number).encode(), partition=partition, on_delivery=self._delivered
                    )
            number += 1
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged[message.partition()] += 1
