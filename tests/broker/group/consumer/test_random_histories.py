"""Random histories of a group: members come, go and fall silent, topics grow, and the coordinator crashes.

At every moment a partition has one owner, epochs never go back, and in the end every partition is owned.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.states import ConsumerGroupState

pytestmark = pytest.mark.once

TOPICS = ("orders", "bills", "notes")


class History:
    """One group with members that act at random."""

    def __init__(self, seed: int, world: Any, member_of: Any) -> None:
        self.draw = random.Random(seed)
        self.world = world
        self.member_of = member_of
        self.members: list[Any] = []
        self.away: list[Any] = []  #: Static members that have left for a while.
        self.unsure: set[Any] = set()  #: Members whose last response was lost.
        self.epoch = 0

    def step(self) -> None:
        draw = self.draw.random()
        if draw < 0.12 or not self.members:
            self.join()
        elif draw < 0.17:
            self.leave()
        elif draw < 0.19:
            self.members.remove(self.draw.choice(self.members))  # its session times out later
        elif draw < 0.21:
            name = self.draw.choice(TOPICS)
            self.world.put_topic(name, len(self.world.image.topics[name].partitions) + 1)
        elif draw < 0.23:
            self.world.crash()
        elif draw < 0.26:
            self.change()
        else:
            self.beat(self.draw.choice(self.members))
        self.world.advance(self.draw.choice([0.0, 0.0, 0.3]))
        self.check()

    def join(self) -> None:
        if self.away and self.draw.random() < 0.5:
            member = self.away.pop()
            member.member_id = f"again{self.draw.randrange(10**9)}"
        else:
            number = self.draw.randrange(10**9)
            instance = self.draw.choice([None, None, f"i{number}"])
            member = self.member_of(self.world, f"m{number}", instance, **self.subscription())
        answer = member.join()
        assert answer.error_code == 0
        self.members.append(member)

    def subscription(self) -> dict[str, Any]:
        if self.draw.random() < 0.2:
            return {"subscribed_topic_names": [], "subscribed_topic_regex": self.draw.choice(["o.*", ".*s"])}
        return {"subscribed_topic_names": self.draw.sample(TOPICS, self.draw.randrange(1, 4))}

    def leave(self) -> None:
        member = self.draw.choice(self.members)
        self.members.remove(member)
        if member.instance is not None and self.draw.random() < 0.7:
            assert member.leave(-2).error_code in (0, Code.UNKNOWN_MEMBER_ID)
            self.away.append(member)
        else:
            member.leave()
        member.owned = set()

    def change(self) -> None:
        member = self.draw.choice(self.members)
        fields = {"subscribed_topic_regex": "", **self.subscription()}
        member.fields.update(fields)
        self.beat(member, **fields)

    def beat(self, member: Any, **fields: Any) -> None:
        before = member.epoch
        if member in self.unsure:
            fields = {**member.fields, **fields}  # after a lost response, the next request has all fields
        is_lost = self.draw.random() < 0.2
        if is_lost:
            self.unsure.add(member)
        else:
            self.unsure.discard(member)
        answer = member.ask(topic_partitions=member.rows, **fields) if is_lost else member.beat(**fields)
        if answer.error_code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH):
            if member.instance is not None:
                member.instance += "x"
            member.epoch = 0
            assert member.join().error_code == 0
            return
        assert answer.error_code == 0
        assert answer.member_epoch >= before

    def check(self) -> None:
        """A partition may be owned by one member in the coordinator's books, and is used by no other one."""
        group = self.world.shard.latest.consumer_group("billing")
        if group is None:
            return
        assert group.epoch >= max(self.epoch, group.assignment_epoch)
        self.epoch = group.epoch
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for owned in (member.assigned, member.pending_revocation):
                for topic_id, indexes in owned.items():
                    for index in indexes:
                        assert owners.setdefault((topic_id, index), member.member_id) == member.member_id
                        assert group.partition_epoch(topic_id, index) == member.member_epoch
        for scripted in self.members:
            if scripted.member_id in group.members:
                assert all(owners[place] == scripted.member_id for place in scripted.owned)

    def settle(self) -> None:
        """Let all members act as they should, until nothing is left to do."""
        for _ in range(12):
            for member in self.members:
                answer = member.beat(**member.fields)
                if answer.error_code:
                    member.instance = None
                    member.member_id += "y"
                    assert member.join().error_code == 0
            self.world.advance(1.1)
        self.check()
        group = self.world.group
        assert group.state is (ConsumerGroupState.STABLE if self.members else ConsumerGroupState.EMPTY)
        used = [place for member in self.members for place in member.owned]
        assert len(used) == len(set(used))
        topics = {name for member in group.members.values() for name in group.subscriptions_of(member)}
        image = self.world.image.topics
        wanted = {(image[name].topic_id, n) for name in topics & set(image) for n in range(len(image[name].partitions))}
        assert set(used) == wanted


@pytest.mark.parametrize("seed", range(16))
def test_a_partition_has_one_owner_whatever_happens(seed: int, new_world: Any, member_of: Any) -> None:
    world = new_world(group_consumer_session_timeout_ms=6_000)
    for name in TOPICS:
        world.put_topic(name, 3)
    history = History(seed, world, member_of)
    for _ in range(120):
        history.step()
    history.settle()
