"""A member of a group of workers, which distribute shards by :class:`~thinconsumer.member.GroupMember`.

A shard is a partition of a topic that does not exist, and assignments are encoded as consumers encode them. The
checkers of consumer groups can therefore check workers as if they were consumers, eager or cooperative ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from thinconsumer.member import GroupMember, GroupMemberOptions
from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from thinconsumer_testing.simulation.actors.application import Received
from thinconsumer_testing.simulation.checkers.base import ASSIGNED, LOST, REVOKED, Member
from thinconsumer_testing.simulation.driver import SimDriver

from .member import MemberActor

SHARD = "shard"  #: The topic that has the shards as partitions; it exists on no broker.
#: The names of GroupMember's options. Workers are drawn with a consumer's options, and drop those that are not in here.
OPTIONS = frozenset(field.name for field in fields(GroupMemberOptions))


class WorkerActor(MemberActor):
    """A simulated worker. The shards 0 to ``shards - 1`` are divided evenly between the group's workers."""

    shards = 0
    cooperative = False  #: Whether it goes on working during a rebalance (KIP-415).

    def _build(self, driver: SimDriver) -> None:
        self.worker = _Worker(self, driver)
        settings = self.worker.settings
        self.member = self.reader = Member(
            name=self.name,
            life=self.lives,
            options=self.options,
            group=self.group,
            instance_id=settings.group_instance_id,
            cooperative=self.cooperative,
            session_timeout_s=settings.session_timeout_ms / 1000,
            max_poll_interval_s=settings.max_poll_interval_ms / 1000,
        )
        self.jury.tell("started", self.member)

    @property
    def client(self) -> GroupMember:
        """The GroupMember that this simulated application uses."""
        return self.worker

    def _subscribe(self) -> None:
        self._owned, self._is_inside = set(), False
        self.jury.tell("subscribed", self.member, None)

    def _close_client(self, timeout_ms: int, commit: bool) -> None:
        self.worker.close(timeout_ms, leave_group=self.behaviour.leaves)

    def assignment(self) -> set[TopicPartition]:
        """Return the shards assigned to this worker."""
        return set(self._owned) if self.is_running else set()

    def positions(self) -> dict[TopicPartition, int | None]:
        """Return an empty dict: a shard has no position."""
        return {}

    def _receive(self, timeout_ms: int) -> Received:
        self.worker.poll(timeout_ms)
        return {}

    def enforce_rebalance(self, reason: str) -> None:
        """Join the group again, which makes it rebalance if this member is its leader."""
        self.note("enforces")
        with self._log_volume.enforcing(self.member):
            self.worker.request_rejoin(reason)

    def _do_something_odd(self) -> None:
        choice = self.random.randrange(3)
        if choice == 0:
            self.enforce_rebalance("random call")
        elif choice == 1:
            self.worker.reason = "a reason of the application"
        else:
            with self._calling():
                self.worker.drive()

    def begin_work(self, share: bytes) -> None:
        """Take over those shards of an assignment that the worker does not have yet."""
        with self._in_callback(ASSIGNED, sorted(_shards(share) - self._owned)):
            pass

    def end_work(self, what: str) -> None:
        """Give up all shards; ``what`` is REVOKED or LOST."""
        with self._in_callback(what, sorted(self._owned)):
            pass

    def give_up(self, share: bytes) -> bool:
        """Give up the shards that the assignment lacks; return whether there are any."""
        gone = sorted(self._owned - _shards(share))
        if gone:
            with self._in_callback(REVOKED, gone):
                pass
        return bool(gone)

    def claims(self) -> tuple[TopicPartition, ...]:
        """Return the shards that the worker has, for the leader."""
        return tuple(sorted(self._owned)) if self.cooperative else ()


def _shards(share: bytes) -> set[TopicPartition]:
    topics = decode_assignment(share).assigned_partitions
    return {TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions}


class _Worker(GroupMember):
    """The GroupMember of a worker: it implements the methods that an application has to implement."""

    def __init__(self, actor: WorkerActor, driver: SimDriver) -> None:
        self.reason: str | None = None  #: A reason to rejoin the group, which :meth:`rejoin_reason` returns once.
        self._actor = actor
        options: Any = {name: value for name, value in actor.options.items() if name in OPTIONS}
        protocols = ["default"]
        super().__init__(
            "work", protocols, cooperative_protocols=protocols if actor.cooperative else (), driver=driver, **options
        )

    def metadata(self, protocol: str) -> bytes:
        return encode_subscription((SHARD,), None, self._actor.claims(), self.held_generation, None)

    def perform_assignment(self, leader_id: str, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        claims = {}
        for member_id, metadata in sorted(members.items()):
            claim = decode_subscription(metadata)
            owned = [TopicPartition(topic.topic, n) for topic in claim.owned_partitions for n in topic.partitions]
            claims[member_id] = claim.generation_id, owned
        shards = [TopicPartition(SHARD, number) for number in range(self._actor.shards)]
        plan = {member_id: shards[n :: len(claims)] for n, member_id in enumerate(claims)}
        return {member_id: encode_assignment(share) for member_id, share in self.withhold(plan, claims).items()}

    def on_revoke(self, protocol: str, share: bytes) -> bool:
        return self._actor.give_up(share)

    def on_join_prepare(self) -> None:
        self._actor.end_work(REVOKED)

    def on_join_complete(self, protocol: str, share: bytes) -> None:
        self._actor.begin_work(share)

    def on_lost(self) -> None:
        self._actor.end_work(LOST)

    def rejoin_reason(self) -> str | None:
        reason, self.reason = self.reason, None
        return reason
