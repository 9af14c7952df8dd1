"""Where one suite of behaviour runs unchanged: in simulation, on the embedded broker, on real Kafka.

A :class:`World` has the same interface in all three. It changes the cluster by requests that are built here. Only
killing a broker and time, for which there is no request, are implemented by each world.
"""

import pytest

from .base import World
from .embedded import EmbeddedWorld
from .real import RealWorld
from .simulated import SimulatedWorld

__all__ = ["REAL", "WORLDS", "EmbeddedWorld", "RealWorld", "SimulatedWorld", "World"]

REAL = pytest.param("real", marks=[pytest.mark.real, pytest.mark.timeout(180)])
#: The worlds by name, as parameters of a fixture.
WORLDS = ["simulation", "embedded", REAL]
