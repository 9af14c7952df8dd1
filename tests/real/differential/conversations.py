"""The conversations of all scripts, and what real Kafka answered when ``test_differential.py`` recorded them."""

from __future__ import annotations

import ast
import difflib
import itertools
import lzma
import os
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from pprint import pformat
from typing import Any

from . import (  # noqa: F401 - they put their scripts on the list
    acls,
    admin,
    commits,
    consumer_group_acls,
    consumer_group_migration,
    consumer_group_offsets,
    consumer_groups,
    fetching,
    frames,
    groups,
    offsets,
    producing,
    telemetry,
    transactions,
)
from .consumer_group_limits import LIMITS
from .scripts import ACL_SCRIPTS, CLUSTER_SCRIPTS, CONSUMER_GROUP_SCRIPTS, SCRIPTS, Script
from .talk import PLANS, MemoryWorld, World

Notes = list[tuple[str, Any]]

USERS = {"admin": "admin-secret", "alice": "alice-secret"}
#: With time to pass, so that one version has to do.
SLOW = {"sessions_of_consumers_end"}
NUMBERS = itertools.count(1)

BROKER_CASES = [(name, plan) for name in sorted(SCRIPTS) for plan in PLANS]
#: The APIs of consumer groups have two versions.
CONSUMER_GROUP_CASES = [
    (name, plan) for name in sorted(CONSUMER_GROUP_SCRIPTS) for plan in ("lowest", "highest")[name in SLOW :]
]
CLUSTER_CASES = [(name, plan) for name in sorted(CLUSTER_SCRIPTS) for plan in ("lowest", "highest")]
ACL_CASES = [
    (name, plan)
    for name, function in sorted(ACL_SCRIPTS.items())
    for plan in PLANS
    if function.__module__ != consumer_group_acls.__name__ or plan != "middle"
]
ALL: dict[str, Script] = {**SCRIPTS, **CONSUMER_GROUP_SCRIPTS, **CLUSTER_SCRIPTS, **ACL_SCRIPTS}
ALL_CASES = BROKER_CASES + CONSUMER_GROUP_CASES + CLUSTER_CASES + ACL_CASES
RECORDED = Path(__file__).parents[2] / "golden" / "conversations.xz"


def names() -> tuple[str, int]:
    """Return a prefix of ten letters for all names of a conversation, and the time that its times are relative to."""
    return f"d{os.getpid() % 10**5:05}-{next(NUMBERS):03}", int(time.time() * 1000)


def in_memory(name: str, plan: str, prefix: str, base_ms: int) -> MemoryWorld:
    """Return an embedded cluster like the real one that the script needs."""
    if name in CONSUMER_GROUP_SCRIPTS:
        return MemoryWorld(plan, prefix, base_ms, config=LIMITS)
    if name in CLUSTER_SCRIPTS:
        return MemoryWorld(plan, prefix, base_ms, brokers=3)
    return MemoryWorld(plan, prefix, base_ms, USERS if name in ACL_SCRIPTS else None)


def conversation(world: World, name: str) -> Notes:
    try:
        ALL[name](world)
    finally:
        world.close()
    if isinstance(world, MemoryWorld):
        assert world.cluster.bugs == []
    return world.notes


def compare(there: Notes, here: Notes) -> None:
    """Fail where the embedded broker has answered otherwise than Kafka."""
    differences = [compared(*both) for both in itertools.zip_longest(there, here) if both[0] != both[1]]
    assert not differences, "\n\n".join(differences)
    assert there


def compared(real: tuple[str, Any] | None, ours: tuple[str, Any] | None) -> str:
    texts = [
        ("nothing", "") if one is None else (one[0], pformat(one[1], width=110, sort_dicts=False))
        for one in (real, ours)
    ]
    lines = difflib.unified_diff(texts[0][1].splitlines(), texts[1][1].splitlines(), "Kafka", "here", lineterm="")
    return "\n".join([" / ".join(dict.fromkeys(label for label, _ in texts)), *lines])


def write_recorded(found: Mapping[tuple[str, str], Notes]) -> None:
    """Write one line for each conversation."""
    lines = [f"{name} {plan} {notes!r}\n" for (name, plan), notes in sorted(found.items())]
    RECORDED.write_bytes(lzma.compress("".join(lines).encode()))


@cache
def _lines() -> list[str]:
    return lzma.decompress(RECORDED.read_bytes()).decode().splitlines()


def recorded(name: str, plan: str) -> Notes:
    """Return what Kafka answered."""
    [line] = [line for line in _lines() if line.startswith(f"{name} {plan} ")]
    notes: Notes = ast.literal_eval(line.split(" ", 2)[2])
    return notes
