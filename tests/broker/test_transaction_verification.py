"""Verification of transactional writes: requests to the coordinator, error codes, unreachable coordinators."""

from types import SimpleNamespace

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.schedule import Schedule
from thinconsumer_testing.broker.transaction_verification import (
    RETRY_AFTER_S,
    RETRY_FOR_S,
    TIMEOUT_S,
    TransactionalProducer,
    add_or_verify_for_produce,
    produce_error_code,
)

WRITER = TransactionalProducer("pay", 7, 2)
TPS = [TopicPartition("t", 0), TopicPartition("t", 1)]


class Coordinator:
    def __init__(self):
        self.asked = []

    def add_or_verify(self, transactional_id, producer, tps, done, *, client_version, verify_only):
        assert client_version == 2
        self.asked.append((transactional_id, *producer, tps, not verify_only, done))

    def answer(self, codes):
        self.asked.pop(0)[-1](codes)


class World:
    def __init__(self):
        self.schedule = Schedule()
        self.coordinator = Coordinator()
        running = SimpleNamespace(node_id=2, is_running=True, transaction_coordinator=self.coordinator)
        nodes = {2: running, 3: SimpleNamespace(node_id=3, is_running=False)}
        self.code, self.broker, self.is_cut = 0, SimpleNamespace(node_id=2), False
        cluster = SimpleNamespace(nodes=nodes, reachable=lambda one, other: not self.is_cut)
        self.node = SimpleNamespace(
            node_id=1,
            cluster=cluster,
            schedule=self.schedule,
            call_later=self.schedule.call_later,
            coordinator_for=lambda kind, key: (self.code, self.broker),
        )
        self.results = []

    def ask(self, version=12):
        add_or_verify_for_produce(self.node, WRITER, TPS, version=version, done=self.results.append)


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(("version", "add"), [(11, False), (12, True)])
def test_verification_reaches_the_coordinators_broker(world, version, add):
    world.ask(version)
    assert world.coordinator.asked[0][:-1] == ("pay", 7, 2, TPS, add)
    assert world.results == []
    world.coordinator.answer({})
    assert world.results == [{}]
    world.schedule.advance(TIMEOUT_S * 2)
    assert world.results == [{}]


@pytest.mark.parametrize(
    ("code", "version", "returned"),
    [
        (Code.INVALID_TXN_STATE, 3, Code.INVALID_TXN_STATE),
        (Code.NOT_COORDINATOR, 3, Code.NOT_ENOUGH_REPLICAS),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, 12, Code.NOT_ENOUGH_REPLICAS),
        (Code.COORDINATOR_NOT_AVAILABLE, 11, Code.NOT_ENOUGH_REPLICAS),
        (Code.NETWORK_EXCEPTION, 12, Code.NOT_ENOUGH_REPLICAS),
        (Code.CONCURRENT_TRANSACTIONS, 11, Code.NOT_ENOUGH_REPLICAS),
        (Code.CONCURRENT_TRANSACTIONS, 12, Code.CONCURRENT_TRANSACTIONS),
        (Code.PRODUCER_FENCED, 12, Code.INVALID_PRODUCER_EPOCH),
        (Code.TRANSACTION_ABORTABLE, 10, Code.INVALID_TXN_STATE),
        (Code.TRANSACTION_ABORTABLE, 11, Code.TRANSACTION_ABORTABLE),
        (Code.INVALID_PRODUCER_ID_MAPPING, 12, Code.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_error_codes_depend_on_the_produce_version(code, version, returned):
    assert produce_error_code(code, version) == returned


@pytest.mark.parametrize(
    "change",
    [
        {"code": int(Code.COORDINATOR_NOT_AVAILABLE), "broker": None},
        {"is_cut": True},
        {"broker": SimpleNamespace(node_id=9)},  # not in the cluster
        {"broker": SimpleNamespace(node_id=3)},  # down
    ],
)
def test_unreachable_coordinator_returns_a_retriable_code(world, change):
    vars(world).update(change)
    world.ask()
    assert world.results == [dict.fromkeys(TPS, Code.NOT_ENOUGH_REPLICAS)]
    assert world.coordinator.asked == []


def test_coordinator_without_response_times_out(world):
    world.ask()
    world.schedule.advance(TIMEOUT_S - 0.1)
    assert world.results == []
    world.schedule.advance(TIMEOUT_S)
    assert world.results == [dict.fromkeys(TPS, Code.NOT_ENOUGH_REPLICAS)]
    world.coordinator.answer({})
    assert len(world.results) == 1, "a late response has no effect"


def test_retries_are_limited_and_not_for_old_versions(world):
    busy = {TPS[0]: int(Code.CONCURRENT_TRANSACTIONS)}
    world.ask(11)
    world.coordinator.answer(busy)
    assert world.results == [{TPS[0]: Code.NOT_ENOUGH_REPLICAS}]
    world.ask(12)
    world.coordinator.answer(busy)
    world.schedule.advance(RETRY_AFTER_S)
    world.coordinator.answer({})
    world.ask(12)
    for step in range(1, 10):
        while world.coordinator.asked:
            world.coordinator.answer(busy)
        world.schedule.advance(step * RETRY_AFTER_S)
    assert world.results[1:] == [{}, {TPS[0]: Code.CONCURRENT_TRANSACTIONS}], "after the previous transaction, or never"
    assert world.schedule.now > RETRY_FOR_S
