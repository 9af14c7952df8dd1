"""The members and writers of simulations of ordered delivery (KIP-253): a Consumer and a Producer that may be killed.

Unlike other actors they run on the network of a :class:`~thinconsumer_testing.cluster.MemoryCluster`. The swarm calls
each when its time ``next_at`` has come; bytes that arrive earlier wait until then.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from thinconsumer.consumer.consumer import Consumer
from thinconsumer.errors import KafkaError
from thinconsumer.group.listener import RebalanceListener
from thinconsumer.ordered.holds import HoldState
from thinconsumer.produce.batch import SendFuture
from thinconsumer.produce.producer import Producer
from thinconsumer.produce.settings import ProducerSettings
from thinconsumer.support.timers import NEVER
from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation.observed import SimConsumer

from ..checkers.key_order import KeyOrderChecker, WrittenRecord

if TYPE_CHECKING:
    from thinconsumer_testing.cluster import MemoryCluster

    from ..order_knobs import OrderKnobs

TOPIC, GROUP = "orders", "group"
#: The brokers' session timeout and heartbeat interval of both group protocols.
SESSION_MS, HEARTBEAT_MS = 8000, 1000
#: The least virtual seconds between two turns of a client. Less would cost more CPU time than it finds.
TURN_S = 0.02
#: Options of all clients: what takes a minute by default would only prolong the simulation.
IMPATIENT: dict[str, Any] = {"request_timeout_ms": 4000, "retry_backoff_max_ms": 500, "reconnect_backoff_max_ms": 500}


class SimulatedClient:
    """A process with a client, which :meth:`turn` lets go on."""

    def __init__(self, name: str, seed: int, knobs: OrderKnobs, cluster: MemoryCluster) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self.random = random.Random(f"{name}/{seed}")
        self.driver = cluster.driver(self.random.randrange(2**31))
        self._knobs = knobs
        self._clock = cluster.clock
        self.next_at = self._clock.now()  #: When the next turn is due.

    def turn(self) -> None:
        """Call the client, and set the time of the next turn."""
        raise NotImplementedError

    def die(self) -> None:
        """End without a word, as a process that is killed: what it has sent arrives, or not."""
        self.driver.close()


class SimulatedMember(SimulatedClient):
    """A member that polls at intervals of its own, and commits. Without ``holds`` it ignores ordered delivery."""

    def __init__(
        self, number: int, seed: int, knobs: OrderKnobs, cluster: MemoryCluster, checker: KeyOrderChecker, holds: bool
    ) -> None:
        super().__init__(f"member{number}", seed, knobs, cluster)
        self.checker = checker
        checker.started(self.name)
        self.consumer: Consumer[Any, Any] = SimConsumer(
            driver=self.driver,
            client_id=self.name,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=knobs.auto_commits,
            auto_commit_interval_ms=3000,
            fetch_max_wait_ms=1000,
            max_poll_records=knobs.max_poll_records,
            metadata_max_age_ms=knobs.metadata_max_age_ms,
            ordered_delivery="topic" if holds else "off",
            **IMPATIENT,
            **self._protocol(),
        )
        listener = KeyListener(self) if knobs.has_key_listener and holds else MemberListener(self)
        self.consumer.subscribe([TOPIC], listener=listener)
        self.pace = self.random.choice(knobs.paces)
        self._is_closing = False

    def _protocol(self) -> dict[str, Any]:
        """Return the options of the group protocol that this member uses."""
        protocol = self._knobs.protocol
        if protocol == "mixed":
            protocol = self.random.choice(["classic", "consumer"])
        if protocol == "consumer":
            return {"group_protocol": protocol, "group_remote_assignor": self._knobs.remote_assignor}
        return {
            "group_protocol": protocol,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "session_timeout_ms": SESSION_MS,
            "partition_assignment_strategy": [self._knobs.strategy],
        }

    def turn(self) -> None:
        """Poll once, check the records, and commit from time to time."""
        now = self._clock.now()
        try:
            for records in self.consumer.poll(0).values():
                for record in records:
                    self.checker.delivered(self.name, record)
            if not self._knobs.auto_commits and self.random.random() < self._knobs.commit_rate:
                self.consumer.commit_async()
        except KafkaError as error:
            self.counts[type(error).__name__] += 1
        wake = min(self.consumer.wake_at(), now + self.pace)
        self.next_at = max(wake, now + TURN_S) if self.pace < 1 else now + self.pace * self.random.uniform(0.2, 1)

    def hurry(self) -> None:
        """Poll often from now on."""
        self.pace = 0.2

    def assigned(self, tps: Collection[TopicPartition]) -> None:
        """Report that the member has got partitions."""
        self.checker.assigned(self.name, tps, self._generation)

    def released(self, tps: Collection[TopicPartition]) -> None:
        """Report that the member has given up partitions. Under an eager protocol, and if it leaves, others may
        use its positions until the generation ends.
        """
        is_early = self._is_closing or self._knobs.strategy != "cooperative-sticky"
        self.checker.released(self.name, tps, self._generation + is_early)

    def opened(self, tps: Collection[TopicPartition]) -> None:
        """Report the gates that open once the listener has returned."""
        gatekeepers: tuple[Any, ...] = self.consumer._reader.managers.gatekeepers
        for topic, hold in (one for gatekeeper in gatekeepers for one in gatekeeper._waiting):
            tp = hold.partition.tp
            if tp in tps and hold.state is HoldState.AWAITING_CALLBACK and hold.gates:
                required = {one: topic.thresholds[one].offset for one in hold.gate.requires if one in topic.thresholds}
                thresholds = {TopicPartition(tp.topic, one.partition): offset for one, offset in required.items()}
                self.checker.opened(self.name, tp, thresholds, self._generation)

    @property
    def _generation(self) -> int:
        return self.consumer.group_metadata().generation_id

    def close(self) -> None:
        """Leave the group."""
        self._is_closing = True
        self.consumer.close(timeout_ms=1000)


class MemberListener(RebalanceListener):
    """Reports the partitions that a member gets and gives up."""

    def __init__(self, member: SimulatedMember) -> None:
        self.member = member

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Report them."""
        self.member.assigned(assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Report that the member has given them up."""
        self.member.released(revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Do nothing: they may have another owner already."""


class KeyListener(MemberListener):
    """Reports gates that open, too."""

    def on_partition_keys_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Report the gates."""
        self.member.opened(assigned)


class SimulatedWriter(SimulatedClient):
    """A producer that sends records of random keys at intervals of its own."""

    def __init__(
        self, number: int, seed: int, knobs: OrderKnobs, cluster: MemoryCluster, checker: KeyOrderChecker
    ) -> None:
        super().__init__(f"writer{number}", seed, knobs, cluster)
        self.checker = checker
        self.number = number
        self.is_stopped = False
        #: Whether the process is killed when it has sent records the next time: before or after they are appended, and
        #: before it has read the response.
        self.is_doomed = False
        self._is_dying = False
        self.is_dead = False
        self._numbers: Counter[int] = Counter()
        self._pending: list[tuple[bytes, SendFuture]] = []  #: The values of records without a known outcome.
        settings = ProducerSettings.from_options(
            client_id=self.name,
            bootstrap_servers=cluster.bootstrap_servers,
            max_block_ms=0,
            delivery_timeout_ms=knobs.delivery_timeout_ms,
            metadata_max_age_ms=knobs.metadata_max_age_ms,
            **IMPATIENT,
        )
        self.producer = Producer(settings, driver=self.driver)
        self.pace = self.random.choice([0.05, 0.2, 0.5])
        self._send_at = self.next_at

    @property
    def is_idle(self) -> bool:
        """Whether each record is acknowledged or has failed."""
        return self.producer.idle

    def turn(self) -> None:
        """Send records if it is time, and let the producer send and receive."""
        now = self._clock.now()
        if self._is_dying:
            self.die()
            return
        is_due = not self.is_stopped and now >= self._send_at
        if is_due:
            self._send_at = now + self._knobs.write_every_s * self.random.uniform(0.5, 1.5)
            for _ in range(self.random.choice([1, 1, 1, 4])):
                self._send(self.random.randrange(self._knobs.keys))
        self.producer.poll(0)
        self._report()
        if is_due and self.is_doomed:
            self._is_dying = True
            self.next_at = now + self.random.uniform(0.0002, 0.002)
            return
        due = NEVER if self.is_stopped else self._send_at
        if not self.is_idle:
            due = min(due, max(now + TURN_S, min(self.producer.wake_at(), now + self.pace)))
        self.next_at = due

    def _send(self, key: int) -> None:
        record = WrittenRecord(self.number, key, self._numbers[key] + 1)
        try:
            future = self.producer.send(TOPIC, record.value(), key=b"%d" % key)
        except KafkaError as error:
            self.counts[type(error).__name__] += 1
            return
        self._pending.append((record.value(), future))
        self._numbers[key] += 1
        self.counts["sent"] += 1

    def _report(self) -> None:
        """Report the records that were acknowledged."""
        settled = [one for one in self._pending if one[1].done]
        self._pending = [one for one in self._pending if not one[1].done]
        for value, future in settled:
            if future.error is None:
                written = future.result()
                self.counts["acknowledged"] += 1
                self.checker.acknowledged(value, TopicPartition(TOPIC, written.partition), written.offset)

    def stop(self) -> None:
        """Send no new records from now on."""
        self.is_stopped = True
        self.next_at = self._clock.now()

    def die(self) -> None:
        """End without a word."""
        self.is_dead = True
        self.next_at = NEVER
        super().die()
