"""The list of all scripts, and what they share: short ways to say requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .talk import World

Script = Callable[[World], None]

SCRIPTS: dict[str, Script] = {}
#: The scripts of the consumer group protocol, for a broker with the settings of ``consumer_group_limits``.
CONSUMER_GROUP_SCRIPTS: dict[str, Script] = {}
#: The scripts of a cluster of three brokers.
CLUSTER_SCRIPTS: dict[str, Script] = {}
#: The scripts that need ACLs, and users that log in.
ACL_SCRIPTS: dict[str, Script] = {}


def _listed_in(scripts: dict[str, Script]) -> Callable[[Script], Script]:
    def listed(function: Script) -> Script:
        assert function.__name__ not in scripts
        scripts[function.__name__] = function
        return function

    return listed


script, consumer_group_script = _listed_in(SCRIPTS), _listed_in(CONSUMER_GROUP_SCRIPTS)
cluster_script, acl_script = _listed_in(CLUSTER_SCRIPTS), _listed_in(ACL_SCRIPTS)


def batch(world: World, *values: bytes | None, key: bytes | None = None, **options: Any) -> bytes:
    """Return a batch of records, a second apart from the script's own time on."""
    records = [NewRecord(value, key, timestamp=world.base_ms + 1000 * n) for n, value in enumerate(values)]
    return build_batch(records, **options)


def produce(
    topic: str, data: bytes | None, *, partition: int = 0, acks: int = -1, transactional_id: str | None = None,
    topic_id: bytes = bytes(16),
) -> ProduceRequest:  # fmt: skip
    rows = [PartitionProduceData(index=partition, records=data)]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=rows)],
    )


def fill(world: World, topic: str, *batches: bytes, partition: int = 0) -> None:
    """Produce without noting the answers."""
    line = world.connect()
    for data in batches:
        answer = line.send(produce(topic, data, partition=partition), 9).quiet_answer()
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
    line.close()


def fetch(
    topic: str, offset: int = 0, *, partition: int = 0, topic_id: bytes = bytes(16), epoch: int = -1,
    last_epoch: int = -1, partition_bytes: int = 1 << 20, **options: Any,
) -> FetchRequest:  # fmt: skip
    row = FetchPartition(
        partition=partition,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=partition_bytes,
    )
    return fetch_of([FetchTopic(topic=topic, topic_id=topic_id, partitions=[row])], **options)


def fetch_of(topics: Sequence[FetchTopic], *, wait_ms: int = 0, min_bytes: int = 1, **options: Any) -> FetchRequest:
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, topics=list(topics), **options)
