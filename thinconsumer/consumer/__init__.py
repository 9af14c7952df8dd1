"""The public Consumer, and the shell between it and the engine.

``consumer`` is what users call, ``shell`` steps engine and driver within one call, ``iteration`` hands out one by one.
"""

from .consumer import Consumer
from .health import Health, HealthState

__all__ = ["Consumer", "Health", "HealthState"]
