"""The schedule of one client: which owners of alarms (managers, routes, partitions that back off) are due, and when.

Each time at which an owner is due without a response is an :class:`Alarm` of the agenda. An owner can also be due at
once (:meth:`Agenda.touch`), or with the next step that something else causes, such as a call of the application
(:meth:`Agenda.join`). :meth:`Agenda.take` returns a due owner once. If the owner must wait for a response or a call of
the application, that event makes it due again.

Moving an alarm to a later time costs nothing: its entry stays in the heap until it is the first, and is moved then.
The deadline of a request, for example, moves while its response arrives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count

#: A time that never comes.
NEVER = math.inf
#: The one key of all managers of a client, which are due together: most act on what other managers have changed.
ALL = ""


class ReportingKey:
    """A key of alarms that are no manager's: when one is due, the engine calls :meth:`report_change`, and steps all
    managers.
    """

    __slots__ = ()

    def report_change(self) -> None:
        """Report that an alarm with this key has come."""
        raise NotImplementedError


class Alarm:
    """A time at which its owner is due, such as the end of a backoff. ``at`` is still set once the time has come."""

    __slots__ = ("_agenda", "at", "key", "listed")

    def __init__(self, agenda: Agenda, key: Hashable) -> None:
        self.key: Hashable = key  #: What :meth:`Agenda.take` returns when the time has come.
        self.at: float = NEVER  #: When the owner is due; NEVER if the alarm is not set.
        #: For the agenda: NEVER, then the times of this alarm's entries in the heap, in descending order. An alarm that
        #: is moved to an earlier time and back, again and again, uses its old entry: new entries would fill the heap.
        self.listed: list[float] = [NEVER]
        self._agenda = agenda

    def set(self, at: float) -> None:
        """Make the owner due at a time, in place of the time before. NEVER: at no time."""
        if at < self.listed[-1]:
            # In this order, Ctrl-C between the lines leaves an entry too many, which does no harm, and none missing.
            heappush(self._agenda.entries, (at, next(self._agenda.serial), self))
            self.listed.append(at)
        self.at = at

    @property
    def is_set(self) -> bool:
        """Whether a time is set, even one that has come."""
        return self.at < NEVER

    def is_over(self, now: float) -> bool:
        """Return whether the time has come; False if the alarm is not set."""
        return self.at <= now

    def is_ahead(self, now: float) -> bool:
        """Return whether the time is still to come; False if the alarm is not set."""
        return now < self.at < NEVER

    def set_earlier(self, at: float) -> None:
        """Move this alarm to a time, unless its own time is earlier."""
        if at < self.at:
            self.set(at)

    def expire(self) -> None:
        """Make the owner due, as if the time had come long ago."""
        self.set(-NEVER)

    def clear(self) -> None:
        """Make the owner due at no time."""
        self.at = NEVER

    def touch(self) -> None:
        """Make the owner due at once, and also at the alarm's time."""
        self._agenda.touched[self.key] = None


class Agenda:
    """What is due in one client."""

    def __init__(self) -> None:
        #: The keys of the owners that are due at once. A dict, which keeps the order in which they were touched.
        self.touched: dict[Hashable, None] = {}
        self.joining: dict[Hashable, None] = {}  #: The keys of owners that are due with the next step.
        #: The time of the first entry when :meth:`take` was last called, even if it was not due or its alarm had moved.
        self.due_at: float = NEVER
        self.entries: list[tuple[float, int, Alarm]] = []  #: A heap of the times of alarms.
        #: Makes entries of the same time comparable, without a comparison of alarms.
        self.serial: Iterator[int] = count()

    def alarm(self, key: Hashable = ALL) -> Alarm:
        """Return a new alarm, not set, for the owner with this key. An owner may have several."""
        return Alarm(self, key)

    def touch(self, key: Hashable = ALL) -> None:
        """Make an owner due at once, because something on which it acts has changed."""
        self.touched[key] = None

    def join(self, key: Hashable) -> None:
        """Make an owner due with the next step, which this call does not cause."""
        self.joining[key] = None

    def next(self) -> float:
        """Return when something is due: at once (``-NEVER``), at a time, or never."""
        if self.touched:
            return -NEVER
        entries = self.entries
        while entries:
            at, _, alarm = entries[0]
            if alarm.at == at:
                return at
            self._remove_first(alarm)
        return NEVER

    def is_due(self, now: float) -> bool:
        """Return whether a step at ``now`` has something to do."""
        entries = self.entries
        return bool(self.touched or self.joining) or (bool(entries) and entries[0][0] <= now and self.next() <= now)

    def take(self, now: float = -NEVER) -> dict[Hashable, None]:
        """Remove and return the keys of the owners that are due at ``now``, at once or with the next step.

        By default, an alarm counts only if it was expired (:meth:`Alarm.expire`).
        """
        taken, self.touched = self.touched, {}
        entries = self.entries
        self.due_at = entries[0][0] if entries else NEVER
        at = self.next()
        while at <= now:
            alarm = entries[0][2]
            taken[alarm.key] = None
            self._remove_first(alarm)
            at = self.next()
        if self.joining:
            taken.update(self.joining)
            self.joining = {}
        return taken

    def _remove_first(self, alarm: Alarm) -> None:
        """Remove the first entry, which is this alarm's. If the alarm was moved to a later time, enter that time first:
        Ctrl-C between two lines may leave an entry too many, but none may be missing.
        """
        at = self.entries[0][0]
        if alarm.listed[-1] == at:
            alarm.listed.pop()
        if alarm.at > at:
            alarm.set(alarm.at)
        heappop(self.entries)

    def forget(self, keys: Callable[[Hashable], bool]) -> None:
        """Drop the entries of alarms with a key that ``keys`` accepts, and all that is due without an alarm.

        After an exception between any two lines, no other alarm lacks its entry.
        """
        self.touched.clear()
        self.joining.clear()
        gone = {alarm for _, _, alarm in self.entries if keys(alarm.key)}
        kept = [entry for entry in self.entries if entry[2] not in gone]
        heapify(kept)
        self.entries = kept
        for alarm in gone:
            alarm.listed = [NEVER]
