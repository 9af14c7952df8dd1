"""This project's own laboratory: swarms, which draw a world and its faults from a seed, and their knobs and checkers.

They check that no guarantee is broken during the faults (safety), and that every client catches up after them
(liveness). Worlds, actors and the checkers of single consumers are those of :mod:`thinconsumer_testing.simulation`. In
the repository, ``PYTHONPATH=testing:tests/swarm python -m lab --seeds 1:150`` runs many seeds.
"""

from .actors.member import MemberActor
from .actors.worker import WorkerActor
from .consumer_group_swarm import ConsumerGroupSwarm
from .group_swarm import GroupSwarm
from .parallel_swarm import ParallelConsumerGroupSwarm, ParallelSwarm
from .reader_swarm import ReaderSwarm

__all__ = [
    "ConsumerGroupSwarm",
    "GroupSwarm",
    "MemberActor",
    "ParallelConsumerGroupSwarm",
    "ParallelSwarm",
    "ReaderSwarm",
    "WorkerActor",
]
