"""Commits that wait: merged per partition in call order, each call settled once, each callback queued once.

Owns the state of calls and knows nothing of brokers. Each call (:class:`Pending`) keeps what has been decided about it,
partition by partition; the merged entries are made from the calls, and made anew after an interrupt at any point.

The last value of a partition wins even when it is smaller: a rewind is legal, and the order of calls decides. It keeps
winning when its own call has timed out while an earlier one waits, since it may have been written already.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from ..calls import Call
from ..errors import KafkaError
from ..timers import NEVER
from ..types import OffsetAndMetadata, TopicPartition
from .commit_errors import Failure
from .identity import Identity

log = logging.getLogger(__name__)

Callback = Callable[[dict[TopicPartition, OffsetAndMetadata], "KafkaError | None"], Any]
#: From all that failed in a call, and what the call was, to the error it raises.
Explain = Callable[[Mapping[TopicPartition, Failure], str], KafkaError]

#: A request holds no more than this, as the coordinator writes it: all of a request's offsets go into one batch of
#: records, and brokers refuse one larger than a megabyte (message.max.bytes) altogether.
BYTES_MAX = 512 * 1024
#: Offsets that a log line names before it only counts.
LISTED_MAX = 100
#: Of one offset, besides topic, group and metadata.
ROW_BYTES = 80


def log_failure(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
    """Warn of offsets that were not committed: the callback of commits that the user waits for in no other way."""
    if error is not None:
        failed = getattr(error, "partitions", None) or offsets
        listed = [f"{tp.topic}-{tp.partition} at {offsets[tp].offset}" for tp in sorted(failed)]
        more = f" and {len(listed) - LISTED_MAX} more" if len(listed) > LISTED_MAX else ""
        log.warning("offsets not committed: %s%s: %s", ", ".join(listed[:LISTED_MAX]), more, error)


class Finished(NamedTuple):
    """A call whose callback is due: told outside of steps, since it is users' code."""

    call: Call[None]
    callback: Callback
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    error: KafkaError | None


class Pending:
    """One call that is not settled."""

    __slots__ = ("call", "callback", "deadline", "failed", "identity", "left", "number", "offsets")

    def __init__(
        self,
        number: int,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        identity: Identity,
        deadline: float,
        callback: Callback | None,
        what: str,
    ) -> None:
        self.number = number  #: In call order.
        self.offsets = offsets
        self.identity = identity  #: The member id and generation when it was added.
        self.deadline = deadline
        self.callback = callback
        self.call: Call[None] = Call(what)
        self.left = set(offsets)  #: Neither written nor failed.
        self.failed: dict[TopicPartition, Failure] = {}


class Entry:
    """The offset to write for one partition, and the calls that wait for it."""

    __slots__ = ("calls", "identity", "number", "value")

    def __init__(self, value: OffsetAndMetadata, number: int, identity: Identity, calls: list[Pending]) -> None:
        self.value = value
        self.number = number  #: Of the call that the value is from.
        self.identity = identity  #: Under which it was, or may be, committed.
        self.calls = calls


Entries = dict[TopicPartition, Entry]


class CommitQueue:
    """All calls that are not settled, and what is to be sent for them."""

    def __init__(self, explain: Explain) -> None:
        self._explain = explain
        self._calls: OrderedDict[int, Pending] = OrderedDict()
        self._numbers = 0
        self.newest: Call[None] | None = None  #: Added last, settled or not.
        self._deadlines: list[tuple[float, int]] = []
        self._empty: deque[Pending] = deque()
        self.ready: Entries = {}  #: To be sent next.
        self.delayed: Entries = {}  #: Not before :meth:`release`: their partitions were refused for now.
        self.finished: deque[Finished] = deque()  #: Whose callbacks are due, in the order in which they were settled.

    @property
    def idle(self) -> bool:
        """Whether every call is settled."""
        return not self._calls

    def __len__(self) -> int:
        return len(self._calls)

    # -- calls

    def add(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        identity: Identity,
        deadline: float,
        callback: Callback | None = None,
        what: str = "commit",
    ) -> Pending:
        """Queue a call. One without offsets is settled as soon as all before it are."""
        self._numbers += 1
        pending = Pending(self._numbers, dict(offsets), identity, deadline, callback, what)
        self.newest = pending.call
        self._calls[pending.number] = pending
        heappush(self._deadlines, (deadline, pending.number))
        for tp, value in pending.offsets.items():
            # What is delayed stays so: else who commits in a loop would ask in a loop.
            where = self.delayed if tp in self.delayed else self.ready
            self._merge(where, tp, Entry(value, pending.number, identity, [pending]))
        if not offsets:
            self._empty.append(pending)
            self._settle_empty()
        return pending

    def unsettled(self) -> list[Pending]:
        """Return the calls that are not settled, in their order."""
        return list(self._calls.values())

    def due_at(self) -> float:
        """Return when :meth:`expired` has something to say, or nearly so."""
        return self._deadlines[0][0] if self._deadlines else NEVER

    def expired(self, now: float) -> list[Pending]:
        """Return the calls whose deadline has passed, or that were abandoned."""
        found: list[Pending] = []
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][1] not in self._calls):
            _, number = heappop(self._deadlines)
            if number in self._calls:
                found.append(self._calls[number])
        if len(self._deadlines) > 2 * len(self._calls) + 64:
            # Most commits are through in milliseconds and have a minute: what is left of them would pile up.
            self._deadlines = [(pending.deadline, number) for number, pending in self._calls.items()]
            heapify(self._deadlines)
        first = next(iter(self._calls.values()), None)
        if first is not None and first.call.abandoned and first not in found:
            found.append(first)
        return found

    def give_up(self, pending: Pending, failure: Failure) -> None:
        """Settle a call now; what of it is on its way may be written all the same."""
        if pending.number not in self._calls:
            return  # one without offsets, which was waiting for the one before it to be given up
        for tp in pending.left:
            pending.failed[tp] = failure
        pending.left.clear()
        self._settle(pending, self._explain(pending.failed, pending.call.what))
        self._settle_empty()

    # -- sending

    def take(self, group_id: str) -> Entries:
        """Take out the entries of the next request, without those whose calls are all over."""
        taken: Entries = {}
        left: Entries = {}
        size = 0
        for tp, entry in self.ready.items():
            entry.calls = [pending for pending in entry.calls if not pending.call.over]
            if not entry.calls:
                continue
            size += ROW_BYTES + len(group_id) + len(tp.topic) + 3 * len(entry.value.metadata)
            if taken and size > BYTES_MAX:
                left[tp] = entry
            else:
                taken[tp] = entry
        self.ready = left
        return taken

    def put_back(self, tp: TopicPartition, entry: Entry, *, delayed: bool = False) -> None:
        """Have an entry that was taken sent again; what was asked for meanwhile is newer, and wins."""
        newer = self.ready.pop(tp, None)
        where = self.delayed if delayed else self.ready
        where[tp] = entry
        if newer is not None:
            self._merge(where, tp, newer)

    def clear(self) -> None:
        """Forget all entries; for when every call is settled."""
        self.ready.clear()
        self.delayed.clear()

    def release(self) -> None:
        """Have what was delayed sent again."""
        delayed, self.delayed = self.delayed, {}
        for tp, entry in delayed.items():
            self.put_back(tp, entry)

    def waiting(self) -> Iterable[tuple[TopicPartition, Entry]]:
        """Return everything that is not taken."""
        return [*self.ready.items(), *self.delayed.items()]

    # -- what became of it

    def written(self, tp: TopicPartition, entry: Entry) -> None:
        """Note that a partition's offset was written."""
        for pending in entry.calls:
            pending.left.discard(tp)
            self._settle_if_through(pending)
        self._settle_empty()

    def failed(self, tp: TopicPartition, entry: Entry, failure: Failure) -> None:
        """Note that a partition's offset will not be written."""
        for pending in entry.calls:
            if tp in pending.left:
                pending.failed[tp] = failure
                pending.left.discard(tp)
            self._settle_if_through(pending)
        self._settle_empty()

    def drop(self, tp: TopicPartition, failure: Failure) -> None:
        """Fail a partition that waits."""
        for where in (self.ready, self.delayed):
            entry = where.pop(tp, None)
            if entry is not None:
                self.failed(tp, entry, failure)

    def note(self, entries: Iterable[Entry], error: KafkaError) -> None:
        """Note a passing failure, for the message of a timeout."""
        for entry in entries:
            for pending in entry.calls:
                pending.call.last_error = error

    def rebuild(self, taken: Mapping[TopicPartition, Entry]) -> None:
        """Start over from the calls: what was taken is wanted again, and what was half done is done."""
        known: Entries = dict(taken)
        for tp, entry in [*self.delayed.items(), *self.ready.items()]:
            if tp not in known or entry.number > known[tp].number:
                known[tp] = entry
        self.ready, self.delayed = {}, {}
        queued = {done.call for done in self.finished}
        for pending in list(self._calls.values()):
            if pending.call in queued:
                pending.callback = None
            for tp in pending.left:
                entry = Entry(pending.offsets[tp], pending.number, pending.identity, [pending])
                if tp in known and known[tp].number > pending.number:
                    entry.value, entry.number, entry.identity = known[tp].value, known[tp].number, known[tp].identity
                self._merge(self.ready, tp, entry)
            if pending.offsets:
                self._settle_if_through(pending)
        self._deadlines = [(pending.deadline, number) for number, pending in self._calls.items()]
        heapify(self._deadlines)
        self._empty = deque(pending for pending in self._calls.values() if not pending.offsets)
        self._settle_empty()

    def tell_first(self) -> None:
        """Call the first callback that is due.

        Ctrl-C is raised after calls only, and none is between removing the callback and calling it: a callback that
        was removed has been called.
        """
        _, callback, offsets, error = self.finished[0]
        given = dict(offsets)
        del self.finished[0]
        callback(given, error)

    # -- inside

    def _merge(self, where: Entries, tp: TopicPartition, newer: Entry) -> None:
        older = where.get(tp)
        if older is None:
            where[tp] = newer
            return
        older.calls.extend(newer.calls)
        if newer.number >= older.number:
            older.value, older.number, older.identity = newer.value, newer.number, newer.identity

    def _settle_if_through(self, pending: Pending) -> None:
        if not pending.left and pending.number in self._calls:
            error = self._explain(pending.failed, pending.call.what) if pending.failed else None
            self._settle(pending, error)

    def _settle(self, pending: Pending, error: KafkaError | None) -> None:
        if pending.callback is not None:
            self.finished.append(Finished(pending.call, pending.callback, pending.offsets, error))
        if error is None:
            pending.call.succeed(None)
        else:
            pending.call.fail(error)
        del self._calls[pending.number]

    def _settle_empty(self) -> None:
        """Settle calls without offsets that nothing is before any more."""
        while self._empty:
            pending = self._empty[0]
            if pending.number in self._calls:
                if next(iter(self._calls)) != pending.number:
                    return
                self._settle(pending, None)
            self._empty.popleft()
