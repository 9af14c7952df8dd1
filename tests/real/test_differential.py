"""Where real Kafka and the embedded broker answer differently, the embedded broker is wrong.

Each script of ``differential`` holds the same conversation with both, in the lowest, a middle and the highest version
of every API, and all answers have to be equal, field by field.
"""

import difflib
import itertools
import os
import time
from pprint import pformat

import pytest
from differential import admin, commits, fetching, frames, groups, offsets, producing, transactions  # noqa: F401 - they put their scripts on the list
from differential.scripts import SCRIPTS
from differential.talk import PLANS, MemoryWorld, SocketWorld, World
from realkafka.admin import Administration

NUMBERS = itertools.count(1)


def conversation(world: World, name: str) -> list[tuple[str, str]]:
    """Hold it, and return the notes as text."""
    try:
        SCRIPTS[name](world)
    finally:
        world.close()
    return [(label, pformat(note, width=110, sort_dicts=False)) for label, note in world.notes]


def compared(real: tuple[str, str], ours: tuple[str, str]) -> str:
    """Return where two notes differ, with what is around it."""
    lines = difflib.unified_diff(real[1].splitlines(), ours[1].splitlines(), "Kafka", "here", lineterm="")
    return "\n".join([real[0] if real[0] == ours[0] else f"{real[0]} (here {ours[0]})", *lines])


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_both_answer_the_same(kafka: Administration, name: str, plan: str):
    host, port = kafka.bootstrap.split(",")[0].rsplit(":", 1)
    base_ms = int(time.time() * 1000)
    prefix = f"d{os.getpid()}-{next(NUMBERS)}"
    embedded = MemoryWorld(plan, prefix, base_ms)
    here = conversation(embedded, name)
    assert embedded.cluster.bugs == []
    there = conversation(SocketWorld(host, int(port), plan, prefix, base_ms), name)

    differences = [compared(real, ours) for real, ours in zip(there, here, strict=False) if real != ours]
    assert not differences, "\n\n".join(differences)
    assert len(here) == len(there) > 0
