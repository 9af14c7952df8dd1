"""Deliberate bugs in ordered delivery, each of which the swarm of ordered topics has to notice; see ``planting.py``."""

import math
from collections.abc import Callable

from lab.order_knobs import OrderKnobs
from lab.order_swarm import OrderSwarm
from planting import Plant, PlantedBug, bug, returns, within

from thinconsumer.ordered import gates
from thinconsumer.ordered.delivery import OrderedDelivery
from thinconsumer.ordered.gates import END, Requirement
from thinconsumer.ordered.holds import Hold
from thinconsumer.ordered.known_positions import KnownPositions
from thinconsumer.produce import accumulator
from thinconsumer_testing.broker.group.positions import ExchangedPositions
from thinconsumer_testing.broker.ordered import changes
from thinconsumer_testing.broker.partition import PartitionReplica


def ordered(name: str, *plants: Plant, needs: Callable[[OrderKnobs], object] | None = None) -> PlantedBug:
    """Return one row of the table."""
    return bug(OrderSwarm, name, name, *plants, needs=needs)


def uncommitted(knobs: OrderKnobs) -> object:
    """Members leave without a commit of what they have read in large polls, and others begin before that again."""
    may_commit = knobs.auto_commits or knobs.commit_rate
    return knobs.members > 1 and knobs.disturbance and knobs.max_poll_records >= 20 and not may_commit


# -- gates and thresholds


def all_before(ancestors_of, partition, initial):
    return range(partition - 1, -1, -1)


def ancestors_in_the_wrong_round(ancestors_of, partition, initial):
    return ancestors_of(partition, 2 * initial)


def position_plus_one(of, self, topic, number):
    return (of(self, topic, number) or 0) + 1


def position_or_end(of, self, topic, number):
    found = of(self, topic, number)
    return math.inf if found is None else found


def awaited_without_ends(awaited, *args):
    return (one for one in awaited(*args) if one[1].epoch != END)


def awaited_one_epoch_late(awaited, *args):
    return ((after + (one.epoch == END), one) for after, one in awaited(*args))


def awaited_up_to_the_first_epoch(awaited, *args):
    return ((after, one._replace(epoch=0) if one.epoch == END else one) for after, one in awaited(*args))


def only_own_gates(with_their_gates, history, awaited):
    return tuple(Requirement(*one) for one in dict(sorted(awaited)).items())


FORGOTTEN_GATES = Plant(gates, "_with_their_gates", only_own_gates)  #: An empty held parent passes each threshold.


def position_if_fetched(own, self, partition):
    return None if own(self, partition) is None else partition.cursor.fetch_offset


def position_if_held(own, self, partition):
    return partition.cursor.offset if partition.has_position and not partition.callback_pending else None


# -- holds


def decide_without_gates(decide_start, self, log_start):
    self.gates = []
    return decide_start(self, log_start)


def decide_with_an_earlier_start(decide_start, self, log_start):
    return decide_start(self, None if log_start is None else log_start - 1)


# -- brokers and producers


def exchange_and_keep(exchange, self, *args):
    sent = dict(self._sent)
    exchange(self, *args)
    asked = frozenset().union(*self._wanted.values())
    self._sent = {place: one for place, one in {**sent, **self._sent}.items() if place in asked}


def expansion_with(change):
    """Return ``begin_expansion`` with changed new partitions."""

    def begin(begin_expansion, topic, *args):
        after, have = begin_expansion(topic, *args), len(topic.partitions)
        return after._replace(partitions=(*after.partitions[:have], *map(change, after.partitions[have:])))

    return begin


def with_raised_epochs(row):
    return row._replace(leader_epochs_after_creation=tuple(one + 1 for one in row.leader_epochs_after_creation))


def plan_without_moves(plan, queues, count, choose, *rest):
    def stay(record, size, partition):
        return partition if 0 <= partition < count else choose(record, size, partition)

    return plan(queues, count, stay, *rest)


ORDER_BUGS = (
    ordered("off by one in S", within(gates, "_nearest", Plant(gates, "ancestors_of", all_before))),
    ordered("off by one in L", within(gates, "_nearest", Plant(gates, "ancestors_of", ancestors_in_the_wrong_round))),
    ordered(
        "threshold exclusive for inclusive",
        within(OrderedDelivery, "_is_read", Plant(KnownPositions, "of", position_plus_one)),
    ),
    ordered(
        "a position that is not known counts as read",
        within(OrderedDelivery, "_is_read", Plant(KnownPositions, "of", position_or_end)),
    ),
    ordered("records that are fetched count as processed", Plant(KnownPositions, "_own", position_if_fetched)),
    ordered("a change holds nothing", returns(Hold, "hold_unfetched")),
    ordered("new partitions begin without a hold", Plant(Hold, "decide_start", decide_without_gates)),
    ordered("the end of a deleted partition is not awaited", Plant(gates, "_awaited", awaited_without_ends)),
    ordered("the gate of an heir is one epoch late", Plant(gates, "_awaited", awaited_one_epoch_late)),
    ordered(
        "a deleted partition is awaited up to its first leader epoch only",
        Plant(gates, "_awaited", awaited_up_to_the_first_epoch),
    ),
    ordered("every start behind 0 counts as read", Plant(Hold, "decide_start", decide_with_an_earlier_start)),
    ordered(
        "position of a lost member believed",
        Plant(ExchangedPositions, "exchange", exchange_and_keep),
        needs=uncommitted,
    ),
    ordered("gates of awaited partitions forgotten", FORGOTTEN_GATES),
    ordered(
        "a held empty partition has a position, and its gates are forgotten",
        FORGOTTEN_GATES,
        Plant(KnownPositions, "_own", position_if_held),
    ),
    ordered("leaders accept records with any partition count", returns(PartitionReplica, "accepts_count", True)),
    ordered(
        "an expansion raises no leader epochs",
        within(changes, "begin_expansion", Plant(changes, "_raised", lambda raised, row: row)),
    ),
    ordered(
        "an expansion records the leader epochs after it has raised them",
        Plant(changes, "begin_expansion", expansion_with(with_raised_epochs)),
    ),
    ordered(
        "a partition that is added again begins at offset 0",
        Plant(changes, "begin_expansion", expansion_with(lambda row: row._replace(first_offset=0))),
    ),
    ordered(
        "a batch with an old count is not looked for in the log",
        returns(PartitionReplica, "acknowledge_repeated", False),
    ),
    ordered(
        "records that are not sent yet keep their partitions after a change",
        Plant(accumulator, "plan", plan_without_moves),
    ),
)
