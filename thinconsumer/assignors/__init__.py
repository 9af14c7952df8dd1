"""Assignors: members and topics in, plan out. Pure functions; they know no protocol, no clock and no connection."""

from .base import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription

__all__ = ["Assignment", "GroupMetadata", "PartitionAssignor", "RebalanceProtocol", "Subscription"]
