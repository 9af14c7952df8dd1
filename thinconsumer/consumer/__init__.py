"""The public Consumer, built on :mod:`thinconsumer.engine`."""

from .consumer import Consumer
from .health import Health, HealthState, MemberHealth

__all__ = ["Consumer", "Health", "HealthState", "MemberHealth"]
