"""The public Consumer, and what it adds to the kernel in :mod:`thinconsumer.client`.

``consumer`` is what users call, ``reader`` the order within one poll, ``managers`` what the engine steps, ``iteration``
one record at a time.
"""

from .consumer import Consumer
from .health import Health, HealthState

__all__ = ["Consumer", "Health", "HealthState"]
