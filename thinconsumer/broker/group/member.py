"""One member of a classic group: what it said of itself, what it was given, and the calls of it that are parked.

Follows Kafka's ``ClassicGroupMember``. Knows no group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ...wire.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from ...wire.sync_group import SyncGroupResponse

#: Names and metadata, in order of preference.
Protocols = tuple[tuple[str, bytes], ...]
JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]


def protocols_of(listed: Sequence[JoinGroupRequestProtocol]) -> Protocols:
    """Return what a request lists, as members keep and compare it; of two entries of one name the first counts."""
    found: dict[str, bytes] = {}
    for protocol in listed:
        found.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(found.items())


@dataclass(slots=True, eq=False)
class ClassicGroupMember:
    """A member; ``instance_id`` is set for static ones (KIP-345). ``join`` and ``sync`` answer what is parked."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False  #: Since it joined, no rebalance was completed: its client does not know its id yet.
    join: JoinReply | None = None
    sync: SyncReply | None = None

    @property
    def is_static(self) -> bool:
        """Whether it comes back under the same instance id after a restart."""
        return self.instance_id is not None

    @property
    def protocol_names(self) -> list[str]:
        """The protocols it is willing to use."""
        return [name for name, _ in self.protocols]

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether it need not send heartbeats just now, because a call of it is parked.

        A new member's call does not count: its client may be gone without a trace, and would stay in forever.
        """
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str) -> bytes:
        """Return what it said of itself under a protocol that it supports."""
        return dict(self.protocols)[protocol]

    def vote(self, candidates: Collection[str]) -> str:
        """Return the candidate that it likes best."""
        return next(name for name in self.protocol_names if name in candidates)
