"""Whole worlds in memory, drawn from a seed: the real Consumer and the real broker's code on a network that fails.

:class:`Simulation` is for scenarios that a test writes down. :class:`ReaderSwarm` and :class:`GroupSwarm` draw
everything, faults included, and check first that no promise is broken (safety) and then, after all faults, that every
client catches up (liveness).
"""

from .actors.application import Behaviour
from .actors.consumer import ConsumerActor
from .actors.member import MemberActor
from .actors.producer import ProducerActor
from .actors.user import UserActor
from .actors.worker import WorkerActor
from .checkers.base import Checker
from .driver import SimDriver
from .group_swarm import GroupSwarm
from .network import NetworkFaults
from .reader_swarm import ReaderSwarm
from .simulation import Simulation
from .world import Violation, World

__all__ = [
    "Behaviour",
    "Checker",
    "ConsumerActor",
    "GroupSwarm",
    "MemberActor",
    "NetworkFaults",
    "ProducerActor",
    "ReaderSwarm",
    "SimDriver",
    "Simulation",
    "UserActor",
    "Violation",
    "WorkerActor",
    "World",
]
