"""Scripts of OffsetCommit, by members and by clients without a member id, in each state of a group, and OffsetFetch."""

from typing import Any

from thinconsumer.wire.groups import DeleteGroupsRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from thinconsumer.wire.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from thinconsumer.wire.topics import DeleteTopicsRequest

from .groups import Member, describe, listed, stable
from .scripts import script
from .talk import World

WITH_INSTANCES = 7
WITH_IDS = 10
WITH_GROUPS = 8


class Book:
    """Commits and fetches offsets of one topic for one group, in the plan's versions."""

    def __init__(self, world: World, group: str, topic: str) -> None:
        self.world = world
        self.group = group
        self.topic = topic
        self.line = world.connect()
        self.topic_id = world.topic_id(topic)
        self.version = world.version(OffsetCommitRequest)
        self.reads = world.version(OffsetFetchRequest)

    def say_commit(self, *offsets: tuple[int, int], metadata: str | None = "", epoch: int = -1) -> OffsetCommitRequest:
        """Return an OffsetCommit without a member id."""
        rows = [
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=epoch,
                committed_metadata=metadata,
            )
            for partition, offset in offsets
        ]
        topic = OffsetCommitRequestTopic(
            name=self.topic, topic_id=self.topic_id if self.version >= WITH_IDS else bytes(16), partitions=rows
        )
        return OffsetCommitRequest(group_id=self.group, topics=[topic] if rows else [])

    def commit(self, *offsets: tuple[int, int], by: Member | None = None, about: str = "", **options: Any) -> Any:
        said = {key: options.pop(key) for key in ("metadata", "epoch") if key in options}
        request = self.say_commit(*offsets, **said)
        version = self.version
        if by is not None:
            request.member_id, request.generation_id_or_member_epoch = by.member_id, by.generation
            if by.instance is not None:
                request.group_instance_id = by.instance
                version = max(version, WITH_INSTANCES)
        for name, value in options.items():
            setattr(request, name, value)
        return self.line.ask(request, version, about=about)

    def read(self, *partitions: int, everything: bool = False, about: str = "", stable_only: bool = False) -> Any:
        """Fetch committed offsets, and note the answer."""
        request = OffsetFetchRequest(require_stable=stable_only)
        wanted = list(partitions)
        if self.reads < WITH_GROUPS:
            request.group_id = self.group
            topics = [OffsetFetchRequestTopic(name=self.topic, partition_indexes=wanted)]
            request.topics = None if everything else topics
        else:
            topic_id = self.topic_id if self.reads >= WITH_IDS else bytes(16)
            by_group = [OffsetFetchRequestTopics(name=self.topic, topic_id=topic_id, partition_indexes=wanted)]
            request.groups = [OffsetFetchRequestGroup(group_id=self.group, topics=None if everything else by_group)]
        return self.line.ask(request, self.reads, about=f"{about} {wanted or 'all'}")


@script
def commits_by_nobody(world: World) -> None:
    """Offsets without members: kept, replaced, read, all of them."""
    book = Book(world, world.group(), world.topic(partitions=3))
    book.read(0, 1)
    if book.reads >= 2:
        book.read(everything=True)
    book.commit((0, 5))
    book.commit((0, 6), (1, 7), metadata="some words")
    book.commit((0, 3), metadata=None, about="back, no metadata")
    book.commit((1, 8), epoch=0, about="with an epoch")
    book.commit((1, 9), epoch=77, about="with a strange epoch")
    book.read(0, 1, 2, 9)
    if book.reads >= 2:
        book.read(everything=True)
    describe(world, book.group)
    listed(world)


@script
def commits_that_are_refused(world: World) -> None:
    """Unknown partitions, metadata that is too long, and negative offsets."""
    book = Book(world, world.group(), world.topic())
    book.commit((0, -1), about="-1")
    book.commit((0, -5), about="-5")
    book.commit((0, 1), metadata="x" * 4096)
    book.commit((0, 2), metadata="x" * 4097)
    book.commit((9, 1), about="unknown partition")
    book.commit((-1, 1), about="partition -1")
    book.commit(about="nothing")
    book.commit((0, 3), (9, 3), about="one is unknown")
    book.commit((0, 3), group_id="", about="no group")
    # There is but one group without a name, and other scripts may not find it.
    book.line.ask(DeleteGroupsRequest(groups_names=[""]), about="no group")
    book.commit((0, 4), member_id="nobody", generation_id_or_member_epoch=1, about="unknown member")
    book.commit((0, 4), member_id="nobody", about="unknown member without a generation")
    book.commit((0, 4), generation_id_or_member_epoch=1, about="a generation without a member")
    book.read(0)
    book.topic, book.topic_id = world.name("none"), b"?" * 16
    book.commit((0, 1), about="unknown topic")
    book.read(0, about="unknown topic")
    none = Book(world, world.name("none"), world.topic("other"))
    none.read(0, about="no such group")
    none.commit((0, 4), member_id="nobody", generation_id_or_member_epoch=1, about="no such group")
    nameless = Book(world, "", world.topic("third"))
    nameless.read(0, about="no group")


@script
def commits_by_members(world: World) -> None:
    """In each state of the group, with every kind of generation."""
    group = world.group()
    book = Book(world, group, world.topic())
    first = Member(world, group)
    first.join()
    book.commit((0, 1), by=first, about="before the sync")
    first.sync(plan={first.member_id: b"plan"})
    book.commit((0, 2), by=first, about="stable")
    book.commit((0, 3), by=first, generation_id_or_member_epoch=first.generation + 1, about="next generation")
    book.commit((0, 3), by=first, generation_id_or_member_epoch=first.generation - 1, about="last generation")
    book.commit((0, 3), by=first, generation_id_or_member_epoch=-1, about="no generation")
    book.commit((0, 4), by=first, member_id="nobody", about="unknown member")
    book.commit((0, 5), about="by nobody, into a living group")
    second = Member(world, group)
    asked = second.ask_to_join()
    asked.is_parked()
    book.commit((0, 6), by=first, about="preparing the next generation")
    old = first.generation
    first.join("again")
    second.joined(asked)
    book.commit((0, 7), by=first, about="before the next sync")
    book.commit((0, 8), by=first, generation_id_or_member_epoch=old, about="the generation before")
    book.read(0)
    first.leave()
    second.leave()
    book.commit((0, 9), by=first, about="left")
    book.commit((0, 10), about="by nobody, into an empty group")
    book.read(0)


@script
def commits_by_static_members(world: World) -> None:
    """An instance that came back has fenced itself."""
    group = world.group()
    book = Book(world, group, world.topic())
    first = stable(world, group, instance="i1")
    book.commit((0, 1), by=first)
    again = Member(world, group, instance="i1")
    again.join("back")
    book.commit((0, 2), by=first, about="fenced")
    book.commit((0, 3), by=again)
    book.commit((0, 4), by=again, group_instance_id="i2", about="unknown instance")
    book.commit((0, 5), by=again, member_id="", about="instance alone")
    book.read(0)


@script
def commits_for_several_groups(world: World) -> None:
    """OffsetFetch of many groups at once, the same twice, unknown ones."""
    topic = world.topic(partitions=2)
    books = [Book(world, world.group(stem), topic) for stem in "ab"]
    for number, book in enumerate(books):
        book.commit((0, number), (1, number + 10))
    version = world.version(OffsetFetchRequest, WITH_GROUPS)
    names = (book.group for book in books)
    groups = [
        OffsetFetchRequestGroup(
            group_id=name,
            topics=[
                OffsetFetchRequestTopics(
                    name=topic, topic_id=books[0].topic_id if version >= WITH_IDS else bytes(16), partition_indexes=[0]
                )
            ],
        )
        for name in names
    ]
    line = world.connect()
    line.ask(OffsetFetchRequest(groups=groups), version)
    line.ask(OffsetFetchRequest(groups=[]), version, about="none")
    everything = [OffsetFetchRequestGroup(group_id=book.group, topics=None) for book in books]
    line.ask(OffsetFetchRequest(groups=everything), version, about="everything")
    nothing = [OffsetFetchRequestGroup(group_id=books[0].group, topics=[])]
    line.ask(OffsetFetchRequest(groups=nothing), version, about="nothing of one")
    if version >= 9:
        for member_id, epoch in (("nobody", 1), (None, 5), ("nobody", -1), ("", -1)):
            one = OffsetFetchRequestGroup(
                group_id=books[0].group, member_id=member_id, member_epoch=epoch, topics=groups[0].topics
            )
            line.ask(OffsetFetchRequest(groups=[one]), version, about=f"as {member_id} {epoch}")


@script
def commits_of_a_topic_that_goes(world: World) -> None:
    """A deleted topic takes its offsets along."""
    book = Book(world, world.group(), world.topic())
    book.commit((0, 5))
    world.connect().send(DeleteTopicsRequest(topic_names=[book.topic], timeout_ms=5000), 4).quiet_answer()
    world.wait(0.7)
    book.reads = min(book.reads, 9)
    book.read(0)
    if book.reads >= 2:
        book.read(everything=True)
    book.commit((0, 5), about="afterwards")


@script
def deleting_offsets(world: World) -> None:
    """One by one: of groups without members, of readers of the topic or of another one, and of other members."""
    book = Book(world, world.group(), world.topic(partitions=3))

    def delete(*partitions: int, about: str = "", group: str = book.group, topic: str = book.topic) -> None:
        rows = [OffsetDeleteRequestPartition(partition_index=number) for number in partitions]
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=rows)]
        book.line.ask(OffsetDeleteRequest(group_id=group, topics=topics), about=about)
        book.read(0, 1, 2)

    delete(0, about="before the group exists")
    book.commit((0, 1), (1, 2), (2, 3))
    delete(1)
    delete(1, 9, 0, -1, about="again, and more")
    delete(about="nothing")
    delete(0, topic="none", about="unknown topic")
    delete(0, group="", about="no group")
    for kind, name in (("consumer", "t"), ("consumer", book.topic), ("connect", "t")):
        member = Member(world, book.group)
        member.protocol_type = kind
        member.protocols = [("range", b"\0\0\0\0\0\1\0" + bytes([len(name)]) + name.encode() + b"\xff" * 4)]
        member.join()
        book.commit((0, 1), by=member, about="before the sync")
        delete(2, about=f"{kind} before the sync")
        member.sync(plan={member.member_id: b"plan"}, protocol_type=kind)
        book.commit((0, 1), (2, 3), by=member)
        delete(0, about=f"{kind} is stable")
        member.leave()
        delete(2, about=f"{kind} has left")
