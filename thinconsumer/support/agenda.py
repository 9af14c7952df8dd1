"""The schedule of one client: what has to be looked at next, and when.

Owns every time at which something in the engine is due without a response. An owner, a manager or a route, gets an
:class:`Alarm` of the agenda for each such time, and sets it where the time becomes known: no other attribute holds it,
and the engine asks no owner for it. An entry is due at a time, at once (:meth:`Agenda.touch`), with the next step
that something else causes, such as a call of the application (:meth:`Agenda.join`), or never. What has become due is
returned once: an owner that cannot act on it yet, because it waits for a response or a call of the application, is
stepped again when that comes.

To move an alarm to a later time costs nothing: its entry stays in the heap until it comes up, and is moved then. The
deadline of a response moves with each received chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from itertools import count

#: A time that never comes.
NEVER = math.inf
#: The key of all managers of a client: most of them act on what others have changed.
ALL = ""


class ReportingKey:
    """The key of alarms without an owner among the managers: each that comes is reported, and all managers step."""

    __slots__ = ()

    def report_change(self) -> None:
        """Note that an alarm with this key has come."""
        raise NotImplementedError


class Alarm:
    """A time at which its owner is due, such as the end of a backoff. Once it has come, ``at`` stays as it is."""

    __slots__ = ("_agenda", "at", "key", "listed")

    def __init__(self, agenda: Agenda, key: Hashable) -> None:
        self.key = key  #: What :meth:`Agenda.take` returns when the time has come.
        self.at = NEVER  #: When the owner is due; NEVER if the alarm is not set.
        #: For the agenda: the times for which it has entries, the first one last, behind NEVER. An alarm that is near
        #: and far in turn keeps its far entry: a new one each time would fill the heap.
        self.listed = [NEVER]
        self._agenda = agenda

    def set(self, at: float) -> None:
        """Make the owner due at a time, in place of the time before. NEVER: at no time."""
        if at < self.listed[-1]:
            # The entry comes first: if Ctrl-C came between the lines, an entry too many would be noticed when it comes
            # up, and one too few never.
            heappush(self._agenda.entries, (at, next(self._agenda.serial), self))
            self.listed.append(at)
        self.at = at

    @property
    def is_set(self) -> bool:
        """Whether there is a time, which may have come."""
        return self.at < NEVER

    def is_over(self, now: float) -> bool:
        """Return whether the time has come; False if the alarm is not set."""
        return self.at <= now

    def is_ahead(self, now: float) -> bool:
        """Return whether the time is still to come; False if the alarm is not set."""
        return now < self.at < NEVER

    def set_earlier(self, at: float) -> None:
        """Make the owner due at a time, unless it is due before."""
        if at < self.at:
            self.set(at)

    def expire(self) -> None:
        """Make the owner due, as if the time had come long ago."""
        self.set(-NEVER)

    def clear(self) -> None:
        """Make the owner due at no time."""
        self.at = NEVER

    def touch(self) -> None:
        """Make the owner due at once; its time stays."""
        self._agenda.touched[self.key] = None


class Agenda:
    """What is due in one client."""

    def __init__(self) -> None:
        #: The keys of the owners that are due at once. A dict, which keeps the order in which they were touched.
        self.touched: dict[Hashable, None] = {}
        self.joining: dict[Hashable, None] = {}  #: Those of the owners that are due with the next step.
        #: The first time that was in the agenda before the last :meth:`take`. It may not have come up, or
        #: its alarm may have been moved meanwhile.
        self.due_at = NEVER
        self.entries: list[tuple[float, int, Alarm]] = []  #: A heap of the times of alarms.
        self.serial = count()  #: Makes entries of the same time comparable, without a comparison of alarms.

    def alarm(self, key: Hashable = ALL) -> Alarm:
        """Return a new alarm, not set, for the owner with this key. An owner may have several."""
        return Alarm(self, key)

    def touch(self, key: Hashable = ALL) -> None:
        """Make an owner due at once: what it acts on has changed."""
        self.touched[key] = None

    def join(self, key: Hashable) -> None:
        """Make an owner due with the next step, but cause none: the application may have changed what it acts on."""
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
        """Return the keys of all that is due, which is not due any more after this; by default, what is due at once."""
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
        """Remove the first entry, which is this alarm's. If the alarm was moved to a later time, enter that time.

        In this order, Ctrl-C between two lines leaves an entry too many, and never one too few.
        """
        at = self.entries[0][0]
        if alarm.listed[-1] == at:
            alarm.listed.pop()
        if alarm.at > at:
            alarm.set(alarm.at)
        heappop(self.entries)

    def forget(self, keys: Callable[[Hashable], bool]) -> None:
        """Drop the entries of the owners with such keys, which exist no more, and all that is due at once.

        The alarms of all other owners stay, and after an exception between any two lines none lacks its entry.
        """
        self.touched.clear()
        self.joining.clear()
        gone = {alarm for _, _, alarm in self.entries if keys(alarm.key)}
        kept = [entry for entry in self.entries if entry[2] not in gone]
        heapify(kept)
        self.entries = kept
        for alarm in gone:
            alarm.listed = [NEVER]
