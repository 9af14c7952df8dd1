"""A group of four moves from eager to cooperative by two rolling restarts, and back, while records are written.

In a bounce every member is replaced, one after the other. The list of both assignors runs eager, so that in the second
bounce members of both kinds are in one group. With ``--soak`` the same once more, every member a process.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from groups import Crew, Ledger, Locals
from realkafka import Administration, KafkaCluster
from realkafka.produce import SteadyProducer

PARTITIONS, MEMBERS = 8, 4
EAGER, BOTH, COOPERATIVE = "range", "cooperative-sticky,range", "cooperative-sticky"
WAYS = {"there": (EAGER, BOTH, COOPERATIVE), "back": (COOPERATIVE, BOTH, EAGER)}
#: Longer than any stall of a busy machine, so that no member is expelled.
SESSION_MS = 30_000
RATE = 400


def judge(ledger: Ledger, written: dict[int, int], after_bounces: float) -> str:
    """Return figures; raise if a record was lost, read twice, or read by one of two owners."""
    overlaps, gaps = ledger.overlaps(), ledger.gaps()
    stints = [stint for stint in ledger.stints() if stint.since < after_bounces]
    said = (
        f"{sum(written.values())} records, {len(stints)} stints of {len({stint.member for stint in stints})} members, "
        f"nobody's for at most {gaps[0][0]:.2f} s, processed twice {len(ledger.doubles())}"
    )
    print(said)
    assert not overlaps, overlaps[:5]
    assert not ledger.lost(written)
    assert not ledger.doubles(), ledger.doubles()[:5]
    assert not ledger.strangers(), ledger.strangers()[:5]
    assert not any(event.what == "lost" for event in ledger.events)
    return said


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("way", WAYS if metafunc.config.getoption("--soak") else ["there"])


def test_two_rolling_bounces_change_the_protocol(
    kafka: Administration, new_topic: Callable[..., str], record_property: Callable[..., None], way: str
) -> None:
    """No record is lost or processed twice; all four members are polled in turn by one thread."""
    topic = new_topic(kafka, PARTITIONS)
    crew = Locals(
        kafka.bootstrap,
        topic,
        topic,
        PARTITIONS,
        session_timeout_ms=SESSION_MS,
        max_poll_interval_ms=SESSION_MS,
        heartbeat_interval_ms=300,
    )
    before, *bounces = WAYS[way]
    try:
        with SteadyProducer(kafka.bootstrap, topic, PARTITIONS, records_per_second=RATE) as producer:
            for _ in range(MEMBERS):
                crew.join(partition_assignment_strategy=before.split(","))
            crew.poll_until(crew.is_stable, 60, "the first four")
            for strategy in bounces:
                for _ in range(MEMBERS):
                    crew.leave(crew.members[0])
                    crew.poll_for(0.2)
                    crew.join(partition_assignment_strategy=strategy.split(","))
                    crew.poll_until(crew.is_stable, 60, f"stable with one more of {strategy}")
                assert {m.group.role.is_cooperative for m in crew.members} == {strategy == COOPERATIVE}
            crew.poll_for(1)
            done = time.monotonic()
            written = producer.stop()
        crew.poll_while(lambda: f"lost {lost}" if (lost := crew.ledger().lost(written)) else "", 30)
        for member in list(crew.members):
            crew.leave(member)
    finally:
        crew.close()
    record_property(f"rolling bounces {way}", judge(crew.ledger(), written, done))


@pytest.mark.timeout(900)
@pytest.mark.skipif("not config.getoption('--soak')", reason="twenty processes one after the other: --soak")
def test_two_rolling_bounces_of_processes_change_the_protocol(
    kafka3: KafkaCluster, new_topic: Callable[..., str], tmp_path: Path, record_property: Callable[..., None], way: str
) -> None:
    """No record is lost or processed twice; each member is a process."""
    topic = new_topic(kafka3, PARTITIONS, 3)
    before, *bounces = WAYS[way]
    options = {"session_timeout_ms": SESSION_MS, "max_poll_interval_ms": SESSION_MS}
    with Crew(kafka3.bootstrap, topic, topic, PARTITIONS, tmp_path) as crew:
        with SteadyProducer(kafka3.bootstrap, topic, PARTITIONS, records_per_second=RATE) as producer:
            for _ in range(MEMBERS):
                crew.join("thin", before, **options)
            crew.settle(120)
            for strategy in bounces:
                for _ in range(MEMBERS):
                    crew.leave(crew.alive()[0])
                    crew.join("thin", strategy, **options)
                    crew.settle(120)
                    time.sleep(0.5)
            done = time.monotonic()
            written = producer.stop()
        crew.read_to(written, 60)
        crew.leave_all(60)
        ledger = crew.ledger()
    record_property(f"rolling bounces of processes {way}", judge(ledger, written, done))
