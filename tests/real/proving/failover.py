"""Record leaders, written and read records over time, and judge how far the consumer lagged behind.

Three threads of the test, not of the library: one writes with an idempotent producer, one asks brokers for leaders, one
reads with the consumer under test. The test itself kills, pauses and restarts. Afterwards :func:`judge` compares notes.
All times are ``time.monotonic()`` seconds.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from realkafka import KafkaCluster

from proving.filling import producer
from thinconsumer import Consumer, KafkaError, TopicPartition
from thinconsumer.wire.header import decode_response_header, encode_request
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

METADATA_VERSION = 9  # the first version with reliable leader epochs (KAFKA-9212)


def ask_metadata(port: int, topic: str, seconds: float = 0.5) -> MetadataResponse:
    """Return one broker's picture of the topic; raise ``OSError`` when it does not answer."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    body = encode_request(request, METADATA_VERSION, 1, "watcher")
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        connection.sendall(len(body).to_bytes(4, "big") + body)
        with connection.makefile("rb") as stream:
            frame = stream.read(int.from_bytes(stream.read(4), "big"))
    if len(frame) < 8:
        raise ConnectionError("no answer")
    _, start = decode_response_header(frame, MetadataRequest, METADATA_VERSION)
    return MetadataResponse.decode(memoryview(frame)[start:], METADATA_VERSION)


@dataclass
class Stint:
    """A time during which one partition was led by one broker that was alive."""

    partition: int
    node: int
    since: float
    until: float = float("inf")


@dataclass
class Notes:
    """All observations. Each list is appended to by one thread only."""

    acknowledged: dict[int, dict[int, float]] = field(default_factory=dict)  #: partition -> offset -> when
    delivered: dict[int, list[tuple[int, bytes, float]]] = field(default_factory=dict)  #: offset, value, when
    elections: dict[tuple[int, int], tuple[int, float]] = field(
        default_factory=dict
    )  #: (partition, epoch) -> (node, when)
    outages: dict[int, list[tuple[float, float]]] = field(default_factory=dict)  #: node -> from, until
    down: set[int] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)  #: Errors that the consumer raised.
    slowest_poll: float = 0.0


class Background:
    """A function called again and again in a thread until the block ends; its exception comes out there."""

    def __init__(self, step: Callable[[], Any], every: float = 0.0) -> None:
        self._step, self._every = step, every
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._step()
                if self._every:
                    self._stop.wait(self._every)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the block ends
            self._error = error

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        if self._error is not None:
            raise self._error


class Writer:
    """An idempotent producer at acks=all; record ``n`` of a partition has the value ``b"%d" % n``."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, notes: Notes, per_step: int = 6) -> None:
        self._target = producer(
            bootstrap, enable_idempotence=True, acks="all", linger_ms=5, retry_backoff_ms=50,
            reconnect_backoff_max_ms=500, topic_metadata_refresh_interval_ms=2000, socket_timeout_ms=5000,
            message_timeout_ms=120_000,
        )  # fmt: skip
        self._topic, self._partitions, self._notes, self._per_step = topic, partitions, notes, per_step
        self.written = 0

    def step(self) -> None:
        """Write a few records and take what was acknowledged meanwhile."""
        for _ in range(self._per_step):
            n, partition = divmod(self.written, self._partitions)
            self._target.produce(self._topic, b"%d" % n, partition=partition, on_delivery=self._delivered)
            self.written += 1
        self._target.poll(0.02)

    def finish(self) -> None:
        assert self._target.flush(120) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        # Of a batch that was sent twice, and written the first time, the leader may not remember the offset.
        offset = int(message.value()) if message.offset() is None else message.offset()
        self._notes.acknowledged.setdefault(message.partition(), {})[offset] = time.monotonic()


def watch(cluster: KafkaCluster, topic: str, notes: Notes) -> None:
    """Note leaders that were not known before, asking every broker that is not known to be down."""
    for node, port in cluster.ports.items():
        if node in notes.down:
            continue
        try:
            found = ask_metadata(port, topic)
        except OSError:
            continue
        now = time.monotonic()
        for part in found.topics[0].partitions:
            if part.leader_id >= 0:
                notes.elections.setdefault((part.partition_index, part.leader_epoch), (part.leader_id, now))


def read(consumer: Consumer[Any, Any], notes: Notes) -> None:
    began = time.monotonic()
    try:
        found = consumer.poll(100, 500)
    except KafkaError as error:
        notes.errors.append(f"{began:.3f} {error!r}")
        return
    now = time.monotonic()
    notes.slowest_poll = max(notes.slowest_poll, now - began)
    for tp, records in found.items():
        notes.delivered.setdefault(tp.partition, []).extend((r.offset, r.value, now) for r in records)


def stints(notes: Notes, partitions: int) -> list[Stint]:
    """Return the times in which each partition had a living leader."""
    found = []
    for partition in range(partitions):
        terms = sorted((epoch, *seen) for (p, epoch), seen in notes.elections.items() if p == partition)
        for (_, node, since), after in zip(terms, [*terms[1:], (0, 0, float("inf"))]):
            begin, until = since, after[2]
            for down, up in sorted(notes.outages.get(node, [])):
                if up <= begin or down >= until:
                    continue
                if down > begin:
                    found.append(Stint(partition, node, begin, down))
                begin = up
            if begin < until:
                found.append(Stint(partition, node, begin, until))
    return found


@dataclass
class Figures:
    """Results of one run, in seconds."""

    records: int = 0
    elections: int = 0
    trail: list[float] = field(default_factory=list)  #: Per record while its partition was led by a living broker.
    resumed: list[float] = field(default_factory=list)  #: Per stint, from its beginning to the first delivery due.
    late: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        trail, resumed = sorted(self.trail), sorted(self.resumed)

        def at(many: list[float], part: float) -> str:
            return f"{many[min(len(many) - 1, int(part * len(many)))]:.3f}" if many else "-"

        return (
            f"{self.records} records, {self.elections} elections; trailing p50 {at(trail, 0.5)} p99 {at(trail, 0.99)} "
            f"p99.9 {at(trail, 0.999)} max {at(trail, 1)} s; {len(resumed)} times resumed, "
            f"after p50 {at(resumed, 0.5)} max {at(resumed, 1)} s; {len(self.late)} too late"
        )


def judge(notes: Notes, partitions: int, request_timeout: float, trail_max: float = 1.0) -> Figures:
    """Compare: every record by when it was due.

    A record acknowledged while a living broker leads is due ``trail_max`` later, and after a new leader's election (or
    the old one's return) everything is due within ``request_timeout`` + 1 s. A stint that ends before a record is due
    proves nothing about it.
    """
    figures = Figures(elections=len(notes.elections) - partitions)
    begin = min(when for rows in notes.delivered.values() for _, _, when in rows)
    for stint in stints(notes, partitions):
        arrived = {offset: when for offset, _, when in notes.delivered.get(stint.partition, [])}
        settled = max(stint.since, begin) + request_timeout + 1
        first: float | None = None
        for offset, acked in sorted(notes.acknowledged.get(stint.partition, {}).items()):
            when = arrived.get(offset, float("inf"))
            if acked >= stint.until or when < stint.since:
                continue
            due = max(acked + trail_max, settled)
            if acked >= settled and when < stint.until:
                figures.trail.append(when - acked)
            elif first is None and stint.since > begin and when < stint.until:
                first = when - max(acked, stint.since)
                figures.resumed.append(first)
            if due < stint.until and when > due:
                figures.late.append(
                    f"partition {stint.partition} offset {offset}: acknowledged {acked:.3f}, node {stint.node} "
                    f"led from {stint.since:.3f} to {stint.until:.3f}, due {due:.3f}, delivered {when:.3f}"
                )
    figures.records = sum(map(len, notes.delivered.values()))
    return figures


def assert_complete(notes: Notes, ends: dict[TopicPartition, int]) -> None:
    """Every offset up to the end once and ascending, with the value that belongs there."""
    for tp, end in sorted(ends.items()):
        rows = notes.delivered.get(tp.partition, [])
        offsets = [offset for offset, _, _ in rows]
        assert offsets == list(range(end)), f"{tp}: {_difference(offsets, end)}"
        assert [value for _, value, _ in rows] == [b"%d" % n for n in range(end)], f"{tp}: values out of order"


def _difference(offsets: list[int], end: int) -> str:
    missing = sorted(set(range(end)) - set(offsets))
    odd = [(a, b) for a, b in itertools.pairwise(offsets) if b != a + 1]
    return f"{len(offsets)} delivered of {end}; missing {missing[:5]} ...; steps other than 1: {odd[:5]}"
