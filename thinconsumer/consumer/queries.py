"""The public calls that wait for a response, as generators: for ``Consumer`` and for the consumer of event loops.

Each yields while it waits, see :data:`thinconsumer.engine.Waiting`; its caller enters the shell's guard. The public
methods of :class:`Consumer` describe arguments, results and errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ..engine import Waiting
from ..errors import IllegalArgumentError, IllegalStateError, KafkaTimeoutError
from ..fetch.leader_queries import ListedOffset
from ..positions.partitions import Reset
from ..positions.states import PositionEvent, PositionState
from ..support.calls import Call
from ..support.shown import shown
from ..types import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .arguments import ToCommit, is_whole, offsets_to_commit, topic_name, topic_partition, topic_partitions
from .core import ConsumerCore
from .open_calls import KEPT

EARLIEST, LATEST = Reset.EARLIEST, Reset.LATEST


def to_commit(reader: ConsumerCore, offsets: ToCommit | None) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit: ``offsets``, or by default the positions of the assigned partitions.

    If the commit includes the last record that an iteration returned, that record now counts as processed; but not if a
    callback such as a listener makes the commit, since the application may still be processing the record.
    """
    group, partitions = reader.managers.require_group(), reader.partitions
    found = None if offsets is None else offsets_to_commit(offsets)
    hand = partitions.in_hand
    if hand is not None and not reader.shell.in_callback:
        named = None if found is None else found.get(hand.partition.tp)
        if found is None or (named is not None and named.offset > hand.before.offset):
            partitions.in_hand = None
    return group.positions() if found is None else found


class Queries:
    """The waiting calls of one consumer, except its polls."""

    def __init__(self, reader: ConsumerCore) -> None:
        self._reader = reader
        self._managers = reader.managers
        self._now = reader.shell.driver.now

    def commit(self, offsets: ToCommit | None, timeout_ms: float | None) -> Waiting[None]:
        reader, now = self._reader, self._now
        commits, found, began = reader.managers.require_group().commits, to_commit(reader, offsets), now()
        queue = commits.queue
        # A commit that times out is kept for a few seconds. If the application repeats the call with the same offsets,
        # that call waits for the kept commit and sends no second one.
        deadline = began + max(KEPT, reader.default_timeout(timeout_ms))
        key = "commit", frozenset(found.items())
        try:
            # The last argument accepts a kept commit only if no other was queued after it. Otherwise the repeated call
            # must queue a new commit, or the group would keep the offsets of the commit in between.
            add = partial(commits.add, found, deadline)
            yield from reader.open_calls.wait(key, add, timeout_ms, lambda call: call is queue.newest)
        except KafkaTimeoutError as error:
            raise commits.timeout_error(found, now()) from error
        finally:
            reader.managers.metrics.record_call_time("commit_sync", now() - began, now())
            if reader.callbacks is not None:
                reader.callbacks.run_commit_callbacks()

    def committed(
        self, partition: TopicPartition | Iterable[TopicPartition], metadata: bool, timeout_ms: float | None
    ) -> Waiting[Any]:
        one = isinstance(partition, tuple) and len(partition) == 2 and isinstance(partition[0], str)
        tps = topic_partitions([partition] if one else partition, "committed()")
        began, group = self._now(), self._managers.require_group()
        key = "committed", group.commits.queue.newest, *tps
        found = yield from self._reader.open_calls.wait(key, partial(group.committed.ask, tps), timeout_ms)
        now = self._now()
        self._managers.metrics.record_call_time("committed", now - began, now)
        answers: dict[TopicPartition, Any] = {tp: found.get(tp) for tp in tps}
        if not metadata:
            answers = {tp: None if value is None else value.offset for tp, value in answers.items()}
        return answers[tps[0]] if one else answers

    def unsubscribe(self) -> Waiting[None]:
        if self._reader.callbacks is not None:
            yield from self._reader.callbacks.unsubscribe()
        elif self._managers.whole_topics is not None:
            self._managers.whole_topics.unsubscribed()
        self._reader.partitions.assign(())

    def position(self, partition: TopicPartition, timeout_ms: float | None) -> Waiting[int]:
        found = self._reader.partitions.require(topic_partition(partition))
        if found.state is PositionState.AWAITING_CALLBACK:
            # Inside on_partitions_assigned: look up the position now, without waiting for the callback to end.
            found.move(PositionEvent.CALLBACK_DONE)
        call: Call[None] = Call(f"position of {found.tp.topic}-{found.tp.partition}")

        def settled() -> bool:
            if found.error is not None and not found.has_position:
                raise found.error
            call.last_error = found.last_error
            return found.has_position

        yield from self._reader.wait(call, timeout_ms, settled)
        return found.cursor.offset

    def topics(self, timeout_ms: float | None) -> Waiting[set[str]]:
        ask = partial(self._managers.metadata.inquire, None, "topics()")
        found = yield from self._reader.open_calls.wait("topics", ask, timeout_ms)
        hidden = self._reader.config.exclude_internal_topics
        return {name for name, topic in found.items() if not (topic.internal and hidden)}

    def partitions_for_topic(self, topic: str, timeout_ms: float | None) -> Waiting[set[int] | None]:
        topic = topic_name(topic, "partitions_for_topic()")
        what = f"partitions_for_topic({topic!r})"
        ask = partial(self._managers.metadata.inquire, [topic], what)
        found = yield from self._reader.open_calls.wait(what, ask, timeout_ms)
        return set(found[topic].partitions) if topic in found else None

    def bootstrap(self, timeout_ms: float | None, refresh: bool) -> Waiting[None]:
        metadata = self._managers.metadata
        if refresh or not metadata.nodes:
            ask = partial(metadata.inquire, [], "bootstrap()")
            yield from self._reader.open_calls.wait("bootstrap", ask, timeout_ms)

    def client_instance_id(self, timeout_ms: float | None) -> Waiting[str]:
        managers, began = self._managers, self._now()
        if not managers.pushes_metrics:
            raise IllegalStateError("this consumer pushes no metrics to brokers, see enable_metrics_push")
        call: Call[None] = Call("client_instance_id()")

        def settled() -> bool:
            telemetry = managers.telemetry
            if telemetry is None or telemetry.client_instance_id is not None:
                return telemetry is not None
            if telemetry.error is not None and telemetry.is_refused:
                raise telemetry.error
            call.last_error = telemetry.error
            return False

        yield from self.bootstrap(timeout_ms, refresh=False)
        rest = self._reader.default_timeout(timeout_ms) - (self._now() - began)
        yield from self._reader.wait(call, 1000 * max(0.0, rest), settled)
        assert managers.telemetry is not None
        assert managers.telemetry.client_instance_id is not None
        return managers.telemetry.client_instance_id

    def ends(
        self, partitions: Iterable[TopicPartition], mark: int, what: str, timeout_ms: float | None
    ) -> Waiting[dict[TopicPartition, int]]:
        wanted = dict.fromkeys(topic_partitions(partitions, f"{what}()"), mark)
        found = yield from self.look_up(wanted, what, timeout_ms)
        return {tp: found[tp].offset for tp in wanted}

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> Waiting[dict[TopicPartition, OffsetAndTimestamp | None]]:
        for tp, timestamp in timestamps.items():
            if not is_whole(timestamp, 0):
                raise IllegalArgumentError(
                    f"{shown(tp)}: a time is milliseconds since 1970, 0 or more, not {shown(timestamp)}"
                )
        wanted = {topic_partition(tp): timestamp for tp, timestamp in timestamps.items()}
        found = yield from self.look_up(wanted, "offsets_for_times", timeout_ms)
        return {
            tp: OffsetAndTimestamp(f.offset, f.timestamp, f.leader_epoch) if f.offset >= 0 else None
            for tp, f in ((tp, found[tp]) for tp in wanted)
        }

    def look_up(
        self, wanted: dict[TopicPartition, int], what: str, timeout_ms: float | None, *, may_be_old: bool = True
    ) -> Waiting[dict[TopicPartition, ListedOffset]]:
        key, ask = (what, frozenset(wanted.items())), partial(self._managers.lookups.ask, wanted, what)
        return self._reader.open_calls.wait(key, ask, timeout_ms, lambda call: may_be_old)
