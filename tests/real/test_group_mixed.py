"""A group with members of four clients, which join, leave and die, loses no record.

thinconsumer, kafka-python, confluent-kafka and Java share the assignor ``range``, all but kafka-python also the
cooperative one and the consumer group protocol (KIP-848; both with ``--soak``). First members come and go, then some
are killed as well; with ``--soak`` for five minutes each, else for less than half of one in all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from groups import Crew
from groups.churn import CASTS, STARTING, Outcome, churn
from groups.crew import CONSUMER_PROTOCOL, HEARTBEAT_MS, SESSION_MS
from realkafka import KafkaCluster
from realkafka.layout import CONSUMER_SESSION_MS
from realkafka.produce import SteadyProducer

PARTITIONS = 12
#: Seconds within which each partition must have an owner again, after any event.
BOUND = (2 * SESSION_MS + 3 * HEARTBEAT_MS) / 1000 + 3
#: The same with the consumer group protocol, after the death of the member that a partition was last assigned to.
CONSUMER_BOUND = CONSUMER_SESSION_MS / 1000 + 1.5


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("strategy", CASTS if metafunc.config.getoption("--soak") else ["range"])


def run(cluster: KafkaCluster, topic: str, folder: Path, strategy: str, calm: float, killing: float) -> Outcome:
    """Have a group live through so many seconds without kills, and so many with them."""
    rng = random.Random(1)
    beginners, _ = CASTS[strategy]
    with Crew(cluster.bootstrap, topic, topic, PARTITIONS, folder) as crew:
        with SteadyProducer(cluster.bootstrap, topic, PARTITIONS, records_per_second=400) as producer:
            for kind in beginners:
                crew.join(kind, strategy)
            print(f"the first {len(beginners)}: settled after {crew.settle(60 + STARTING):.2f} s")
            began = time.monotonic()
            churn(crew, strategy, calm, rng, kills=False, bound=BOUND)
            switch = time.monotonic()
            churn(crew, strategy, killing, rng, kills=True, bound=BOUND)
            written = producer.stop()
        crew.read_to(written, 30)
        crew.leave_all(30)
        ledger = crew.ledger()
    print("\n".join(ledger.said("trouble")))
    return Outcome(ledger, written, began, switch)


@pytest.mark.soak(300)
@pytest.mark.timeout(1200)
def test_members_come_go_and_die_and_nothing_is_lost_nor_read_twice_without_need(
    kafka3: KafkaCluster,
    new_topic: Callable[..., str],
    tmp_path: Path,
    soak_seconds: float,
    record_property: Callable[..., None],
    strategy: str,
) -> None:
    """Our members commit when partitions are revoked, so records are processed once until a member is killed."""
    topic = new_topic(kafka3, PARTITIONS, 3)
    calm, killing = (soak_seconds, soak_seconds) if soak_seconds > 60 else (12.0, 18.0)
    outcome = run(kafka3, topic, tmp_path, strategy, calm, killing)
    print(outcome)
    record_property("mixed group", str(outcome))
    assert not outcome.ledger.lost(outcome.written)
    ours = [double for double in outcome.doubles if double.first.startswith("thin")]
    assert not ours, f"{len(ours)} processed again after ours had: {ours[:10]}"
    gap, before, after = outcome.gaps[0]
    assert gap <= BOUND, f"nobody's for {gap:.2f} s: {before}, {after}"
    if strategy == CONSUMER_PROTOCOL:
        assert not outcome.overlaps, f"two owners: {outcome.overlaps[:5]}"
        assert not outcome.troubles["thin"] + outcome.troubles["thinauto"], "commits failed, though none had to"
        gap, before, after = outcome.gaps_after_deaths[0]
        assert gap <= CONSUMER_BOUND, f"nobody's for {gap:.2f} s after a death: {before}, {after}"
    assert not [found for found in outcome.ledger.strangers() if " thin" in found]
