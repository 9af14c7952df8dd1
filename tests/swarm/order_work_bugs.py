"""Deliberate bugs in workers of topics with ordered delivery, which their swarm has to notice; see ``planting.py``."""

import functools

from lab.order_work_swarm import OrderWorkKnobs, OrderWorkSwarm
from planting import Plant, bug, within

from thinconsumer.ordered.known_positions import KnownPositions
from thinconsumer.positions.partitions import Partitions
from thinconsumer.types import OffsetAndMetadata
from thinconsumer.workers.progress import PartitionProgress

working = functools.partial(bug, OrderWorkSwarm)


def slow(knobs: OrderWorkKnobs) -> bool:
    """Handlers take their time, and several run at once."""
    return knobs.work.duration_s > 0.1 and knobs.work.concurrency > 1


def shared(knobs: OrderWorkKnobs) -> bool:
    """The same, and partitions have several owners."""
    return slow(knobs) and knobs.members > 1


READ_WHEN_RETURNED = Plant(
    Partitions,
    "read_up_to",
    lambda read_up_to, self, partition: OffsetAndMetadata(partition.cursor.offset, "", partition.cursor.epoch),
)


def own_position(of, self, topic, number):
    own = next((one for one in topic.holds if one.tp.partition == number), None)
    return of(self, topic, number) if own is None or self._own(own) is None else own.cursor.offset


ORDER_WORK_BUGS = (
    working(
        "records count as read when workers get them",
        "A key's records in its new partition begin when those in the old one have finished.",
        READ_WHEN_RETURNED,
        needs=slow,
    ),
    working(
        "own records count as read when workers get them",
        "That is so within one member, too.",
        Plant(KnownPositions, "of", own_position),
        needs=slow,
    ),
    working(
        "positions are sent before their records have finished",
        "That is so between members, too.",
        within(KnownPositions, "due_reports", READ_WHEN_RETURNED),
        within(KnownPositions, "step", READ_WHEN_RETURNED),
        needs=shared,
    ),
    working(
        "commit past an unfinished record of a moved key",
        "A commit opens no gate before all records up to its offset have finished.",
        Plant(PartitionProgress, "offset", lambda offset, self: max(offset(self), self._finished_end)),
        needs=slow,
    ),
)
