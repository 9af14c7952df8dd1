"""Where one suite of behaviour runs unchanged: in simulation, on the embedded broker, on real Kafka, in event loops.

A :class:`World` has the same interface in all of them. It changes the cluster by requests that are built here. Only
killing a broker and time, for which there is no request, are implemented by each world.
"""

import pytest

from .base import World
from .embedded import EmbeddedWorld
from .loops import EmbeddedLoopWorld, RealLoopWorld
from .real import RealWorld
from .simulated import SimulatedWorld

__all__ = [
    "WORLDS", "EmbeddedLoopWorld", "EmbeddedWorld", "RealLoopWorld", "RealWorld", "SimulatedWorld", "World"
]  # fmt: skip

_REAL = [pytest.mark.real, pytest.mark.timeout(180)]
LOOPS = ("asyncio", "uvloop", "trio")
#: The worlds by name, as parameters of a fixture. ``conftest`` says which of those with a loop run by default.
WORLDS = [
    "simulation",
    "embedded",
    pytest.param("real", marks=_REAL),
    *(f"embedded-{loop}" for loop in LOOPS),
    *(pytest.param(f"real-{loop}", marks=_REAL) for loop in LOOPS),
]
