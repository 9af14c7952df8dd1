"""Groups move to the consumer group protocol and back (KIP-848) while they read: one member at a time is replaced.

The brokers' ``group.consumer.migration.policy`` is ``bidirectional``, the default. The first member of the new protocol
converts the group; from then on the coordinator assigns for members of both. When the last one leaves, the group
becomes a classic group again, whose members join once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from groups import Crew, Ledger, Locals
from groups.crew import CONSUMER_PROTOCOL
from realkafka import Administration, KafkaCluster
from realkafka.produce import SteadyProducer

PARTITIONS = 12
RATE = 600
#: Longest time in seconds without a record of a partition that stays with a member that need not revoke it: members of
#: the consumer protocol, and cooperative ones of the classic protocol. Each partition gets 50 records a second. It is
#: 0.2 s on an idle machine, and up to 1.2 s beside other tests: members in one thread wait for each other's ``close``.
PAUSE = 2.0
#: The same for eager members of the classic protocol, which revoke all their partitions whenever they join again. They
#: learn of it with a heartbeat, every second, and wait for those who have to revoke first.
EAGER_PAUSE = 3.0
#: The classic members by their assignor, all replaced in the test of processes. kafka-python's rebalances run in a
#: thread of its own.
CLASSIC = {
    "cooperative-sticky": ("thin", "kafkapython", "thinauto", "kafkapython"),
    "range": ("thin", "kafkapython", "thinauto", "kafkapython"),
}


class Step(NamedTuple):
    name: str
    began: float
    ended: float


def kept(ledger: Ledger, step: Step) -> dict[int, str]:
    """Return the partitions that had the same owner when the step began and when it ended, with that owner."""

    def owners(when: float) -> dict[int, str]:
        return {s.partition: s.member for s in ledger.stints() if s.since <= when < s.until}

    before, after = owners(step.began), owners(step.ended)
    return {partition: owner for partition, owner in before.items() if after.get(partition) == owner}


def longest_pause(ledger: Ledger, step: Step, which: Callable[[str], bool] = lambda member: True) -> float:
    """Return the longest time without a record of a partition that kept its owner in the step."""
    partitions = [partition for partition, owner in kept(ledger, step).items() if which(owner)]
    return max((ledger.longest_silence(p, step.began, step.ended) for p in partitions), default=0.0)


def judge(ledger: Ledger, written: dict[int, int], steps: Sequence[Step], eager: set[str]) -> str:
    """Return figures; raise if a record was lost, read twice, or a partition that did not move stood still for long."""
    pauses = {step: longest_pause(ledger, step, lambda member: member not in eager) for step in steps}
    others = {step: longest_pause(ledger, step, lambda member: member in eager) for step in steps}
    for step in steps:
        count, took = len(kept(ledger, step)), step.ended - step.began
        print(f"{step.name}: {took:.2f} s, {count} kept, paused {pauses[step]:.2f} s, eager {others[step]:.2f} s")
    text = (
        f"{sum(written.values())} records, {len(steps)} replacements; partitions that did not move stood still for at "
        f"most {max(pauses.values()):.2f} s, those of eager members {max(others.values()):.2f} s"
    )
    print(text)
    print("\n".join(ledger.said("trouble")))
    assert not ledger.lost(written)
    assert not ledger.overlaps(), ledger.overlaps()[:5]
    assert not ledger.doubles(), ledger.doubles()[:5]
    assert max(pauses.values()) <= PAUSE, text
    assert max(others.values()) <= EAGER_PAUSE, text
    return text


@pytest.fixture
def local(kafka: Administration, new_topic: Callable[..., str]) -> Iterator[Locals]:
    topic = new_topic(kafka, PARTITIONS)
    group = Locals(kafka.bootstrap, topic, topic, PARTITIONS, auto_commit_interval_ms=200)
    yield group
    group.close()


def test_a_group_moves_to_the_consumer_protocol_and_back(
    kafka: Administration, local: Locals, record_property: Callable[..., None]
) -> None:
    """Two cooperative members are replaced by two of the new protocol, and those again; all in one thread."""
    topic = local._args[2]
    cooperative = {"partition_assignment_strategy": ["cooperative-sticky"], "heartbeat_interval_ms": 200}
    steps = []

    with SteadyProducer(kafka.bootstrap, topic, PARTITIONS, records_per_second=RATE) as producer:
        for _ in range(2):
            local.join(**cooperative)
        local.poll_until(local.is_stable, 30, "two classic members")
        local.poll_until(lambda: min(len(m.events) for m in local.members) > 20, 30, "records of both")
        for options in ({"group_protocol": "consumer"}, cooperative):
            for _ in range(2):
                began, leaves = time.monotonic(), local.members[0]
                local.join(**options)
                local.poll_until(local.is_stable, 30, "one more")
                # A classic member without the newest epoch would be expelled if the group became a classic one now.
                local.leave(leaves)
                local.poll_until(local.is_stable, 30, "one less")
                steps.append(Step(f"{leaves.name} replaced with {options}", began, time.monotonic()))
        assert {member.group.member.has_epochs for member in local.members} == {False}
        written = producer.stop()
    local.poll_while(lambda: f"lost {lost}" if (lost := local.ledger().lost(written)) else "", 30)
    for member in list(local.members):
        local.leave(member)
    record_property("migration in one thread", judge(local.ledger(), written, steps, set()))


@pytest.mark.parametrize("strategy", CLASSIC)
def test_static_members_move_by_their_restarts_and_back(
    kafka: Administration, local: Locals, strategy: str, record_property: Callable[..., None]
) -> None:
    """Kafka converts no group whose leader has written data of its own into the assignment, as ours did once.

    The leader has restarted before, so that it has read the assignment of its former self from the coordinator.
    """
    topic = local._args[2]
    classic = {"partition_assignment_strategy": [strategy], "heartbeat_interval_ms": 200}
    steps = []

    def restart(name: str, options: dict[str, Any]) -> None:
        began = time.monotonic()
        leaves = next(m for m in local.members if m.consumer.config.group_instance_id == name)
        before = leaves.owned
        local.leave(leaves)
        again = local.join(group_instance_id=name, **options)
        local.poll_until(local.is_stable, 30, f"static member {name}")
        assert again.owned == before
        steps.append(Step(f"{leaves.name} restarted with {options}", began, time.monotonic()))

    with SteadyProducer(kafka.bootstrap, topic, PARTITIONS, records_per_second=RATE) as producer:
        for name in ("one", "two"):
            local.join(group_instance_id=name, **classic)
        local.poll_until(local.is_stable, 30, "two classic members")
        local.poll_until(lambda: min(len(m.events) for m in local.members) > 20, 30, "records of both")
        for options in (classic, {"group_protocol": "consumer"}, classic):
            for name in ("one", "two"):
                restart(name, options)
        assert {member.group.member.has_epochs for member in local.members} == {False}
        written = producer.stop()
    local.poll_while(lambda: f"lost {lost}" if (lost := local.ledger().lost(written)) else "", 30)
    for member in list(local.members):
        local.leave(member)
    eager = {member.name for member in [*local.members, *local.gone]} if strategy == "range" else set()
    record_property(f"migration of static members, {strategy}", judge(local.ledger(), written, steps, eager))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", CLASSIC)
@pytest.mark.skipif("not config.getoption('--soak')", reason="twelve processes one after the other: --soak")
def test_processes_of_two_clients_move_to_the_consumer_protocol_and_back(
    kafka3: KafkaCluster,
    new_topic: Callable[..., str],
    tmp_path: Path,
    record_property: Callable[..., None],
    strategy: str,
) -> None:
    """Members of this client and of kafka-python, which lacks the new protocol, are replaced one by one."""
    topic = new_topic(kafka3, PARTITIONS, 3)
    steps: list[Step] = []

    def replace(kind: str, strategy: str) -> None:
        began, leaves = time.monotonic(), crew.alive()[0]
        crew.join(kind, strategy)
        crew.settle(60)
        crew.leave(leaves)
        crew.settle(60)
        steps.append(Step(f"{leaves.name} by {crew.members[-1].name}", began, time.monotonic()))

    with Crew(kafka3.bootstrap, topic, topic, PARTITIONS, tmp_path) as crew:
        with SteadyProducer(kafka3.bootstrap, topic, PARTITIONS, records_per_second=RATE) as producer:
            for kind in CLASSIC[strategy]:
                crew.join(kind, strategy)
            crew.settle(60)
            time.sleep(2)
            for kind in ("thin", "thinauto", "thin", "thinauto"):
                replace(kind, CONSUMER_PROTOCOL)
            eager = {member.name for member in crew.members if member not in crew.alive()}
            first = len(crew.members)
            for kind in CLASSIC[strategy]:
                replace(kind, strategy)
            eager |= {member.name for member in crew.members[first:]}
            time.sleep(1)
            written = producer.stop()
        crew.read_to(written, 60)
        crew.leave_all(60)
        ledger = crew.ledger()
    text = judge(ledger, written, steps, eager if strategy == "range" else set())
    record_property(f"migration of processes, {strategy}", text)
