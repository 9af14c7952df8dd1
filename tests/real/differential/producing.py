"""Scripts of producing: bad batches, limits, sequences, duplicates, fencing, acks."""

from typing import Any

from handmade import build_legacy

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .scripts import batch, fetch, produce, script
from .talk import Line, World

WITH_IDS = 13


class Writer:
    """Produces to one topic in the plan's version, by name or by id."""

    def __init__(self, world: World, topic: str) -> None:
        self.world = world
        self.topic = topic
        self.line = world.connect()
        self.version = world.version(ProduceRequest)
        self.topic_id = world.topic_id(topic) if self.version >= WITH_IDS else bytes(16)

    def request(self, data: bytes | None, **options: Any) -> ProduceRequest:
        return produce(self.topic, data, topic_id=self.topic_id, **options)

    def send(self, data: bytes | None, about: str = "", **options: Any) -> Any:
        return self.line.ask(self.request(data, **options), self.version, about=about)

    def read(self, offset: int = 0, isolation: int = 0) -> None:
        request = fetch(self.topic, offset, isolation_level=isolation)
        self.world.connect().ask(request, 11, about="what is there")


def new_producer(world: World, line: Line) -> tuple[int, int]:
    world.producer_ids()
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = line.ask(request, 3)
    return answer.producer_id, answer.producer_epoch


def patched(data: bytes, at: int, new: bytes, *, crc: bool = True) -> bytes:
    """Return a batch with some bytes replaced, and its checksum made good again."""
    from crc32c import crc32c

    changed = bytearray(data)
    changed[at : at + len(new)] = new
    if crc:
        changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


@script
def produce_plainly(world: World) -> None:
    """Some batches, with every acks and codec; what is there afterwards."""
    writer = Writer(world, world.topic(partitions=2))
    writer.send(batch(world, b"a", b"b"))
    writer.send(batch(world, b"c"), acks=1)
    for codec in (1, 3, 4):
        writer.send(batch(world, b"d" * 100, b"e", codec=codec), f"codec {codec}")
    writer.send(batch(world, b"f"), partition=1)
    writer.send(batch(world, None, key=b"k"))
    writer.send(batch(world, b"x", base_offset=77, leader_epoch=5), "base offset 77")
    writer.read()


@script
def produce_without_answers(world: World) -> None:
    """acks=0: nothing comes back, errors close the connection."""
    writer = Writer(world, world.topic())
    for data, partition in ((batch(world, b"a"), 0), (batch(world, b"b"), 9), (batch(world, b"c"), 0)):
        asked = writer.line.send(writer.request(data, acks=0, partition=partition), writer.version)
        asked.is_parked(0.2) if partition == 0 else asked.answer()
        if partition:
            writer.line = world.connect()
    writer.read()


@script
def produce_wrongly(world: World) -> None:
    """acks that are none, partitions and topics that are not there, no records."""
    topic = world.topic()
    writer = Writer(world, topic)
    data = batch(world, b"a")
    for acks in (2, -2):
        writer.send(data, f"acks {acks}", acks=acks)
    writer.send(data, partition=1)
    writer.send(data, partition=-1)
    writer.send(b"", "no bytes")
    if writer.version >= WITH_IDS:
        writer.topic_id = b"?" * 16
    else:
        writer.topic = world.name("none")
    writer.send(data, "unknown topic")
    line = world.connect()
    line.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[]), writer.version, about="nothing")


@script
def produce_bad_batches(world: World) -> None:
    """Everything that is looked at in a batch."""
    writer = Writer(world, world.topic())
    good = batch(world, b"a", b"b")
    cases: dict[str, bytes] = {
        "checksum": patched(good, len(good) - 1, b"!", crc=False),
        "two batches": good + good,
        "cut off": good[:-1],
        "cut in the header": good[:40],
        "tail": good + b"tail",
        "magic 3": patched(good, 16, b"\3"),
        "magic 0": build_legacy([NewRecord(b"a", timestamp=world.base_ms)], magic=0),
        "magic 1": build_legacy([NewRecord(b"a", timestamp=world.base_ms)], magic=1),
        "count above": patched(good, 57, (3).to_bytes(4, "big")),
        "count below": patched(good, 57, (1).to_bytes(4, "big")),
        "count 0": patched(good, 57, bytes(4)),
        "last delta": patched(good, 23, (7).to_bytes(4, "big")),
        "negative delta": patched(good, 23, b"\xff\xff\xff\xff"),
        "control": batch(world, b"a", control=True),
        "codec 5": patched(good, 21, b"\0\5"),
        "codec without compressed data": patched(good, 21, b"\0\1"),
        "length 0": patched(good, 8, bytes(4), crc=False),
        "length huge": patched(good, 8, b"\x7f\xff\xff\xff", crc=False),
        "gap": build_batch(
            [NewRecord(b"a", timestamp=world.base_ms), NewRecord(b"b", timestamp=world.base_ms, offset=2)]
        ),
        "no records": build_batch([], max_timestamp=world.base_ms, last_offset_delta=0),
        "garbage in a record": patched(good, 61, b"\xff\xff\xff"),
        "max timestamp": patched(good, 35, (world.base_ms + 5).to_bytes(8, "big")),
        "transactional without an id": batch(
            world, b"a", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
        ),
    }
    for what, data in cases.items():
        writer.line = world.connect()
        writer.send(data, what)
    writer.read()


@script
def produce_in_time(world: World) -> None:
    """Times that are too far away, missing, or the broker's own."""
    writer = Writer(world, world.topic(message_timestamp_before_max_ms="3600000"))
    hour = 3_600_000
    for distance in (-2 * hour, -hour // 2, hour // 2, 2 * hour):
        writer.send(build_batch([NewRecord(b"a", timestamp=world.base_ms + distance)]), f"{distance}")
    writer.send(build_batch([NewRecord(b"a", timestamp=-1)]), "no timestamp")
    writer.send(build_batch([NewRecord(b"a", timestamp=-5)]), "-5")
    two = [NewRecord(b"a", timestamp=world.base_ms), NewRecord(b"b", timestamp=world.base_ms + 3 * hour)]
    writer.send(build_batch(two), "the second record")
    writer.read()
    own = Writer(world, world.topic("own", message_timestamp_type="LogAppendTime"))
    own.send(batch(world, b"a", b"b"))
    own.send(batch(world, b"a", b"b", codec=3))
    own.send(build_batch([NewRecord(b"a", timestamp=world.base_ms + 5 * hour)]), "5 hours")
    own.read()


@script
def produce_to_limits(world: World) -> None:
    """Batches that are larger than the topic takes, and compacted topics without keys."""
    small = Writer(world, world.topic(max_message_bytes="200"))
    small.send(batch(world, b"x" * 100))
    small.send(batch(world, b"x" * 131), "200 bytes?")
    small.send(batch(world, b"x" * 132))
    small.send(batch(world, b"x" * 140))
    small.send(batch(world, b"x" * 1000))
    small.send(batch(world, b"x" * 1000, codec=1), "compressed")
    small.read()
    keyed = Writer(world, world.topic("keyed", cleanup_policy="compact"))
    keyed.send(batch(world, b"a"), "no key")
    keyed.send(batch(world, b"a", b"b", key=b"k"))
    some = [NewRecord(b"a", b"k", timestamp=world.base_ms), NewRecord(b"b", timestamp=world.base_ms)]
    keyed.send(build_batch(some), "one without a key")
    keyed.read()


@script
def produce_in_another_codec(world: World) -> None:
    """A topic with a codec of its own gets batches in another."""
    for codec in ("uncompressed", "gzip", "producer"):
        writer = Writer(world, world.topic(codec, compression_type=codec))
        writer.send(batch(world, b"a" * 50, b"b" * 50))
        writer.send(batch(world, b"a" * 50, b"b" * 50, codec=3))
        writer.send(batch(world, b"a" * 50, b"b" * 50, codec=1))
        writer.read()


@script
def sequences(world: World) -> None:
    """An idempotent producer: order, gaps, duplicates, old duplicates."""
    writer = Writer(world, world.topic())
    producer_id, epoch = new_producer(world, writer.line)

    def send(sequence: int, count: int = 1, about: str = "", producer_epoch: int = epoch) -> None:
        values = [b"%d" % (sequence + n) for n in range(count)]
        data = batch(world, *values, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)
        writer.send(data, f"{sequence}x{count} {about}")

    send(0)
    send(1, 3)
    send(1, 3, "again")
    send(5, about="gap")
    send(1, 2, "part of one")
    send(0, about="old")
    for sequence in range(4, 10):
        send(sequence)
    send(9, about="again")
    send(5, about="the oldest kept")
    send(4, about="too old")
    send(0, about="much too old")
    send(-1, about="no sequence")
    send(10)
    send(11, producer_epoch=-1)
    writer.read()


@script
def first_sequences(world: World) -> None:
    """First sequence numbers that a partition accepts from an unknown producer."""
    writer = Writer(world, world.topic(partitions=6))
    for partition, sequence in enumerate((0, 1, 5, 2**31 - 1, -1, -5)):
        producer_id, epoch = new_producer(world, writer.line)
        data = batch(world, b"a", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        writer.send(data, f"begins with {sequence}", partition=partition)
        data = batch(world, b"b", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence + 1 & 2**31 - 1)
        writer.send(data, "and goes on", partition=partition)


@script
def producer_epochs(world: World) -> None:
    """A new epoch fences the old one, and begins at 0."""
    writer = Writer(world, world.topic())
    producer_id, epoch = new_producer(world, writer.line)

    def send(sequence: int, producer_epoch: int) -> None:
        data = batch(world, b"a", producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)
        writer.send(data, f"{sequence} in epoch {producer_epoch}")

    send(0, epoch)
    send(1, epoch)
    send(2, epoch + 1)
    send(0, epoch + 1)
    send(2, epoch)
    send(1, epoch + 1)
    send(0, epoch + 5)
    send(0, epoch)
    writer.read()


@script
def sequences_wrap(world: World) -> None:
    """After the highest sequence number comes 0."""
    writer = Writer(world, world.topic())
    producer_id, epoch = new_producer(world, writer.line)
    top = 2**31 - 1

    def send(sequence: int, count: int) -> None:
        values = [b"v"] * count
        data = batch(world, *values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        writer.send(data, f"{sequence}x{count}")

    send(0, 1)
    send(top, 1)
    other, epoch = new_producer(world, writer.line)
    producer_id = other
    send(top - 1, 4)
    send(2, 1)
    send(top - 1, 4)


@script
def several_partitions_at_once(world: World) -> None:
    """Good and bad partitions in one request."""
    topic = world.topic(partitions=3)
    writer = Writer(world, topic)
    good = batch(world, b"a")
    rows = [(0, good), (1, good[:-1] + b"!"), (2, good), (3, good)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=writer.topic_id,
                partition_data=[PartitionProduceData(index=index, records=data) for index, data in rows],
            )
        ],
    )
    writer.line.ask(request, writer.version)
    ends = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(3)]
    writer.line.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=ends)]), 5)


@script
def producer_ids(world: World) -> None:
    """InitProducerId without a transaction."""
    world.producer_ids()
    line = world.connect()
    version = world.version(InitProducerIdRequest)
    line.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
    line.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1))
    line.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000), about="empty id")
    if version >= 3:
        for producer_id, epoch in ((5, 0), (5, -1), (-1, 5)):
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=1, producer_id=producer_id, producer_epoch=epoch
            )
            line.ask(request, about=f"as {producer_id} {epoch}")
