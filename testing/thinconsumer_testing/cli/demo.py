"""Show three brokers, a producer, a consumer and a broker crash, within seconds and without any installation.

The brokers run in memory, in a process of their own. One thread writes a shop's orders and reads them while one broker
is killed. The exit code is 0 only if every order was read once and in order. With --expand no broker is killed:
partitions are added and deleted while two consumer groups read, with ordered delivery and without it. The exit code is
then 0 only if the group with ordered delivery has read each customer's orders in order.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from thinconsumer.cli.consume import BytesConsumer
from thinconsumer.cli.output import ProgressLine
from thinconsumer.cli.parsing import CommandError, Parser, positive
from thinconsumer.consumer import Consumer
from thinconsumer.produce import Producer, ProducerSettings
from thinconsumer.sockets.secured import open_driver
from thinconsumer.types import TopicPartition

from ..broker.process import BrokerProcess
from .demo_shop import CHUNK, NODES, SHORT_BACKOFFS, STALL_TIMEOUT_S, TOPIC, OrderProducer
from .order_audit import OrderAudit
from .orders import orders

PARTITIONS, RATE = 6, 12_000
#: The fraction of the writing time after which the broker is killed.
CRASH_AT = 0.3
POLL_MS = 5


def describe(parser: Parser) -> None:
    parser.add_argument("--seconds", type=_seconds, default=2.5, help="how long to write orders (default: %(default)s)")
    parser.add_argument(
        "--rate", type=positive, default=None, help="maximum orders per second (default: 12000, with --expand 3000)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the random orders (default: %(default)s)")
    parser.add_argument(
        "--expand",
        action="store_true",
        help="double the partitions and halve them again in place of the crash, with two groups of consumers",
    )


def run(options: argparse.Namespace) -> int:
    if options.expand:
        from .demo_expand import run_expansion

        return run_expansion(options)
    screen = ProgressLine(True, stream=sys.stdout)
    started = time.monotonic()
    with BrokerProcess(NODES, {TOPIC: PARTITIONS}) as brokers:
        took, servers = time.monotonic() - started, brokers.bootstrap_servers
        screen.say(f"{NODES} brokers in one process, in memory, started in {took:.2f} s: {servers}")
        screen.say(f"topic {TOPIC!r}: {PARTITIONS} partitions with {NODES} replicas each", "")
        settings = ProducerSettings.from_options(bootstrap_servers=servers, **SHORT_BACKOFFS)
        with Producer(settings, driver=open_driver(settings)) as producer, connect_consumer(servers) as consumer:
            rate = options.rate or RATE
            shop = OrderProducer(orders(options.seed, int(options.seconds * rate)), options.seconds, rate, producer)
            demo = Demo(brokers, shop, consumer, screen)
            demo.run()
        again = read_again(servers, demo.audit.read)
    screen.say(*report(demo, again))
    if demo.audit.is_exact:
        return 0
    wrong = ", ".join(demo.audit.errors())
    raise CommandError(f"{wrong}. This is a bug: please report it with this output (--seed {options.seed})")


def connect_consumer(servers: str) -> BytesConsumer:
    """Return a consumer that is positioned at the beginning of all partitions."""
    consumer: BytesConsumer = Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **SHORT_BACKOFFS)
    consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
    return consumer


def read_again(servers: str, count: int) -> float:
    """Read ``count`` records at full speed with a new consumer; return the seconds, connecting included."""
    started = time.monotonic()
    with connect_consumer(servers) as consumer:
        while count > 0:
            count -= sum(map(len, consumer.poll(100, max_records=10_000).values()))
            if time.monotonic() - started > STALL_TIMEOUT_S:
                raise CommandError(f"the second read stopped {count:,} orders before the end")
        return time.monotonic() - started


class Demo:
    """Writes and reads orders, kills a broker, restarts it, and shows the progress."""

    def __init__(
        self, brokers: BrokerProcess, shop: OrderProducer, consumer: BytesConsumer, screen: ProgressLine
    ) -> None:
        self.audit = OrderAudit()
        self.victim: int | None = None
        self.orphans: tuple[int, ...] = ()  #: Partitions of which the killed broker was the leader.
        self.paused = self.seconds = 0.0
        self._brokers = brokers
        self._shop = shop
        self._consumer = consumer
        self._screen = screen
        self._started = time.monotonic()
        self._waiting: set[int] = set()

    def run(self) -> None:
        """Run until every order was read."""
        self._started = progress_at = time.monotonic()
        while not (self._shop.is_done and self.audit.read >= self._shop.sent):
            now = time.monotonic()
            self._shop.write(now - self._started, self.audit)
            if self._read():
                progress_at = now
            elif now - progress_at > STALL_TIMEOUT_S:
                missing = f"{self.audit.missing:,} orders before the end"
                raise CommandError(f"nothing was read for {STALL_TIMEOUT_S:.0f} s, {missing}")
            if self.victim is None and now - self._started >= CRASH_AT * self._shop.open_s:
                self._crash()
            elif self._waiting:
                self._check_new_leaders()
            self._screen.update(self._how_far)
        self.seconds = time.monotonic() - self._started
        self._screen.say(self._how_far())

    def _read(self) -> bool:
        polled = self._consumer.poll(POLL_MS, max_records=2 * CHUNK)
        now = time.monotonic()
        for records in polled.values():
            for record in records:
                self.audit.add(record, now)
        return bool(polled)

    def _crash(self) -> None:
        leaders = {number: self._brokers.leader((TOPIC, number)) for number in range(PARTITIONS)}
        self.victim = victim = leaders[0]
        self.orphans = tuple(number for number, leader in leaders.items() if leader == victim)
        self.audit.restart_pauses(time.monotonic(), range(PARTITIONS))
        # The leader epoch of a partition is not known here (-1) if none of its records was read yet. It is 0 in that
        # case, since no partition has changed its leader before.
        self._epochs = {number: max(0, self._epoch(number)) for number in self.orphans}
        self._waiting = set(self.orphans)
        self._brokers.kill(victim)
        self._log_event(f"broker {victim} is killed; it led partitions {_listed(self.orphans)}")

    def _check_new_leaders(self) -> None:
        """Restart the broker once orders with a higher leader epoch were read from all partitions that it had led."""
        self._waiting -= {number for number in self._waiting if self._epoch(number) > self._epochs[number]}
        if not self._waiting and self.victim is not None:
            self.paused = max(self.audit.partitions[number].longest_pause for number in self.orphans)
            self._log_event(f"partitions {_listed(self.orphans)} continue with new leaders after {self.paused:.2f} s")
            self._brokers.start(self.victim)
            self._log_event(f"broker {self.victim} is back")

    def _epoch(self, number: int) -> int:
        partition = self.audit.partitions.get(number)
        return -1 if partition is None else partition.leader_epoch

    def _log_event(self, words: str) -> None:
        self._screen.say(f"{time.monotonic() - self._started:5.1f} s  * {words}")

    def _how_far(self) -> str:
        waiting = f"   partitions {_listed(sorted(self._waiting))} wait for a leader" if self._waiting else ""
        seconds = time.monotonic() - self._started
        counts = f"{self._shop.acknowledged:>7,} written {self.audit.read:>7,} read"
        return f"{seconds:5.1f} s  {counts} {_money(self.audit.read_cents):>14} revenue{waiting}"


def report(demo: Demo, again: float) -> list[str]:
    audit = demo.audit
    others = [partition.longest_pause for number, partition in audit.partitions.items() if number not in demo.orphans]
    verdict = ", ".join(audit.errors()) or "none missing, none twice, each partition in order"
    rate, again_rate = audit.read / demo.seconds, audit.read / again
    lines = [
        "",
        f"{audit.expected:,} orders written, {audit.read:,} read: {verdict}",
        f"{demo.seconds:.1f} s, {rate:,.0f} orders per second: producer and consumer take turns on one thread",
    ]
    if demo.orphans and not demo.paused:
        lines.append(f"the crash: no order was written to partitions {_listed(demo.orphans)} after it")
    elif demo.orphans:
        orphans, others_s = _listed(demo.orphans), max(others, default=0.0)
        lines += [
            f"the crash: partitions {orphans} paused for {demo.paused:.2f} s; the brokers detect it after 1 s,",
            f"           and until then writes to other partitions wait for the dead replica: up to {others_s:.2f} s",
        ]
    lines.append(f"second read at full speed: {again:.2f} s, {again_rate:,.0f} orders per second")
    lines += ["", "partition   orders   next offset   longest pause"]
    for number, seen in sorted(audit.partitions.items()):
        lines.append(f"{number:>9}   {seen.count:>6,}   {seen.next_offset:>11,}   {seen.longest_pause:>11.2f} s")
    best = audit.revenue.most_common()
    lines += ["", "revenue: " + ", ".join(f"{country} {_money(cents)}" for country, cents in best)]
    return lines


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds up to 3600")
    return seconds


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(filter(None, [", ".join(map(str, numbers[:-1])), str(numbers[-1])]))


def _money(cents: int) -> str:
    return f"{cents / 100:,.0f} EUR"
