"""Deliberate bugs in ordered delivery, each of which the swarm of ordered topics has to notice.

    PYTHONPATH=. python tests/swarm/order_bugs.py 1:300

finds a seed for each.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import sys
from collections.abc import Iterator

from planting import Edit

from thinconsumer.broker.group import positions
from thinconsumer.broker.ordered import changes
from thinconsumer.broker.partition import PartitionReplica
from thinconsumer.ordered import gates
from thinconsumer.ordered.delivery import OrderedDelivery
from thinconsumer.ordered.group_positions import GroupPositions
from thinconsumer.ordered.holds import Hold
from thinconsumer.produce.accumulator import Accumulator
from thinconsumer.testing.simulation.order_swarm import OrderSwarm

#: An empty parent that is held itself passes each threshold.
FORGOTTEN_GATES = Edit(gates, "_with_their_gates", "awaited += [one for", "_ = [one for")

#: By name: the edits, and a seed that finds them.
BUGS: dict[str, tuple[tuple[Edit, ...], int]] = {
    "off by one in S": (
        (Edit(gates, "_nearest", "in ancestors_of(partition, history.initial)", "in range(partition - 1, -1, -1)"),),
        3,
    ),
    "off by one in L": (
        (
            Edit(
                gates,
                "_nearest",
                "ancestors_of(partition, history.initial)",
                "ancestors_of(partition, 2 * history.initial)",
            ),
        ),
        129,
    ),
    "threshold exclusive for inclusive": (
        (Edit(OrderedDelivery, "_is_read", "threshold.offset > max(", "threshold.offset - 1 > max("),),
        3,
    ),
    "a position that is not known counts as read": (
        (
            Edit(
                OrderedDelivery,
                "_is_read",
                "self.positions.of(topic, one.partition) or 0",
                "self.positions.of(topic, one.partition) or threshold.offset",
            ),
        ),
        3,
    ),
    "records that are fetched count as processed": (
        (Edit(GroupPositions, "_own", "return partition.cursor.offset", "return partition.cursor.fetch_offset"),),
        3,
    ),
    "a change holds nothing": (
        (Edit(Hold, "hold_unfetched", "partition.delivery_end = partition.cursor.fetch_offset", "pass"),),
        15,
    ),
    "new partitions begin without a hold": (
        (
            Edit(
                Hold,
                "decide_start",
                "if self.gates:\n        self._move(HoldEvent.GATE_LEFT)",
                "if False:\n        pass",
            ),
        ),
        3,
    ),
    "the end of a deleted partition is not awaited": (
        (Edit(gates, "_awaited", "yield epochs[partition], Requirement(deleted, END)", "pass"),),
        3,
    ),
    "a partition that was added again keeps its gate open": (
        (Edit(Hold, "epochs_found", "self.opened.discard(START)", "pass"),),
        42,
    ),
    "the gate of an heir is one epoch late": (
        (Edit(gates, "_awaited", "yield epochs[partition], Requirement", "yield epochs[partition] + 1, Requirement"),),
        129,
    ),
    "a deleted partition is awaited up to its first leader epoch only": (
        (Edit(gates, "_awaited", "Requirement(deleted, END)", "Requirement(deleted, 0)"),),
        3,
    ),
    "every start behind 0 counts as read": (
        (Edit(Hold, "decide_start", "partition.cursor.offset > log_start", "partition.cursor.offset >= log_start"),),
        42,
    ),
    "position of a lost member believed": (
        (
            Edit(
                positions.GroupPositions,
                "exchange",
                "if place in asked and epochs.get(sent.member_id) == sent.epoch",
                "if place in asked",
            ),
        ),
        139,
    ),
    "gates of awaited partitions forgotten": ((FORGOTTEN_GATES,), 107),
    "a held empty partition has a position, and its gates are forgotten": (
        (FORGOTTEN_GATES, Edit(GroupPositions, "_own", " or partition.delivery_end == NOTHING", "")),
        107,
    ),
    "leaders accept records with any partition count": (
        (Edit(PartitionReplica, "accepts_count", "count == UNKNOWN_COUNT or", "True or"),),
        1,
    ),
    "an expansion raises no leader epochs": (
        (Edit(changes, "begin_expansion", "(*map(_raised, topic.partitions), *new)", "(*topic.partitions, *new)"),),
        13,
    ),
    "an expansion records the leader epochs after it has raised them": (
        (
            Edit(
                changes,
                "begin_expansion",
                "epochs = tuple(row.leader_epoch for",
                "epochs = tuple(row.leader_epoch + 1 for",
            ),
        ),
        6,
    ),
    "a partition that is added again begins at offset 0": (
        (Edit(changes, "begin_expansion", "first_offset=end.end_offset", "first_offset=0"),),
        6,
    ),
    "a batch with an old count is not looked for in the log": (
        (Edit(PartitionReplica, "acknowledge_repeated", "if self.is_leader else None", "if False else None"),),
        11,
    ),
    "records that are not sent yet keep their partitions after a change": (
        (Edit(Accumulator, "_move", "stays = record.key is None and", "stays ="),),
        2,
    ),
}


@contextlib.contextmanager
def planted(edits: tuple[Edit, ...]) -> Iterator[None]:
    """Plant a bug for as long as the block runs."""
    with contextlib.ExitStack() as stack:
        for edit in edits:
            stack.callback(setattr, edit.owner, edit.method, inspect.getattr_static(edit.owner, edit.method))
            setattr(edit.owner, edit.method, edit.rewritten())
        yield


def found(edits: tuple[Edit, ...], seed: int) -> str:
    """Return what the swarm says about a seed; empty if it finds nothing."""
    with planted(edits):
        try:
            OrderSwarm(seed).run()
        except Exception as error:  # noqa: BLE001 - a bug may break a member in any way
            return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    logging.disable(logging.CRITICAL)
    first, last = map(int, sys.argv[1].split(":"))
    names = sys.argv[2:] or list(BUGS)
    for name in names:
        edits = BUGS[name][0]
        catches = ((seed, words) for seed in range(first, last + 1) if (words := found(edits, seed)))
        print(name, "->", *next(catches, (None,)), flush=True)


if __name__ == "__main__":
    main()
