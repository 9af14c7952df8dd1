"""Promises of groups, each held by a checker that knows neither members nor coordinators from inside.

==================  ================================================================================================
Views               (accuses nobody) what each member was told: identity, generation, share
IdentityChecker     a wrong or no identity in what is said; something behind a parked join or sync
DeliveryChecker     records of a partition that is not the member's, not any more, or not yet
CallbackChecker     callbacks that contradict each other, the share, or the protocol's order
Plans               a plan that gives a partition to two
CommitChecker       a commit of what nobody has processed, or of what is somebody else's; a record twice without cause
OwnersChecker       a partition with two owners in one generation
RoundsChecker       joins and heartbeats without a pace; rebalances without an end or without a reason
LinesChecker        too many lines in the log
==================  ================================================================================================
"""

from .base import ASSIGNED, GROUP_EVENTS, LOST, REVOKED, GroupChecker, Member, Panel
from .callbacks import CallbackChecker
from .commits import CommitChecker, Plans
from .delivery import DeliveryChecker
from .identity import IdentityChecker
from .owners import OwnersChecker
from .rounds import LinesChecker, RoundsChecker
from .views import View, Views

__all__ = [
    "ASSIGNED",
    "GROUP_EVENTS",
    "LOST",
    "REVOKED",
    "CallbackChecker",
    "CommitChecker",
    "DeliveryChecker",
    "GroupChecker",
    "IdentityChecker",
    "LinesChecker",
    "Member",
    "OwnersChecker",
    "Panel",
    "Plans",
    "RoundsChecker",
    "View",
    "Views",
]
