"""Promises of the consumer, each held by a checker that sees no internals of clients or brokers.

==================  ================================================================================================
of every reader
------------------  ------------------------------------------------------------------------------------------------
ContentChecker      a record that differs from the log's, was never committed, or whose transaction was not
OrderChecker        a record that comes twice or too late; a position that goes back
CoverageChecker     a record that is skipped
OwnershipChecker    a record of a partition that is not assigned, or paused
BoundsChecker       more in flight, in memory or in one poll than allowed
PaceChecker         requests and records again and again, without progress
------------------  ------------------------------------------------------------------------------------------------
of groups
------------------  ------------------------------------------------------------------------------------------------
Views               (accuses nothing) what each member's coordinator has answered: identity, generation, assignment
IdentityChecker     a request with a wrong member id or generation; a request behind a parked JoinGroup or SyncGroup
DeliveryChecker     records of a partition that the last assignment does not have, or before its callback
CallbackChecker     callbacks that contradict each other, the assignment, or the order of the protocol
Plans               a leader's assignment that gives a partition to two members
CommitChecker       a commit beyond what is processed, or of another member's partition; a needless second processing
SingleOwnerChecker  a partition with two owners in one generation
RebalanceChecker    JoinGroups and heartbeats without backoff; rebalances without an end or without a reason
LogVolumeChecker    too many log lines
==================  ================================================================================================
"""

from .base import Checker
from .bounds import BoundsChecker
from .content import ContentChecker
from .coverage import CoverageChecker
from .order import OrderChecker
from .ownership import OwnershipChecker
from .pace import PaceChecker

#: The checkers of every reader, with a group or without.
ALL: tuple[type[Checker], ...] = (
    ContentChecker,
    OrderChecker,
    CoverageChecker,
    OwnershipChecker,
    BoundsChecker,
    PaceChecker,
)
