"""Scripts of transactions: ids and epochs, partitions, offsets, the end; fencing; what readers see of it."""

from __future__ import annotations

from typing import Any

from thinconsumer.wire import Message
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from thinconsumer.wire.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from thinconsumer.wire.produce import ProduceRequest
from thinconsumer_testing.broker.wire.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .groups import stable
from .scripts import batch, fetch, produce, script
from .talk import World

CONCURRENT_TRANSACTIONS = 51
IMPLICIT = 12  #: The first version of Produce that adds its partitions by itself.
BUMPING = 5  #: The first version of EndTxn, and of TxnOffsetCommit, of the new kind.
BY_NAME = 12
FOR_BROKERS = 4  #: The first version of AddPartitionsToTxn that clients have no business with.


class Producer:
    """A transactional producer. In the plan ``highest`` it is one of the new kind (KIP-890, part 2)."""

    def __init__(self, world: World, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.world = world
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.line = world.connect()
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        self.is_new_kind = world.plan == "highest"

    def init(self, about: str = "", **options: Any) -> Any:
        """Get a producer id and epoch; note the last answer, when no earlier transaction is in the way any more."""
        fields = {"transactional_id": self.transactional_id, "transaction_timeout_ms": self.timeout_ms, **options}
        version = self.world.version(InitProducerIdRequest, 3 if options.get("producer_id", -1) >= 0 else 0)
        answer = self._noted(InitProducerIdRequest(**fields), version, about)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer

    def add(self, topic: str, *partitions: int, about: str = "", **options: Any) -> Any:
        """Add partitions to the transaction, as producers of the old kind do."""
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        fields = {**self._fields(), "topics": topics, **options}
        request = AddPartitionsToTxnRequest(**{f"v3_and_below_{name}": value for name, value in fields.items()})
        return self._noted(request, self.world.version(AddPartitionsToTxnRequest, at_most=FOR_BROKERS - 1), about)

    def write(self, topic: str, *values: bytes, partition: int = 0, about: str = "", **options: Any) -> Any:
        """Produce; those of the old kind have added the partition before."""
        key = (topic, partition)
        sequence = options.pop("sequence", self.sequences.get(key, 0))
        data = batch(
            self.world,
            *values,
            producer_id=options.pop("producer_id", self.producer_id),
            producer_epoch=options.pop("epoch", self.epoch),
            base_sequence=sequence,
            transactional=True,
        )
        request = produce(topic, data, partition=partition, transactional_id=self.transactional_id)
        for name, value in options.items():
            setattr(request, name, value)
        version = IMPLICIT if self.is_new_kind else self.world.version(ProduceRequest, at_most=IMPLICIT - 1)
        answer = self.line.ask(request, version, about=about)
        if answer is not None and not answer.responses[0].partition_responses[0].error_code:
            self.sequences[key] = sequence + len(values)
        return answer

    def end(self, committed: bool, about: str = "", **options: Any) -> Any:
        """Commit or abort, and note the answer."""
        request = EndTxnRequest(**{**self._fields(), "committed": committed, **options})
        version = BUMPING if self.is_new_kind else self.world.version(EndTxnRequest, at_most=BUMPING - 1)
        answer = self._noted(request, version, f"{about} {committed}")
        if answer is None or answer.error_code:
            return answer
        # The answer says that the transaction will end. Asked again, the coordinator says so for a second time only
        # after it has written the markers, which `seen` is to find in the log.
        self._settled(request, version)
        if version >= BUMPING:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self.sequences.clear()
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def add_offsets(self, group: str, about: str = "", **options: Any) -> Any:
        """Add a group to the transaction, as producers of the old kind do."""
        request = AddOffsetsToTxnRequest(**{**self._fields(), "group_id": group, **options})
        return self._noted(request, self.world.version(AddOffsetsToTxnRequest), about)

    def commit_offsets(self, group: str, topic: str, offset: int, about: str = "", **options: Any) -> Any:
        row = TxnOffsetCommitRequestPartition(
            partition_index=options.pop("partition", 0), committed_offset=offset, committed_metadata="m"
        )
        topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=[row])]
        request = TxnOffsetCommitRequest(**{**self._fields(), "group_id": group, "topics": topics, **options})
        low = 3 if "member_id" in options else 0
        high = BUMPING if self.is_new_kind else BUMPING - 1
        version = self.world.version(TxnOffsetCommitRequest, at_least=low, at_most=high)
        return self.line.ask(request, version, about=about)

    def _fields(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def _noted(self, request: Message, version: int, about: str) -> Any:
        answer = self._settled(request, version)
        name = type(request).__name__.removesuffix("Request")
        self.world.note(f"{name} {version} {about}", self.world.normal.of(answer))
        return answer

    def _settled(self, request: Message, version: int) -> Any:
        """Ask again while an earlier transaction is being completed: how long that takes is not compared."""
        for _ in range(200):
            answer = self.line.send(request, version).quiet_answer()
            if CONCURRENT_TRANSACTIONS not in _codes(answer):
                break
            self.world.wait(0.02)
        return answer


def _codes(answer: Any) -> set[int]:
    if answer is None:
        return set()
    found = {getattr(answer, "error_code", 0)}
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        found |= {one.partition_error_code for one in topic.results_by_partition}
    return found


def seen(world: World, topic: str, *, partition: int = 0) -> None:
    """Note what is in the log, what may be read of it, and where reading ends."""
    line = world.connect()
    for isolation in (0, 1):
        request = fetch(topic, 0, partition=partition, isolation_level=isolation)
        line.ask(request, BY_NAME, about=f"isolation {isolation}")
        row = ListOffsetsPartition(partition_index=partition, timestamp=-1)
        ends = [ListOffsetsTopic(name=topic, partitions=[row])]
        line.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=ends), 5, about="the end")


def began(world: World, stem: str = "x", **options: Any) -> Producer:
    producer = Producer(world, world.transactional_id(stem), **options)
    producer.init()
    return producer


def write(producer: Producer, topic: str, *values: bytes, partition: int = 0, about: str = "") -> None:
    if not producer.is_new_kind:
        producer.add(topic, partition)
    producer.write(topic, *values, partition=partition, about=about)


@script
def transactional_ids(world: World) -> None:
    """Ids given out, again, with what one has, with what one does not have; timeouts that cannot be."""
    producer = began(world)
    producer.init("again")
    version = world.version(InitProducerIdRequest)
    own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    if version >= 3:
        producer.init("with the present id", **own)
        producer.init("with the id before", **own)
        producer.init("with the id long before", producer_id=own["producer_id"], producer_epoch=0)
        producer.init("with another id", producer_id=own["producer_id"] + 1_000_000, producer_epoch=0)
    for timeout_ms in (0, -1, 900_001, 900_000, 1):
        producer.init(f"timeout {timeout_ms}", transaction_timeout_ms=timeout_ms)
    fresh = Producer(world, world.transactional_id("fresh"))
    if version >= 3:
        fresh.init("an unknown one, with an id", producer_id=77, producer_epoch=3)


@script
def transactions_that_are_empty(world: World) -> None:
    """Ending what has not begun, twice, the other way."""
    producer = began(world)
    for committed in (True, False, True):
        producer.end(committed, "of nothing")
    topic = world.topic()
    write(producer, topic, b"a")
    old = {"producer_epoch": producer.epoch, "producer_id": producer.producer_id}
    producer.end(True)
    producer.end(True, "again", **old)
    producer.end(False, "the other way", **old)
    seen(world, topic)


@script
def transactions_that_are_committed(world: World) -> None:
    """Two in a row, as readers see them before and after."""
    producer = began(world)
    topic = world.topic(partitions=2)
    write(producer, topic, b"a", b"b")
    write(producer, topic, b"c", partition=1)
    producer.write(topic, b"d")
    seen(world, topic)
    producer.end(True)
    seen(world, topic)
    write(producer, topic, b"e")
    seen(world, topic)
    producer.end(True)
    seen(world, topic)
    seen(world, topic, partition=1)


@script
def transactions_that_are_aborted(world: World) -> None:
    """Aborted ones are listed; those of two producers interleave."""
    one, two = began(world, "one"), began(world, "two")
    topic = world.topic()
    write(one, topic, b"a")
    write(two, topic, b"b")
    one.write(topic, b"c")
    seen(world, topic)
    two.end(False)
    seen(world, topic)
    one.end(True)
    seen(world, topic)
    write(two, topic, b"d")
    write(one, topic, b"e")
    one.end(False)
    two.end(False)
    seen(world, topic)


@script
def writing_without_a_transaction(world: World) -> None:
    """Partitions that were not added, ids that are not one's own, batches that are not transactional."""
    producer = began(world)
    topic = world.topic(partitions=3)
    producer.write(topic, b"a", about="not added")
    producer.end(False)
    write(producer, topic, b"b")
    producer.write(topic, b"c", partition=1, about="another partition, not added")
    producer.write(topic, b"x", partition=2, epoch=producer.epoch + 1, about="next epoch")
    producer.write(topic, b"x", partition=2, producer_id=producer.producer_id + 1_000_000, about="another id")
    plain = batch(world, b"x", producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=0)
    request = produce(topic, plain, partition=2, transactional_id=producer.transactional_id)
    version = min(world.version(ProduceRequest), IMPLICIT)
    producer.line.ask(request, version, about="a batch that is not transactional")
    producer.line = world.connect()
    data = batch(
        world, b"x", producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    producer.line.ask(produce(topic, data, partition=2), version, about="no transactional id")
    producer.line = world.connect()
    producer.end(True)
    for partition in range(3):
        seen(world, topic, partition=partition)


@script
def zombies(world: World) -> None:
    """A second producer of the same id fences the first, and aborts what it had begun."""
    first = began(world)
    topic = world.topic(partitions=2)
    write(first, topic, b"a")
    second = Producer(world, first.transactional_id)
    second.init("the second one")
    first.write(topic, b"b", about="fenced")
    first.add(topic, 1, about="fenced")
    first.end(True, "fenced")
    first.add_offsets(world.group(), "fenced")
    first.init("fenced", producer_id=first.producer_id, producer_epoch=first.epoch)
    write(second, topic, b"c")
    second.end(True)
    seen(world, topic)


@script
def adding_partitions_wrongly(world: World) -> None:
    """Unknown partitions, and producer ids and epochs of other producers."""
    producer = began(world)
    topic = world.topic()
    producer.add(topic, 9, about="unknown partition")
    producer.add(world.name("none"), 0, about="unknown topic")
    producer.add(topic, 0, 9, about="one of two is unknown")
    producer.add(topic, about="nothing")
    producer.add(topic, 0, about="another id", producer_id=producer.producer_id + 1_000_000)
    producer.add(topic, 0, about="next epoch", producer_epoch=producer.epoch + 1)
    producer.add(topic, 0, about="another name", transactional_id=world.name("nobody"))
    producer.add(topic, 0, about="no name", transactional_id="")
    producer.add(topic, 0, about="good")
    producer.add(topic, 0, about="again")
    producer.end(True, "another id", producer_id=producer.producer_id + 1_000_000)
    producer.end(True, "next epoch", producer_epoch=producer.epoch + 1)
    producer.end(True, "another name", transactional_id=world.name("nobody"))
    producer.end(True, "no name", transactional_id="")
    producer.end(True)
    seen(world, topic)


@script
def verifying_as_brokers_do(world: World) -> None:
    """AddPartitionsToTxn for brokers: many transactions at once, looking only."""
    producer = began(world)
    topic = world.topic(partitions=2)
    producer.add(topic, 0)
    version = world.version(AddPartitionsToTxnRequest, FOR_BROKERS)

    def ask(*rows: tuple[str, int, int, bool, list[int]]) -> None:
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=looking,
                topics=[AddPartitionsToTxnTopic(name=topic, partitions=partitions)],
            )
            for name, producer_id, epoch, looking, partitions in rows
        ]
        producer.line.ask(AddPartitionsToTxnRequest(transactions=transactions), version)

    own = (producer.transactional_id, producer.producer_id, producer.epoch)
    ask((*own, True, [0]))
    ask((*own, True, [0, 1]))
    ask((world.name("nobody"), 5, 0, True, [0]), (*own, True, [1]))
    ask((*own[:2], producer.epoch + 1, True, [0]))
    ask((*own, False, [1]))
    ask((*own, True, [0, 1]))


@script
def offsets_in_transactions(world: World) -> None:
    """Offsets become those of the group when the transaction is committed, and not when it is aborted."""
    group, topic = world.group(), world.topic()
    producer = began(world)

    def committed(about: str) -> None:
        for stable_only in (False, True):
            request = OffsetFetchRequest(
                group_id=group,
                topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])],
                require_stable=stable_only,
            )
            world.connect().ask(request, 7, about=f"{about} {stable_only}")

    for offset, ends_well in ((5, True), (6, False), (7, True)):
        if not producer.is_new_kind:
            producer.add_offsets(group)
        producer.commit_offsets(group, topic, offset)
        committed(f"{offset} pending")
        producer.end(ends_well)
        committed(f"{offset} ended")


@script
def offsets_in_transactions_wrongly(world: World) -> None:
    """Groups that were not added, members that are not, ids that are not one's own."""
    group, topic = world.group(), world.topic()
    producer = began(world)
    member = stable(world, world.group("living"))
    if not producer.is_new_kind:
        producer.commit_offsets(group, topic, 1, "not added")
    producer.add_offsets(group)
    producer.commit_offsets(group, topic, 2)
    producer.commit_offsets(group, topic, 2, "unknown partition", partition=9)
    producer.commit_offsets(group, world.name("none"), 2, "unknown topic")
    producer.commit_offsets(group, topic, 2, "next epoch", producer_epoch=producer.epoch + 1)
    producer.commit_offsets(group, topic, 2, "unknown member", member_id="nobody", generation_id_or_member_epoch=1)
    producer.commit_offsets(group, topic, 2, "no group", group_id="")
    producer.add_offsets("", "no group")
    producer.add_offsets(group, "another id", producer_id=producer.producer_id + 1_000_000)
    producer.add_offsets(group, "another name", transactional_id=world.name("nobody"))
    living = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation}
    producer.add_offsets(member.group)
    producer.commit_offsets(member.group, topic, 3, "by a member", **living)
    living["generation_id_or_member_epoch"] += 1
    producer.commit_offsets(member.group, topic, 3, "by a member of the next generation", **living)
    producer.commit_offsets(member.group, topic, 4, "by nobody, for a living group")
    producer.end(True)


@script
def transactions_that_time_out(world: World) -> None:
    """The coordinator aborts it, and the producer learns that with its next request."""
    producer = began(world, timeout_ms=1000)
    topic = world.topic()
    write(producer, topic, b"a")
    # A real coordinator looks every ten seconds.
    for _ in range(300):
        row = ListOffsetsPartition(partition_index=0, timestamp=-1)
        ends = ListOffsetsRequest(
            replica_id=-1, isolation_level=1, topics=[ListOffsetsTopic(name=topic, partitions=[row])]
        )
        if producer.line.send(ends, 5).quiet_answer().topics[0].partitions[0].offset > 0:
            break
        world.wait(0.1)
    seen(world, topic)
    producer.write(topic, b"b", about="too late")
    producer.end(True, "too late")
    producer.init("once more")
    write(producer, topic, b"c")
    producer.end(True)
    seen(world, topic)
