"""The demo with ``--expand``: the partitions of a shop's topic are doubled, and halved again later (KIP-253).

Two groups of two consumers read at the same time, with ordered delivery and without. While orders are written, each
group reads only some of them, as if it processed them too slowly: so there are unread orders when partitions are added
or deleted. The report counts, for each group, the orders that it read after a later order of the same customer.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Collection, Iterable, Sequence

from thinconsumer.cli.consume import BytesConsumer
from thinconsumer.cli.parsing import CommandError
from thinconsumer.consumer import Consumer
from thinconsumer.group import PartitionKeyRebalanceListener
from thinconsumer.linear_hashing import parent_of
from thinconsumer.produce import Producer, ProducerSettings
from thinconsumer.sockets.secured import open_driver
from thinconsumer.types import TopicPartition

from ..broker.process import BrokerProcess
from .customer_audit import CustomerAudit, OrderRead
from .demo_shop import NODES, SHORT_BACKOFFS, STALL_TIMEOUT_S, TOPIC, OrderProducer
from .orders import Order, orders
from .picture import Picture

FEW, MANY, RATE, CUSTOMERS = 4, 8, 3_000, 300
#: Fractions of the planned writing time: after the first, partitions are added, and after the second deleted. For the
#: third, at least, orders are written after the deletion.
EXPAND_AT, SHRINK_AT, AFTERWARDS = 0.3, 0.65, 0.35
MEMBERS = 2
#: Orders that a group reads for each order that is written. A fraction of the orders, not of the time, so that the demo
#: shows the same on a slow machine.
SPEED = 0.7
#: The limit of a member's budget: after a wait, the member may read this many orders at once.
SPARE = 100
POLL_MS = 2
ORDERS_MAX = 10**9
JOIN_TIMEOUT_S = 30.0
BAR = 20  #: Width of a bar.
EXAMPLE = 7  #: Orders of one customer in the report.

_HELD = re.compile(rf"{TOPIC}-(\d+) is held until {TOPIC}-(\d+) is read")


def run_expansion(options: argparse.Namespace) -> int:
    """Run the demo; return the exit code."""
    picture, rate = Picture(sys.stdout), options.rate or RATE
    started = time.monotonic()
    with BrokerProcess(NODES) as brokers:
        brokers.create_topic(TOPIC, FEW, NODES, {"enable.ordered.delivery": "true"})
        took, servers = time.monotonic() - started, brokers.bootstrap_servers
        picture.say(
            f"{NODES} brokers in one process, in memory, started in {took:.2f} s: {servers}",
            f"topic {TOPIC!r}: {FEW} partitions, enable.ordered.delivery=true",
            f"two groups of {MEMBERS} consumers; each group reads {SPEED:.0%} of the orders while they are written",
        )
        settings = ProducerSettings.from_options(bootstrap_servers=servers, **SHORT_BACKOFFS)
        with (
            Producer(settings, driver=open_driver(settings)) as producer,
            ReadingGroup("ordered", servers, "topic") as ordered,
            ReadingGroup("unordered", servers, "off") as unordered,
        ):
            source = orders(options.seed, ORDERS_MAX, CUSTOMERS)  # orders are written until all changes are made
            shop = OrderProducer(source, options.seconds, rate, producer)
            demo = ExpansionDemo(brokers, shop, ordered, unordered, picture)
            demo.run()
    picture.say(*report(demo))
    wrong = ordered.audit.late.total()
    if wrong:
        raise CommandError(
            f"{wrong:,} orders were not in order with ordered delivery. "
            f"This is a bug: please report it with this output (--seed {options.seed})"
        )
    return 0


class ReadingGroup(PartitionKeyRebalanceListener):
    """Consumers of one group, which share a thread, and what they have read."""

    def __init__(self, name: str, servers: str, ordered_delivery: str) -> None:
        self.audit = CustomerAudit()
        self.released: set[int] = set()  #: Partitions whose release is not reported yet.
        self._budgets = [0.0] * MEMBERS  #: Orders that each member may read now.
        self._members: list[BytesConsumer] = []
        for _ in range(MEMBERS):
            member: BytesConsumer = Consumer(
                bootstrap_servers=servers,
                group_id=name,
                auto_offset_reset="earliest",
                ordered_delivery=ordered_delivery,
                heartbeat_interval_ms=100,  # positions are exchanged at this interval, too
                metadata_max_age_ms=200,  # otherwise the group without ordered delivery notices new partitions late
                **SHORT_BACKOFFS,
            )
            self._members.append(member)
            member.subscribe([TOPIC], listener=self)

    def __enter__(self) -> ReadingGroup:
        return self

    def __exit__(self, *raised: object) -> None:
        for member in self._members:
            member.close(timeout_ms=1000)

    @property
    def is_complete(self) -> bool:
        """Whether the members have been assigned all partitions that the topic begins with."""
        return sum(len(member.assignment()) for member in self._members) == FEW

    def read(self, count: float) -> int:
        """Add ``count`` to the members' budgets, in equal shares, and let them read; return how many orders are new."""
        before = self.audit.read
        for index, member in enumerate(self._members):
            budget = self._budgets[index] = min(self._budgets[index] + count / MEMBERS, SPARE)
            if budget < 1:
                member.drive()
                continue
            for records in member.poll(POLL_MS, max_records=int(budget)).values():
                self._budgets[index] -= len(records)
                for record in records:
                    self.audit.add(record)
        return self.audit.read - before

    def has_read(self, partitions: Iterable[int]) -> bool:
        """Return whether the group has read at least one order from each of these partitions."""
        return all(self.audit.partitions[number] for number in partitions)

    def held(self) -> dict[int, list[int]]:
        """Return the partitions that are held until another one is read, each with those that it waits for."""
        found: dict[int, list[int]] = {}
        for member in self._members:
            for one, other in _HELD.findall(member.health().reason):
                found.setdefault(int(one), []).append(int(other))
        return found

    def on_partition_keys_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Note partitions that are held no longer."""
        self.released |= {tp.partition for tp in assigned}


class ExpansionDemo:
    """Writes and reads orders, adds and deletes partitions, and shows the progress."""

    def __init__(
        self,
        brokers: BrokerProcess,
        shop: OrderProducer,
        ordered: ReadingGroup,
        unordered: ReadingGroup,
        picture: Picture,
    ) -> None:
        self.ordered = ordered
        self.unordered = unordered
        self.shop = shop
        self.customers: set[bytes] = set()
        self.counts = [FEW]  #: The partition counts so far.
        self._brokers = brokers
        self._picture = picture
        self._planned_s = shop.open_s
        self._started = time.monotonic()

    def expect(self, order: Order) -> None:
        """Note the customer of an order before it is written."""
        self.customers.add(order.key)

    def run(self) -> None:
        """Run until both groups have read all orders."""
        groups = self.ordered, self.unordered
        self._wait_for_groups(groups)
        self._started = progress_at = time.monotonic()
        self.shop.open_s = float("inf")
        while not (self.shop.is_done and all(group.audit.read >= self.shop.sent for group in groups)):
            now, before = time.monotonic(), self.shop.sent
            self.shop.write(now - self._started, self)
            count = SPEED * (self.shop.sent - before) if self.shop.is_open else SPARE
            if sum([group.read(count) for group in groups]):
                progress_at = now
            elif now - progress_at > STALL_TIMEOUT_S:
                missing = " and ".join(f"{self.shop.sent - group.audit.read:,}" for group in groups)
                raise CommandError(f"nothing was read for {STALL_TIMEOUT_S:.0f} s, {missing} orders before the ends")
            self._change_count(now - self._started)
            self._report_releases()
            self._picture.update(self._draw)
        self._picture.say("", *self._draw())

    def _wait_for_groups(self, groups: Sequence[ReadingGroup]) -> None:
        limit = time.monotonic() + JOIN_TIMEOUT_S
        while not all(group.is_complete for group in groups):
            for group in groups:
                group.read(1)
            if time.monotonic() > limit:
                raise CommandError(f"the groups have not got their partitions within {JOIN_TIMEOUT_S:.0f} s")

    def _change_count(self, seconds: float) -> None:
        """Double the partitions when that is due; later, once the group without ordered delivery has read from each new
        partition, halve them and set the end of the writing.
        """
        done = seconds / self._planned_s
        if len(self.counts) == 1:
            if done >= EXPAND_AT and all(group.has_read(range(FEW)) for group in (self.ordered, self.unordered)):
                self._change_to(MANY, f"{FEW} partitions become {MANY}: half of the customers move to new ones")
        elif len(self.counts) == 2 and done >= SHRINK_AT and self.unordered.has_read(range(FEW, MANY)):
            self._change_to(FEW, f"{MANY} partitions become {FEW} again: customers return, and the rest is read")
            self.shop.open_s = max(self._planned_s, seconds + AFTERWARDS * self._planned_s)

    def _change_to(self, count: int, words: str) -> None:
        self._picture.say("", *self._draw(), "")
        (self._brokers.expand if count > self.counts[-1] else self._brokers.shrink)(TOPIC, count)
        self.counts.append(count)
        self._log_event(words)

    def _report_releases(self) -> None:
        released = self.ordered.released
        if released:
            numbers = ", ".join(map(str, sorted(released)))
            self._log_event(f"no longer held: {numbers} (earlier orders of their customers are read)")
            released.clear()

    def _log_event(self, words: str) -> None:
        self._picture.say(f"{time.monotonic() - self._started:5.1f} s  * {words}")

    def _draw(self) -> list[str]:
        """Return the lines of the picture: for each partition, how many of its orders each group has read."""
        ends, held = self.shop.ends, self.ordered.held()
        scale = BAR / max([*ends.values(), 1])
        seconds, read = time.monotonic() - self._started, [self.ordered.audit.read, self.unordered.audit.read]
        rows = [
            f"{seconds:5.1f} s  {self.shop.acknowledged:>7,} orders written",
            f"partition     {f'with ordered delivery: {read[0]:,}':<35}without: {read[1]:,} read",
        ]
        for number in range(max(self.counts)):
            end = ends.get(number, 0)
            bars = []
            for group in (self.ordered, self.unordered):
                done = group.audit.partitions[number]
                bars.append(self._picture.bar(done, max(0, end - done), scale)[:BAR])
            waits = f"waits for {','.join(map(str, held[number]))}" if number in held else ""
            late = f"{self.unordered.audit.late[number]:,} late" if self.unordered.audit.late[number] else ""
            row = f"{number:>3} {self._origin(number):<10}{bars[0]:<{BAR}} {waits:<14}{bars[1]:<{BAR}} {late}"
            rows.append(row.rstrip())
        return rows

    def _origin(self, number: int) -> str:
        if number < FEW:
            return ""
        other = parent_of(number, FEW)
        return f"from {other}" if self.counts[-1] == MANY else f"to {other}"


def report(demo: ExpansionDemo) -> list[str]:
    ordered, unordered = demo.ordered.audit, demo.unordered.audit
    changes, customers = " -> ".join(map(str, demo.counts)), len(demo.customers)
    lines = [
        "",
        f"{demo.shop.sent:,} orders of {customers:,} customers, {changes} partitions; both groups have read all",
        "late orders, which were read after a later order of the same customer:",
        f"  with ordered delivery    {_late(ordered)}",
        f"  without                  {_late(unordered)}",
    ]
    repeated = ordered.repeated + unordered.repeated
    if repeated:
        lines.append(f"  {repeated:,} orders were read twice after a rebalance, and compared once")
    if unordered.late_customers:
        [(customer, _)] = unordered.late_customers.most_common(1)
        late = unordered.example(customer, EXAMPLE)
        wanted = {one.number for one in late}
        in_order = [one for one in ordered.customers[customer] if one.number in wanted]
        lines += [
            "",
            f"orders of customer {customer.decode()} as they were read, each with its partition:",
            f"  with ordered delivery    {_listed(in_order)}",
            f"  without                  {_listed(late)}",
        ]
    return lines


def _late(audit: CustomerAudit) -> str:
    count, customers = audit.late.total(), len(audit.late_customers)
    return f"{count:>6,} orders of {customers:,} customers" if count else f"{0:>6} orders"


def _listed(orders_read: Iterable[OrderRead]) -> str:
    return "  ".join(f"{one.number}@{one.partition}" for one in orders_read)
