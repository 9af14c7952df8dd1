"""What was read, held against what was written: every order once, in its partition's order, and how long it took.

Owns the demo's verdict. It believes neither side: it looks at records alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from .orders import Order, read_order
from .output import Record


@dataclass
class Lane:
    """One partition as it was read: how many, up to where, and the longest wait for the next records."""

    count: int = 0
    next_offset: int = 0
    last_order: int = -1
    leader_epoch: int = -1
    last_at: float | None = None
    longest_wait: float = 0.0


@dataclass
class Tally:
    """Counts both sides. ``expect`` what is written, ``add`` what was read at a moment."""

    lanes: dict[int, Lane] = field(default_factory=dict)
    written_cents: int = 0
    read_cents: int = 0
    revenue: Counter[str] = field(default_factory=Counter)  #: Cents by country.
    read: int = 0
    doubled: int = 0
    out_of_order: int = 0
    unexpected: int = 0
    _seen: bytearray = field(default_factory=bytearray)

    @property
    def expected(self) -> int:
        """How many orders there are to be."""
        return len(self._seen)

    @property
    def missing(self) -> int:
        """How many of them have not been read."""
        return self._seen.count(0)

    @property
    def is_exact(self) -> bool:
        """Whether every order was read once, in order, and says what was written."""
        wrong = self.missing or self.doubled or self.out_of_order or self.unexpected
        return not wrong and self.read_cents == self.written_cents

    def count_waits_from(self, now: float, partitions: Iterable[int]) -> None:
        """Forget how long waits were so far, and let those of the future begin now where none has begun."""
        for number in partitions:
            lane = self.lanes.setdefault(number, Lane())
            lane.longest_wait = 0.0
            lane.last_at = now if lane.last_at is None else lane.last_at

    def expect(self, order: Order) -> None:
        """This order is going to be written; they come in the order of their numbers."""
        self._seen.append(0)
        self.written_cents += order.cents

    def add(self, record: Record, now: float) -> None:
        """This was read."""
        lane = self.lanes.setdefault(record.partition, Lane())
        if lane.last_at is not None:
            lane.longest_wait = max(lane.longest_wait, now - lane.last_at)
        lane.last_at = now
        lane.count += 1
        self.read += 1
        try:
            number, country, cents = read_order(record.value or b"")
        except ValueError:
            self.unexpected += 1
            return
        # Offsets alone would not do: an idempotent producer's retry may write twice what it should not.
        self.out_of_order += record.offset < lane.next_offset or number <= lane.last_order
        lane.next_offset, lane.last_order, lane.leader_epoch = record.offset + 1, number, record.leader_epoch
        if not 0 <= number < len(self._seen):
            self.unexpected += 1
            return
        self.doubled += self._seen[number]
        self._seen[number] = 1
        self.read_cents += cents
        self.revenue[country] += cents

    def complaints(self) -> list[str]:
        """Return what is wrong, in words."""
        found = [
            (self.missing, "missing"),
            (self.doubled, "read twice"),
            (self.out_of_order, "out of order"),
            (self.unexpected, "never written"),
        ]
        words = [f"{count:,} {what}" for count, what in found if count]
        if not words and self.read_cents != self.written_cents:
            words = [f"{self.read_cents / 100:,.2f} read for {self.written_cents / 100:,.2f} written"]
        return words
