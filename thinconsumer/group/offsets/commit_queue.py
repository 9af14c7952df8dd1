"""The queue of commit calls: merge their offsets per partition, and give each call one result and one callback.

Each call (:class:`Pending`) records which of its offsets are written or have failed. The entries to send, one per
partition, are derived from the calls, and derived again if Ctrl-C has interrupted a change of calls and entries.

For each partition the offset of the last call is sent, even if it is smaller than an earlier one, since a rewind is
legal. If the last call has timed out while an earlier call still waits, the offset of the last call is sent all the
same: the coordinator may have written it already, and the offset of the earlier call must not replace it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any

from ...errors import KafkaError
from ...support.agenda import Alarm
from ...support.calls import Call
from ...support.lazy_dataclass import dataclass, field
from ...types import OffsetAndMetadata, TopicPartition
from ..identity import Identity
from .commit_errors import Failure, listed

log = logging.getLogger(__name__)

Callback = Callable[[dict[TopicPartition, OffsetAndMetadata], "KafkaError | None"], Any]

#: The maximum size of one request, in bytes that the coordinator appends to its log. All offsets of a request go into
#: one record batch, and brokers reject a batch that is larger than message.max.bytes (1 MB by default) as a whole.
BYTES_MAX = 512 * 1024
#: The number of offsets that a log line names; the others are counted.
LISTED_MAX = 100
#: Bytes that one committed offset takes in the coordinator's log, not counting topic, group id and metadata.
ROW_BYTES = 80


def log_failure(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
    """Log offsets that were not committed: the default callback of asynchronous commits."""
    if error is not None:
        failed = getattr(error, "partitions", None) or offsets
        names = [f"{tp.topic}-{tp.partition} at {offsets[tp].offset}" for tp in sorted(failed)]
        log.warning("offsets not committed: %s: %s", listed(names, LISTED_MAX), error)


@dataclass(slots=True, eq=False)
class Pending:
    """Track one commit call until each of its offsets is written or has failed."""

    number: int  #: The call's number in call order.
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    identity: Identity  #: The member id and generation under which the offsets were consumed.
    deadline: float
    callback: Callback | None  #: None if there is none, or once it was called.
    call: Call[None]
    outstanding: set[TopicPartition]  #: Partitions with an offset neither written nor failed.
    topic_ids: Mapping[str, bytes]  #: Ids of the topics when the call was added, as far as they were known.
    #: For a call made inside a callback or listener: when its own callback may be called with an error; else None.
    pause: Alarm | None
    failed: dict[TopicPartition, Failure] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Entry:
    """Hold the calls that wait for an offset of one partition to be written."""

    latest: Pending  #: The call whose offset is sent. It may have timed out.
    #: The identity under which the offset was consumed, or for which it was last found valid. If the member has another
    #: one when the request is written, the offset is checked again.
    identity: Identity
    calls: list[Pending]


Entries = dict[TopicPartition, Entry]


class CommitQueue:
    """Hold all commit calls that are not settled, and the offsets to send for them."""

    def __init__(self, explain: Callable[[Mapping[TopicPartition, Failure], str], KafkaError], expiry: Alarm) -> None:
        self._explain = explain  #: Returns a call's error from its failed partitions and its name ("auto-commit").
        self._expiry = expiry  #: The first deadline of a call, which may be settled already.
        self.calls: OrderedDict[int, Pending] = OrderedDict()  #: The unsettled calls by number, in call order.
        self.last_number = 0  #: The number of the call added last.
        self.newest: Call[None] | None = None  #: The call added last, settled or not.
        self._deadlines: list[tuple[float, int]] = []
        self.ready: Entries = {}  #: Offsets for the next request.
        #: Offsets that wait for a backoff after a retriable error of their partition, until :meth:`release`.
        self.delayed: Entries = {}
        #: Settled calls with a callback due, in settling order: callbacks are user code, and run outside of steps.
        self.finished: deque[Pending] = deque()

    def add(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        identity: Identity,
        deadline: float,
        callback: Callback | None,
        what: str,
        topic_ids: Mapping[str, bytes],
        pause: Alarm | None,
    ) -> Pending:
        """Queue a call. One without offsets is settled as soon as all calls before it are settled."""
        self.last_number += 1
        call: Call[None] = Call(what)
        self.newest = call
        pending = Pending(
            self.last_number, dict(offsets), identity, deadline, callback, call, set(offsets), topic_ids, pause
        )
        self.calls[pending.number] = pending
        heappush(self._deadlines, (deadline, pending.number))
        for tp in pending.offsets:
            # A delayed partition stays delayed: otherwise an application that commits in a loop bypasses the backoff.
            where = self.delayed if tp in self.delayed else self.ready
            self._merge(where, tp, Entry(pending, identity, [pending]))
        if not offsets and len(self.calls) == 1:
            self._settle(pending, None)
        return pending

    def has_callback(self, last: int, now: float | None = None) -> bool:
        """Return whether the first callback is of a call up to number ``last`` and due; pauses count only with ``now``.

        A callback may commit again after an error, and that commit may fail at once, without a request: outside the
        group, or for a partition that the member does not own. Without ``last``, one poll would run such callbacks for
        ever; without the pause of their calls, every step would run one.
        """
        if not self.finished or self.finished[0].number > last:
            return False
        first = self.finished[0]
        return first.call.error is None or now is None or first.pause is None or not first.pause.is_ahead(now)

    def has_settled(self, number: int) -> bool:
        """Return whether all calls up to this number are settled."""
        return next(iter(self.calls), number + 1) > number

    def expired(self, now: float) -> list[Pending]:
        """Return unsettled calls past their deadline, and the oldest unsettled call if its caller stopped waiting."""
        found: list[Pending] = []
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][1] not in self.calls):
            _, number = heappop(self._deadlines)
            if number in self.calls:
                found.append(self.calls[number])
        if len(self._deadlines) > 2 * len(self.calls) + 64:
            # Most calls settle in milliseconds, but their deadlines are a minute away: without this cleanup, the heap
            # would hold the deadlines of all calls of the last minute.
            self._collect_deadlines()
        if self._deadlines:
            self._expiry.set(self._deadlines[0][0])
        first = next(iter(self.calls.values()), None)
        if first is not None and first.call.abandoned and first not in found:
            found.append(first)
        return found

    def fail_call(self, pending: Pending, failure: Failure) -> None:
        """Fail a call now; its offsets in flight may still be written."""
        if pending.number not in self.calls:
            return  # a call without offsets was settled when the call before it failed
        for tp in pending.outstanding:
            pending.failed[tp] = failure
        pending.outstanding.clear()
        self._settle(pending, self._explain(pending.failed, pending.call.what))

    def take(self, group_id: str) -> Entries:
        """Remove and return the entries of the next request; drop entries that no unsettled call waits for."""
        taken: Entries = {}
        later: Entries = {}
        size = 0
        for tp, entry in self.ready.items():
            entry.calls = [pending for pending in entry.calls if not pending.call.over]
            if not entry.calls:
                continue
            size += ROW_BYTES + len(group_id) + len(tp.topic) + 3 * len(entry.latest.offsets[tp].metadata)
            if taken and size > BYTES_MAX:
                later[tp] = entry
            else:
                taken[tp] = entry
        self.ready = later
        return taken

    def put_back(self, tp: TopicPartition, entry: Entry, *, delayed: bool = False) -> None:
        """Queue an entry again that :meth:`take` has returned; an offset queued meanwhile replaces its offset."""
        newer = self.ready.pop(tp, None)
        where = self.delayed if delayed else self.ready
        where[tp] = entry
        if newer is not None:
            self._merge(where, tp, newer)

    def release(self) -> None:
        delayed, self.delayed = self.delayed, {}
        for tp, entry in delayed.items():
            self.put_back(tp, entry)

    def waiting(self) -> Iterable[tuple[TopicPartition, Entry]]:
        """Return the ready and the delayed entries: all except those in the OffsetCommit in flight."""
        return [*self.ready.items(), *self.delayed.items()]

    def resolve(self, tp: TopicPartition, entry: Entry, failure: Failure | None) -> None:
        """Note that the offset is written, or has failed, for all calls that wait for it."""
        for pending in entry.calls:
            if failure is not None and tp in pending.outstanding:
                pending.failed[tp] = failure
            pending.outstanding.discard(tp)
            self._settle_if_complete(pending)

    def drop(self, tp: TopicPartition, failure: Failure) -> None:
        """Fail the waiting entry of a partition, if there is one."""
        for where in (self.ready, self.delayed):
            entry = where.pop(tp, None)
            if entry is not None:
                self.resolve(tp, entry, failure)

    def rebuild(self, taken: Mapping[TopicPartition, Entry]) -> None:
        """Compute all entries again from the unsettled calls, and settle calls that Ctrl-C left open.

        ``taken`` are the entries of the last request, which gets no response. The newest offset of a partition is sent,
        even if the call that it is from has timed out.
        """
        known: Entries = dict(taken)
        for tp, entry in self.waiting():
            if tp not in known or entry.latest.number > known[tp].latest.number:
                known[tp] = entry
        for entry in known.values():
            entry.calls = []
        self.ready, self.delayed = known, {}
        for pending in list(self.calls.values()):
            for tp in pending.outstanding:
                self._merge(self.ready, tp, Entry(pending, pending.identity, [pending]))
            if pending.offsets:
                self._settle_if_complete(pending)
        self._collect_deadlines()
        first = next(iter(self.calls.values()), None)
        if first is not None and not first.offsets:
            self._settle(first, None)

    def run_first_callback(self) -> bool:
        """Call the first callback that is due, unless it was called already; return True.

        Ctrl-C loses no callback: Python raises KeyboardInterrupt only when a call returns, and there is no call between
        the removal of the callback and the call of the callback. Ctrl-C repeats no callback either: if it came while
        the call was being settled, the call is settled again, and is then in :attr:`finished` twice,
        the second time without a callback.
        """
        pending = self.finished[0]
        given, error, callback = dict(pending.offsets), pending.call.error, pending.callback
        pending.callback = None
        del self.finished[0]
        if callback is not None:
            callback(given, error)
        return True

    def _merge(self, where: Entries, tp: TopicPartition, newer: Entry) -> None:
        """Merge ``newer`` into the partition's entry: add its calls, and take its offset unless its call is earlier."""
        older = where.setdefault(tp, newer)
        if older is not newer:
            older.calls.extend(newer.calls)
            if newer.latest.number >= older.latest.number:
                older.latest, older.identity = newer.latest, newer.identity

    def _collect_deadlines(self) -> None:
        self._deadlines = [(pending.deadline, number) for number, pending in self.calls.items()]
        heapify(self._deadlines)

    def _settle_if_complete(self, pending: Pending) -> None:
        if not pending.outstanding and pending.number in self.calls:
            error = self._explain(pending.failed, pending.call.what) if pending.failed else None
            self._settle(pending, error)

    def _settle(self, pending: Pending, error: KafkaError | None) -> None:
        """Settle a call; then settle the calls without offsets that have no unsettled call before them any more."""
        following: Pending | None = pending
        while following is not None:
            # In this order: if the callback were queued first, and Ctrl-C came then, the callback would get no error.
            if error is None:
                following.call.succeed(None)
            else:
                following.call.fail(error)
            if following.callback is not None:
                self.finished.append(following)
            del self.calls[following.number]
            first = next(iter(self.calls.values()), None)
            following, error = None if first is None or first.offsets else first, None
