"""Assignors: pure functions from the members and topics of a group to an assignment."""

from .base import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription
from .cooperative_sticky import CooperativeStickyAssignor
from .range import RangeAssignor
from .roundrobin import RoundRobinAssignor
from .sticky import StickyAssignor

__all__ = [
    "Assignment", "CooperativeStickyAssignor", "GroupMetadata", "PartitionAssignor", "RangeAssignor",
    "RebalanceProtocol", "RoundRobinAssignor", "StickyAssignor", "Subscription",
]  # fmt: skip
