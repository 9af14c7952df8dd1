"""Deliberate bugs in ordered delivery, each of which the swarm of ordered topics has to notice; see ``planting.py``."""

from lab.order_swarm import OrderSwarm
from planting import PlantedBug, bug

from thinconsumer.ordered import gates
from thinconsumer.ordered.delivery import OrderedDelivery
from thinconsumer.ordered.holds import Hold
from thinconsumer.ordered.known_positions import KnownPositions
from thinconsumer.produce.accumulator import Accumulator
from thinconsumer_testing.broker.group import positions
from thinconsumer_testing.broker.ordered import changes
from thinconsumer_testing.broker.partition import PartitionReplica

#: An empty parent that is held itself passes each threshold.
FORGOTTEN_GATES = (gates, "_with_their_gates", "awaited += [one for", "_ = [one for")


def ordered(name: str, *edits: tuple) -> PlantedBug:
    """Return one row of the table."""
    return bug(OrderSwarm, name, name, *edits)


ORDER_ROWS = (
    ordered(
        "off by one in S",
        (gates, "_nearest", "in ancestors_of(partition, history.initial)", "in range(partition - 1, -1, -1)"),
    ),
    ordered(
        "off by one in L",
        (gates, "_nearest", "ancestors_of(partition, history.initial)", "ancestors_of(partition, 2 * history.initial)"),
    ),
    ordered(
        "threshold exclusive for inclusive",
        (OrderedDelivery, "_is_read", "threshold.offset > max(", "threshold.offset - 1 > max("),
    ),
    ordered(
        "a position that is not known counts as read",
        (
            OrderedDelivery,
            "_is_read",
            "self.positions.of(topic, one.partition) or 0",
            "self.positions.of(topic, one.partition) or threshold.offset",
        ),
    ),
    ordered(
        "records that are fetched count as processed",
        (KnownPositions, "_own", "return partition.cursor.offset", "return partition.cursor.fetch_offset"),
    ),
    ordered(
        "a change holds nothing",
        (Hold, "hold_unfetched", "partition.delivery_end = partition.cursor.fetch_offset", "pass"),
    ),
    ordered(
        "new partitions begin without a hold",
        (Hold, "decide_start", "if self.gates:\n        self._move(HoldEvent.GATE_LEFT)", "if False:\n        pass"),
    ),
    ordered(
        "the end of a deleted partition is not awaited",
        (gates, "_awaited", "yield epochs[partition], Requirement(deleted, END)", "pass"),
    ),
    ordered(
        "a partition that was added again keeps its gate open",
        (Hold, "epochs_found", "self.opened.discard(START)", "pass"),
    ),
    ordered(
        "the gate of an heir is one epoch late",
        (gates, "_awaited", "yield epochs[partition], Requirement", "yield epochs[partition] + 1, Requirement"),
    ),
    ordered(
        "a deleted partition is awaited up to its first leader epoch only",
        (gates, "_awaited", "Requirement(deleted, END)", "Requirement(deleted, 0)"),
    ),
    ordered(
        "every start behind 0 counts as read",
        (Hold, "decide_start", "partition.cursor.offset > log_start", "partition.cursor.offset >= log_start"),
    ),
    ordered(
        "position of a lost member believed",
        (
            positions.ExchangedPositions,
            "exchange",
            "if place in asked and epochs.get(sent.member_id) == sent.epoch",
            "if place in asked",
        ),
    ),
    ordered("gates of awaited partitions forgotten", FORGOTTEN_GATES),
    ordered(
        "a held empty partition has a position, and its gates are forgotten",
        FORGOTTEN_GATES,
        (KnownPositions, "_own", " or partition.delivery_end == NOTHING", ""),
    ),
    ordered(
        "leaders accept records with any partition count",
        (PartitionReplica, "accepts_count", "count == UNKNOWN_COUNT or", "True or"),
    ),
    ordered(
        "an expansion raises no leader epochs",
        (changes, "begin_expansion", "(*map(_raised, topic.partitions), *new)", "(*topic.partitions, *new)"),
    ),
    ordered(
        "an expansion records the leader epochs after it has raised them",
        (changes, "begin_expansion", "epochs = tuple(row.leader_epoch for", "epochs = tuple(row.leader_epoch + 1 for"),
    ),
    ordered(
        "a partition that is added again begins at offset 0",
        (changes, "begin_expansion", "first_offset=end.end_offset", "first_offset=0"),
    ),
    ordered(
        "a batch with an old count is not looked for in the log",
        (PartitionReplica, "acknowledge_repeated", "if self.is_leader else None", "if False else None"),
    ),
    ordered(
        "records that are not sent yet keep their partitions after a change",
        (Accumulator, "_move", "stays = record.key is None and", "stays ="),
    ),
)
