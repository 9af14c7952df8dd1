"""Checkers of the consumer's guarantees. They see no internals of clients or brokers but a buffer's size. Each reports:

==================  ================================================================================================
ContentChecker      a record never committed, or altered; with read_committed, one of an uncommitted transaction
OrderChecker        a record that comes again or out of order; a position that goes back
CoverageChecker     a record that is skipped
OwnershipChecker    a record of a partition that is paused or not assigned
BoundsChecker       more in flight, in memory or in one poll than allowed
PaceChecker         requests, connection attempts or the same records, repeated without progress
RequestChecker      a Fetch with an outdated leader epoch; one that ignores a seek; a truncation that is not raised
MemberIdChecker     a member id that two group members use
==================  ================================================================================================
"""

from .base import Checker
from .bounds import BoundsChecker
from .content import ContentChecker
from .coverage import CoverageChecker
from .member_ids import MemberIdChecker
from .order import OrderChecker
from .ownership import OwnershipChecker
from .pace import PaceChecker
from .requests import RequestChecker

#: The checkers of every consumer, whether it is a group member or has assigned partitions.
ALL: tuple[type[Checker], ...] = (
    ContentChecker,
    OrderChecker,
    CoverageChecker,
    OwnershipChecker,
    BoundsChecker,
    PaceChecker,
    RequestChecker,
    MemberIdChecker,
)
