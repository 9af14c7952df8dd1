"""Assignors: pure functions from a group's members and topics to an assignment. They use no connection and no clock."""

from .base import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription
from .cooperative_sticky import CooperativeStickyAssignor
from .range import RangeAssignor
from .roundrobin import RoundRobinAssignor
from .sticky import StickyAssignor

__all__ = [
    "Assignment", "CooperativeStickyAssignor", "GroupMetadata", "PartitionAssignor", "RangeAssignor",
    "RebalanceProtocol", "RoundRobinAssignor", "StickyAssignor", "Subscription",
]  # fmt: skip
