"""Simulated members and writers of topics with ordered delivery: protocols, records, gates and crashes."""

from dataclasses import replace

import pytest
from lab.actors.ordered import TOPIC, SimulatedMember, SimulatedWriter
from lab.checkers.key_order import KeyOrderChecker, WrittenRecord
from lab.order_knobs import OrderKnobs
from lab.order_swarm import OrderCluster

from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

KNOBS = replace(
    OrderKnobs.draw(1), initial=1, keys=4, protocol="classic", strategy="range", auto_commits=True,
    has_key_listener=True, max_poll_records=500, metadata_max_age_ms=1000, delivery_timeout_ms=120_000,
    compacted=False, replication_s=0.0, write_every_s=0.2,
)  # fmt: skip


class Stage:
    """A cluster with its checker, and the clients whose turns come."""

    def __init__(self, **knobs):
        self.knobs = replace(KNOBS, **knobs)
        self.checker = KeyOrderChecker(lambda: self.cluster.clock.now())
        self.cluster = OrderCluster(1, self.knobs, self.checker)
        self.clients = []

    def writer(self, number=1):
        self.clients.append(SimulatedWriter(number, 1, self.knobs, self.cluster, self.checker))
        return self.clients[-1]

    def member(self, number=1, *, holds=True):
        self.clients.append(SimulatedMember(number, 1, self.knobs, self.cluster, self.checker, holds))
        return self.clients[-1]

    def run(self, seconds):
        clock = self.cluster.clock
        end = clock.now() + seconds
        while clock.now() < end:
            clock.advance_to(min([end, *(client.next_at for client in self.clients)]))
            self.cluster.network.run_due()
            for client in [client for client in self.clients if client.next_at <= clock.now()]:
                client.turn()
        assert not self.checker.findings

    def values(self):
        count = len(self.cluster.controller.image.topics[TOPIC].partitions)
        records = [record for number in range(count) for record in self.cluster.records(TOPIC, number)]
        return [WrittenRecord.of(record.value) for record in records]


@pytest.fixture
def stage():
    """Return a function that builds a stage; in the end all its clients are killed."""
    stages = []

    def build(**knobs):
        stages.append(Stage(**knobs))
        return stages[-1]

    yield build
    for one in stages:
        for client in one.clients:
            client.die()


def test_a_writer_sends_numbered_records_until_it_is_stopped(stage):
    it = stage()
    writer = it.writer()
    it.run(10)
    writer.stop()
    it.run(2)
    assert writer.is_idle and not writer.is_dead
    assert writer.counts["acknowledged"] == writer.counts["sent"]
    values = it.values()
    assert len(values) == writer.counts["sent"] > 30
    for key in range(4):
        numbers = [value.number for value in values if value.key == key]
        assert numbers == list(range(1, len(numbers) + 1)) and numbers


def test_a_doomed_writer_dies_between_its_request_and_the_response_and_its_successor_has_another_id(stage):
    it = stage()
    writer = it.writer()
    it.run(2)
    writer.is_doomed = True
    it.run(2)
    assert writer.is_dead and writer.driver.closed and not writer.is_idle
    before = writer.counts["sent"]
    it.run(2)
    assert writer.counts["sent"] == before
    it.writer(2)
    it.run(2)
    log = it.cluster.leader(TopicPartition(TOPIC, 0)).log
    assert len({batch.producer_id for batch in log.read_batches(0, log.end_offset)}) == 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_reports_deliveries_partitions_and_opened_gates(stage, protocol):
    it = stage(protocol=protocol, keys=12)
    it.writer()
    it.member()
    it.run(5)
    it.cluster.expand(TOPIC, 2)
    it.run(20)
    assert it.checker.counts["delivered"] > 50 and it.checker.counts["gates opened"] == 1
    assert bool(it.cluster.received(ConsumerGroupHeartbeatRequest)) is (protocol == "consumer")
