"""One classic group: its members, generation and elected protocol.

Owns the membership data; ``joining``, ``membership`` and ``rebalance`` decide when the data change. A JoinGroup or
SyncGroup is *parked* while its response waits for other members or for the log. The group's shard provides the time,
random ids and the log.
Follows Kafka's ``ClassicGroup``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from thinconsumer.errors import IllegalStateError, KafkaProtocolError
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.join_group import JoinGroupResponse, JoinGroupResponseMember
from thinconsumer.wire.sync_group import SyncGroupResponse

from .hashing import hash_map_order
from .member import ClassicGroupMember, JoinReply, Protocols, SyncReply
from .states import GROUP_TRANSITIONS, GroupEvent, GroupState, next_state
from .timers import Timers

if TYPE_CHECKING:
    from .shard import GroupCoordinatorShard

CONSUMER = "consumer"
UNKNOWN_MEMBER_ID = ""


class ClassicGroup:
    def __init__(
        self,
        group_id: str,
        shard: GroupCoordinatorShard,
        *,
        state: GroupState = GroupState.EMPTY,
        generation: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader_id: str | None = None,
        state_timestamp_ms: int | None = None,
    ) -> None:
        self.group_id = group_id
        self.shard = shard
        self.state = state
        self.previous_state = GroupState.DEAD
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader_id = leader_id
        self.state_timestamp_ms = state_timestamp_ms
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}  #: Member ids of static members by instance id.
        #: Member ids that were sent with MEMBER_ID_REQUIRED, and with which no client has joined yet (KIP-394).
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()  #: Members of this generation that have not sent SyncGroup yet.
        #: Whether a member joined during the current ``group.initial.rebalance.delay.ms``: another delay then follows,
        #: as long as the rebalance timeout allows.
        self.new_member_added = False
        #: The topics to which members subscribe; None if the subscriptions are unknown.
        self.subscribed_topics: frozenset[str] | None = None
        #: Timers by name: ``JOIN`` and ``SYNC`` (see ``rebalance``), and the session timers of members and pending ids.
        self.timers = Timers[str](shard.call_later)

    def __repr__(self) -> str:
        state = f"{self.state.value} generation {self.generation}, {len(self.members)} members"
        return f"<ClassicGroup {self.group_id} {state}>"

    def move(self, event: GroupEvent) -> None:
        """Change the group's state by an event. Raises: IllegalStateError: The event is invalid in this state."""
        after = next_state(GROUP_TRANSITIONS, self.state, event, self)
        self.previous_state, self.state = self.state, after
        self.state_timestamp_ms = self.shard.wall_ms()

    @property
    def is_consumer_group(self) -> bool:
        """Whether the protocol type is "consumer"."""
        return self.protocol_type == CONSUMER

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members, 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: ClassicGroupMember, join: JoinReply | None = None) -> None:
        """Add a member; it becomes leader if the group has none. ``join`` answers the member's parked JoinGroup.

        Raises:
            IllegalStateError: Another member has the instance id.
        """
        if member.instance_id is not None:
            if member.instance_id in self.static_members:
                raise IllegalStateError(f"{self} already has a static member {member.instance_id!r}")
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        member.join = join
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        """Remove a member (and return it) or a pending member id. If the leader is removed, the first member that is
        left becomes leader.
        """
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        return member

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicGroupMember:
        """Give a static member a new member id, and return the changed member. Parked requests with the old id get
        FENCED_INSTANCE_ID.
        """
        old = self.members.pop(old_id)
        self.fail_parked(old, Code.FENCED_INSTANCE_ID, old_id)
        new = self.members[new_id] = replace(old, member_id=new_id, is_new=False)
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        return new

    def check_member(self, member_id: str, instance_id: str | None) -> int:
        """Return the code that rejects a member's request, 0 if the member is known."""
        if instance_id is not None:
            existing = self.static_members.get(instance_id)
            if existing is None:
                return int(Code.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                return int(Code.FENCED_INSTANCE_ID)
        return 0 if member_id in self.members else int(Code.UNKNOWN_MEMBER_ID)

    @property
    def joined(self) -> list[str]:
        """The ids of the members with a parked JoinGroup."""
        return [member.member_id for member in self.members.values() if member.join is not None]

    @property
    def has_all_joined(self) -> bool:
        """Whether every member has a parked JoinGroup, and no pending member id is left."""
        return not self.pending_joins and len(self.joined) == len(self.members)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member with a parked JoinGroup; return False if no member has one."""
        joined = self.joined
        if joined and self.leader_id not in joined:
            self.leader_id = joined[0]
        return bool(joined)

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Return whether a member may join with these protocols: its protocol type must be the group's, and one of
        ``names`` must be supported by all members. An empty group admits any member with a protocol type and a name.
        """
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        if self.protocol_type != protocol_type:
            return False
        counts = self._protocol_counts()
        return any(counts[name] == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes. Each member votes for its most preferred protocol of those that all
        members support.
        """
        counts = self._protocol_counts()
        candidates = {name for name, count in counts.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        # If several have equally many votes, Kafka elects the first of them in the iteration order of a HashMap.
        return max(hash_map_order(votes), key=votes.__getitem__)

    def _protocol_counts(self) -> Counter[str]:
        return Counter(name for member in self.members.values() for name in member.protocol_names)

    def update(self, member: ClassicGroupMember, protocols: Protocols, rebalance_ms: int, session_ms: int) -> None:
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def begin_generation(self) -> None:
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.compute_subscribed_topics()
        self.move(GroupEvent.JOINED if self.members else GroupEvent.EMPTIED)

    def compute_subscribed_topics(self) -> None:
        """Set ``subscribed_topics`` from the members' metadata; committed offsets of these topics do not expire."""
        self.subscribed_topics = None
        if not self.is_consumer_group:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is not None:
            try:
                found = (member.subscribed_topics(self.protocol_name) for member in self.members.values())
                self.subscribed_topics = frozenset().union(*found)
            except KafkaProtocolError:
                # Members with an invalid subscription are accepted. While their group has members, no offset expires.
                return

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether any member subscribes to a topic. If the subscriptions are unknown, return True for a group
        with the protocol type "consumer", else False.
        """
        return self.is_consumer_group if self.subscribed_topics is None else topic in self.subscribed_topics

    def park_join(self, member: ClassicGroupMember, reply: JoinReply | None) -> None:
        """Park a member's JoinGroup, which ``reply`` will answer.

        An earlier JoinGroup of the member that is still parked gets REBALANCE_IN_PROGRESS; Kafka never responds to it.
        """
        if reply is not None:
            self.answer_join(
                member, JoinGroupResponse(member_id=member.member_id, error_code=int(Code.REBALANCE_IN_PROGRESS))
            )
        member.join = reply

    def park_sync(self, member: ClassicGroupMember, reply: SyncReply) -> None:
        """Park a member's SyncGroup; an earlier one of this member gets REBALANCE_IN_PROGRESS."""
        self.answer_sync(member, SyncGroupResponse(error_code=int(Code.REBALANCE_IN_PROGRESS)))
        member.sync = reply

    def answer_join(self, member: ClassicGroupMember, response: JoinGroupResponse) -> None:
        """Send the response to the member's parked JoinGroup, if one is parked."""
        reply, member.join = member.join, None
        if reply is not None:
            reply(response)

    def answer_sync(self, member: ClassicGroupMember, response: SyncGroupResponse) -> bool:
        """Send the response to the member's parked SyncGroup; return False if none is parked."""
        reply, member.sync = member.sync, None
        if reply is not None:
            reply(response)
        return reply is not None

    def fail_parked(self, member: ClassicGroupMember, code: Code, join_member_id: str) -> None:
        """Respond to the member's parked requests with an error; a JoinGroup response has the id ``join_member_id``."""
        self.answer_join(member, JoinGroupResponse(member_id=join_member_id, error_code=int(code)))
        self.answer_sync(member, SyncGroupResponse(error_code=int(code)))

    def join_response(self, member_id: str, *, with_members: bool, skip_assignment: bool = False) -> JoinGroupResponse:
        """Return this generation's JoinGroup response. It lists the members if ``with_members``, and tells the leader
        to keep the assignment if ``skip_assignment`` (KIP-814).
        """
        members = []
        if with_members and self.protocol_name is not None:
            members = [
                JoinGroupResponseMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    metadata=member.metadata(self.protocol_name),
                )
                for member in self.members.values()
            ]
        return JoinGroupResponse(
            member_id=member_id,
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            skip_assignment=skip_assignment,
            members=members,
        )
