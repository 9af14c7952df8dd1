"""Members of several clients join, leave and die in a fixed order of events; the outcome is judged by their diaries."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from typing import NamedTuple

from .crew import CONSUMER_PROTOCOL, Crew, Member
from .ledger import Double, Ledger, Stint

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
    CONSUMER_PROTOCOL: (
        ("thin", "thinauto", "confluent", "thin", "java"),
        ("thinauto", "confluent", "thin", "java", "thinauto", "confluent", "thin"),
    ),
}
#: Events, repeated in this order; "wait" is shorter than a dead member's session.
WITH_KILLS = (("kill",), ("join", "leave"), ("kill", "wait", "kill"), ("join",), ("join", "wait", "kill"))
WITHOUT = (("join",), ("leave",), ("join", "leave"), ("leave", "wait", "join", "leave"), ("join",))


def churn(
    crew: Crew, strategy: str, seconds: float, rng: random.Random, *, kills: bool, bound: float, **options: object
) -> None:
    """Let members come and go for so long; after each time everything has to be owned again within the bound."""
    until = time.monotonic() + seconds
    beginners, later = CASTS[strategy]
    newcomers = itertools.cycle(later)
    for what in itertools.cycle(WITH_KILLS if kills else WITHOUT):
        if time.monotonic() > until:
            return
        steps = what if len(crew.alive()) >= len(beginners) else (*what, "join")
        for step in steps:
            if step == "join":
                crew.join(next(newcomers), strategy, **options)
            elif step == "kill":
                crew.kill(victim(crew, rng))
            elif step == "leave":
                crew.leave(victim(crew, rng))
            else:
                time.sleep(rng.uniform(0, 2))
        took = crew.settle(bound + (STARTING if "join" in steps else 0))
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
    def gaps_after_deaths(self) -> list[tuple[float, Stint, Stint]]:
        """Return the same, counted from the last death before the new owner: that member may have been assigned it."""
        deaths = [event.when for event in self.ledger.events if event.what == "killed"]
        found = []
        for _, before, after in self.gaps:
            latest = max([when for when in deaths if before.until <= when < after.since], default=before.until)
            found.append((after.since - latest, before, after))
        return sorted(found, reverse=True)

    @property
    def doubles(self) -> list[Double]:
        """Return repeated processing before the first member was killed."""
        return [double for double in self.ledger.doubles() if double.second_at < self.killing]

    @property
    def overlaps(self) -> list[tuple[Stint, Stint]]:
        """Return where a partition had two owners at a time."""
        return [pair for pair in self.ledger.overlaps() if pair[1].since >= self.began]

    @property
    def troubles(self) -> Counter[str]:
        """Return how many errors the members of each client have noted, of commits mostly."""
        return Counter(e.member.split("-")[0] for e in self.ledger.events if e.what == "trouble")

    def __str__(self) -> str:
        calm = [found for found in self.gaps if found[2].since < self.killing]
        return (
            f"{sum(self.written.values())} records, {len({e.member for e in self.ledger.events})} members; without "
            f"kills {_gaps(calm)}, {_who(self.doubles)}; in all {_gaps(self.gaps)}, {_who(self.ledger.doubles())}; "
            f"max {self.gaps_after_deaths[0][0]:.2f} s after the last death; {len(self.overlaps)} times two owners; "
            f"errors {dict(self.troubles)}"
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
