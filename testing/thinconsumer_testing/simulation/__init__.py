"""Simulations in memory: the real Consumer and the embedded broker's code on a simulated network that fails.

A *world* is one simulated cluster with its network, clock and clients; *actors* are its simulated processes, such as an
application with a consumer. :class:`Simulation` runs scenarios that a test describes. :class:`ReaderSwarm` and
:class:`GroupSwarm` draw a world and its faults from a seed. They check that no guarantee is broken during the faults
(safety), and that every client catches up after them (liveness).
"""

from .actors.application import Behaviour
from .actors.consumer import ConsumerActor
from .actors.member import MemberActor
from .actors.producer import ProducerActor
from .actors.user import UserActor
from .actors.worker import WorkerActor
from .checkers.base import Checker
from .consumer_group_swarm import ConsumerGroupSwarm
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
    "ConsumerGroupSwarm",
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
