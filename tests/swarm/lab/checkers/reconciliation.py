"""Checks what coordinators of the consumer group protocol (KIP-848) assign and accept, by their responses alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from thinconsumer.wire.consumer_protocol import AssignedTopic, decode_assignment, decode_subscription
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse
from thinconsumer_testing.simulation.checkers.base import Checker

from .consumer_views import FENCINGS, named
from .views import Share

#: Seconds by which a timer of a broker may be early.
EARLY_S = 0.01
#: Errors after which the coordinator still counts the partitions of a member that has this id. Its client gives them up
#: when it reads FENCED_MEMBER_EPOCH, and the coordinator when the member joins again.
KEEPING = frozenset({Code.UNRELEASED_INSTANCE_ID, Code.FENCED_MEMBER_EPOCH})
#: Errors of brokers that do not coordinate the group.
NO_COORDINATOR = frozenset({Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS})


@dataclass(slots=True)
class _Seen:
    """One member as its coordinators have seen it."""

    client: str
    group_id: str
    instance_id: str | None
    rebalance_timeout_s: float = 0.0
    epoch: int = 0
    node: int = -1  #: The broker that has answered with this epoch.
    is_away: bool = False  #: Whether it is a static member that has left for a while.
    #: The partitions that it may own, each with the epoch in which it was assigned.
    may_own: dict[TopicPartition, int] = field(default_factory=dict)
    #: The last assignment. A partition has the epoch of the first of the assignments in a row that have it.
    assigned: dict[TopicPartition, int] = field(default_factory=dict)
    beats: dict[int, float] = field(default_factory=dict)  #: The time of its last heartbeat by broker id.
    #: When it was first told to revoke a partition.
    told: dict[TopicPartition, float] = field(default_factory=dict)
    #: The time of its last heartbeat after which it had nothing to revoke, by broker id.
    settled: dict[int, float] = field(default_factory=dict)

    def depart(self) -> None:
        """Note that a static member has left for a while: it owns its assignment, and not what it had yet to revoke."""
        self.is_away = True
        self.may_own = {tp: since for tp, since in self.may_own.items() if tp in self.assigned}
        self.told.clear()


@dataclass(eq=False)
class ReconciliationChecker(Checker):
    """Checks that a partition is assigned only after its former owner acknowledged the revocation, or was fenced.

    A member may own a partition from the response that assigns it until a response no longer assigns it and a heartbeat
    no longer reports it, or until the member has left, was rejected as unknown or replaced, or until the session or the
    rebalance timeout has passed. A coordinator may only count from a heartbeat that it has handled itself, so times are
    kept for each broker. It acts on a request before it answers, and never answers if the connection is gone by then:
    an unanswered request may have released partitions, too.

    Members of the classic protocol are looked at only if they commit. A coordinator that moves their group to the
    consumer protocol counts what the last rebalance has assigned to them, as in Kafka. A cooperative member may own
    more: partitions that the rebalance has withheld until the member has revoked them, and all that it owns if the
    rebalance has not ended. The coordinator assigns these to others at once, and accepts the member's commits.
    """

    session_timeout_s: float
    name_of: Callable[[bytes], str]
    counts: Counter[str] = field(default_factory=Counter, init=False)
    #: Heartbeats of which no answer says whether they were carried out: each with the broker and the time at which it
    #: began to handle it.
    _unsettled: dict[int, tuple[int, ConsumerGroupHeartbeatRequest, float]] = field(default_factory=dict, init=False)
    _groups: dict[str, dict[str, _Seen]] = field(default_factory=dict, init=False)
    #: By group and broker: when it began to handle the last heartbeat that it has answered as coordinator.
    _answered_at: dict[tuple[str, int], float] = field(default_factory=dict, init=False)
    #: By group and member of the classic protocol: the partitions that it may own, and that its coordinator does not
    #: count if it moves the group to the consumer protocol.
    _uncounted: dict[tuple[str, str], Share] = field(default_factory=dict, init=False)

    def requested(self, client: str, node: int, request: Message, now: float) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self._unsettled[id(request)] = node, request, now

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            assert isinstance(response, ConsumerGroupHeartbeatResponse)
            _, _, asked_at = self._unsettled.get(id(request), (node, request, now))
            # NOT_COORDINATOR may mean that the office was lost after the records had been appended and replicated.
            if response.error_code != Code.NOT_COORDINATOR:
                self._unsettled.pop(id(request), None)
            self._take(client, node, request, response, asked_at)
        elif isinstance(request, JoinGroupRequest) and isinstance(response, JoinGroupResponse):
            if not response.error_code:
                if response.leader:
                    # Only classic groups have a leader, and no members of the consumer protocol. If such a member joins
                    # after all have left, the coordinator makes a new group of that name: epochs begin again.
                    self._groups.pop(request.group_id, None)
                elif request.group_instance_id is not None:
                    self._replace_static(request.group_id, request.group_instance_id)
                self._note_claim(request, response)
        elif isinstance(request, SyncGroupRequest) and isinstance(response, SyncGroupResponse):
            who = request.group_id, request.member_id
            if not response.error_code and who in self._uncounted:
                self._uncounted[who] -= _partitions(decode_assignment(bytes(response.assignment)).assigned_partitions)
        elif isinstance(request, OffsetCommitRequest) and isinstance(response, OffsetCommitResponse):
            self._check_commit(client, node, request, response, now)

    def _replace_static(self, group_id: str, instance_id: str) -> None:
        """Note that a static member has restarted with the classic protocol, whose members are not looked at here."""
        group = self._groups.get(group_id, {})
        for who in [who for who, seen in group.items() if seen.instance_id == instance_id]:
            del group[who]

    def _note_claim(self, request: JoinGroupRequest, response: JoinGroupResponse) -> None:
        """Note what a member of the classic protocol owns when it joins, unless its coordinator counts that already."""
        who = request.group_id, response.member_id
        subscriptions = [decode_subscription(bytes(protocol.metadata)) for protocol in request.protocols]
        claimed = frozenset[TopicPartition]().union(*(_partitions(found.owned_partitions) for found in subscriptions))
        if response.leader:  # only coordinators of classic groups name one
            self._uncounted[who] = claimed
        else:
            self._uncounted[who] = self._uncounted.get(who, frozenset()) & claimed

    def _take(
        self,
        client: str,
        node: int,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        now: float,
    ) -> None:
        group = self._groups.setdefault(request.group_id, {})
        who = request.member_id
        if response.error_code not in NO_COORDINATOR:
            self._answered_at[request.group_id, node] = now
        if response.error_code in FENCINGS:
            self.counts["fencings"] += 1
            if response.error_code not in KEEPING:
                group.pop(who, None)
        if response.error_code:
            return
        if request.member_epoch == -1:
            group.pop(who, None)
            return
        if request.member_epoch == -2:
            if who in group:
                group[who].depart()
            return
        seen = self._seen(group, client, node, request, now)
        if node != seen.node and request.member_epoch == response.member_epoch < seen.epoch:
            return  # A former coordinator that was paused answers a heartbeat that its successor has answered, too.
        seen.beats[node], seen.is_away = now, False
        if request.rebalance_timeout_ms != -1:
            seen.rebalance_timeout_s = request.rebalance_timeout_ms / 1000
        if response.member_epoch < seen.epoch or response.member_epoch < request.member_epoch:
            self.accuse(f"node {node} answers {client} with epoch {response.member_epoch} after {seen.epoch}")
        self.counts["epochs"] += seen.epoch != response.member_epoch
        seen.epoch, seen.node = response.member_epoch, node
        given = response.assignment
        share = frozenset(seen.assigned) if given is None else named(given.topic_partitions, self.name_of)
        if request.topic_partitions is not None:
            # A member reports an assigned partition only once it has added it: the coordinator counts that one before.
            reported = named(request.topic_partitions, self.name_of) | (share & seen.assigned.keys())
            seen.may_own = {tp: since for tp, since in seen.may_own.items() if tp in reported}
            seen.told = {tp: since for tp, since in seen.told.items() if tp in reported}
        if given is not None:
            self._assign(group, seen, node, share, now)
        if not seen.told:
            seen.settled[node] = now

    def _seen(
        self, group: dict[str, _Seen], client: str, node: int, request: ConsumerGroupHeartbeatRequest, now: float
    ) -> _Seen:
        """Return the member that sends a request: it may be new, or a static member that has restarted."""
        who, instance_id = request.member_id, request.instance_id
        if who not in group:
            for other, seen in list(group.items()) if instance_id is not None else ():
                if seen.instance_id == instance_id:
                    if not self._may_be_away(other, seen) and not self._may_be_removed(other, seen, node, now):
                        self.accuse(f"node {node} lets {client} take over {instance_id} while {seen.client} runs")
                    del group[other]
            group[who] = _Seen(client, request.group_id, instance_id)
        return group[who]

    def _assign(self, group: Mapping[str, _Seen], seen: _Seen, node: int, share: Share, now: float) -> None:
        for tp in sorted(share - seen.assigned.keys()):
            for who, other in group.items():
                if other is seen or tp not in other.may_own:
                    continue
                if not self._is_released(who, other, tp, node, now):
                    self.accuse(f"node {node} assigns {tp.topic}-{tp.partition} to {seen.client} in epoch"
                                f" {seen.epoch}, but {other.client} has not given it up")  # fmt: skip
        for tp in sorted(seen.may_own.keys() - share):
            seen.told.setdefault(tp, now)
        # A heartbeat that acknowledges a revocation does not report an assigned partition that is added after it.
        seen.assigned = {tp: seen.assigned.get(tp, seen.epoch) for tp in share}
        for tp in sorted(share):
            seen.may_own.setdefault(tp, seen.assigned[tp])
            seen.told.pop(tp, None)

    def _may_be_away(self, who: str, seen: _Seen) -> bool:
        """Return whether a static member may have left for a while, so that another member may take its place."""
        return seen.is_away or any(r.member_id == who and r.member_epoch < 0 for _, r, _ in self._unsettled.values())

    def _may_be_removed(self, who: str, seen: _Seen, node: int, now: float) -> bool:
        """Return whether a member may have been removed because of its session or rebalance timeout.

        The rebalance timeout begins when the coordinator tells the member to revoke partitions, even if the connection
        is gone by then, so that the response is never sent. A later coordinator begins it when it loads the group.
        """
        told = [*seen.told.values()]
        told += [
            asked_at
            for at, request, asked_at in self._unsettled.values()
            if request.member_id == who and asked_at >= max(seen.settled.get(one, -1e9) for one in (at, node))
        ]
        is_late = bool(told) and now - min(told) >= seen.rebalance_timeout_s - EARLY_S
        # A coordinator in between, too, may have removed a member from which it has got no heartbeat.
        last = max(seen.beats.values(), default=-1e9)
        answered = [(other, moment) for (name, other), moment in self._answered_at.items() if name == seen.group_id]
        nodes = [node, *(other for other, moment in answered if moment > last)]
        is_over = any(now - seen.beats.get(one, -1e9) >= self.session_timeout_s - EARLY_S for one in nodes)
        return is_late or is_over

    def _is_released(self, who: str, seen: _Seen, tp: TopicPartition, node: int, now: float) -> bool:
        """Return whether a member may have given up a partition, or may have been removed by one of its timeouts.

        The records of a request that a deposed coordinator handles may reach its successor, which still replicates
        from it until its metadata name the new leader: the broker that such a request was sent to does not matter.
        A static member that restarts has another member id, and its join gives up what it owned before.
        """
        replaceable = seen.instance_id if seen.instance_id is not None and self._may_be_away(who, seen) else None
        for _, request, _ in self._unsettled.values():
            reported, epoch = request.topic_partitions, request.member_epoch
            gives_up = reported is not None and tp not in named(reported, self.name_of)
            gives_up = gives_up and (epoch == 0 or epoch >= seen.may_own[tp])
            gives_up = gives_up or epoch == -1 or (epoch == -2 and tp not in seen.assigned)
            takes_over = epoch == 0 and replaceable is not None and request.instance_id == replaceable
            if (request.member_id == who or takes_over) and gives_up:
                return True
        return self._may_be_removed(who, seen, node, now)

    def _check_commit(
        self, client: str, node: int, request: OffsetCommitRequest, response: OffsetCommitResponse, now: float
    ) -> None:
        group = self._groups.get(request.group_id, {})
        own, epoch = group.get(request.member_id), request.generation_id_or_member_epoch
        uncounted = self._uncounted.get((request.group_id, request.member_id), frozenset())
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    continue
                tp = TopicPartition(topic.name or self.name_of(topic.topic_id), row.partition_index)
                where = f"{tp.topic}-{tp.partition}"
                if own is not None and epoch < own.may_own.get(tp, -1):
                    since = own.may_own[tp]
                    self.accuse(f"node {node} accepts {client}'s commit of {where} in epoch {epoch}: it has owned"
                                f" that partition since {since} only")  # fmt: skip
                for who, other in group.items():
                    is_owner = who != request.member_id and tp in other.may_own and tp in other.assigned
                    is_shared = tp in (own.may_own if own is not None else uncounted)
                    if is_owner and not is_shared and not self._is_released(who, other, tp, node, now):
                        self.accuse(f"node {node} accepts {client}'s commit of {where}, which {other.client} owns")


def _partitions(topics: Iterable[AssignedTopic]) -> Share:
    return frozenset(TopicPartition(row.topic, number) for row in topics for number in row.partitions)
