"""Checks that no two members of a group have the same member id.

A coordinator cannot tell such members apart: it takes the heartbeats of both for those of one member, and assigns the
same partitions to both. In the consumer group protocol (KIP-848) clients choose their ids themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

from ..client_tap import SentRequest
from .base import Checker, SimReader


@dataclass(eq=False)
class MemberIdChecker(Checker):
    """Checks that all joins, syncs and heartbeats with the same group and member id come from one client, started once.

    A client that starts again, also a static member, has a new id. Clients without an actor of their own
    (``Simulation.driver``) are checked, too.
    """

    #: The client that has sent the first request, by group and member id.
    _users: dict[tuple[str, str], SimReader] = field(default_factory=dict, init=False)
    _accused: set[tuple[str, str]] = field(default_factory=set, init=False)

    def request_written(self, member: SimReader, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        request = sent.message
        if not isinstance(
            request, ConsumerGroupHeartbeatRequest | HeartbeatRequest | JoinGroupRequest | SyncGroupRequest
        ):
            return
        key = request.group_id, request.member_id
        if not request.member_id or key in self._accused:
            return
        user = self._users.setdefault(key, member)
        if user is not member:
            self._accused.add(key)
            self.accuse(f"{member} and {user} are members of {key[0]} with the same member id {key[1]}")
