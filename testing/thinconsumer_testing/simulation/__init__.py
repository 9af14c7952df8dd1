"""Simulations in memory: the real Consumer and the embedded broker's code on a simulated network that fails.

A *world* is one simulated cluster with its network, clock and clients; *actors* are its simulated processes, such as an
application with a consumer. :class:`Simulation` runs scenarios that a test describes.
"""

from .actors.application import Behaviour
from .actors.consumer import ConsumerActor
from .actors.producer import ProducerActor
from .actors.user import UserActor
from .checkers.base import Checker
from .driver import SimDriver
from .network import NetworkFaults
from .simulation import Simulation
from .world import Violation, World

__all__ = [
    "Behaviour",
    "Checker",
    "ConsumerActor",
    "NetworkFaults",
    "ProducerActor",
    "SimDriver",
    "Simulation",
    "UserActor",
    "Violation",
    "World",
]
