"""The consumer group protocol (KIP-848) on real brokers: the assignments of this process's members, and their errors.

``test_group_mixed.py`` has more members of other clients, of which many are killed, and ``test_group_coordinator.py``
coordinators that fail (both with ``--soak``).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from groups import Crew, Ledger, Locals
from groups.crew import CONSUMER_PROTOCOL
from realkafka import Administration, KafkaCluster
from realkafka.fixtures import start
from realkafka.layout import CONSUMER_SESSION_MS
from realkafka.produce import New, SteadyProducer, with_confluent

from thinconsumer import (
    BrokerResponseError,
    Consumer,
    InvalidRegularExpressionError,
    KafkaError,
    SubscriptionPattern,
    TopicPartition,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)

PARTITIONS = 6
CONSUMER = {"group_protocol": "consumer"}
#: Seconds within which others own the partitions of a member that has died.
BOUND = CONSUMER_SESSION_MS / 1000 + 1.5


def poll_until(consumer: Consumer[Any, Any], deadline: float) -> None:
    while time.monotonic() < deadline:
        consumer.poll(50)


@pytest.fixture
def members(kafka: Administration, new_topic: Callable[..., str]) -> Iterator[Callable[..., Locals]]:
    """Return a function that makes a group of its own, on a topic of its own."""
    made: list[Locals] = []

    def make(**options: Any) -> Locals:
        topic = new_topic(kafka, PARTITIONS)
        made.append(Locals(kafka.bootstrap, topic, topic, PARTITIONS, **options))
        return made[-1]

    yield make
    for group in made:
        group.close()


def joined(group: Locals, **options: Any) -> Any:
    """Add a member, and wait until all have their partitions."""
    member = group.join(**options)
    group.poll_until(group.is_stable, 30, "a new member's partitions")
    return member


def stay_with(group: Locals, found: type[KafkaError]) -> KafkaError:
    """Poll the last member until it raises the error, and again."""
    deadline = time.monotonic() + 20
    consumer = group.members.pop().consumer
    try:
        while True:
            assert time.monotonic() < deadline, consumer.health()
            try:
                consumer.poll(50)
            except found as error:
                with pytest.raises(found):
                    consumer.poll(0)
                return error
            group.poll_for(0.0)
    finally:
        consumer.close(timeout_ms=2000)


def test_a_static_member_comes_back_to_its_partitions_and_nobody_else_hears_of_it(members: Any) -> None:
    """KIP-345 with epoch -2; and the second of two members with one name is refused, not the first."""
    group = members(**CONSUMER)
    first, second = (group.join(group_instance_id=name) for name in ("one", "two"))
    group.poll_until(group.is_stable, 30, "two static members")
    before, heard = first.owned, len(second.events)
    group.leave(first)
    again = joined(group, group_instance_id="one")
    assert again.owned == before and second.events[heard:] == []
    group.join(group_instance_id="two")
    error = stay_with(group, UnreleasedInstanceIdError)
    assert "group_instance_id" in str(error)
    group.poll_until(group.is_stable, 30, "the first of both to go on")


def test_the_assignor_of_the_broker_is_the_one_that_was_asked_for(members: Any) -> None:
    group = members(**CONSUMER)
    joined(group, group_remote_assignor="range")
    joined(group, group_remote_assignor="range")
    assert sorted(sorted(m.owned) for m in group.members) == [[0, 1, 2], [3, 4, 5]]
    group.join(group_remote_assignor="mine")
    stay_with(group, UnsupportedAssignorError)


def test_the_broker_evaluates_a_pattern(
    kafka: Administration, new_topic: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    """The client asks for no list of topics; an expression that is none is an error of every poll."""
    caplog.set_level(logging.INFO, "thinconsumer")
    topics = [new_topic(kafka, 2) for _ in range(3)]
    pattern = SubscriptionPattern("|".join(topics[:2]))
    with Consumer(
        bootstrap_servers=kafka.bootstrap, group_id=topics[0], group_protocol="auto", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(pattern=pattern)
        wanted = {TopicPartition(topic, number) for topic in topics[:2] for number in (0, 1)}
        deadline = time.monotonic() + 20
        while consumer.assignment() != wanted:
            assert time.monotonic() < deadline, consumer.health()
            consumer.poll(50)
        assert consumer.subscription() == set(topics[:2])
        assert topics[2] not in consumer._reader.managers.metadata.topics
        assert len([line for line in caplog.messages if "uses the consumer protocol" in line]) == 1
        consumer.subscribe([topics[2]])
        while consumer.subscription() != {topics[2]} or len(consumer.assignment()) != 2:
            assert time.monotonic() < deadline, consumer.health()
            consumer.poll(50)
        consumer.subscribe(pattern=SubscriptionPattern("a(b"))
        with pytest.raises(InvalidRegularExpressionError):
            poll_until(consumer, deadline)


def test_commits_of_partitions_that_are_kept_never_fail_because_of_a_rebalance(
    members: Any, kafka: Administration
) -> None:
    """Members join and leave, and each commit of the one that stays succeeds."""
    group = members(**CONSUMER, enable_auto_commit=False)
    topic = group._args[2]
    with SteadyProducer(kafka.bootstrap, topic, PARTITIONS, records_per_second=300) as producer:
        stays = joined(group)
        ours = min(stays.owned)
        commits = itertools.count()

        def commit() -> bool:
            """Commit what is kept in any case; return whether the group is stable."""
            kept = TopicPartition(topic, ours)
            stays.consumer.commit({kept: stays.consumer.position(kept)}, timeout_ms=5000)
            next(commits)
            return group.is_stable()

        others = [group.join() for _ in range(2)]
        # The assignors keep the lowest numbers where they are: this partition does not move.
        group.poll_until(commit, 30, "two more members")
        for other in others:
            group.leave(other)
            group.poll_until(commit, 30, "one member less")
        producer.stop()
    assert ours in stays.owned and next(commits) > 10
    assert not any("revoked" in e.what and ours in e.numbers for e in stays.events)


def test_others_take_over_from_a_killed_member_within_its_session_and_nothing_is_lost(
    kafka: Administration, new_topic: Callable[..., str], tmp_path: Path, record_property: Callable[..., None]
) -> None:
    """A member of confluent-kafka then leaves in order. Only what the dead one had not committed comes twice."""
    topic = new_topic(kafka, PARTITIONS)
    local = Locals(kafka.bootstrap, topic, topic, PARTITIONS, **CONSUMER, auto_commit_interval_ms=50)
    with Crew(kafka.bootstrap, topic, topic, PARTITIONS, tmp_path) as crew:

        def settled() -> bool:
            crew.follow()
            owned = [member.owned for member in [*crew.alive(), *local.members]]
            return sum(map(len, owned)) == PARTITIONS == len(set().union(*owned)) and all(owned)

        try:
            with SteadyProducer(kafka.bootstrap, topic, PARTITIONS, records_per_second=200) as producer:
                doomed, other = (crew.join(kind, CONSUMER_PROTOCOL) for kind in ("thinauto", "confluent"))
                local.join()
                local.join()
                local.poll_until(settled, 60, "four members of two clients")
                crew.kill(doomed)
                killed = time.monotonic()
                local.poll_until(settled, 30, "the partitions of the dead one")
                crew.leave(other)
                local.poll_until(settled, 30, "the partitions of the one that left")
                written = producer.stop()

            def ledger() -> Ledger:
                crew.follow()
                members = [*crew.members, *local.members]
                return Ledger.of(member.events for member in members)

            local.poll_until(lambda: not ledger().lost(written), 30, "all records")
            found = ledger()
        finally:
            local.close()
    gap, before, after = found.gaps(killed - 0.001)[0]
    slowest = max(member.slowest_poll for member in local.members)
    text = f"unowned for at most {gap:.2f} s: {before}, {after}; slowest poll {slowest:.2f} s"
    print(text)
    record_property("consumer protocol", text)
    assert gap <= BOUND + slowest, text
    assert {double.first for double in found.doubles()} <= {doomed.name} and not found.strangers()


@pytest.mark.skipif("not config.getoption('--soak')", reason="starts a broker of its own: --soak")
def test_a_group_that_may_not_move_tells_what_to_do(
    request: pytest.FixtureRequest, new_topic: Callable[..., str]
) -> None:
    """``"consumer"`` raises the ways out; ``"auto"`` takes one of them."""
    clusters = start(request, config={"group.consumer.migration.policy": "disabled"})
    with contextlib.closing(clusters):
        kafka = next(clusters)
        topic = new_topic(kafka, PARTITIONS)
        group = Locals(kafka.bootstrap, topic, topic, PARTITIONS)
        try:
            joined(group)
            group.join(**CONSUMER)
            text = str(stay_with(group, BrokerResponseError))
            assert "GROUP_ID_NOT_FOUND" in text and "group_protocol='classic' or 'auto'" in text
            # The classic options of Locals are not given: with them, "auto" would be decided already.
            group.join(group_protocol="auto")
            group.poll_until(group.is_stable, 30, "a second classic member")
            assert [member.group.member.has_epochs for member in group.members] == [False, False]
        finally:
            group.close()


def test_a_cluster_without_the_protocol(kafka28: KafkaCluster, new_topic: Callable[..., str]) -> None:
    """On Kafka 2.8 ``"auto"`` takes the classic protocol; what needs the other one is an error of every poll."""
    topic = new_topic(kafka28, PARTITIONS)
    group = Locals(kafka28.bootstrap, topic, topic, PARTITIONS)
    try:
        group.join(group_protocol="auto")
        joined(group, group_protocol="auto")
        assert [member.group.member.has_epochs for member in group.members] == [False, False]
        group.join(**CONSUMER)
        assert "use 'classic' or 'auto'" in str(stay_with(group, UnsupportedVersionError))
        group.poll_until(group.is_stable, 30, "the others to go on")
    finally:
        group.close()
    with Consumer(bootstrap_servers=kafka28.bootstrap, group_id=f"{topic}-2", group_protocol="auto") as consumer:
        consumer.subscribe(pattern=SubscriptionPattern(topic))
        with pytest.raises(UnsupportedVersionError, match="pass the pattern as a str"):
            poll_until(consumer, time.monotonic() + 20)
        consumer.unsubscribe()
        consumer.subscribe(pattern=topic)
        deadline = time.monotonic() + 20
        while len(consumer.assignment()) != PARTITIONS:
            assert time.monotonic() < deadline, consumer.health()
            consumer.poll(50)


def first_record(bootstrap: str, topic: str, group: str, options: dict[str, Any]) -> float:
    """Return the seconds from the construction of a consumer to its first record."""
    began = time.perf_counter()
    options = {"bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest", **options}
    with Consumer(topic, enable_auto_commit=False, **options) as consumer:
        while not consumer.poll(1000):
            assert time.perf_counter() - began < 60, consumer.health()
        return time.perf_counter() - began


@pytest.mark.skipif("not config.getoption('--soak')", reason="compares times, which other tests disturb: --soak")
def test_the_first_record_comes_as_soon_as_with_the_classic_protocol(
    kafka: Administration, new_topic: Callable[..., str], record_property: Callable[..., None]
) -> None:
    """Consumers in new groups, in turns; medians. The first round is not counted."""
    topic = new_topic(kafka, PARTITIONS)
    with_confluent(kafka.bootstrap, topic, [New(b"x", partition=number) for number in range(PARTITIONS)])
    protocols: tuple[dict[str, Any], ...] = ({}, CONSUMER, {"group_protocol": "auto"})
    rounds = [
        [first_record(kafka.bootstrap, topic, f"{topic}-{n}-{m}", options) for m, options in enumerate(protocols)]
        for n in range(11)
    ]
    classic, consumer, auto = (statistics.median(times) for times in zip(*rounds[1:]))
    text = (
        f"first record: classic {1000 * classic:.0f} ms, consumer {consumer / classic:.2f}, auto {auto / classic:.2f}"
    )
    print(text)
    record_property("first record", text)
    assert consumer <= 1.2 * classic and auto <= 1.2 * classic, text
