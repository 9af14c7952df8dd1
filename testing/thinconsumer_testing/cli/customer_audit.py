"""Count the orders that a consumer group has read, and those that it read after a later order of the same customer."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from thinconsumer.cli.output import Record

from .orders import read_order


class OrderRead(NamedTuple):
    """One order of a customer, and the partition from which it was read."""

    number: int
    partition: int


class CustomerAudit:
    """Check what one group has read. A customer's orders must be read in the order of their numbers."""

    def __init__(self) -> None:
        self.partitions: Counter[int] = Counter()  #: Number of different orders read, by partition.
        self.late: Counter[int] = Counter()  #: Orders read after a later one of their customer, by partition.
        self.late_customers: Counter[bytes] = Counter()
        self.customers: dict[bytes, list[OrderRead]] = {}  #: The orders of each customer, as they were read.
        self.repeated = 0
        self._seen: set[int] = set()
        self._newest: dict[bytes, int] = {}

    @property
    def read(self) -> int:
        """Number of different orders that were read."""
        return len(self._seen)

    def add(self, record: Record) -> None:
        """Count an order that was read. Whether it was in order is decided when it is read for the first time."""
        number = read_order(record.value or b"")[0]
        customer = record.key or b""
        if number in self._seen:
            self.repeated += 1
            return
        self._seen.add(number)
        self.partitions[record.partition] += 1
        self.customers.setdefault(customer, []).append(OrderRead(number, record.partition))
        newest = self._newest.get(customer, -1)
        if number < newest:
            self.late[record.partition] += 1
            self.late_customers[customer] += 1
        self._newest[customer] = max(number, newest)

    def example(self, customer: bytes, length: int) -> list[OrderRead]:
        """Return up to ``length`` successive orders of a customer as they were read, around the first late one."""
        found = self.customers.get(customer, [])
        late = next((at for at in range(1, len(found)) if found[at].number < found[at - 1].number), 0)
        begin = max(0, min(late - length // 2, len(found) - length))
        return found[begin : begin + length]
