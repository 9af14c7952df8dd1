"""Must hold: one group of four clients, members coming, going and dying, and nothing is lost.

thinconsumer, kafka-python, confluent-kafka and Java share the assignor ``range``. With ``--soak`` each of the two runs,
with kills and without, goes on for five minutes, else for less than half of one.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from groups import Crew, Ledger, Member
from groups.crew import HEARTBEAT_MS, SESSION_MS
from realkafka import KafkaCluster
from realkafka.produce import SteadyProducer

PARTITIONS = 12
#: What everybody owns again is owned within this, after whatever has happened.
BOUND = (2 * SESSION_MS + 3 * HEARTBEAT_MS) / 1000 + 3
#: How long a new member's process may take until it joins, on a busy machine.
STARTING = 30.0
BEGINNERS = ("thin", "thin", "kafkapython", "confluent", "java")
NEWCOMERS = ("thin", "confluent", "thin", "kafkapython", "thin", "java")
#: What happens, over and over; "wait" is shorter than a dead member's session.
WITH_KILLS = (("kill",), ("join", "leave"), ("kill", "wait", "kill"), ("join",), ("join", "wait", "kill"))
WITHOUT = (("join",), ("leave",), ("join", "leave"), ("leave", "wait", "join", "leave"), ("join",))


def churn(crew: Crew, seconds: float, rng: random.Random, *, kills: bool) -> None:
    """Let members come and go for so long; after each time everything has to be owned again."""
    until = time.monotonic() + seconds
    newcomers = itertools.cycle(NEWCOMERS)
    for what in itertools.cycle(WITH_KILLS if kills else WITHOUT):
        if time.monotonic() > until:
            return
        steps = what if len(crew.alive()) >= len(BEGINNERS) else (*what, "join")
        for step in steps:
            if step == "join":
                crew.join(next(newcomers))
            elif step == "kill":
                crew.kill(victim(crew, rng))
            elif step == "leave":
                crew.leave(victim(crew, rng))
            else:
                time.sleep(rng.uniform(0, 2))
        took = crew.settle(BOUND + (STARTING if "join" in steps else 0))
        print(f"{' '.join(steps)}: settled after {took:.2f} s, {len(crew.alive())} members")
        time.sleep(rng.uniform(0.2, 1.5))


def victim(crew: Crew, rng: random.Random) -> Member:
    """Choose somebody of a kind that is not the last of it, so that the group stays mixed; ours above all."""
    kinds = Counter(member.kind for member in crew.alive())
    spare = [m for m in crew.alive() if kinds[m.kind] > 1 and m.was_assigned]
    return rng.choice(spare or crew.alive())


def run(
    cluster: KafkaCluster, topic: str, folder: Path, seconds: float, *, kills: bool, seed: int = 1
) -> tuple[Ledger, dict[int, int]]:
    """Have a group live through it; return what its members wrote down and what the producer wrote."""
    with Crew(cluster.bootstrap, topic, topic, PARTITIONS, folder) as crew:
        with SteadyProducer(cluster.bootstrap, topic, PARTITIONS, records_per_second=400) as producer:
            for kind in BEGINNERS:
                crew.join(kind)
            print(f"the first {len(BEGINNERS)}: settled after {crew.settle(60 + STARTING):.2f} s")
            churn(crew, seconds, random.Random(seed), kills=kills)
            written = producer.stop()
        crew.read_to(written, 30)
        crew.leave_all(30)
        return crew.ledger(), written


def figures(ledger: Ledger, written: dict[int, int]) -> str:
    gaps = ledger.gaps()
    longest = f"{gaps[0][0]:.2f} s ({gaps[0][1].member} {gaps[0][1].end}, then {gaps[0][2].member})" if gaps else "-"
    doubles = Counter((double.first.split("-")[0], double.second.split("-")[0]) for double in ledger.doubles())
    return (
        f"{sum(written.values())} records, {len({e.member for e in ledger.events})} members, {len(gaps)} handovers, "
        f"nobody's for at most {longest}, p50 {sorted(gap for gap, _, _ in gaps)[len(gaps) // 2]:.2f} s; "
        f"processed again (by whom before, after): {dict(doubles)}"
    )


@pytest.mark.soak(300)
@pytest.mark.timeout(900)
def test_members_come_go_and_die_and_no_record_is_lost(
    kafka3: KafkaCluster,
    new_topic: Callable[..., str],
    tmp_path: Path,
    soak_seconds: float,
    record_property: Callable[..., None],
) -> None:
    """Must hold 2, with kills."""
    topic = new_topic(kafka3, PARTITIONS, 3)
    seconds = soak_seconds if soak_seconds > 60 else 20.0
    ledger, written = run(kafka3, topic, tmp_path, seconds, kills=True)
    print(figures(ledger, written))
    print("\n".join(ledger.said("trouble")))
    record_property("mixed group with kills", figures(ledger, written))
    assert not ledger.lost(written)
    gap, before, after = ledger.gaps()[0]
    assert gap <= BOUND, f"nobody's for {gap:.2f} s: {before}, {after}"
    assert not [found for found in ledger.strangers() if " thin-" in found]


@pytest.mark.soak(300)
@pytest.mark.timeout(900)
def test_members_come_and_go_and_what_leaves_ours_is_read_once(
    kafka3: KafkaCluster,
    new_topic: Callable[..., str],
    tmp_path: Path,
    soak_seconds: float,
    record_property: Callable[..., None],
) -> None:
    """Must hold 2, without kills: ours commit in the revoked callback."""
    topic = new_topic(kafka3, PARTITIONS, 3)
    seconds = soak_seconds if soak_seconds > 60 else 15.0
    ledger, written = run(kafka3, topic, tmp_path, seconds, kills=False)
    print(figures(ledger, written))
    print("\n".join(ledger.said("trouble")))
    record_property("mixed group without kills", figures(ledger, written))
    assert not ledger.lost(written)
    ours = [double for double in ledger.doubles() if double.first.startswith("thin")]
    assert not ours, f"{len(ours)} processed again after ours had: {ours[:10]}"
    gap, before, after = ledger.gaps()[0]
    assert gap <= BOUND, f"nobody's for {gap:.2f} s: {before}, {after}"
    assert not [found for found in ledger.strangers() if " thin-" in found]
