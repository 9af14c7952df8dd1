"""The coordinator's broker is killed or paused at each step of the protocol, and the group is soon stable again.

Members continue to fetch partitions that other brokers lead. Each partition has one replica: with more, the high
watermark would not move while the leader waits for the dead follower, and a pause in fetching could not be noticed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from groups import Local, Locals
from realkafka import KafkaCluster, wait_for
from realkafka.produce import SteadyProducer

from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

PARTITIONS = 9
BROKER_SESSION, SESSION = 3.0, 6.0
#: Seconds until the group has to be stable again.
BOUND = BROKER_SESSION + SESSION + 10
#: Longest time without records of a partition that a living broker leads and its member keeps, on a busy machine.
SILENCE = 3.0

#: All cases with ``--soak``, else one of each two or three similar ones.
CASES = [(step, how) for step in ("join", "sync", "heartbeat", "commit") for how in ("kill", "pause")]
SHORT = [("join", "kill"), ("sync", "pause"), ("commit", "kill")]
STEPS = {"sync": SyncGroupRequest, "heartbeat": HeartbeatRequest, "commit": OffsetCommitRequest}
#: The same with the consumer group protocol (KIP-848), which has no SyncGroup.
CONSUMER_STEPS = {"heartbeat": ConsumerGroupHeartbeatRequest, "commit": OffsetCommitRequest}
CLASSIC_CASES = [("classic", step, how) for step, how in CASES]
CONSUMER_CASES = [("consumer", step, how) for step, how in CASES if step != "sync"]
SHORT_CASES = [("classic", step, how) for step, how in SHORT]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run all cases with ``--soak`` only."""
    cases = [*CLASSIC_CASES, *CONSUMER_CASES] if metafunc.config.getoption("--soak") else SHORT_CASES
    metafunc.parametrize(("protocol", "step", "how"), cases)


@pytest.fixture
def group(
    kafka3: KafkaCluster, new_topic: Callable[..., str], protocol: str
) -> Iterator[tuple[Locals, SteadyProducer, str]]:
    """A stable group of two members, and a producer that writes to all partitions."""
    topic = new_topic(kafka3, PARTITIONS, 1, {"min.insync.replicas": 1})
    cooperative = {"partition_assignment_strategy": ["cooperative-sticky"]}
    options = {"group_protocol": "consumer"} if protocol == "consumer" else cooperative
    crew = Locals(
        kafka3.bootstrap, topic, topic, PARTITIONS, auto_commit_interval_ms=500, request_timeout_ms=5000, **options
    )
    with SteadyProducer(kafka3.bootstrap, topic, PARTITIONS, records_per_second=300) as producer:
        try:
            for _ in range(2):
                crew.join()
            crew.poll_until(crew.is_stable, 60, "the first members")
            crew.poll_for(1)
            yield crew, producer, topic
        finally:
            crew.close()


class CoordinatorFailure:
    """Kills or pauses the coordinator's broker, once."""

    def __init__(self, cluster: KafkaCluster, node: int, how: str) -> None:
        self._cluster, self._node, self._how = cluster, node, how
        self.at: float | None = None

    def __call__(self) -> None:
        if self.at is None:
            (self._cluster.kill if self._how == "kill" else self._cluster.pause)(self._node)
            self.at = time.monotonic()

    def end(self) -> None:
        if self._how == "kill":
            # Waiting for the broker would keep this thread from polling for longer than the session timeout.
            self._cluster.restart(self._node, wait=False)
        else:
            self._cluster.resume(self._node)


def fail_coordinator(crew: Locals, protocol: str, step: str, failure: CoordinatorFailure) -> None:
    if protocol == "consumer":
        for member in [crew.join()] if step == "join" else crew.members:
            member.when_written(CONSUMER_STEPS.get(step, ConsumerGroupHeartbeatRequest), failure)
        crew.poll_until(lambda: failure.at is not None, 20, f"a {step}")
        return
    if step == "join":
        newcomer = crew.join()
        # The coordinator has parked the JoinGroup, and the other members have not learned of the rebalance yet.
        wait_for(lambda: newcomer.poll() + is_parked(newcomer), 20, "a parked JoinGroup")
        failure()
        return
    if step == "sync":
        crew.join()
    for member in crew.members:
        # Only a follower's SyncGroup is parked: until that of the leader arrives.
        if step != "sync" or not member.group.member._attempt.leads:
            member.when_written(STEPS[step], failure)
    crew.poll_until(lambda: failure.at is not None, 20, f"a {step}")


def is_parked(member: Local) -> bool:
    requests = member.group.member._rebalances
    is_old = time.monotonic() - requests.sent_at > 0.2
    return requests.in_flight is not None and bool(member.group.member.identity.member_id) and is_old


@pytest.mark.timeout(240)
def test_a_group_survives_the_failure_of_its_coordinator(
    kafka3: KafkaCluster,
    group: tuple[Locals, SteadyProducer, str],
    record_property: Callable[..., None],
    protocol: str,
    step: str,
    how: str,
) -> None:
    """It is stable within a bound, members keep fetching partitions that they keep, and no record is lost."""
    crew, producer, topic = group
    coordinator = crew.members[0].coordinator
    assert coordinator is not None
    led = {partition for partition, found in kafka3.describe(topic).items() if found.leader not in (-1, coordinator)}
    failure = CoordinatorFailure(kafka3, coordinator, how)
    owned = [set(member.owned) for member in crew.members]
    fail_coordinator(crew, protocol, step, failure)
    assert failure.at is not None
    try:
        crew.poll_until(lambda: crew.is_stable(failure.at), BOUND + 30, "stable again")
        stable = time.monotonic()
        kept = led & {p for before, member in zip(owned, crew.members) for p in before & member.owned}
        crew.poll_for(1)
    finally:
        failure.end()
    crew.poll_until(lambda: coordinator in kafka3.nodes(), 60, "the broker's return")
    crew.poll_for(2)
    crew.poll_until(lambda: crew.is_stable(stable), BOUND, "stable when the broker is back")
    ledger = crew.ledger()
    took = stable - failure.at
    silence = max((ledger.longest_silence(p, failure.at - 0.5, stable) for p in kept), default=0.0)
    errors = [event.words for event in ledger.events if event.what == "trouble"]
    text = (
        f"{protocol}: {how} at {step}: stable after {took:.2f} s; {len(kept)} partitions of living brokers kept, "
        f"silent for at most {silence:.2f} s; slowest poll {max(m.slowest_poll for m in crew.members):.3f} s; {errors}"
    )
    print(text)
    record_property("coordinator", text)
    assert took <= BOUND
    assert kept, f"no member kept a partition of a living broker, so fetching was not tested: {crew.describe()}"
    assert silence <= SILENCE
    written = producer.stop()
    crew.poll_until(lambda: not crew.ledger().lost(written), 30, "every written record")
    assert not crew.ledger().overlaps()
