"""Return one record at a time, for ``for record in consumer`` and ``read_to_end``.

An iteration polls, then returns the records of the poll result one by one and counts them. The next call of another
method advances the positions by that count, so iterating and polling can be mixed.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..engine import Waiting
from ..fetch.collector import PollResult
from ..fetch.record_sequence import BUILT_MAX
from ..positions.partitions import Reset
from ..support.calls import Call
from ..types import ConsumerRecord, TopicPartition
from .core import ConsumerCore
from .metrics_recorder import record_returned
from .queries import Queries

#: While records of one poll result are returned, the engine steps (for heartbeats) at most once in so many seconds.
DRIVE_EVERY = 0.05
#: Seconds between two checks for the first successful Fetch, from which ``consumer_timeout_ms`` counts.
LOOK_EVERY = 0.1


class Iteration:
    """Polls, and holds the records that are returned one by one."""

    def __init__(self, reader: ConsumerCore) -> None:
        self._reader = reader
        self._shell = reader.shell
        self.poll_result = PollResult()  #: The poll result from which records are returned.
        self.records: list[ConsumerRecord[Any, Any]] = []
        self.drive_at = math.inf  #: When the engine must step next although records are left.
        self.now = self._shell.driver.now
        #: How many records a poll may return. All are built before the application gets the first one. After a call
        #: such as ``position``, which ends the poll result, the remaining records are polled and built again.
        self.records_max = min(reader.config.max_poll_records, BUILT_MAX)

    def prepare(self) -> PollResult:
        """Return a poll result of which ``taken`` is the index of the next record in :attr:`records`.

        Steps the engine if a step is due, and polls if no record is left or none may be returned before a poll. The
        result is empty after ``consumer_timeout_ms`` without a record. The caller counts the record in ``taken``.
        """
        while self.must_poll():
            with self._shell.quiet_entry:
                poll_result = self._shell.complete(self.poll())
            if not poll_result.count:
                return poll_result
            self.begin(poll_result)
        return self.poll_result

    def find_ends(self, timeout_ms: float | None) -> Waiting[dict[TopicPartition, int]]:
        """Return the end offsets of the assigned partitions, for :meth:`poll_to`; in a group, await an assignment."""
        reader = self._reader
        yield from self._await_share(timeout_ms)
        # No kept lookup: it may return the result of an earlier call that timed out, without newer records.
        wanted = {p.tp: Reset.LATEST for p in reader.partitions if not p.paused}
        found = yield from Queries(reader).look_up(wanted, "read_to_end", timeout_ms, may_be_old=False)
        return {tp: found[tp].offset for tp in wanted}

    def _await_share(self, timeout_ms: float | None) -> Waiting[None]:
        """Poll until the partitions of the subscription are assigned.

        Raises KafkaTimeoutError, or the error for a subscribed topic or an assigned partition that does not exist.
        """
        reader, shell = self._reader, self._shell
        subscriber, seconds = reader.managers.subscriber, reader.default_timeout(timeout_ms)
        deadline = self.now() + seconds
        while subscriber is not None and subscriber.subscription.is_subscribed and not subscriber.is_settled:
            yield from reader.polling(0, 1, {})
            shell.engine.touch()  # the poll may have changed what is due
            now = shell.run_once(deadline if shell.blocks else (yield deadline))
            if now >= deadline and not subscriber.is_settled:
                call: Call[None] = Call(f"read_to_end, while {subscriber.situation}")
                raise shell.engine.timeout_error(call, seconds)
        has_looked_up, topics = reader.managers.metadata.has_looked_up, reader.partitions.topics
        left = max(0.0, deadline - self.now())
        yield from shell.wait_until(lambda: all(map(has_looked_up, topics())), left, reader.while_waiting)
        for error in reader.managers.missing():
            raise error

    def poll_to(self, ends: Mapping[TopicPartition, int], timeout_ms: float | None) -> Waiting[PollResult | None]:
        """Poll for records before the offsets ``ends``; return None if all are read.

        Raises KafkaTimeoutError if no record comes within the timeout.
        """
        reader, shell = self._reader, self._shell
        seconds = reader.default_timeout(timeout_ms)
        reader.partitions.in_hand = None  # the next record is requested: the one in hand is processed
        if not reader.behind(ends):
            return None
        poll_result = yield from reader.polling(seconds, self.records_max, ends)
        behind = reader.behind(ends)
        if behind and not poll_result.count:
            call: Call[None] = Call(f"read_to_end, {len(behind)} partitions behind, {behind[0].tp} first")
            call.last_error = behind[0].last_error
            raise shell.engine.timeout_error(call, seconds)
        return poll_result

    def read_to(
        self, ends: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> Iterator[ConsumerRecord[Any, Any]]:
        """Yield records up to the offsets ``ends``; raise ``KafkaTimeoutError`` if none comes within the timeout."""
        while True:
            with self._shell.quiet_entry:
                poll_result = self._shell.complete(self.poll_to(ends, timeout_ms))
            if poll_result is None:
                return
            self.begin(poll_result)
            yield from self.rest_of(poll_result)

    def rest_of(self, poll_result: PollResult) -> Iterator[ConsumerRecord[Any, Any]]:
        """Yield the records of a result, until a poll has to come first."""
        while self.poll_result is poll_result and not self.must_poll():
            taken = poll_result.taken or 0
            record = self.records[taken]
            poll_result.taken = taken + 1  # as in ``Consumer.__next__``, with no call after it
            yield record

    def must_poll(self) -> bool:
        """Return whether to poll before the next record: if no record is left, or the poll has work such as a callback.

        Steps the engine if ``drive_at`` has passed.
        """
        poll_result, taken = self.poll_result, self.poll_result.taken
        over = (
            # A call that has settled this poll result may have moved the positions: the remaining records are stale.
            poll_result is not self._reader.poll_result
            or self._shell.step_interrupted
            or taken is None
            or taken >= poll_result.count
        )
        return over or (self.now() >= self.drive_at and self._drive())

    def begin(self, poll_result: PollResult) -> None:
        """Return the records of this result from now on."""
        self.poll_result = poll_result
        self.records = self.listed(poll_result)
        self.drive_at = self.now() + DRIVE_EVERY
        poll_result.taken = 0
        self._reader.poll_result = poll_result

    def listed(self, poll_result: PollResult) -> list[ConsumerRecord[Any, Any]]:
        """Return the records of a result in the order in which they are returned."""
        return [record for found in poll_result.records.values() for record in found]

    def poll(self) -> Waiting[PollResult]:
        """Poll until there are records; return an empty result after ``consumer_timeout_ms`` without any."""
        reader, now = self._reader, self.now
        reader.partitions.in_hand = None  # the next record is requested: the one in hand is processed
        limit, began, counting = reader.config.consumer_timeout_ms / 1000, now(), self._works()
        while True:
            seconds = max(0.0, began + limit - now()) if counting else LOOK_EVERY
            poll_result = yield from reader.polling(seconds, self.records_max)
            if poll_result.count or (counting and now() >= began + limit):
                return poll_result
            if not counting and self._works():
                counting, began = True, now()

    def _works(self) -> bool:
        """Return whether a Fetch has succeeded, or none can be expected.

        None can be expected if the subscription has no partition, or if all partitions are paused or held.
        """
        managers = self._reader.managers
        if managers.answers.completed:
            return True
        if not managers.partitions:
            return managers.subscriber is not None and managers.subscriber.is_settled
        return all(partition.is_stopped for partition in managers.partitions)

    def _drive(self) -> bool:
        """Step once; return whether to poll before the next record: a callback is due, or the member unconfirmed.

        Without a group, poll after a change of the assignment: the poll advances the positions. A partition that was
        removed and is assigned again would otherwise go on at the position before this poll result.
        """
        group = self._reader.managers.group
        generation = self._reader.partitions.generation
        with self._shell.guard:
            # Before the step: a response may change the ends of partitions, by which the lag is computed.
            record_returned(self._reader)
            self._reader.attend(self.now())
            now = self._shell.run_due(self.now())
        self.drive_at = self.now() + DRIVE_EVERY
        if group is None:
            return self._reader.partitions.generation != generation
        return group.has_work(now) or group.member.unconfirmed is not None
