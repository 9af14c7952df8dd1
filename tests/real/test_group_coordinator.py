"""Must hold: the coordinator's broker dies or stops at each step of the protocol, and the group is stable again soon.

Meanwhile partitions that other brokers lead are read on. The topic has one replica of each partition: with more, the
end of what may be read does not move while the leader waits for the dead follower, and nothing could be told from that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from groups import Local, Locals
from realkafka import KafkaCluster, wait_for
from realkafka.produce import SteadyProducer

from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

PARTITIONS = 9
BROKER_SESSION, SESSION = 3.0, 6.0
#: The group is stable again within this.
BOUND = BROKER_SESSION + SESSION + 10
#: What a living broker leads and nobody has to give up is never silent for longer, on a machine that is busy.
SILENCE = 3.0

#: All of them with ``--soak``, else one of each two or three that are much alike.
CASES = [(step, how) for step in ("join", "sync", "heartbeat", "commit") for how in ("kill", "pause")]
SHORT = [("join", "kill"), ("sync", "pause"), ("commit", "kill")]
STEPS = {"sync": SyncGroupRequest, "heartbeat": HeartbeatRequest, "commit": OffsetCommitRequest}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose what there is time for."""
    metafunc.parametrize(("step", "how"), CASES if metafunc.config.getoption("--soak") else SHORT)


@pytest.fixture
def group(kafka3: KafkaCluster, new_topic: Callable[..., str]) -> Iterator[tuple[Locals, SteadyProducer, str]]:
    """Two members, and somebody who writes."""
    topic = new_topic(kafka3, PARTITIONS, 1, {"min.insync.replicas": 1})
    crew = Locals(
        kafka3.bootstrap,
        topic,
        topic,
        PARTITIONS,
        partition_assignment_strategy=["cooperative-sticky"],
        auto_commit_interval_ms=500,
        request_timeout_ms=5000,
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


class Trouble:
    """What happens to the coordinator, once."""

    def __init__(self, cluster: KafkaCluster, node: int, how: str) -> None:
        self._cluster, self.node, self._how = cluster, node, how
        self.at: float | None = None

    def __call__(self) -> None:
        if self.at is None:
            (self._cluster.kill if self._how == "kill" else self._cluster.pause)(self.node)
            self.at = time.monotonic()

    def end(self) -> None:
        if self._how == "kill":
            self._cluster.restart(self.node)
        else:
            self._cluster.resume(self.node)


def strike(crew: Locals, step: str, trouble: Trouble) -> None:
    """Let the trouble begin at that step."""
    if step == "join":
        newcomer = crew.join()
        # Parked: nobody else of the group has heard of it yet.
        wait_for(lambda: newcomer.poll() + is_parked(newcomer), 20, "a parked JoinGroup")
        trouble()
        return
    if step == "sync":
        crew.join()
    for member in crew.members:
        # Of a sync, a follower's: the coordinator holds it back until the leader's.
        if step != "sync" or not member.group.member.leads:
            member.when_written(STEPS[step], trouble)
    crew.poll_until(lambda: trouble.at is not None, 20, f"a {step}")


def is_parked(member: Local) -> bool:
    line = member.group.member._channel
    return line.out is not None and bool(member.group.identity.member_id) and time.monotonic() - line.out_at > 0.2


@pytest.mark.timeout(240)
def test_the_coordinator_goes_and_the_group_goes_on(
    kafka3: KafkaCluster,
    group: tuple[Locals, SteadyProducer, str],
    record_property: Callable[..., None],
    step: str,
    how: str,
) -> None:
    """Must hold 3."""
    crew, producer, topic = group
    coordinator = crew.members[0].coordinator
    assert coordinator is not None
    led = {partition for partition, found in kafka3.describe(topic).items() if found.leader not in (-1, coordinator)}
    trouble = Trouble(kafka3, coordinator, how)
    kept = [set(member.owned) for member in crew.members]
    strike(crew, step, trouble)
    assert trouble.at is not None
    try:
        crew.poll_until(lambda: crew.is_stable(trouble.at), BOUND + 30, "stable again")
        stable = time.monotonic()
        crew.poll_for(1)
    finally:
        trouble.end()
    crew.poll_for(2)
    crew.poll_until(lambda: crew.is_stable(stable), BOUND, "stable when the broker is back")
    ledger = crew.ledger()
    took = stable - trouble.at
    retained = {p for had, member in zip(kept, crew.members) for p in had & member.owned}
    assert led & retained, f"nobody kept anything, so that nothing can be said of fetching: {crew.describe()}"
    silence = max(ledger.longest_silence(p, trouble.at - 0.5, stable) for p in led & retained)
    troubles = [event.words for event in ledger.events if event.what == "trouble"]
    said = (
        f"{how} at {step}: stable after {took:.2f} s; {len(led & retained)} partitions of living brokers kept, silent "
        f"for at most {silence:.2f} s; slowest poll {max(m.slowest_poll for m in crew.members):.3f} s; {troubles}"
    )
    print(said)
    record_property("coordinator", said)
    assert took <= BOUND
    assert led & retained
    assert silence <= SILENCE
    written = producer.stop()
    crew.poll_until(lambda: not crew.ledger().lost(written), 30, "everything that was written")
    assert not crew.ledger().overlaps()
