"""Call the user's deserializers for the records of polls; deal with bad records as ``on_bad_record`` says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..config import DeadLetter
from ..errors import DeserializationError, IllegalStateError, RecordError, RetriableDeserializationError
from ..fetch.chunks import Deserialize, Records
from ..records.rows import deserialize, deserialize_good
from ..types import TopicPartition

if TYPE_CHECKING:
    from ..config.values import Deserializer
    from .core import ConsumerCore

#: Lines about polls have one logger.
log = logging.getLogger("thinconsumer.consumer.core")


class Deserializing:
    """The deserializers of a consumer."""

    def __init__(self, core: ConsumerCore) -> None:
        config, self._core = core.config, core
        #: The deserializers of keys and of values. With None, records have the bytes.
        self._deserializers: tuple[Deserializer | None, Deserializer | None]
        self._deserializers = (config.key_deserializer, config.value_deserializer)
        self._policy: Any = config.on_bad_record
        if isinstance(self._policy, DeadLetter):
            from .bad_records import BadRecordWriter  # on demand: few consumers write

            self._policy = BadRecordWriter(config, self._policy.topic, config.group_id)
        #: By partition: the error of the record for which a deserializer was not ready.
        self._not_ready: dict[TopicPartition, RetriableDeserializationError] = {}

    def closes(self) -> list[Callable[[], object]]:
        """Return what to call when the consumer closes."""
        config = self._core.config
        found = [each.close for each in (config.key_deserializer, config.value_deserializer) if each]
        return [*found, self._policy.close] if isinstance(config.on_bad_record, DeadLetter) else found

    @property
    def function(self) -> Deserialize | None:
        """The function for the records of one partition; None if they have the bytes."""
        return self._deserialize if any(self._deserializers) else None

    def leave(self) -> tuple[Deserializer | None, Deserializer | None]:
        """Return the deserializers of keys and values; from now on records have the bytes.

        Raises:
            IllegalStateError: records were fetched already, which may be deserialized.
        """
        managers = self._core.managers
        if managers.buffer.queues:
            raise IllegalStateError("the consumer has fetched records: make its workers before the first poll")
        left, self._deserializers = self._deserializers, (None, None)
        managers.collector.chunk_decoder.deserialize = None
        return left

    def _deserialize(self, tp: TopicPartition, records: Records) -> tuple[Records, RecordError | None]:
        """Deserialize records, but not before a record that waits may be tried again."""
        waiting, core = self._not_ready.get(tp), self._core
        may_try = waiting is None or core.looked_at >= waiting.again_at
        if waiting is not None and not may_try and len(records) and records[0].offset == waiting.offset:
            return [], waiting
        found, failure = self._call(tp, records)
        is_same = failure is not None and waiting is not None and waiting.offset == failure.offset
        if waiting is not None and not is_same:
            del self._not_ready[tp]
            core.watch.record_read(tp, core.looked_at)
        if isinstance(failure, RetriableDeserializationError):
            failure.tried_at = core.looked_at
            failure.since = waiting.since if waiting is not None and is_same else core.looked_at
            self._not_ready = {each: error for each, error in self._not_ready.items() if each in core.partitions}
            self._not_ready[tp] = failure
        elif is_same:
            del self._not_ready[tp]
        return found, failure

    def _call(self, tp: TopicPartition, records: Records) -> tuple[Records, DeserializationError | None]:
        # A deserializer runs while step_interrupted is set. If it called the consumer, that call would recover as from
        # an interrupted step, and these records would be returned twice. The guard rejects such a call.
        with self._core.shell.guard.running("a deserializer"):
            interrupted = partial(self._core.managers.collector.chunk_decoder.interrupted.__setitem__, tp)
            if self._policy == "raise":
                return deserialize(records, *self._deserializers, interrupted)
            skipped: list[DeserializationError] = []
            on_bad_record = self._policy if callable(self._policy) else skipped.append
            result = deserialize_good(records, *self._deserializers, interrupted, on_bad_record)
        if skipped:  # one line for all of them: each record of a topic may be bad
            log.warning(
                "skipped %d of %d records of %s-%d that cannot be deserialized, the first at offset %d, since its %s "
                "deserializer raised %s",
                *(len(skipped), len(records), *tp, skipped[0].offset, skipped[0].field),
                type(skipped[0].__cause__).__name__,
            )
        return result
