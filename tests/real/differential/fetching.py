"""Scripts of fetching: limits, waiting, sessions and their errors, isolation, ids."""

from typing import Any

from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from thinconsumer_testing.broker.wire.administration import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

from .scripts import batch, fetch, fetch_of, fill, produce, script
from .talk import World

WITH_SESSIONS = 7
WITH_EPOCHS = 9
WITH_LAST_EPOCHS = 12
WITH_IDS = 13


class Reader:
    """Fetches from one topic in the plan's version, by name or by id."""

    def __init__(self, world: World, topic: str, at_least: int = 0, at_most: int = 99) -> None:
        self.world = world
        self.topic = topic
        self.line = world.connect()
        self.version = world.version(FetchRequest, at_least, at_most)
        self.topic_id = world.topic_id(topic) if self.version >= WITH_IDS else bytes(16)

    def say(self, offset: int = 0, **options: Any) -> FetchRequest:
        return fetch(self.topic, offset, topic_id=self.topic_id, **options)

    def ask(self, offset: int = 0, about: str = "", **options: Any) -> Any:
        return self.line.ask(self.say(offset, **options), self.version, about=f"{offset} {about}")

    def of(self, *partitions: tuple[int, int], **options: Any) -> FetchRequest:
        """Say a Fetch of some partitions from these offsets."""
        rows = [
            FetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=1 << 20) for p, offset in partitions
        ]
        topics = [FetchTopic(topic=self.topic, topic_id=self.topic_id, partitions=rows)] if rows else []
        return fetch_of(topics, **options)

    def session(
        self, session_id: int, epoch: int, *partitions: tuple[int, int], about: str = "", **options: Any
    ) -> Any:
        request = self.of(*partitions, session_id=session_id, session_epoch=epoch, **options)
        return self.line.ask(request, self.version, about=f"session epoch {epoch} {about}")


@script
def fetch_offsets(world: World) -> None:
    """From every offset, in and around the log."""
    topic = world.topic()
    reader = Reader(world, topic)
    reader.ask(0, "of nothing")
    reader.ask(1, "of nothing")
    fill(world, topic, batch(world, b"a", b"b", b"c"), batch(world, b"d", codec=3), batch(world, b"e", b"f"))
    for offset in (-1, 0, 1, 2, 3, 4, 5, 6, 7, 100):
        reader.ask(offset)
    row = DeleteRecordsPartition(partition_index=0, offset=2)
    line = world.connect()
    line.ask(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[row])], timeout_ms=5000))
    for offset in (0, 1, 2, 3):
        reader.ask(offset, "after a cut")


@script
def fetch_limits(world: World) -> None:
    """Bytes for a partition and for all: one batch at least, the last one cut off."""
    topic = world.topic(partitions=3)
    for partition in range(3):
        fill(world, topic, *(batch(world, b"%d" % n * 100) for n in range(3)), partition=partition)
    reader = Reader(world, topic)
    for limit in (0, 1, 100, 171, 172, 200, 400, 10_000):
        reader.ask(0, f"{limit} for the partition", partition_bytes=limit)
        reader.ask(0, f"{limit} for all", max_bytes=limit)
        request = reader.of((0, 0), (1, 0), (2, 0), max_bytes=limit)
        reader.line.ask(request, reader.version, about=f"three partitions, {limit} for all")
    request = reader.of((0, 3), (1, 0), (2, 0), max_bytes=1)
    reader.line.ask(request, reader.version, about="the first one has nothing")
    request = reader.of((0, 3), (1, 99), (2, 0), max_bytes=1)
    reader.line.ask(request, reader.version, about="the second one is out of range")


@script
def fetch_waiting(world: World) -> None:
    """Until there is enough, until time is over, not with an error."""
    topic = world.topic(partitions=2)
    reader = Reader(world, topic)
    reader.ask(0, "not waiting", wait_ms=0)
    reader.ask(0, "min_bytes 0", wait_ms=30_000, min_bytes=0)
    reader.ask(0, "waiting for nothing", wait_ms=300)
    asked = reader.line.send(reader.say(0, wait_ms=30_000), reader.version, about="until a record comes")
    asked.is_parked()
    fill(world, topic, batch(world, b"a"))
    asked.answer()
    asked = reader.line.send(reader.say(0, wait_ms=30_000, min_bytes=300), reader.version, about="until 300 bytes")
    asked.is_parked()
    fill(world, topic, batch(world, b"a" * 100))
    asked.is_parked()
    fill(world, topic, batch(world, b"a" * 100))
    asked.answer()
    reader.ask(99, "an error does not wait", wait_ms=30_000)
    request = reader.of((0, 3), (1, 5), wait_ms=30_000)
    reader.line.ask(request, reader.version, about="one of two has an error")
    request = reader.of((0, 3), (7, 0), wait_ms=400)
    reader.line.ask(request, reader.version, about="one of two is unknown")
    request = reader.of((7, 0), wait_ms=30_000)
    reader.line.ask(request, reader.version, about="the only one is unknown")
    reader.line.ask(reader.of(wait_ms=300), reader.version, about="nothing")


@script
def fetch_wrongly(world: World) -> None:
    """Unknown partitions, wrong leader epochs, and a partition that is listed twice."""
    topic = world.topic(partitions=2)
    fill(world, topic, batch(world, b"a", b"b"))
    reader = Reader(world, topic)
    reader.ask(0, "partition 9", partition=9)
    reader.ask(0, "partition -1", partition=-1)
    if reader.version >= WITH_EPOCHS:
        for epoch in (0, 1, 7):
            reader.ask(0, f"epoch {epoch}", epoch=epoch)
            reader.ask(9, f"epoch {epoch}", epoch=epoch)
    if reader.version >= WITH_LAST_EPOCHS:
        for last in (0, 1, 5):
            for offset in (0, 2, 3):
                reader.ask(offset, f"last epoch {last}", epoch=0, last_epoch=last)
    request = reader.of((0, 0), (0, 1))
    reader.line.ask(request, reader.version, about="twice")
    reader.ask(0, "isolation 1", isolation_level=1)
    if reader.version >= WITH_IDS:
        reader.topic_id = b"?" * 16
        reader.ask(0, "unknown id")
        reader.ask(0, "unknown id, waiting", wait_ms=300)
        reader.topic_id = bytes(16)
        reader.ask(0, "no id")
    else:
        reader.topic = world.name("none")
        reader.ask(0, "unknown topic")
        reader.topic = ""
        reader.ask(0, "no name")


@script
def fetch_sessions(world: World) -> None:
    """A session from its start to its end: what changed, what did not, what is added and forgotten."""
    topic, other = world.topic(partitions=3), world.topic("other")
    fill(world, topic, batch(world, b"a"))
    reader = Reader(world, topic, at_least=WITH_SESSIONS)
    session = reader.session(0, 0, (0, 0), (1, 0)).session_id
    reader.session(session, 1, about="nothing new: the same records again")
    reader.session(session, 2, (0, 1), about="read on")
    reader.session(session, 3)
    fill(world, topic, batch(world, b"b"), partition=1)
    reader.session(session, 4)
    reader.session(session, 5, (1, 1), about="read on")
    reader.session(session, 6, (2, 0), about="one more")
    forgotten = ForgottenTopic(topic=topic, topic_id=reader.topic_id, partitions=[1])
    fill(world, topic, batch(world, b"c"), partition=1)
    reader.session(session, 7, about="one less", forgotten_topics_data=[forgotten])
    reader.session(session, 8, (0, 99), about="out of range")
    reader.session(session, 9, about="still")
    reader.session(session, 10, (0, 1), about="back")
    reader.session(session, 11, (7, 0), about="unknown partition")
    reader.session(session, 12, about="still unknown")
    writer = world.connect()
    row = DeleteRecordsPartition(partition_index=0, offset=1)
    writer.ask(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[row])], timeout_ms=5000))
    reader.session(session, 13, about="the log's start has moved")
    reader.topic, reader.topic_id = other, world.topic_id(other) if reader.topic_id.strip(b"\0") else bytes(16)
    reader.session(session, 14, (0, 0), about="another topic")
    reader.session(session, -1, about="the end")
    reader.session(session, 15, about="after the end")


@script
def fetch_session_errors(world: World) -> None:
    """Epochs out of turn, sessions that are not, ends of nothing."""
    topic = world.topic()
    fill(world, topic, batch(world, b"a"))
    reader = Reader(world, topic, at_least=WITH_SESSIONS)
    reader.session(4711, 1, about="unknown")
    reader.session(4711, -1, (0, 0), about="an end of nothing")
    reader.session(4711, 0, (0, 0), about="a start in an unknown one")
    reader.session(0, -1, (0, 0), about="without a session")
    reader.session(0, 5, (0, 0), about="no id, epoch 5")
    session = reader.session(0, 0, (0, 0)).session_id
    reader.session(session, 2, about="epoch too high")
    reader.session(session, 1)
    reader.session(session, 1, about="epoch again")
    reader.session(session, 0, (0, 0), about="a new start in its place")
    reader.session(session, 2, about="the old one")
    empty = reader.session(0, 0, about="nothing asked for")
    reader.session(empty.session_id, 1, (0, 0))


@script
def fetch_session_waits(world: World) -> None:
    """A session's long poll ends with what has changed."""
    topic = world.topic(partitions=2)
    reader = Reader(world, topic, at_least=WITH_SESSIONS)
    session = reader.session(0, 0, (0, 0), (1, 0), wait_ms=0).session_id
    request = reader.of(session_id=session, session_epoch=1, wait_ms=30_000)
    asked = reader.line.send(request, reader.version, about="in a session")
    asked.is_parked()
    fill(world, topic, batch(world, b"a"), partition=1)
    asked.answer()
    reader.session(session, 2, (1, 1), wait_ms=300, about="nothing comes")


@script
def fetch_sessions_with_unknown_ids(world: World) -> None:
    """An unknown topic id in a fetch session, and a session that changes from ids to names."""
    topic = world.topic()
    fill(world, topic, batch(world, b"a"))
    reader = Reader(world, topic, at_least=WITH_IDS)
    known = reader.topic_id
    reader.topic_id = b"?" * 16
    session = reader.session(0, 0, (0, 0)).session_id
    reader.session(session, 1, about="again")
    reader.topic_id = known
    reader.session(session, 2, (0, 0), about="a known one beside it")
    reader.version = 12
    reader.session(session, 3, (0, 0), about="by name")
    session = reader.session(0, 0, (0, 0), about="by name").session_id
    reader.version = 13
    reader.session(session, 1, (0, 0), about="by id")


@script
def fetch_as_replica_or_debugger(world: World) -> None:
    """Fetch with the replica id of a follower, and with that of a debugging consumer (-2)."""
    topic = world.topic()
    fill(world, topic, batch(world, b"a"))
    reader = Reader(world, topic, at_most=14)
    for replica in (-2, 5):
        reader.ask(0, f"replica {replica}", replica_id=replica)


@script
def fetch_while_a_topic_goes(world: World) -> None:
    """A waiting fetch when its topic is deleted."""
    from thinconsumer.wire.topics import DeleteTopicsRequest

    topic = world.topic()
    reader = Reader(world, topic)
    fill(world, topic, batch(world, b"a"))
    asked = reader.line.send(reader.say(1, wait_ms=3_000), reader.version, about="then it is deleted")
    asked.is_parked()
    world.connect().send(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), 4).quiet_answer()
    asked.answer()
    world.wait(0.5)
    reader.ask(0, "afterwards")


@script
def zstd_for_old_readers(world: World) -> None:
    """Batches in zstd, and a topic that is zstd by its settings."""
    topic, own = world.topic(), world.topic("own", compression_type="zstd")
    fill(world, topic, batch(world, b"a" * 50, codec=4))
    fill(world, own, batch(world, b"a" * 50))
    for name in (topic, own):
        for version in (4, 9, 10):
            reader = Reader(world, name, at_least=version, at_most=version)
            reader.ask(0)
    line = world.connect()
    for version in (3, 6, 7):
        line.ask(produce(topic, batch(world, b"a", codec=4)), version, about="zstd")
