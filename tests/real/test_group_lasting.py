"""A group of eight rebalances two hundred times, and neither memory nor descriptors nor log lines grow.

All eight are in this process. Most rebalances are enforced by one of them; in some a member leaves and another comes.
Without ``--soak`` there are forty, and twenty on a real cluster.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from groups import Locals
from realkafka import Administration

from thinconsumer_testing.broker.process import BrokerProcess

MEMBERS, PARTITIONS = 8, 16
STRATEGIES = (["range"], ["cooperative-sticky"])
#: State that is kept for every rebalance would amount to a hundred times as much.
GROWTH_KB, GROWTH_OBJECTS = 1500, 1500
LINES_EACH = 3.0


class Sample(NamedTuple):
    """Resources that this process uses after a rebalance."""

    kilobytes: int
    objects: int
    descriptors: int
    lines: int


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


@contextmanager
def counted() -> Iterator[Lines]:
    """Count the lines that users see at INFO.

    pytest keeps every record, which would be all that grows here, and since 9.2 it listens to loggers that do not
    propagate as well, if they do not when a test begins.
    """
    handler, logger = Lines(), logging.getLogger("thinconsumer")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = True


def sample(lines: Lines) -> Sample:
    gc.collect()
    rows = Path("/proc/self/status").read_text().splitlines()
    resident = next(int(row.split()[1]) for row in rows if row.startswith("VmRSS"))
    return Sample(resident, len(gc.get_objects()), len(os.listdir("/proc/self/fd")), lines.count)


def rebalance(crew: Locals, number: int) -> None:
    """Have one rebalance, and wait until it is over for all."""
    before = max(member.generation for member in crew.members)
    if number % 10 == 9:
        crew.leave(crew.members[number // 10 % MEMBERS])
        crew.gone.clear()
        crew.join()
    else:
        # The leader: the coordinator lets a follower that says nothing new back in without a rebalance.
        next(member for member in crew.members if member.group.member._attempt.leads).consumer.enforce_rebalance()

    def over() -> bool:
        return min(member.generation for member in crew.members) > before and crew.is_stable()

    crew.poll_until(over, 60, f"rebalance {number}")
    since = time.monotonic()
    crew.poll_until(lambda: crew.is_stable(since), 60, f"a heartbeat of everybody after rebalance {number}")
    for member in crew.members:
        member.events.clear()  # ours, not the library's


def lasting(bootstrap: Any, topic: str, strategy: list[str], rebalances: int, lines: Lines) -> str:
    """Have so many rebalances; compare what the second half used with what the first did."""
    crew = Locals(
        bootstrap, topic, topic, PARTITIONS, heartbeat_interval_ms=100, partition_assignment_strategy=strategy
    )
    began = time.monotonic()
    try:
        for _ in range(MEMBERS):
            crew.join()
        crew.poll_until(crew.is_stable, 60, "the first members")
        seen = []
        for number in range(rebalances):
            rebalance(crew, number)
            if number % 10 in (3, 8) and number > 5:
                seen.append((number, sample(lines)))
    finally:
        crew.close()
    (first_number, first), (middle_number, middle), (last_number, last) = seen[0], seen[len(seen) // 2], seen[-1]
    early = (middle.lines - first.lines) / (middle_number - first_number) / MEMBERS
    late = (last.lines - middle.lines) / (last_number - middle_number) / MEMBERS
    said = (
        f"{strategy[0]}: {rebalances} rebalances in {time.monotonic() - began:.1f} s; from number {first_number} to "
        f"{middle_number} to {last_number}: {first.kilobytes}, {middle.kilobytes}, {last.kilobytes} kB resident, "
        f"{first.objects}, {middle.objects}, {last.objects} objects, {first.descriptors}, {middle.descriptors}, "
        f"{last.descriptors} descriptors; {early:.2f} and {late:.2f} lines per member and rebalance"
    )
    print(said)
    assert last.kilobytes - middle.kilobytes <= GROWTH_KB, said
    assert last.objects - middle.objects <= GROWTH_OBJECTS, said
    assert last.descriptors <= middle.descriptors + MEMBERS, said  # connections come and go
    assert late <= early + 0.2 and late <= LINES_EACH, said
    return said


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    long = metafunc.config.getoption("--soak")
    on_real = "kafka" in metafunc.fixturenames
    rebalances = (30 if on_real else 200) if long else (20 if on_real else 40)
    strategies = STRATEGIES if long else STRATEGIES[on_real:][:1]
    metafunc.parametrize("rebalances", [rebalances])
    metafunc.parametrize("strategy", strategies, ids=[strategy[0] for strategy in strategies])


@pytest.mark.timeout(600)
def test_rebalances_leave_nothing_behind(
    strategy: list[str], rebalances: int, record_property: Callable[..., None]
) -> None:
    """Neither memory nor descriptors nor log lines grow with the number of rebalances, on the embedded broker."""
    with BrokerProcess(nodes=3, topics={"many": PARTITIONS}) as broker, counted() as lines:
        said = lasting(broker.bootstrap_servers, "many", strategy, rebalances, lines)
    record_property("rebalances", said)


def test_rebalances_of_a_real_cluster_leave_nothing_behind(
    strategy: list[str],
    rebalances: int,
    kafka: Administration,
    new_topic: Callable[..., str],
    record_property: Callable[..., None],
) -> None:
    """Neither memory nor descriptors nor log lines grow with the number of rebalances, on real brokers."""
    with counted() as lines:
        said = lasting(kafka.bootstrap, new_topic(kafka, PARTITIONS), strategy, rebalances, lines)
    record_property("rebalances on a real cluster", said)
