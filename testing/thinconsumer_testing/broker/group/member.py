"""One member of a classic group: its subscription, its assignment, and its parked requests.

A JoinGroup or SyncGroup is parked while its response waits for other members or for the log. Follows Kafka's
``ClassicGroupMember``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.wire.consumer_protocol import ConsumerProtocolSubscription
from thinconsumer.wire.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from thinconsumer.wire.sync_group import SyncGroupResponse

#: A member's protocols as (name, metadata), in its order of preference.
Protocols = tuple[tuple[str, bytes], ...]
JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]

_VERSION_SIZE = 2


def protocols_of(listed: Sequence[JoinGroupRequestProtocol]) -> Protocols:
    """Return the protocols of a JoinGroup; if two have the same name, only the first of them."""
    found: dict[str, bytes] = {}
    for protocol in listed:
        found.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(found.items())


@dataclass(slots=True, eq=False)
class ClassicGroupMember:
    """A member; ``instance_id`` is set for static members (KIP-345).

    ``join`` and ``sync`` are the callbacks that respond to its parked JoinGroup and SyncGroup; None if none is parked.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    #: Whether no join phase has completed since the member joined. The client of such a member may not know the member
    #: id yet, so it cannot send heartbeats.
    is_new: bool = False
    join: JoinReply | None = None
    sync: SyncReply | None = None

    @property
    def protocol_names(self) -> list[str]:
        """The names of the member's protocols, in its order of preference."""
        return [name for name, _ in self.protocols]

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether the member stays in the group without heartbeats, because one of its requests is parked.

        A new member's parked JoinGroup does not count: a client that gives up in a long join phase joins again as
        another member, so abandoned members would accumulate.
        """
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str) -> bytes:
        return dict(self.protocols)[protocol]

    def subscribed_topics(self, protocol: str) -> list[str]:
        """Return the topics of the member's subscription, which is its metadata for ``protocol``. As in Kafka, the
        subscription is parsed as version 0. Raises: KafkaProtocolError: It is invalid.
        """
        data = self.metadata(protocol)
        if len(data) < _VERSION_SIZE or data[0] & 0x80:
            raise KafkaProtocolError(f"subscription of {len(data)} bytes is too short or has a negative version")
        return ConsumerProtocolSubscription.decode(data, 0, _VERSION_SIZE, ignore_trailing=True).topics

    def vote(self, candidates: Collection[str]) -> str:
        """Return the candidate that is first in the member's order of preference."""
        return next(name for name in self.protocol_names if name in candidates)
