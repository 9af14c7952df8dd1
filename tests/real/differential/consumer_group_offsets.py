"""Scripts of offsets and transactions of consumer groups: which member epochs may commit and fetch."""

from __future__ import annotations

from typing import Any

from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

from .commits import Book
from .consumer_groups import ConsumerMember, alone, described, known_topic
from .scripts import consumer_group_script
from .talk import World

WITH_EPOCHS = 9  #: The first version of OffsetCommit and OffsetFetch that consumer groups may use.


class EpochBook(Book):
    """Commits and fetches offsets with member epochs."""

    def commit_as(self, member: ConsumerMember, *offsets: tuple[int, int], about: str = "", **options: Any) -> Any:
        self.version = options.pop("version", self.world.version(OffsetCommitRequest, WITH_EPOCHS))
        said = {"member_id": member.member_id, "generation_id_or_member_epoch": member.epoch, **options}
        return self.commit(*offsets, about=about, **said)

    def fetch_as(
        self, member_id: str | None, epoch: int, about: str = "", partitions: tuple[int, ...] = (0, 1)
    ) -> None:
        version = self.world.version(OffsetFetchRequest, WITH_EPOCHS)
        topic_id = self.topic_id if version >= 10 else bytes(16)
        topics = [OffsetFetchRequestTopics(name=self.topic, topic_id=topic_id, partition_indexes=list(partitions))]
        group = OffsetFetchRequestGroup(
            group_id=self.group, member_id=member_id, member_epoch=epoch, topics=topics if partitions else None
        )
        self.line.ask(OffsetFetchRequest(groups=[group]), version, about=about)


@consumer_group_script
def commits_of_consumers(world: World) -> None:
    """Commits and fetches under the epoch of the member, and under others."""
    book = EpochBook(world, world.group(), known_topic(world, partitions=2))
    member = alone(world, book.group, book.topic)
    member.beat(owned={book.topic: [0, 1]})
    book.commit_as(member, (0, 5), about="its epoch")
    book.commit_as(member, (0, 6), (1, 7), about="two partitions")
    epoch = member.epoch
    book.commit_as(member, (0, 8), about="a future epoch", generation_id_or_member_epoch=epoch + 1)
    book.commit_as(member, (0, 8), about="an epoch before", generation_id_or_member_epoch=epoch - 1)
    book.commit_as(member, (0, 8), about="epoch -1", generation_id_or_member_epoch=-1)
    book.commit_as(member, (0, 8), about="unknown member", member_id="nobody")
    book.commit_as(member, (0, 8), about="no member id", member_id="")
    book.commit_as(member, (0, 8), about="as an admin", member_id="", generation_id_or_member_epoch=-1)
    book.commit_as(member, (0, 8), about="in an old version", version=min(8, world.version(OffsetCommitRequest)))
    book.fetch_as(member.member_id, epoch, "its epoch")
    book.fetch_as(member.member_id, epoch + 1, "a future epoch")
    book.fetch_as(member.member_id, epoch - 1, "an epoch before")
    book.fetch_as("nobody", epoch, "unknown member")
    book.fetch_as(None, -1, "as an admin")
    book.fetch_as(None, -1, "as an admin, all", ())
    book.fetch_as("", -1, "an empty member id")
    book.fetch_as("", 1, "an empty member id with an epoch")
    member.leave()
    book.commit_as(member, (0, 9), about="left")
    book.commit_as(member, (0, 9), about="as an admin, empty", member_id="", generation_id_or_member_epoch=-1)
    book.fetch_as(member.member_id, epoch, "left")
    book.fetch_as(None, -1, "as an admin, empty")


@consumer_group_script
def commits_of_stale_epochs(world: World) -> None:
    """A member that has a new epoch commits what it still owned under the one before."""
    book = EpochBook(world, world.group(), known_topic(world, partitions=2))
    first = alone(world, book.group, book.topic, stem="m1")
    first.beat(owned={book.topic: [0, 1]})
    stale = first.epoch
    alone(world, book.group, book.topic, stem="m2")
    first.beat("is to revoke")
    book.commit_as(first, (0, 1), (1, 1), about="while it revokes")
    first.beat("has revoked", owned={book.topic: [0]})
    described(world, book.group, about="has revoked")
    book.commit_as(first, (0, 2), about="kept, the new epoch")
    book.commit_as(first, (0, 3), about="kept, the stale epoch", generation_id_or_member_epoch=stale)
    book.commit_as(first, (1, 3), about="revoked, the stale epoch", generation_id_or_member_epoch=stale)
    book.commit_as(first, (0, 4), (1, 4), about="both, the stale epoch", generation_id_or_member_epoch=stale)
    book.commit_as(first, (1, 5), about="revoked, the new epoch")
    book.commit_as(first, (0, 6), about="two epochs before", generation_id_or_member_epoch=stale - 1)
    book.fetch_as(first.member_id, first.epoch, "the new epoch")
    book.fetch_as(first.member_id, stale, "the stale epoch")
