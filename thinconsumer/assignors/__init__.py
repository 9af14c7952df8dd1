"""Assignors: they compute an assignment from the members and topics of a group.

The built-in assignors are imported when they are first used: values such as GroupMetadata need none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .base import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription

if TYPE_CHECKING:
    from .range import RangeAssignor
    from .roundrobin import RoundRobinAssignor
    from .sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "Assignment", "CooperativeStickyAssignor", "GroupMetadata", "PartitionAssignor", "RangeAssignor",
    "RebalanceProtocol", "RoundRobinAssignor", "StickyAssignor", "Subscription",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(".registry", __name__), name)
    return found
