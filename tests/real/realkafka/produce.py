"""Records for tests, written by the producers of librdkafka (confluent-kafka) and kafka-python."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .admin import quiet_kafka_python

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


def confluent_producer(bootstrap: str, **options: Any) -> Any:
    """A confluent-kafka producer; options by librdkafka's names with underscores for dots."""
    from confluent_kafka import Producer

    config = {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0}
    config.update({name.replace("_", "."): value for name, value in options.items()})
    return Producer(config)


def with_confluent(bootstrap: str, topic: str, records: Iterable[New]) -> None:
    """Write the records, and wait until all are acknowledged."""
    producer = confluent_producer(bootstrap)
    errors: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)

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
                    on_delivery=delivered,
                    **more,
                )
                break
            except BufferError:  # its queue is full
                producer.poll(1)
        producer.poll(0)
    left = producer.flush(DELIVERY_SECONDS)
    if left or errors:
        raise RuntimeError(f"{left} records not delivered, {len(errors)} rejected: {errors[:3]}")


# -- kafka-python


@contextlib.contextmanager
def kafka_python_producer(bootstrap: str, **options: Any) -> Iterator[Any]:
    """A kafka-python producer for as long as the block runs; options as kafka-python's."""
    from kafka import KafkaProducer

    with quiet_kafka_python():
        producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), **{"linger_ms": 5, **options})
        try:
            yield producer
        finally:
            producer.close(timeout=60)  # its thread closes the sockets, and has to get that far


# -- for as long as something else happens


class SteadyProducer:
    """An idempotent producer (acks=all) that writes counting values to every partition until told to stop.

    ``acknowledged[partition]`` counts what the cluster has promised to keep. ``options`` as for ``confluent_producer``.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, records_per_second: float = 500, **options: Any
    ) -> None:
        self.acknowledged = dict.fromkeys(range(partitions), 0)
        self.errors: list[str] = []
        self._producer = confluent_producer(
            bootstrap,
            enable_idempotence=True,
            acks="all",
            delivery_timeout_ms=300_000,
            reconnect_backoff_max_ms=500,
            retry_backoff_max_ms=500,
            **options,
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

    def stop(self, *, deliver_all: bool = True) -> dict[int, int]:
        """Stop, wait until everything is acknowledged, and return how many records each partition got.

        Without ``deliver_all`` the last records may be missing: after many changes of leaders, librdkafka's idempotent
        producer no longer delivers some (observed).
        """
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
            left = self._producer.flush(120 if deliver_all else 10)
            if self.errors or (left and deliver_all):
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


@contextlib.contextmanager
def writing(stopping: threading.Event, *writers: Callable[[], object]) -> Iterator[None]:
    """Run each writer in a thread while the block runs, then set ``stopping`` and wait until all have ended.

    Raises: AssertionError, if a writer has raised.
    """
    errors: list[Exception] = []

    def run(write: Callable[[], object]) -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(write,)) for write in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    assert errors == []
