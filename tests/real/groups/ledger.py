"""Judge a group by its members' event logs: when each partition was owned, and which member processed each record.

Pure functions of what was written down. An ownership begins where ``assigned`` does, and ends where ``revoked`` or
``lost`` does, with the goodbye, or with the kill.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Event(NamedTuple):
    when: float
    member: str
    what: str
    numbers: tuple[int, ...] = ()
    words: str = ""


class Stint(NamedTuple):
    """A time during which a member owned a partition."""

    partition: int
    member: str
    since: float
    until: float = float("inf")
    end: str = "still"  #: The event that ended it.


class Double(NamedTuple):
    """A record that was processed again."""

    partition: int
    offset: int
    first: str
    second: str
    first_at: float
    second_at: float


_ENDS_ALL = ("killed", "left")


@dataclass
class Ledger:
    """All diaries of a group, in order of time."""

    events: list[Event]

    @classmethod
    def of(cls, diaries: Iterable[Iterable[Event]]) -> Ledger:
        return cls(sorted((event for diary in diaries for event in diary), key=lambda event: event.when))

    def stints(self) -> list[Stint]:
        """Return the stints of all members, by partition and time."""
        owned: dict[tuple[str, int], float] = {}
        found: list[Stint] = []

        def end(member: str, partitions: Iterable[int], event: Event) -> None:
            for partition in partitions:
                since = owned.pop((member, partition), None)
                if since is not None:
                    found.append(Stint(partition, member, since, event.when, event.what))

        for event in self.events:
            if event.what == "assigned":
                for partition in event.numbers:
                    owned[event.member, partition] = event.when
            elif event.what in ("revoked", "lost"):
                end(event.member, event.numbers, event)
            elif event.what in _ENDS_ALL:
                end(event.member, [p for m, p in list(owned) if m == event.member], event)
        found += [Stint(partition, member, since) for (member, partition), since in owned.items()]
        return sorted(found, key=lambda stint: (stint.partition, stint.since))

    def gaps(self, since: float = 0.0) -> list[tuple[float, Stint, Stint]]:
        """Return how long each partition had no owner, the longest time first, with the stints before and after.

        Gaps that began before ``since`` are left out, such as those while the first members start.
        """
        found = []
        for before, after in self._neighbours():
            if after.since > before.until >= since:
                found.append((after.since - before.until, before, after))
        return sorted(found, reverse=True)

    def overlaps(self) -> list[tuple[Stint, Stint]]:
        """Return where a partition had two owners at a time."""
        return [(before, after) for before, after in self._neighbours() if after.since < before.until]

    def _neighbours(self) -> Iterable[tuple[Stint, Stint]]:
        """Yield each stint with the one of the same partition that had lasted longest when it began."""
        latest: dict[int, Stint] = {}
        for stint in self.stints():
            before = latest.get(stint.partition)
            if before is not None:
                yield before, stint
            if before is None or stint.until > before.until:
                latest[stint.partition] = stint

    def processed(self) -> dict[int, dict[int, list[tuple[float, str]]]]:
        """Return the times and members that processed each record, by partition and offset."""
        found: dict[int, dict[int, list[tuple[float, str]]]] = {}
        for event in self.events:
            if event.what == "records":
                partition, *offsets = event.numbers
                rows = found.setdefault(partition, {})
                for offset in offsets:
                    rows.setdefault(offset, []).append((event.when, event.member))
        return found

    def lost(self, written: Mapping[int, int]) -> list[tuple[int, int]]:
        """Return the records that no member processed, given the number of records in each partition."""
        processed = self.processed()
        return [
            (partition, offset)
            for partition, count in written.items()
            for offset in range(count)
            if offset not in processed.get(partition, {})
        ]

    def doubles(self) -> list[Double]:
        """Return each repeated processing of a record, with the time and member before it."""
        return [
            Double(partition, offset, first, second, first_at, second_at)
            for partition, rows in self.processed().items()
            for offset, times in rows.items()
            for (first_at, first), (second_at, second) in itertools.pairwise(times)
        ]

    def strangers(self) -> list[str]:
        """Return records that a member processed while it did not own their partition."""
        owned: dict[str, set[int]] = {}
        found = []
        for event in self.events:
            mine = owned.setdefault(event.member, set())
            if event.what == "assigned":
                mine.update(event.numbers)
            elif event.what in ("revoked", "lost"):
                mine.difference_update(event.numbers)
            elif event.what == "records" and event.numbers[0] not in mine:
                found.append(f"{event.when:.3f} {event.member} read {event.numbers} and owned {sorted(mine)}")
        return found

    def said(self, what: str) -> list[str]:
        return [f"{event.when:.3f} {event.member}: {event.words}" for event in self.events if event.what == what]

    def longest_silence(self, partition: int, since: float, until: float) -> float:
        """Return the longest time in which no record of the partition was processed."""
        times = [e.when for e in self.events if e.what == "records" and e.numbers[0] == partition]
        times = [since, *(when for when in times if since <= when <= until), until]
        return max(after - before for before, after in itertools.pairwise(times))
