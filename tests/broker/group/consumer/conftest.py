"""Members of a consumer group that do what a test tells them to, against a coordinator without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

from thinconsumer.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from thinconsumer_testing.broker.group.consumer.heartbeat import HeartbeatCall

GROUP, TOPIC = "billing", "orders"


class ScriptedMember:
    """A member with its epoch and the partitions that it owns."""

    def __init__(self, world: Any, member_id: str, instance: str | None = None, **fields: Any) -> None:
        self.world = world
        self.member_id = member_id
        self.instance = instance
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.hidden: Callable[[Iterable[str]], Collection[str]] = lambda names: ()
        self.fields = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [TOPIC], **fields}

    def send(
        self, epoch: int | None = None, *, version: int = 1, **fields: Any
    ) -> list[ConsumerGroupHeartbeatResponse]:
        """Send a heartbeat; the list gets the response."""
        found: list[ConsumerGroupHeartbeatResponse] = []
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self.instance,
            **fields,
        )
        call = HeartbeatCall(request, "app", "/127.0.0.1", self.hidden)
        self.world.coordinator.consumer_heartbeat(call, version, found.append)
        return found

    def ask(self, epoch: int | None = None, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, and return its response, which must come at once; the member does not change."""
        (answer,) = self.send(epoch, **fields)
        return answer

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Join with all fields; take over the epoch and the assignment."""
        self.owned = set()
        return self._heard(self.ask(0, topic_partitions=[], **{**self.fields, **fields}))

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Report what the member owns; take over the epoch, and revoke and own what the response says."""
        return self._heard(self.ask(topic_partitions=self.rows, **fields))

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.ask(epoch)

    def _heard(self, answer: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        if not answer.error_code:
            self.member_id = answer.member_id or self.member_id
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                found = answer.assignment.topic_partitions
                self.owned = {(topic.topic_id, index) for topic in found for index in topic.partitions}
        return answer

    @property
    def rows(self) -> list[TopicPartitions]:
        """What the member owns, as a heartbeat reports it."""
        ids = sorted({topic_id for topic_id, _ in self.owned})
        return [TopicPartitions(topic_id=one, partitions=sorted(n for t, n in self.owned if t == one)) for one in ids]

    @property
    def partitions(self) -> list[int]:
        """The partitions of ``TOPIC`` that the member owns."""
        topic_id = self.world.image.topics[TOPIC].topic_id
        return sorted(index for found, index in self.owned if found == topic_id)


def settle(*members: ScriptedMember, rounds: int = 6) -> None:
    """Let members send heartbeats until each of them has its target assignment."""
    for _ in range(rounds):
        for member in members:
            assert member.beat().error_code == 0
    assert {member.epoch for member in members} == {members[0].world.group.epoch}


@pytest.fixture
def new_member(world: Any) -> Callable[..., ScriptedMember]:
    """``new_member(member_id, ...)`` returns a member of the default world that has not joined."""
    return lambda member_id="m1", instance=None, **fields: ScriptedMember(world, member_id, instance, **fields)


@pytest.fixture(scope="session")
def member_of() -> type[ScriptedMember]:
    """``member_of(world, member_id, ...)`` returns a member of a world."""
    return ScriptedMember


@pytest.fixture(scope="session")
def settled() -> Callable[..., None]:
    """``settled(*members)`` lets members reconcile."""
    return settle


@pytest.fixture
def member(new_member: Callable[..., ScriptedMember]) -> ScriptedMember:
    """The only member of the group, in epoch 2."""
    found = new_member()
    found.join()
    return found


@pytest.fixture
def pair(new_member: Callable[..., ScriptedMember]) -> tuple[ScriptedMember, ScriptedMember]:
    """Two members in epoch 3; the first one has owned partitions 0 and 1 since epoch 2."""
    first, second = new_member("m1"), new_member("m2")
    first.join()
    second.join()
    settle(first, second)
    return first, second
