"""Write records that no deserializer can read to a topic, before the position passes them."""

from __future__ import annotations

from typing import cast

from ..config.client_options import ClientOptions
from ..driver import Driver
from ..errors import DeserializationError, DeserializerNotReadyError
from ..produce.batch import SendFuture
from ..produce.dead_letters import LetterWriter, letter_settings
from ..records.rows import Raw, new_record
from ..sockets.secured import open_driver
from ..types import TopicPartition

#: A record whose letter is not acknowledged is looked at again after so long, and after twice as long each time. A poll
#: does not wait for the letters.
WAIT_MS = 1.0
WAIT_MAX_MS = 100.0
#: A letter that was rejected is written again after so long.
REJECTED_MS = 1000.0


class BadRecordWriter:
    """What ``on_bad_record=dead_letter(topic)`` calls, in place of a function of the user's."""

    def __init__(self, config: ClientOptions, topic: str, group_id: str | None, driver: Driver | None = None) -> None:
        settings = letter_settings(config)
        self._writer = LetterWriter(settings, topic, group_id or "", driver or open_driver(settings))
        #: By partition: the last bad record, and its letter. A record that is tried again is not written again.
        self._letters: dict[TopicPartition, tuple[Raw, SendFuture]] = {}
        self._wait_ms = WAIT_MS

    def __call__(self, error: DeserializationError) -> None:
        """Return once the record is written.

        Raises DeserializerNotReadyError until then, so that the consumer tries the record again.
        """
        record = _record(error)
        known, letter = self._letters.get(error.partition, (None, None))
        if letter is None or known != record:
            letter = self._writer.send(record, 1, cast(Exception, error.__cause__))
            self._letters[error.partition] = record, letter
            self._wait_ms = WAIT_MS
        self._writer.producer.poll(0)
        if not letter.done:
            reason = self._writer.obstacle or "not acknowledged yet"
            wait_ms, self._wait_ms = self._wait_ms, min(2 * self._wait_ms, WAIT_MAX_MS)
            raise DeserializerNotReadyError(f"its dead letter is not written: {reason}", wait_ms)
        del self._letters[error.partition]
        if letter.error is not None:
            raise DeserializerNotReadyError(f"its dead letter was not written: {letter.error}", REJECTED_MS)

    def close(self) -> None:
        """Close the connections; a letter without an acknowledgement may be written or not."""
        self._writer.producer.close(timeout_ms=0)


def _record(error: DeserializationError) -> Raw:
    fields = *error.partition, -1, error.offset, error.timestamp, -1, error.key, error.value, error.headers
    return new_record(fields)
