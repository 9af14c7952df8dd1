"""Ten cells of the matrix on a real broker, through a proxy that refuses, breaks connections or stays silent.

The whole matrix is simulated (``tests/group/matrix``); these show that a real coordinator, sockets and clock make no
difference. The broker never sees what the proxy keeps to itself, unless the fault is that its answer gets lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from proving.proxy import LOST, RESET, SILENCE, Proxy
from realkafka import Administration
from realkafka.produce import SteadyProducer

from thinconsumer import Consumer
from thinconsumer.errors import CommitFailedError, FencedInstanceIdError, KafkaError
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.header import decode_response_header
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer_testing.broker.apis import APIS
from thinconsumer_testing.broker.wire.requests import REQUESTS, decode_request_header, encode_response

PARTITIONS = 3
#: The name of a ConsumerGroupHeartbeat by which a member leaves.
LAST_HEARTBEAT = "ConsumerGroupHeartbeat to leave"
#: APIs that return brokers' addresses, which the proxy replaces by its own.
NAMING = (MetadataRequest.API_KEY, FindCoordinatorRequest.API_KEY)
SESSION_MS, REQUEST_MS, BACKOFF_MAX = 6000, 2000, 1.0
#: On a busy machine everything takes longer.
ALLOWANCE = 5.0


class Fault:
    """A fault of one API, for some time or a number of times."""

    def __init__(self, what: int | str, times: int | None) -> None:
        self.what = what
        self.times = times
        self.hits = 0


class FaultyProxy(Proxy):
    """A port that leads to one broker. In responses it replaces the broker's address by its own."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), self._rename, self._meet)
        self._faults: dict[str, Fault] = {}
        self.asked: list[tuple[float, str]] = []

    def break_(self, api: str, what: int | str, times: int | None = None) -> Fault:
        fault = self._faults[api] = Fault(what, times)
        return fault

    def heal(self) -> None:
        self._faults.clear()

    def _meet(self, api: int, version: int, correlation_id: int, frame: bytes) -> bytes | str | None:
        """Return what happens to this request, and count it."""
        header = decode_request_header(frame)
        request: Any = REQUESTS[api].decode(frame, version, header.body_offset)
        name = type(request).__name__.removesuffix("Request")
        if name == "ConsumerGroupHeartbeat" and request.member_epoch < 0:
            name = LAST_HEARTBEAT
        self.asked.append((time.monotonic(), name))
        fault = self._faults.get(name)
        if fault is None or fault.hits == fault.times:
            return None
        fault.hits += 1
        if isinstance(fault.what, str):
            return fault.what
        return encode_response(APIS[api].refuse(request, version, fault.what), version, correlation_id)

    def _rename(self, api: int, version: int, correlation_id: int, frame: bytes) -> bytes:
        if api not in NAMING:
            return frame
        request = REQUESTS[api]
        _, offset = decode_response_header(frame, request, version)
        answer: Any = request.RESPONSE.decode(frame, version, offset)
        for row in (answer, *getattr(answer, "brokers", ()), *getattr(answer, "coordinators", ())):
            if getattr(row, "port", -1) > 0:
                row.host, row.port = "127.0.0.1", self.port
        return encode_response(answer, version, correlation_id)


class Listener:
    """Compares the partitions that it is called with to those that are owned."""

    def __init__(self) -> None:
        self.owned: set[Any] = set()
        self.heard: list[str] = []

    def on_partitions_assigned(self, assigned: set[Any]) -> None:
        assert not assigned & self.owned
        self.owned |= assigned
        self.heard.append("assigned")

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        assert revoked <= self.owned
        self.owned -= revoked
        self.heard.append("revoked")

    def on_partitions_lost(self, lost: set[Any]) -> None:
        assert lost <= self.owned
        self.owned -= lost
        self.heard.append("lost")


class Member:
    """A consumer behind the proxy, alone in its group."""

    def __init__(self, proxy: FaultyProxy, topic: str) -> None:
        self.listener = Listener()
        self.raised: list[KafkaError] = []
        self.told: list[KafkaError | None] = []
        self.newest: dict[Any, float] = {}
        self.offsets: dict[Any, int] = {}
        self._committed_at = 0.0
        self.topic = topic
        self.consumer: Consumer[Any, Any] = Consumer(
            bootstrap_servers=f"127.0.0.1:{proxy.port}",
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            max_poll_interval_ms=SESSION_MS,
            request_timeout_ms=REQUEST_MS,
        )
        self.subscribe()

    def subscribe(self) -> None:
        self.consumer.subscribe([self.topic], listener=self.listener)

    def poll(self, until: Callable[[], object], seconds: float) -> bool:
        """Poll, and commit five times a second, until something is so; return whether it is."""
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline:
                return False
            try:
                found = self.consumer.poll(20)
            except KafkaError as error:
                self.raised.append(error)
                time.sleep(0.01)
                found = {}
            for tp, records in found.items():
                assert tp in self.listener.owned
                for record in records:  # at least once: never past what was not seen
                    expected = self.offsets.get(tp, record.offset)
                    assert record.offset <= expected, f"{tp}: records from {expected} on were left out"
                    self.offsets[tp] = max(record.offset + 1, expected)
                self.newest[tp] = records[-1].timestamp / 1000
            if time.monotonic() - self._committed_at > 0.2:
                self._committed_at = time.monotonic()
                self.consumer.commit_async(callback=lambda offsets, error: self.told.append(error))
        return True

    def is_in_order(self, since: float) -> bool:
        """Whether everything is owned, and read what was written since, and committed."""
        owned = self.listener.owned
        good = len(self.told) > 0 and self.told[-1] is None
        return len(owned) == PARTITIONS and good and all(self.newest.get(tp, 0.0) >= since for tp in owned)


@pytest.fixture(scope="module")
def stage(kafka: Administration, request: pytest.FixtureRequest) -> Iterator[tuple[FaultyProxy, str]]:
    host, _, port = kafka.bootstrap.split(",")[0].rpartition(":")
    topic = kafka.create_topic(f"group-matrix-{time.time_ns()}", PARTITIONS)
    with (
        FaultyProxy(host, int(port)) as proxy,
        SteadyProducer(kafka.bootstrap, topic, PARTITIONS, records_per_second=60),
    ):
        yield proxy, topic


class Cell(NamedTuple):
    """One fault: where, whether for two seconds or once, what comes of it."""

    api: str
    fault: int | str
    times: int | None = None
    heard: str = ""  #: Whether something is ``lost``.
    raises: type[KafkaError] | None = None  #: For good, until it is unsubscribed.
    fails: str = ""  #: The reason with which commits fail.
    noticed_in: float = 0.0


CELLS = [
    Cell("FindCoordinator", Code.COORDINATOR_NOT_AVAILABLE),
    Cell("JoinGroup", Code.NOT_COORDINATOR),
    Cell("JoinGroup", LOST, 1),
    Cell("SyncGroup", Code.REBALANCE_IN_PROGRESS),
    Cell("SyncGroup", SILENCE, 1, noticed_in=REQUEST_MS / 1000),
    Cell("Heartbeat", Code.ILLEGAL_GENERATION, 1, heard="lost"),
    Cell("Heartbeat", Code.FENCED_INSTANCE_ID, 1, heard="lost", raises=FencedInstanceIdError),
    Cell("OffsetFetch", Code.COORDINATOR_LOAD_IN_PROGRESS),
    Cell("OffsetCommit", RESET),
    Cell("OffsetCommit", Code.UNKNOWN_MEMBER_ID, 1, heard="lost", fails="unknown_member", noticed_in=SESSION_MS / 1000),
]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.api}-{cell.fault!s}")
def test_a_member_survives_a_fault_of_one_api(
    stage: tuple[FaultyProxy, str], cell: Cell, caplog: pytest.LogCaptureFixture
) -> None:
    proxy, topic = stage
    proxy.heal()
    member = Member(proxy, topic)
    try:
        assert member.poll(lambda: member.is_in_order(time.time() - 1.0), 30), member.raised
        run_cell(proxy, member, cell, caplog)
    finally:
        proxy.heal()
        member.consumer.close(timeout_ms=5000)


def run_cell(proxy: FaultyProxy, member: Member, cell: Cell, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    caplog.set_level(logging.INFO, "thinconsumer")
    member.raised.clear()
    member.told.clear()
    member.listener.heard.clear()
    began = time.monotonic()
    fault = proxy.break_(cell.api, cell.fault, cell.times)
    if cell.api == "FindCoordinator":
        proxy.break_("Heartbeat", Code.NOT_COORDINATOR, 1)
    elif cell.api in ("JoinGroup", "SyncGroup", "OffsetFetch"):
        member.consumer.enforce_rebalance("the test says so")
    assert member.poll(lambda: fault.hits, 10)
    if cell.times is None:
        member.poll(lambda: False, 2.0)
    proxy.heal()
    healed, since = time.monotonic(), time.time()
    if cell.raises:
        is_out(member, cell)
    bound = BACKOFF_MAX + 2.0 + cell.noticed_in + ALLOWANCE
    assert member.poll(lambda: member.is_in_order(since), bound), (member.raised, member.told[-3:], caplog.messages)
    assert ("lost" in member.listener.heard) is (cell.heard == "lost")
    assert {type(error) for error in member.raised} == ({cell.raises} if cell.raises else set())
    failed = {error.reason for error in member.told if isinstance(error, CommitFailedError)}
    assert failed <= {cell.fails} and (failed or not cell.fails)
    asked = [at for at, name in proxy.asked if name == cell.api and at >= began]
    assert len(asked) < 12 * (1 + healed - began) + 10
    # A reset is logged for each partition, as often as the group loses and gets it.
    told = [r for r in caplog.records if r.name.startswith("thinconsumer") and r.name != "thinconsumer.fetch.resets"]
    lines = [r for r in told if r.levelno >= logging.INFO]
    assert len(lines) <= 5, caplog.messages


def is_out(member: Member, cell: Cell) -> None:
    """It raises until the user unsubscribes, and can begin anew then; the coordinator misses it for a session first."""
    assert cell.raises is not None
    assert member.poll(lambda: len(member.raised) >= 5, 5)
    member.consumer.unsubscribe()
    member.subscribe()
    assert member.poll(lambda: len(member.listener.owned) == PARTITIONS, SESSION_MS / 1000 + ALLOWANCE)


def test_close_does_not_wait_for_an_unanswered_leave_group(stage: tuple[FaultyProxy, str]) -> None:
    proxy, topic = stage
    member = Member(proxy, topic)
    assert member.poll(lambda: member.is_in_order(time.time() - 1.0), 30)
    proxy.break_("LeaveGroup", SILENCE)
    began = time.monotonic()
    member.consumer.close(timeout_ms=1000)
    proxy.heal()
    assert time.monotonic() - began < 1.0 + 1.0


def leaver(bootstrap: str, topic: str, style: str, group: str) -> Consumer[Any, Any]:
    """Return a member with a long session, which commits what it has read only when it closes."""
    protocol: Any = {"group_protocol": "consumer"}
    if style != "consumer":
        protocol = {
            "partition_assignment_strategy": [style],
            "session_timeout_ms": 45_000,
            "heartbeat_interval_ms": 300,
        }
    consumer: Consumer[Any, Any] = Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=600_000,
        **protocol,
    )
    consumer.subscribe([topic])
    return consumer


def poll_until(until: Callable[[], object], *members: Consumer[Any, Any], seconds: float = 30.0) -> float:
    """Poll in turn until something is so; return the seconds that it took."""
    began = time.monotonic()
    while not until():
        assert time.monotonic() - began < seconds, [(m.assignment(), m.health()) for m in members]
        for member in members:
            member.poll(20)
    return time.monotonic() - began


def share_and_read(leaving: Consumer[Any, Any], *others: Consumer[Any, Any]) -> None:
    """Poll until all members own partitions, and then until ``leaving`` has read records that it has not committed."""
    members = (leaving, *others)
    owned = [member.assignment for member in members]
    poll_until(lambda: all(own() for own in owned) and sum(len(own()) for own in owned) == PARTITIONS, *members)
    poll_until(lambda: leaving.poll(20), *others)


@pytest.mark.parametrize("style", ["cooperative-sticky", "consumer"])
def test_an_unanswered_commit_leaves_time_to_leave(
    stage: tuple[FaultyProxy, str], kafka: Administration, style: str
) -> None:
    """Another member owns all partitions within its heartbeat interval, and not only after the session."""
    proxy, topic = stage
    proxy.heal()
    group = f"{topic}-{style}"
    leaving = leaver(f"127.0.0.1:{proxy.port}", topic, style, group)
    with leaver(kafka.bootstrap, topic, style, group) as other:
        share_and_read(leaving, other)
        fault = proxy.break_("OffsetCommit", SILENCE)
        began = time.monotonic()
        leaving.close(timeout_ms=2000)
        assert time.monotonic() - began < 2.0 + 1.0
        assert fault.hits
        last = LAST_HEARTBEAT if style == "consumer" else "LeaveGroup"
        assert last in [name for at, name in proxy.asked if at > began]
        proxy.heal()
        assert poll_until(lambda: len(other.assignment()) == PARTITIONS, other) < 1.0 + ALLOWANCE


def test_a_member_leaves_while_the_leader_is_busy(stage: tuple[FaultyProxy, str], kafka: Administration) -> None:
    """The coordinator holds the member's SyncGroup back, and accepts no commit until the leader has sent its own."""
    _, topic = stage
    group = f"{topic}-busy"
    leader, leaving, third = (leaver(kafka.bootstrap, topic, "cooperative-sticky", group) for _ in range(3))
    with leader, third:
        poll_until(leader.assignment, leader)
        share_and_read(leaving, leader, third)
        leader.enforce_rebalance()
        poll_until(lambda: leader.health().group_state == "preparing rebalance", leader)
        is_waiting = {leader: "completing rebalance", leaving: "completing rebalance"}
        while any(member.health().group_state != state for member, state in is_waiting.items()):
            leader.drive()  # which does not assign
            leaving.poll(20)
            third.poll(20)
        leaving.close(timeout_ms=2000)
        seconds = poll_until(lambda: len(leader.assignment() | third.assignment()) == PARTITIONS, leader, third)
        assert seconds < 1.0 + ALLOWANCE
