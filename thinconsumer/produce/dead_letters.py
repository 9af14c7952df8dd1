"""Dead letters: records that cannot be processed, written to a topic with the reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..config.client_options import ClientOptions
from ..driver import Driver
from ..errors import KafkaError
from ..records.headers import Header
from ..types import ConsumerRecord
from .batch import SendFuture
from .producer import Producer
from .settings import ProducerSettings

#: The prefix of the headers that name a dead letter's origin and its error. Compare KIP-298 and KIP-1034.
HEADER_PREFIX = "__workers.errors."
#: The longest message of an exception in a header, in characters.
MESSAGE_MAX = 1_000


class LetterWriter:
    """Writes to one topic. Its producer connects for the first record."""

    def __init__(self, settings: ProducerSettings, topic: str, group_id: str, driver: Driver) -> None:
        self._topic = topic
        self._group_id = group_id
        self.producer = Producer(settings, driver=driver)

    def send(self, record: ConsumerRecord[Any, Any], attempts: int, error: Exception) -> SendFuture:
        """Send a record with the bytes of key and value that has failed so often, the last time because of ``error``.

        The future is done when ``producer`` was polled and all in-sync replicas have the record, or it has failed.
        """
        headers = _headers(record, attempts, error, self._group_id)
        timestamp_ms = max(record.timestamp, 0)
        return self.producer.send(
            self._topic, record.value, key=record.key, headers=headers, timestamp_ms=timestamp_ms
        )  # fmt: skip

    @property
    def obstacle(self) -> KafkaError | None:
        """Why the topic cannot be written to, such as that it is missing."""
        return self.producer.topic_error(self._topic)


def letter_settings(config: ClientOptions) -> ProducerSettings:
    """Return the options of a producer that takes each record at once, with the connection options of ``config``."""
    shared = {name: getattr(config, name) for name in ClientOptions.options()}
    return ProducerSettings(**shared, max_request_size=2**31 - 1, max_block_ms=0, buffer_memory=2**31)


def _headers(record: ConsumerRecord[Any, Any], attempts: int, error: Exception, group_id: str) -> Iterator[Header]:
    """Return the headers of a dead letter: those of the record, and the reasons."""
    yield from record.headers
    reasons = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "group": group_id,
        "attempts": attempts,
        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": _text(error)[:MESSAGE_MAX],
    }
    for name, value in reasons.items():
        yield HEADER_PREFIX + name, str(value).encode(errors="replace")


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - of user code: its dead letter is written all the same
        return "its text cannot be made"
