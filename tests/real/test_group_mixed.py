"""A group with members of four clients, which join, leave and die, loses no record.

thinconsumer, kafka-python, confluent-kafka and Java share the assignor ``range``, all but kafka-python also the
cooperative one (``--soak``). First members come and go, then some
are killed as well; with ``--soak`` for five minutes each, else for less than half of one in all.
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
from groups.ledger import Double, Stint
from realkafka import KafkaCluster
from realkafka.produce import SteadyProducer

PARTITIONS = 12
#: Seconds within which each partition must have an owner again, after any event.
BOUND = (2 * SESSION_MS + 3 * HEARTBEAT_MS) / 1000 + 3
#: How long a new member's process may take until it joins, on a busy machine.
STARTING = 30.0
#: The first members, and those that join later, by the assignor that they share.
CASTS = {
    "range": (
        ("thin", "thinauto", "kafkapython", "confluent", "java"),
        ("thinauto", "confluent", "thin", "kafkapython", "thinauto", "java", "thin"),
    ),
    "cooperative-sticky": (
        ("thin", "thinauto", "confluent", "confluent", "java"),
        ("thinauto", "confluent", "thin", "java", "thinauto", "confluent", "thin"),
    ),
}
#: Events, repeated in this order; "wait" is shorter than a dead member's session.
WITH_KILLS = (("kill",), ("join", "leave"), ("kill", "wait", "kill"), ("join",), ("join", "wait", "kill"))
WITHOUT = (("join",), ("leave",), ("join", "leave"), ("leave", "wait", "join", "leave"), ("join",))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose what there is time for."""
    metafunc.parametrize("strategy", CASTS if metafunc.config.getoption("--soak") else ["range"])


def churn(crew: Crew, strategy: str, seconds: float, rng: random.Random, *, kills: bool) -> None:
    """Let members come and go for so long; after each time everything has to be owned again."""
    until = time.monotonic() + seconds
    beginners, later = CASTS[strategy]
    newcomers = itertools.cycle(later)
    for what in itertools.cycle(WITH_KILLS if kills else WITHOUT):
        if time.monotonic() > until:
            return
        steps = what if len(crew.alive()) >= len(beginners) else (*what, "join")
        for step in steps:
            if step == "join":
                crew.join(next(newcomers), strategy)
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
    """Choose a member that is not the last one of its client, so that the group stays mixed; preferably one of ours."""
    kinds = Counter(member.kind.removesuffix("auto") for member in crew.alive())
    spare = [m for m in crew.alive() if kinds[m.kind.removesuffix("auto")] > 1 and m.was_assigned]
    return rng.choice(spare or crew.alive())


class Outcome(NamedTuple):
    """The events of all members, and the records of the producer."""

    ledger: Ledger
    written: dict[int, int]
    began: float  #: The first members had everything.
    killing: float  #: From here on members were killed.

    @property
    def gaps(self) -> list[tuple[float, Stint, Stint]]:
        """Return how long partitions had no owner, the longest time first."""
        return self.ledger.gaps(self.began)

    @property
    def doubles(self) -> list[Double]:
        """Return repeated processing before the first member was killed."""
        return [double for double in self.ledger.doubles() if double.second_at < self.killing]

    def __str__(self) -> str:
        calm = [found for found in self.gaps if found[2].since < self.killing]
        return (
            f"{sum(self.written.values())} records, {len({e.member for e in self.ledger.events})} members; without "
            f"kills {_gaps(calm)}, {_who(self.doubles)}; in all {_gaps(self.gaps)}, {_who(self.ledger.doubles())}"
        )


def _gaps(gaps: list[tuple[float, Stint, Stint]]) -> str:
    gap, before, after = gaps[0]
    return (
        f"{len(gaps)} handovers, p50 {gaps[len(gaps) // 2][0]:.2f}, max {gap:.2f} s ({before.member} {before.end}, "
        f"then {after.member})"
    )


def _who(doubles: list[Double]) -> str:
    pairs = Counter(f"{d.first.split('-')[0]} then {d.second.split('-')[0]}" for d in doubles)
    return f"processed again {len(doubles)} {dict(pairs) if pairs else ''}".strip()


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
            churn(crew, strategy, calm, rng, kills=False)
            switch = time.monotonic()
            churn(crew, strategy, killing, rng, kills=True)
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
    assert not [found for found in outcome.ledger.strangers() if " thin" in found]
