"""A small test environment: one transaction log, partitions that accept markers, and a clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.config import BrokerConfig, TopicConfig
from thinconsumer_testing.broker.image import ClusterImage, PartitionImage, TopicImage
from thinconsumer_testing.broker.log.log import AppendInfo, Log
from thinconsumer_testing.broker.naming import TRANSACTIONS_TOPIC as TOPIC
from thinconsumer_testing.broker.schedule import Schedule
from thinconsumer_testing.broker.txn.coordinator import TransactionCoordinator
from thinconsumer_testing.broker.txn.log_format import decode_key, decode_value
from thinconsumer_testing.broker.txn.states import TransactionState
from thinconsumer_testing.broker.txn.transitions import ProducerIdAndEpoch


class Marker(NamedTuple):
    """A marker that a partition has accepted."""

    tp: TopicPartition
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int


class Logged(NamedTuple):
    """A decoded record of the transaction log; ``metadata`` is None for a tombstone."""

    offset: int
    transactional_id: str
    metadata: object


class TimelineLog(Log):
    """The transaction log; its decoded records go to the world's timeline, too."""

    timeline: list[Marker | Logged]

    def append(self, data: bytes, **about: Any) -> AppendInfo:
        info = super().append(data, **about)
        for batch in self.read_batches(info.base_offset, info.next_offset):
            for record in batch.decode(TOPIC, 0):
                metadata = None if record.value is None else decode_value(record.value)
                self.timeline.append(Logged(record.offset, decode_key(record.key), metadata))
        return info


class World:
    """The coordinator's node, its log, and the leader of every other partition."""

    def __init__(self, replica_type: Any, **config: object) -> None:
        self.config = BrokerConfig(transaction_state_log_num_partitions=1, **config)
        self.schedule = Schedule(1000.0, 1_700_000_000.0)
        self.random = random.Random(7)
        self.image = ClusterImage("cluster")
        self.is_running = True
        self.held_timers: list[Callable[[], None]] = []
        for name, partitions in {TOPIC: 1, "orders": 3, "bills": 1, "__consumer_offsets": 2}.items():
            self.create(name, partitions)
        self.timeline: list[Marker | Logged] = []  #: All records and markers in the order in which they were logged.
        self.log = TimelineLog(TopicPartition(TOPIC, 0), TopicConfig(compact=True))
        self.log.timeline = self.timeline
        self.append_codes: list[int] = []  #: Error codes for the next appends, which are not logged.
        self.away: set[TopicPartition] = set()  #: Partitions without a leader.
        self.marker_codes: dict[TopicPartition, list[int]] = {}
        self.hold_markers = False
        self.marker_versions: list[int] = []
        self.held_markers: list[Callable[[], None]] = []
        self._producer_ids = 0
        self._fences: dict[tuple[TopicPartition, int], int] = {}
        self._replica_type = replica_type
        self._elect(1)

    # -- the coordinator's node

    def call_later(self, seconds, callback):
        life = self.replica

        def fire() -> None:
            if self.replica is not life:
                return
            if self.is_running:
                callback()
            else:
                timer.rearm(fire)
                self.held_timers.append(timer.fire)

        timer = self.schedule.call_later(seconds, fire)
        return timer

    def new_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def write_transaction_marker(
        self, tp, producer_id, producer_epoch, commit, coordinator_epoch, done, *, transaction_version=0
    ):
        self.marker_versions.append(transaction_version)

        def write() -> None:
            if self.marker_codes.get(tp):
                done(int(self.marker_codes[tp].pop(0)))
            elif tp in self.away or self.image.partition(*tp) is None:
                done(int(Code.NOT_LEADER_OR_FOLLOWER))
            elif coordinator_epoch < self._fences.get((tp, producer_id), -1):
                done(int(Code.TRANSACTION_COORDINATOR_FENCED))
            else:
                self._fences[tp, producer_id] = coordinator_epoch
                self.timeline.append(Marker(tp, producer_id, producer_epoch, commit, coordinator_epoch))
                done(0)

        if self.hold_markers:
            self.held_markers.append(write)
        else:
            write()

    # -- events

    def create(self, name: str, partitions: int) -> None:
        topic_id = name.encode().ljust(16, b"\0")[:16]
        rows = tuple(PartitionImage(name, topic_id, number, 1, 0, (1,), (1,)) for number in range(partitions))
        self.image.put_topic(TopicImage(name, topic_id, rows, {}))

    def _elect(self, epoch: int) -> None:
        self.replica = self._replica_type(self.log, epoch, self.schedule)
        self.replica.codes = (self.append_codes.pop(0) if self.append_codes else 0 for _ in count())
        self.coordinator = TransactionCoordinator(self)
        self.coordinator.elected(0, epoch, self.replica)

    def fail_over(self, *, lose_uncommitted: bool = False) -> None:
        """Kill the coordinator's broker; another one takes over with the current log."""
        old, epoch = self.replica, self.replica.leader_epoch
        self.is_running = True
        self.held_timers.clear()
        if lose_uncommitted:
            self.log.truncate_to(old.high_watermark)
            end = self.log.end_offset
            self.timeline[:] = [one for one in self.timeline if not (isinstance(one, Logged) and one.offset >= end)]
        old.stop()
        self._elect(epoch + 1)

    def resign(self) -> None:
        """Move the leadership away from a live broker."""
        self.replica.stop()
        self.coordinator.resigned(0)

    def pause(self) -> None:
        self.is_running = False

    def resume(self) -> None:
        self.is_running = True
        held, self.held_timers = self.held_timers, []
        for callback in held:
            callback()

    def release_markers(self) -> None:
        """Let the leaders process the markers sent so far."""
        held, self.held_markers = self.held_markers, []
        for write in held:
            write()

    def run(self, seconds: float) -> None:
        self.schedule.advance(self.schedule.now + seconds)

    # -- requests; each returns the list that collects its response

    def init(self, transactional_id="t", *, timeout_ms=60_000, expected=None, at=None):
        answers: list[tuple[str, int, int]] = []
        (at or self.coordinator).init_producer_id(
            transactional_id, timeout_ms, expected, lambda code, *who: answers.append((Code(code).name, *who))
        )
        return answers

    def producer(self, transactional_id="t", **options) -> ProducerIdAndEpoch:
        """Return the id and epoch of an initialised producer."""
        ((code, producer_id, epoch),) = self.init(transactional_id, **options)
        assert code == "NONE"
        return ProducerIdAndEpoch(producer_id, epoch)

    def ongoing(self, **options) -> ProducerIdAndEpoch:
        """Return the id and epoch of a producer with the first partition of orders in its transaction."""
        who = self.producer(**options)
        assert self.add(who) == ["NONE"]
        return who

    def add(self, producer, partitions=(("orders", 0),), *, transactional_id="t", version=2):
        answers: list[str] = []
        tps = [TopicPartition(*tp) for tp in partitions]
        self.coordinator.add_partitions(
            transactional_id, producer, tps, lambda code: answers.append(Code(code).name), client_version=version
        )
        return answers

    def verify(self, producer, *, transactional_id="t"):
        answers: list[dict[TopicPartition, int]] = []
        tp = TopicPartition("orders", 0)
        self.coordinator.add_or_verify(transactional_id, producer, [tp], answers.append, verify_only=True)
        return [Code(answer[tp]).name for answer in answers]

    def end(self, producer, *, commit=True, transactional_id="t", version=2):
        answers: list[tuple[str, int, int]] = []
        self.coordinator.end(
            transactional_id, producer, commit,
            lambda code, *who: answers.append((Code(code).name, *who)),
            client_version=version,
        )  # fmt: skip
        return answers

    # -- observations

    @property
    def markers(self) -> list[Marker]:
        return [one for one in self.timeline if isinstance(one, Marker)]

    def state(self, transactional_id="t") -> TransactionState:
        """Return the state in the log, as the next coordinator would load it."""
        found = [
            one.metadata
            for one in self.timeline
            if isinstance(one, Logged) and one.transactional_id == transactional_id
        ]
        return found[-1].state


@pytest.fixture(scope="session")
def new_world(replica_type):
    """``new_world(**config)``, for tests that build their own."""
    return partial(World, replica_type)


@pytest.fixture
def world(new_world):
    """A world with one coordinator, elected in epoch 1."""
    return new_world()


@pytest.fixture(scope="session")
def seen():
    """The classes of the entries in a world's timeline."""
    return SimpleNamespace(Marker=Marker, Logged=Logged)
