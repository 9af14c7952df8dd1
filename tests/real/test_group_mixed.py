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
from typing import NamedTuple

import pytest
from groups import Crew, Ledger, Member
from groups.crew import HEARTBEAT_MS, SESSION_MS
from groups.ledger import Stint
from realkafka import KafkaCluster
from realkafka.produce import SteadyProducer

PARTITIONS = 12
#: What everybody owns again is owned within this, after whatever has happened.
BOUND = (2 * SESSION_MS + 3 * HEARTBEAT_MS) / 1000 + 3
#: How long a new member's process may take until it joins, on a busy machine.
STARTING = 30.0
BEGINNERS = ("thin", "thinauto", "kafkapython", "confluent", "java")
NEWCOMERS = ("thinauto", "confluent", "thin", "kafkapython", "thinauto", "java", "thin")
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
    kinds = Counter(member.kind.removesuffix("auto") for member in crew.alive())
    spare = [m for m in crew.alive() if kinds[m.kind.removesuffix("auto")] > 1 and m.was_assigned]
    return rng.choice(spare or crew.alive())


class Outcome(NamedTuple):
    """What its members wrote down, what the producer wrote, and what follows."""

    ledger: Ledger
    written: dict[int, int]
    gaps: list[tuple[float, Stint, Stint]]

    def __str__(self) -> str:
        gap, before, after = self.gaps[0]
        doubles = Counter((d.first.split("-")[0], d.second.split("-")[0]) for d in self.ledger.doubles())
        return (
            f"{sum(self.written.values())} records, {len({e.member for e in self.ledger.events})} members, "
            f"{len(self.gaps)} handovers, nobody's for at most {gap:.2f} s ({before.member} {before.end}, then "
            f"{after.member}), p50 {self.gaps[len(self.gaps) // 2][0]:.2f} s; processed again (by whom before, after): "
            f"{dict(doubles)}"
        )


def run(cluster: KafkaCluster, topic: str, folder: Path, seconds: float, *, kills: bool, seed: int = 1) -> Outcome:
    """Have a group live through it."""
    with Crew(cluster.bootstrap, topic, topic, PARTITIONS, folder) as crew:
        with SteadyProducer(cluster.bootstrap, topic, PARTITIONS, records_per_second=400) as producer:
            for kind in BEGINNERS:
                crew.join(kind)
            print(f"the first {len(BEGINNERS)}: settled after {crew.settle(60 + STARTING):.2f} s")
            since = time.monotonic()
            churn(crew, seconds, random.Random(seed), kills=kills)
            written = producer.stop()
        crew.read_to(written, 30)
        crew.leave_all(30)
        ledger = crew.ledger()
    print("\n".join(ledger.said("trouble")))
    outcome = Outcome(ledger, written, ledger.gaps(since))
    print(outcome)
    return outcome


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
    outcome = run(kafka3, topic, tmp_path, seconds, kills=True)
    record_property("mixed group with kills", str(outcome))
    assert not outcome.ledger.lost(outcome.written)
    gap, before, after = outcome.gaps[0]
    assert gap <= BOUND, f"nobody's for {gap:.2f} s: {before}, {after}"
    assert not [found for found in outcome.ledger.strangers() if " thin" in found]


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
    outcome = run(kafka3, topic, tmp_path, seconds, kills=False)
    record_property("mixed group without kills", str(outcome))
    assert not outcome.ledger.lost(outcome.written)
    ours = [double for double in outcome.ledger.doubles() if double.first.startswith("thin")]
    assert not ours, f"{len(ours)} processed again after ours had: {ours[:10]}"
    gap, before, after = outcome.gaps[0]
    assert gap <= BOUND, f"nobody's for {gap:.2f} s: {before}, {after}"
    assert not [found for found in outcome.ledger.strangers() if " thin" in found]
