"""The user's interceptors: they see, and may replace, the records that are returned, and see the committed offsets.

As in Java, an exception of an interceptor is logged and goes no further: the next interceptor gets what the failed one
has got. Interceptors run in the thread of the call, between two steps, and may not call the consumer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..config import ConsumerConfig
from ..config.options import OPTIONS
from ..engine.guard import Guard
from ..fetch.collector import PollResult
from ..fetch.record_sequence import RecordSequence
from ..types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from .iteration import Iteration

if TYPE_CHECKING:
    from .core import ConsumerCore

__all__ = ["ConsumerInterceptor"]

log = logging.getLogger(__name__)

#: In place of the time of the next step: the consumer then calls ``must_poll`` for each record.
ALWAYS = float("-inf")

Returned = Mapping[TopicPartition, Sequence[ConsumerRecord[Any, Any]]]


class ConsumerInterceptor:
    """See or replace the records that are returned: subclass it, and name the class in ``interceptor_classes``.

    Any object with at least one of ``on_consume`` and ``on_commit`` will do, also as an instance. The methods are
    called in the thread of the consumer's calls, and may not call the consumer. Their exceptions are logged.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the consumer's options by name, without secrets, before any other call."""

    def on_consume(self, records: Returned) -> Returned:
        """Return the records to return in place of ``records``: the same, fewer, or others.

        Called just before ``poll`` returns records, with all of them; in an iteration (``for record in consumer``,
        ``read_to_end``) before each record, with that one: there, at most one record may be returned.
        ``poll_batches`` and ``poll_raw`` return no records, and do not call it. Positions and metrics are those of the
        records that were read.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take note that these offsets were committed; called before the callback of the commit, if it has one."""

    def close(self) -> None:
        """Free what the interceptor holds: the consumer is closed."""


def created(classes: Sequence[Any], config: ConsumerConfig) -> list[Any]:
    """Return the user's objects, made of those that are classes, each configured with the options."""
    made = [entry() if isinstance(entry, type) else entry for entry in classes]
    configs = {name: getattr(config, name) for name, option in OPTIONS.items() if not option.kind.is_secret}
    for one in made:
        if (configure := getattr(one, "configure", None)) is not None:
            configure(dict(configs))
    return made


class Interceptors:
    """The interceptors of one consumer, in the order of their calls."""

    def __init__(self, config: ConsumerConfig, guard: Guard) -> None:
        self._guard = guard
        self._interceptors = created(config.interceptor_classes, config)

    def on_consume(self, records: dict[TopicPartition, Any]) -> dict[TopicPartition, Any]:
        """Return what the interceptors make of the records of a poll. Called within a public call."""
        for one, method in self._methods("on_consume"):
            try:
                with self._guard.running("an interceptor"):
                    records = _sequences(method(records))
            except Exception:
                log.exception("on_consume of %s failed: its records are returned as they were", type(one).__name__)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Pass on committed offsets. Called within a public call, between two steps."""
        for one, method in self._methods("on_commit"):
            try:
                with self._guard.running("an interceptor"):
                    method(dict(offsets))
            except Exception:
                log.exception("on_commit of %s failed", type(one).__name__)

    def close(self) -> None:
        """Close the interceptors."""
        for one, method in self._methods("close"):
            try:
                method()
            except Exception:
                log.exception("close of %s failed", type(one).__name__)

    def _methods(self, name: str) -> list[tuple[Any, Callable[..., Any]]]:
        found = ((one, getattr(one, name, None)) for one in self._interceptors)
        return [(one, method) for one, method in found if method is not None]


def _sequences(returned: object) -> dict[TopicPartition, Any]:
    """Return an interceptor's records in the form of a poll's; raise TypeError for anything else."""
    if not isinstance(returned, Mapping):
        raise TypeError(f"it has to return a dict of records by partition, not {type(returned).__name__}")
    found: dict[TopicPartition, Any] = {}
    for tp, records in returned.items():
        if not isinstance(tp, TopicPartition):
            raise TypeError(f"it has returned records of {type(tp).__name__}, which is no TopicPartition")
        sequence = records if isinstance(records, RecordSequence) else RecordSequence((list(records),))
        if len(sequence):
            found[tp] = sequence
    return found


class InterceptedIteration(Iteration):
    """Returns records one by one, each as the interceptors make it.

    Each record is passed to them on its own, and once: if all records of a poll result were passed on together, those
    that a call such as ``commit`` leaves to the next poll would be passed on again.
    """

    def __init__(self, reader: ConsumerCore, interceptors: Interceptors) -> None:
        super().__init__(reader)
        self._interceptors = interceptors
        self._step_at = self.drive_at
        #: The poll result, and the index in it, of the record that was passed to the interceptors last.
        self._passed: tuple[PollResult, int] | None = None

    def must_poll(self) -> bool:
        self.drive_at = self._step_at
        try:
            while not super().must_poll():
                if self._intercept():
                    return False
            return True
        finally:
            self._step_at, self.drive_at = self.drive_at, ALWAYS

    def begin(self, poll_result: PollResult) -> None:
        super().begin(poll_result)
        self._step_at, self.drive_at = self.drive_at, ALWAYS

    def _intercept(self) -> bool:
        """Pass the next record to the interceptors; return whether they leave one to return."""
        poll_result = self.poll_result
        taken = poll_result.taken or 0
        if self._passed == (poll_result, taken):
            return True
        record = self.records[taken]
        given: dict[TopicPartition, Any] = {record.topic_partition: RecordSequence(([record],))}
        with self._shell.guard:
            returned = [found for records in self._interceptors.on_consume(given).values() for found in records]
        if not returned:
            poll_result.taken = taken + 1
            return False
        if len(returned) > 1:
            log.error("on_consume has made %d records of one: an iteration returns it as it was", len(returned))
        self.records[taken] = returned[0] if len(returned) == 1 else record
        self._passed = poll_result, taken
        return True
