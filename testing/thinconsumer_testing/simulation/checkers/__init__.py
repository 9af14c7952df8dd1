"""Checkers of the consumer's guarantees; none of them sees internals of clients or brokers. Each reports:

==================  ================================================================================================
of every reader
------------------  ------------------------------------------------------------------------------------------------
ContentChecker      a record that differs from the log's, or was not committed; a record of an uncommitted transaction
OrderChecker        a record that comes twice or too late; a position that goes back
CoverageChecker     a record that is skipped
OwnershipChecker    a record of a partition that is not assigned, or paused
BoundsChecker       more in flight, in memory or in one poll than allowed
PaceChecker         requests, or the same records, repeated without progress
RequestChecker      a Fetch with an outdated leader epoch; one that ignores a seek; a truncation that is not raised
MemberIdChecker     a member id that two group members use
LoginChecker        (in simulations with logins) a request without a session; a re-authentication too early or too late
------------------  ------------------------------------------------------------------------------------------------
of groups
------------------  ------------------------------------------------------------------------------------------------
Views               (nothing) keeps each member's id, generation and assignment, by its coordinator's responses
IdentityChecker     a request with a wrong member id or generation; a request after an unanswered JoinGroup or SyncGroup
DeliveryChecker     records of a partition that the last assignment does not have, or before its callback
CallbackChecker     callbacks that contradict each other, the assignment, or the order of the protocol
Plans               a leader's assignment that gives a partition to two members
CommitChecker       a commit of unprocessed records, or of another member's partition; records processed twice
SingleOwnerChecker  a partition with two owners in one generation
RebalanceChecker    JoinGroups and heartbeats without backoff; rebalances without an end or without a reason
LogVolumeChecker    too many log lines
------------------  ------------------------------------------------------------------------------------------------
of groups with the consumer group protocol
------------------  ------------------------------------------------------------------------------------------------
ConsumerViews       (nothing) keeps each member's epoch and assignment, by its coordinator's responses
HeartbeatChecker    a heartbeat with a wrong epoch, a second one, or one that does not say what its member owns
Reconciliation-     a partition assigned before its former owner acknowledged or was fenced; a commit in an epoch before
Checker             the partition was assigned
GroupLogChecker     an epoch that goes back, or a partition with two owners, in the log; a group that never settles
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
