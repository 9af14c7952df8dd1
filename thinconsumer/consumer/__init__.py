"""The public Consumer, built on :mod:`thinconsumer.engine`.

``consumer`` has the public methods, ``core`` implements a poll, ``managers`` creates the managers that the engine
steps, and ``iteration`` returns one record at a time.
"""

from .consumer import Consumer
from .health import Health, HealthState

__all__ = ["Consumer", "Health", "HealthState"]
