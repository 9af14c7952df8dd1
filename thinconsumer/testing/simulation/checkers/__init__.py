"""Promises, each held by a checker that knows neither side: only what readers got, what was on the wire, and the logs.

==================  ================================================================================================
ContentChecker      a record that differs from the log's, was never committed, or whose transaction was not
OrderChecker        a record that comes twice or too late; a position that goes back
CoverageChecker     a record that is skipped
OwnershipChecker    a record of a partition that is not assigned, or paused
BoundsChecker       more in flight, in memory or in one poll than allowed
PaceChecker         requests and records again and again, without progress
==================  ================================================================================================

Checkers of groups (two owners, callbacks that do not alternate, stale commits, committed beyond delivered) belong here
too; they need members, and come with them.
"""

from .base import EVENTS, Checker, Jury, Reader
from .bounds import BoundsChecker
from .content import ContentChecker
from .coverage import CoverageChecker
from .order import OrderChecker
from .ownership import OwnershipChecker
from .pace import PaceChecker

ALL: tuple[type[Checker], ...] = (
    ContentChecker,
    OrderChecker,
    CoverageChecker,
    OwnershipChecker,
    BoundsChecker,
    PaceChecker,
)

__all__ = [
    "ALL",
    "EVENTS",
    "BoundsChecker",
    "Checker",
    "ContentChecker",
    "CoverageChecker",
    "Jury",
    "OrderChecker",
    "OwnershipChecker",
    "PaceChecker",
    "Reader",
]
