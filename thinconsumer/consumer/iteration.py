"""Return one record at a time, for ``for record in consumer`` and ``read_to_end``.

An iteration polls, then returns the records of the poll result one by one and counts them. The next call of another
method advances the positions by that count, so iterating and polling can be mixed.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..calls import Call
from ..fetch.collector import PollResult
from ..fetch.record_sequence import LIST_MAX
from ..types import ConsumerRecord, TopicPartition
from .reader import ConsumerCore

#: While records of one poll result are returned, the engine steps (for heartbeats) at this interval in seconds.
DRIVE_EVERY = 0.05
#: ``consumer_timeout_ms`` counts from the first successful Fetch. Before that Fetch, iteration checks at this interval,
#: in seconds, whether one has succeeded.
LOOK_EVERY = 0.1


class Iteration:
    """Returns the records of poll results, one record per call of :meth:`peek`."""

    def __init__(self, reader: ConsumerCore) -> None:
        self._reader = reader
        self._shell = reader.shell
        self.poll_result = PollResult()  #: The poll result from which records are returned.
        #: How many records of ``poll_result`` the application has, with the one that :meth:`peek` just returned.
        self.after = 0
        self._records: list[ConsumerRecord[Any, Any]] = []
        self._drive_at = math.inf
        #: How many records a poll may return. More would all be built before the application sees the first, and again
        #: after each call that ends the poll result, such as ``position``.
        self._records_max = min(reader.config.max_poll_records, LIST_MAX)

    def peek(self) -> ConsumerRecord[Any, Any]:
        """Return the next record; raise StopIteration after ``consumer_timeout_ms`` without one.

        The caller sets ``poll_result.taken = after`` as its last statement, with no call after it: as in poll, a
        KeyboardInterrupt must not come between counting a record and returning it.
        """
        poll_result = self.poll_result
        # If another call has settled this poll result, it may also have moved the positions. The remaining records are
        # then stale, and must not be returned.
        reader, shell = self._reader, self._shell
        taken = poll_result.taken
        over = (
            poll_result is not reader.poll_result
            or shell.step_interrupted
            or taken is None
            or taken >= poll_result.count
        )
        if over or (shell.driver.now() >= self._drive_at and self._drive()):
            poll_result = self._refill()
        taken = poll_result.taken or 0
        self.after = taken + 1
        return self._records[taken]

    def await_share(self, timeout_ms: float | None) -> None:
        """Poll until the group has assigned partitions; raise if a subscribed or assigned topic does not exist."""
        reader, shell = self._reader, self._shell
        group, seconds = reader.managers.group, reader.default_timeout(timeout_ms)
        deadline = shell.driver.now() + seconds
        while group is not None and group.subscription.is_subscribed and not group.is_settled:
            reader.poll(0, 1, {})
            if shell.run_once(deadline) >= deadline and not group.is_settled:
                call: Call[None] = Call(f"read_to_end, while the group is {group.member.state.value}")
                raise shell.engine.timeout_error(call, seconds)
        has_looked_up, topics = reader.managers.metadata.has_looked_up, reader.partitions.topics
        left = max(0.0, deadline - shell.driver.now())
        shell.wait_until(lambda: all(map(has_looked_up, topics())), left, reader.while_waiting)
        for error in reader.managers.missing():
            raise error

    def read_to(
        self, ends: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> Iterator[ConsumerRecord[Any, Any]]:
        """Yield records up to the offsets ``ends``; raise ``KafkaTimeoutError`` if the timeout passes without one."""
        reader, shell = self._reader, self._shell
        seconds = reader.default_timeout(timeout_ms)
        while True:
            with shell.quiet_entry:
                reader.release_in_hand()
                if not reader.behind(ends):
                    return
                poll_result = reader.poll(seconds, self._records_max, ends)
                behind = reader.behind(ends)
                if behind and not poll_result.count:
                    call: Call[None] = Call(f"read_to_end, {len(behind)} partitions behind, {behind[0].tp} first")
                    call.last_error = behind[0].last_error
                    raise shell.engine.timeout_error(call, seconds)
            self._begin(poll_result)
            while (
                reader.poll_result is poll_result
                and poll_result.taken is not None
                and poll_result.taken < poll_result.count
            ):
                record = self.peek()
                self.poll_result.taken = self.after
                yield record

    def _refill(self) -> PollResult:
        with self._shell.quiet_entry:
            self._reader.release_in_hand()
            poll_result = self._poll()
        self._begin(poll_result)
        return poll_result

    def _begin(self, poll_result: PollResult) -> None:
        self.poll_result = poll_result
        self._records = [record for found in poll_result.records.values() for record in found]
        self._drive_at = self._shell.driver.now() + DRIVE_EVERY
        poll_result.taken = 0
        self._reader.poll_result = poll_result

    def _poll(self) -> PollResult:
        """Poll until there are records; raise StopIteration after ``consumer_timeout_ms`` without any."""
        reader, shell = self._reader, self._shell
        limit = reader.config.consumer_timeout_ms / 1000
        now = shell.driver.now
        began = now()
        counting = self._works()
        while True:
            seconds = max(0.0, began + limit - now()) if counting else LOOK_EVERY
            poll_result = reader.poll(seconds, self._records_max)
            if poll_result.count:
                return poll_result
            if counting and now() >= began + limit:
                raise StopIteration
            if not counting and self._works():
                counting, began = True, now()

    def _works(self) -> bool:
        """Return whether a Fetch has succeeded, or is not needed: the group has assigned no partitions, or all assigned
        ones are paused or held by ordered delivery.
        """
        managers = self._reader.managers
        group = managers.group
        if managers.answers.completed:
            return True
        if not managers.partitions:
            return group is not None and group.is_settled
        return all(partition.is_stopped for partition in managers.partitions)

    def _drive(self) -> bool:
        """Step once; return whether the next call must poll first, since a callback is due or records are held back."""
        shell = self._shell
        group = self._reader.managers.group
        with shell.stay():
            # Before the step: a response in it may change the ends of partitions, by which the lag is computed.
            self._reader.record_returned()
            self._reader.attend(shell.driver.now())
            now = shell.run_due(shell.driver.now())
        self._drive_at = shell.driver.now() + DRIVE_EVERY
        return group is not None and (group.has_work(now) or group.member.held is not None)
