"""Write docs/states.md from the machines' tables and the comments of their states: ``python docs/generate_states.py``.

The page ends with docs/original_design.txt.

A test compares the committed page with what this makes, so the page cannot fall behind.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thinconsumer.group import coordinator
from thinconsumer.group.classic import states as member_states
from thinconsumer.group.consumer import states as epoch_states
from thinconsumer.network import states
from thinconsumer.network.states import CONNECTION_TRANSITIONS, ROUTE_TRANSITIONS
from thinconsumer.positions import states as position_states
from thinconsumer.produce.batch import BATCH_TRANSITIONS, BatchState
from thinconsumer.telemetry import states as telemetry_states
from thinconsumer_testing.broker.group import states as group_states
from thinconsumer_testing.broker.txn.states import TRANSITIONS as TRANSACTION_TRANSITIONS
from thinconsumer_testing.broker.txn.states import TransactionState

PAGE = Path(__file__).with_name("states.md")

HEAD = """\
# State machines

<!-- Made by docs/generate_states.py from the tables in the code and docs/original_design.txt. Do not edit. -->

Each state machine is one table of its legal transitions. An event that the table does not list for a state is a bug,
and raises. The machines of a consumer do not call each other: a position waits for an answer, and a request waits for a
connection.
"""

#: The last section, which is written by hand.
TAIL = PAGE.with_name("original_design.txt").read_text(encoding="utf-8")

MACHINES: list[tuple[str, str, type[enum.Enum], Mapping[Any, Mapping[Any, Any]]]] = [
    (
        "Position of a partition",
        "thinconsumer/positions/states.py",
        position_states.PositionState,
        position_states.TRANSITIONS,
    ),
    ("One connection", "thinconsumer/network/states.py", states.ConnectionState, CONNECTION_TRANSITIONS),
    ("The route to a broker", "thinconsumer/network/states.py", states.RouteState, ROUTE_TRANSITIONS),
    (
        "The group's coordinator",
        "thinconsumer/group/coordinator.py",
        coordinator.CoordinatorState,
        coordinator.TRANSITIONS,
    ),
    (
        "A member of a group, classic protocol",
        "thinconsumer/group/classic/states.py",
        member_states.ClassicMemberState,
        member_states.TRANSITIONS,
    ),
    (
        "A member of a group, consumer protocol (KIP-848)",
        "thinconsumer/group/consumer/states.py",
        epoch_states.ConsumerMemberState,
        epoch_states.TRANSITIONS,
    ),
    (
        "Metrics pushed to brokers (KIP-714)",
        "thinconsumer/telemetry/states.py",
        telemetry_states.TelemetryState,
        telemetry_states.TRANSITIONS,
    ),
    ("Producer: a batch", "thinconsumer/produce/batch.py", BatchState, BATCH_TRANSITIONS),
    (
        "Embedded broker: a group",
        "testing/thinconsumer_testing/broker/group/states.py",
        group_states.GroupState,
        group_states.GROUP_TRANSITIONS,
    ),
    (
        "Embedded broker: the coordinator of a partition of groups",
        "testing/thinconsumer_testing/broker/group/states.py",
        group_states.ShardState,
        group_states.SHARD_TRANSITIONS,
    ),
    (
        "Embedded broker: a transaction",
        "testing/thinconsumer_testing/broker/txn/states.py",
        TransactionState,
        TRANSACTION_TRANSITIONS,
    ),
]


def meanings(kind: type[enum.Enum]) -> dict[str, str]:
    """Return what the comment behind each state says."""
    return dict(re.findall(r"^\s+(\w+) = .*?#: (.*)$", inspect.getsource(kind), re.MULTILINE))


def picture(title: str) -> str:
    """Return the name of a machine's picture in docs/diagrams, which docs/generate_diagrams.py draws."""
    return re.sub(r"\W+", "-", title.lower()).strip("-") + ".svg"


def section(title: str, path: str, kind: type[enum.Enum], moves: Mapping[Any, Mapping[Any, Any]]) -> str:
    """Return one machine: its states and its moves."""
    says = meanings(kind)
    image = f"![{title}: the states and the events between them](diagrams/{picture(title)})\n"
    lines = [f"\n## {title}\n", f"`{path}`\n", image, "| state | meaning |", "|---|---|"]
    lines += [f"| {state.value} | {says.get(state.name, '')} |" for state in kind]
    lines += ["\n| in state | on | goes to |", "|---|---|---|"]
    for state, events in moves.items():
        lines += [f"| {state.value} | {event.value} | {to.value} |" for event, to in events.items()]
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(section(*machine) for machine in MACHINES) + TAIL


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
