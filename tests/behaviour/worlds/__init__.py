"""Where one suite of behaviour runs unchanged: in simulation, on the embedded broker, on real Kafka.

A :class:`World` has one face in all three. What it does to the cluster it does through the protocol, by requests that
are written out here; only what no protocol offers (killing a broker, time) is each world's own.
"""

from .base import World
from .embedded import EmbeddedWorld
from .real import RealWorld
from .simulated import SimulatedWorld

__all__ = ["EmbeddedWorld", "RealWorld", "SimulatedWorld", "World"]
