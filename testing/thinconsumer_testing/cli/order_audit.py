"""Check that the demo has read every order that it wrote, once, and in order within each partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from thinconsumer.cli.output import Record

from .orders import Order, read_order


@dataclass
class PartitionAudit:
    """A summary of the records read from one partition, with the longest pause between two of them."""

    count: int = 0
    next_offset: int = 0
    last_order: int = -1
    leader_epoch: int = -1
    last_at: float | None = None
    longest_pause: float = 0.0


@dataclass
class OrderAudit:
    """Compares written orders (:meth:`expect`) with read records (:meth:`add`), and counts each kind of difference."""

    partitions: dict[int, PartitionAudit] = field(default_factory=dict)
    written_cents: int = 0
    read_cents: int = 0
    revenue: Counter[str] = field(default_factory=Counter)  #: Sum of prices in cents by country.
    read: int = 0
    doubled: int = 0
    out_of_order: int = 0
    unexpected: int = 0
    _seen: bytearray = field(default_factory=bytearray)

    @property
    def expected(self) -> int:
        """Number of orders that were written."""
        return len(self._seen)

    @property
    def missing(self) -> int:
        """Number of written orders that were not read."""
        return self._seen.count(0)

    @property
    def is_exact(self) -> bool:
        """Whether every order was read once and in order, and the amounts read and written are equal in total."""
        wrong = self.missing or self.doubled or self.out_of_order or self.unexpected
        return not wrong and self.read_cents == self.written_cents

    def restart_pauses(self, now: float, partitions: Iterable[int]) -> None:
        """Forget the longest pauses. In a partition without a record so far, the first pause begins at ``now``."""
        for number in partitions:
            partition = self.partitions.setdefault(number, PartitionAudit())
            partition.longest_pause = 0.0
            partition.last_at = now if partition.last_at is None else partition.last_at

    def expect(self, order: Order) -> None:
        """Count an order before it is written. Orders must come in the order of their numbers."""
        self._seen.append(0)
        self.written_cents += order.cents

    def add(self, record: Record, now: float) -> None:
        """Count a record that was read at ``now``, and whether it is out of order, repeated, or was never written."""
        seen = self.partitions.setdefault(record.partition, PartitionAudit())
        if seen.last_at is not None:
            seen.longest_pause = max(seen.longest_pause, now - seen.last_at)
        seen.last_at = now
        seen.count += 1
        self.read += 1
        try:
            number, country, cents = read_order(record.value or b"")
        except ValueError:
            self.unexpected += 1
            return
        # If a faulty retry wrote an order twice, the offsets of both copies are in order: only the repeated order
        # number shows the fault.
        self.out_of_order += record.offset < seen.next_offset or number <= seen.last_order
        seen.next_offset, seen.last_order, seen.leader_epoch = record.offset + 1, number, record.leader_epoch
        if not 0 <= number < len(self._seen):
            self.unexpected += 1
            return
        self.doubled += self._seen[number]
        self._seen[number] = 1
        self.read_cents += cents
        self.revenue[country] += cents

    def errors(self) -> list[str]:
        """Return each kind of error with its count; if there is none, but the amounts differ, both amounts."""
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
