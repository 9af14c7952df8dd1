"""Scripts of looking offsets up: by time, at both ends, by epoch."""

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from thinconsumer.wire.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from thinconsumer_testing.broker.wire.administration import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

from .scripts import batch, fill, script
from .talk import World

ENDS = (-1, -2, -3, -4, -5, -6, -7, -100)


def look(
    topic: str, timestamp: int, *, partition: int = 0, epoch: int = -1, replica: int = -1, isolation: int = 0
) -> ListOffsetsRequest:
    row = ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=replica, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[row])]
    )


def times(world: World, *distances: int, codec: int = 0) -> bytes:
    """Return a batch with records at these distances from the script's own time."""
    return build_batch([NewRecord(b"%d" % n, timestamp=world.base_ms + n) for n in distances], codec=codec)


@script
def list_offsets(world: World) -> None:
    """Both ends and every time around the records, in order or not, compressed or not."""
    topic = world.topic(partitions=2)
    line = world.connect()
    for end in ENDS:
        line.ask(look(topic, end), about=f"{end} of nothing")
    fill(world, topic, times(world, 0, 1000, 500), times(world, 200, 1000), times(world, 900, 950, 1200, 1100, codec=3))
    for end in ENDS:
        line.ask(look(topic, end), about=f"{end}")
    for distance in (-1, 0, 1, 500, 501, 999, 1000, 1001, 1100, 1101, 1200, 1201):
        line.ask(look(topic, world.base_ms + distance), about=f"base{distance:+d}")
    line.ask(look(topic, 0), about="0")
    line.ask(look(topic, -1, partition=1), about="the empty one")


@script
def list_offsets_wrongly(world: World) -> None:
    """Epochs, replicas, isolation, partitions that are not there, and the same one twice."""
    topic = world.topic(partitions=2)
    fill(world, topic, times(world, 0, 1))
    line = world.connect()
    version = world.version(ListOffsetsRequest)
    for epoch in (0, 1, 5, -5) if version >= 4 else ():
        line.ask(look(topic, -1, epoch=epoch), about=f"epoch {epoch}")
        line.ask(look(topic, world.base_ms, epoch=epoch), about=f"epoch {epoch}")
    for replica in (-2, 1, 7, -3):
        line.ask(look(topic, -1, replica=replica), about=f"replica {replica}")
    line.ask(look(topic, -1, partition=2))
    line.ask(look(topic, -1, partition=-1))
    line.ask(look(world.name("none"), -1))
    line.ask(look("", -1))
    if version >= 2:
        line.ask(look(topic, -1, isolation=1), about="committed")
        line.ask(look(topic, -1, isolation=9), about="isolation 9")
    request = look(topic, -1)
    request.topics[0].partitions += (
        look(topic, -2).topics[0].partitions + look(topic, -1, partition=1).topics[0].partitions
    )
    line.ask(request, about="twice")
    request = look(topic, -1)
    request.topics += look(world.name("none"), -2).topics
    line.ask(request, about="two topics")
    line.ask(ListOffsetsRequest(replica_id=-1), about="nothing")


@script
def list_offsets_after_a_cut(world: World) -> None:
    """The log's start has moved into a batch."""
    topic = world.topic()
    fill(world, topic, times(world, 0, 1000, 2000), times(world, 3000, 4000))
    line = world.connect()
    row = DeleteRecordsPartition(partition_index=0, offset=1)
    line.ask(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[row])], timeout_ms=5000))
    for timestamp in (-1, -2, -4, 0, world.base_ms, world.base_ms + 1, world.base_ms + 1000, world.base_ms + 3500):
        line.ask(look(topic, timestamp), about=str(timestamp if timestamp <= 0 else timestamp - world.base_ms))


@script
def leader_epochs(world: World) -> None:
    """End offsets of known and unknown leader epochs, and requests with a wrong current leader epoch."""
    topic = world.topic()
    line = world.connect()

    def ask(epoch: int, current: int = -1, name: str = topic, partition: int = 0) -> None:
        row = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=name, partitions=[row])]
        line.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), about=f"{epoch} {current}")

    for _ in range(2):
        for epoch in (0, 1, -1, -5, 100):
            ask(epoch)
        fill(world, topic, batch(world, b"a", b"b"))
    for current in (0, 1, -2):
        ask(0, current)
    ask(0, name=world.name("none"))
    ask(0, partition=1)
    line.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[]))
