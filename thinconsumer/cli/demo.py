"""See it work, in seconds: three brokers, a shop's orders, and a crash in the middle. Nothing else is needed.

The brokers are a process of their own, in memory. Here, on one thread, a producer writes orders and a consumer reads
them; then one broker dies. At the end every order must have been read once, and in order: else the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from ..broker.process import BrokerProcess
from ..consumer import Consumer
from ..net import SelectorDriver
from ..produce import Producer, ProducerSettings
from ..produce.batch import Receipt
from ..types import TopicPartition
from .orders import Order, orders
from .output import Progress
from .parsing import Failure, Parser, positive
from .tally import Tally

Reader = Consumer["bytes | None", "bytes | None"]

TOPIC, PARTITIONS, NODES = "orders", 6, 3
#: How much of the time for writing is over when the broker dies.
CRASH_AT = 0.3
#: Orders handed to the producer at a time, so that reading has its turn.
CHUNK = 500
#: How long one look for records waits; milliseconds.
POLL_MS = 5
#: Another try, another connection wait for a tenth of a second at most: what is seen is the cluster's time, not ours.
IMPATIENT = {
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 100,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 100,
}
#: Without a single new order for so long it has failed; seconds.
PATIENCE_S = 10.0


def describe(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--seconds", type=_seconds, default=2.5, help="how long orders come in (default: %(default)s)")
    parser.add_argument(
        "--rate", type=positive, default=12_000, help="orders a second, if it can (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="other orders for another number (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    screen = Progress(True, stream=sys.stdout)
    started = time.monotonic()
    with BrokerProcess(NODES, {TOPIC: PARTITIONS}) as brokers:
        took, servers = time.monotonic() - started, brokers.bootstrap_servers
        screen.say(f"{NODES} brokers in one process, in memory, ready after {took:.2f} s: {servers}")
        screen.say(f"topic {TOPIC!r}: {PARTITIONS} partitions with {NODES} replicas each", "")
        settings = ProducerSettings.from_options(bootstrap_servers=servers, **IMPATIENT)
        with Producer(settings, driver=SelectorDriver()) as producer, new_consumer(servers) as consumer:
            count = int(options.seconds * options.rate)
            shop = Shop(orders(options.seed, count), options.seconds, options.rate, producer)
            show = Show(brokers, shop, consumer, screen)
            show.play()
        again = read_again(servers, show.tally.read)
    screen.say(*report(show, again))
    if show.tally.is_exact:
        return 0
    wrong = ", ".join(show.tally.complaints())
    raise Failure(f"{wrong}. That is a bug: please report it with this output (--seed {options.seed})")


def new_consumer(servers: str) -> Reader:
    """Return a consumer of all orders, from the first one on."""
    consumer: Reader = Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **IMPATIENT)
    consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
    return consumer


def read_again(servers: str, count: int) -> float:
    """Read everything once more, as fast as it goes; return how many seconds that took, connecting included.

    Raises:
        Failure: There were fewer.
    """
    started = time.monotonic()
    with new_consumer(servers) as consumer:
        while count > 0:
            count -= sum(map(len, consumer.poll(100, max_records=10_000).values()))
            if time.monotonic() - started > PATIENCE_S:
                raise Failure(f"reading it all again stopped {count:,} orders before the end")
        return time.monotonic() - started


class Shop:
    """Writes orders at its pace for a while, and counts those that the brokers have acknowledged.

    The time is the limit, not a number of orders: a machine that is busy or slow has fewer to show, and is not late.
    """

    def __init__(self, source: Iterator[Order], open_s: float, rate: int, producer: Producer) -> None:
        self.open_s = open_s
        self.is_open = True
        self.sent = 0
        self.acknowledged = 0
        self._source = source
        self._rate = rate
        self._producer = producer
        self._receipts: deque[Receipt] = deque()

    @property
    def is_done(self) -> bool:
        """Whether no more will come, and all of them are acknowledged."""
        return not self.is_open and self.acknowledged == self.sent

    def write(self, seconds: float, tally: Tally) -> None:
        """Write what is due after so many seconds, and take acknowledgements."""
        self.is_open = seconds < self.open_s
        due = min(int(seconds * self._rate), self.sent + CHUNK) if self.is_open else self.sent
        for order in islice(self._source, due - self.sent):
            tally.expect(order)
            self._receipts.append(self._producer.send(TOPIC, order.value, key=order.key))
            self.sent += 1
        self._producer.poll(0)
        # Those of one partition may wait for its new leader while others are done.
        waiting = [receipt for receipt in self._receipts if not self._is_settled(receipt)]
        self._receipts = deque(waiting)

    def _is_settled(self, receipt: Receipt) -> bool:
        if receipt.done:
            receipt.result()  # raises if it could not be written
            self.acknowledged += 1
        return receipt.done


class Show:
    """What happens when: orders, the crash, what is read, and how far it all is."""

    def __init__(self, brokers: BrokerProcess, shop: Shop, consumer: Reader, screen: Progress) -> None:
        self.tally = Tally()
        self.victim: int | None = None
        self.orphans: tuple[int, ...] = ()  #: Partitions that the broker led.
        self.paused = self.seconds = 0.0
        self._brokers = brokers
        self._shop = shop
        self._consumer = consumer
        self._screen = screen
        self._started = time.monotonic()
        self._waiting: set[int] = set()

    def play(self) -> None:
        """Go on until every order was read."""
        self._started = progress_at = time.monotonic()
        while not (self._shop.is_done and self.tally.read >= self._shop.sent):
            now = time.monotonic()
            self._shop.write(now - self._started, self.tally)
            if self._read():
                progress_at = now
            elif now - progress_at > PATIENCE_S:
                raise Failure(f"nothing was read for {PATIENCE_S:.0f} s, {self.tally.missing:,} orders before the end")
            if self.victim is None and now - self._started >= CRASH_AT * self._shop.open_s:
                self._crash()
            elif self._waiting:
                self._look_for_new_leaders()
            self._screen.update(self._how_far)
        self.seconds = time.monotonic() - self._started
        self._screen.say(self._how_far())

    def _read(self) -> bool:
        polled = self._consumer.poll(POLL_MS, max_records=2 * CHUNK)
        now = time.monotonic()
        for records in polled.values():
            for record in records:
                self.tally.add(record, now)
        return bool(polled)

    def _crash(self) -> None:
        leaders = {number: self._brokers.leader((TOPIC, number)) for number in range(PARTITIONS)}
        self.victim = victim = leaders[0]
        self.orphans = tuple(number for number, leader in leaders.items() if leader == victim)
        self.tally.count_waits_from(time.monotonic(), range(PARTITIONS))
        # Where nothing was read yet, the first leader's epoch is none of a next one either.
        self._epochs = {number: max(0, self._epoch(number)) for number in self.orphans}
        self._waiting = set(self.orphans)
        self._brokers.kill(victim)
        self._tell(f"broker {victim} dies, as with kill -9; it led partitions {_listed(self.orphans)}")

    def _look_for_new_leaders(self) -> None:
        """An order with a higher leader epoch has come from the next leader."""
        self._waiting -= {number for number in self._waiting if self._epoch(number) > self._epochs[number]}
        if not self._waiting and self.victim is not None:
            self.paused = max(self.tally.lanes[number].longest_wait for number in self.orphans)
            self._tell(
                f"partitions {_listed(self.orphans)} are read again, from new leaders, after {self.paused:.2f} s"
            )
            self._brokers.start(self.victim)
            self._tell(f"broker {self.victim} is back")

    def _epoch(self, number: int) -> int:
        lane = self.tally.lanes.get(number)
        return -1 if lane is None else lane.leader_epoch

    def _tell(self, words: str) -> None:
        self._screen.say(f"{time.monotonic() - self._started:5.1f} s  * {words}")

    def _how_far(self) -> str:
        waiting = f"   partitions {_listed(sorted(self._waiting))} wait for a leader" if self._waiting else ""
        seconds = time.monotonic() - self._started
        counts = f"{self._shop.acknowledged:>7,} written {self.tally.read:>7,} read"
        return f"{seconds:5.1f} s  {counts} {_money(self.tally.read_cents):>14} revenue{waiting}"


def report(show: Show, again: float) -> list[str]:
    """Return what is to be said in the end, line by line."""
    tally = show.tally
    others = [lane.longest_wait for number, lane in tally.lanes.items() if number not in show.orphans]
    verdict = ", ".join(tally.complaints()) or "none missing, none twice, each partition in order"
    rate, again_rate = tally.read / show.seconds, tally.read / again
    lines = [
        "",
        f"{tally.expected:,} orders written, {tally.read:,} read: {verdict}",
        f"{show.seconds:.1f} s, {rate:,.0f} orders a second: producer and consumer take turns on one thread",
    ]
    if show.orphans and not show.paused:
        lines.append(f"the crash: nobody ordered what goes to partitions {_listed(show.orphans)} any more")
    elif show.orphans:
        orphans, others_s = _listed(show.orphans), max(others, default=0.0)
        lines += [
            f"the crash: partitions {orphans} paused for {show.paused:.2f} s; the brokers notice after 1 s,",
            f"           and until then writes to the others wait for the dead replica: {others_s:.2f} s at most",
        ]
    lines.append(f"all of it again, as fast as it goes: {again:.2f} s, {again_rate:,.0f} orders a second")
    lines += ["", "partition   orders   next offset   longest pause"]
    for number, lane in sorted(tally.lanes.items()):
        lines.append(f"{number:>9}   {lane.count:>6,}   {lane.next_offset:>11,}   {lane.longest_wait:>11.2f} s")
    best = tally.revenue.most_common()
    lines += ["", "revenue: " + ", ".join(f"{country} {_money(cents)}" for country, cents in best)]
    return lines


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 to 3600")
    return seconds


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(filter(None, [", ".join(map(str, numbers[:-1])), str(numbers[-1])]))


def _money(cents: int) -> str:
    return f"{cents / 100:,.0f} EUR"
