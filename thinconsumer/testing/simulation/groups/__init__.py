"""Groups in simulated worlds: members, what goes wrong for them, and the checkers of what they promise."""

from .checkers import GroupChecker, Member
from .knobs import GroupWorldKnobs
from .member import Manners, MemberActor
from .swarm import GroupSwarm

__all__ = ["GroupChecker", "GroupSwarm", "GroupWorldKnobs", "Manners", "Member", "MemberActor"]
