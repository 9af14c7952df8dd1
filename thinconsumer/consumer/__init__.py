"""The public names of the consumer: the class, and its health report for liveness probes."""

from .consumer import Consumer
from .health import Health, HealthState, MemberHealth

__all__ = ["Consumer", "Health", "HealthState", "MemberHealth"]
