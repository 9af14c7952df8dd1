"""Whole worlds in memory, drawn from a seed: the real Consumer and the real broker's code on a network that fails.

:class:`Simulation` is for scenarios by name, :class:`Swarm` draws everything, faults included, and demands first that
nothing wrong happens (safety) and then, with all faults over, that everything gets where it should (liveness).
"""

from .actors import Behaviour, ConsumerActor, ProducerActor, UserActor
from .checkers import Checker
from .driver import SimDriver
from .network import NetworkFaults
from .simulation import Simulation
from .swarm import Swarm
from .world import Violation, World

__all__ = [
    "Behaviour",
    "Checker",
    "ConsumerActor",
    "NetworkFaults",
    "ProducerActor",
    "SimDriver",
    "Simulation",
    "Swarm",
    "UserActor",
    "Violation",
    "World",
]
