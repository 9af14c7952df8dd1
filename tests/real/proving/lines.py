"""Write a record as a line of text, as ``DumpRecords.java`` does for Java's consumer."""

from collections.abc import Iterable
from typing import Any

from proving.java import run_java
from thinconsumer import Consumer, ConsumerRecord, TopicPartition

ISOLATIONS = ("read_uncommitted", "read_committed")


def hexed(data: bytes | None) -> str:
    return "null" if data is None else data.hex()


def line(record: ConsumerRecord[Any, Any]) -> str:
    headers = "".join(f"{hexed(name.encode())}={hexed(data)}," for name, data in record.headers)
    fields = (
        record.topic, record.partition, record.offset, record.leader_epoch, record.timestamp, record.timestamp_type,
        hexed(record.key), hexed(record.value), headers,
    )  # fmt: skip
    return "\t".join(map(str, fields))


def by_java(bootstrap: str, topics: Iterable[str]) -> dict[tuple[str, str], list[str]]:
    """Return what the Java consumer sees, by isolation level and topic, sorted; one JVM for all of it."""
    topics = list(topics)
    try:
        printed = run_java("DumpRecords.java", bootstrap, *topics)
    except RuntimeError as error:
        # On a machine that stands still for a while, Java's own time-outs strike; only we are under test here.
        print(f"the Java consumer failed, once more: {str(error)[-500:]}")
        printed = run_java("DumpRecords.java", bootstrap, *topics)
    found: dict[tuple[str, str], list[str]] = {}
    for row in printed.split("\n")[:-1]:
        isolation, rest = row.split("\t", 1)
        found.setdefault((isolation, rest.split("\t", 1)[0]), []).append(rest)
    return {key: sorted(rows, key=_order) for key, rows in found.items()}


def by_us(bootstrap: str, topic: str, isolation: str, **options: Any) -> list[str]:
    """Return what our consumer sees, sorted like Java's; checks order, lag and ends on the way."""
    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": isolation} | options
    rows: list[str] = []
    with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        found = consumer.partitions_for_topic(topic)
        assert found is not None
        tps = [TopicPartition(topic, partition) for partition in sorted(found)]
        consumer.assign(tps)
        last = dict.fromkeys(tps, -1)
        for tp, records in _to_the_ends(consumer, tps):
            for record in records:
                assert record.offset > last[tp], f"{tp}: {record.offset} after {last[tp]}"
                last[tp] = record.offset
                rows.append(line(record))
        lag = consumer.lag()
        assert set(lag.values()) == {0}, f"lag is not 0 at the end of {topic}: {lag}"
        rows += [f"{topic}\t{tp.partition}\tends at\t{consumer.position(tp)}" for tp in tps]
    return sorted(rows, key=_order)


def _to_the_ends(consumer: Consumer[Any, Any], tps: list[TopicPartition]) -> Iterable[tuple[TopicPartition, list[Any]]]:
    """Poll until every position is at its end; batches without records move it, too."""
    ends = consumer.end_offsets(tps)
    silent = 0
    while silent < 50:
        got = consumer.poll(200, 777)
        yield from got.items()
        silent = 0 if got else silent + 1
        if all(consumer.position(tp) >= ends[tp] for tp in tps) and None not in consumer.lag().values():
            return
    raise AssertionError(f"positions stay below {ends}: { {tp: consumer.position(tp) for tp in tps} }")


def _order(row: str) -> tuple[int, int, str]:
    _, partition, offset, *_ = row.split("\t")
    return int(partition), int(offset) if offset.isdigit() else -1, row
