"""Keep the records of each key in order over micro-batches (KIP-253): functions that return what may be read now.

A micro-batch reads its partitions in parallel tasks. If a key has records in two partitions, the earlier ones must
therefore be read by an earlier micro-batch. The gates of topics with ordered delivery are computed from brokers'
answers and the offsets that earlier micro-batches have reached, so a stream stores nothing for them.

With ``kafka.ordered.delivery=barrier``, an expanded topic has a barrier, as :mod:`thinconsumer.ordered.barrier`
describes. A barrier's state cannot be computed again later, so it is part of the offsets until the barrier ends:
``"@barrier":{"topic":{"seen":1700000000000,"new":[2],"before":{"0":17,"1":9},"after":null}}``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..config import ConsumerConfig
from ..consumer.bulk_queries import ask
from ..errors import KafkaConfigurationError
from ..ordered.gates import START
from ..types import TopicPartition
from .offsets import Json, Offsets, from_json

if TYPE_CHECKING:
    from ..consumer import Consumer
    from ..ordered.gate_queries import OffsetGate, TopicGates

#: Offsets of one topic, by partition number.
ByNumber = Mapping[int, int]
#: The name of the barriers in a stream's offsets. If they were not stored, a restarted query would wait for the grace
#: time again.
BARRIER_KEY = "@barrier"


class TopicOrder(NamedTuple):
    """The gates of some topics, looked up after their log ends, with the same consumer.

    A ListOffsets request has the leader epoch of the consumer's metadata, and a leader with a newer epoch rejects it.
    Once the log ends are known, these metadata therefore have every change of the partition count below the log ends.
    If gates were computed from older metadata, the gate of a change could be missing, and records behind it be read.
    """

    counted: frozenset[str]  #: The topics with ordered delivery: they may lose partitions.
    #: The gates of topics whose partition count has changed; they cover all records up to the log ends.
    held: TopicGates

    @staticmethod
    def look_up(consumer: Consumer[Any, Any], topics: Collection[str], options: OrderOptions) -> TopicOrder:
        """Return the gates of topics; none if ordered delivery is off.

        The consumer must have the topics' metadata.
        """
        counted = frozenset(consumer._reader.managers.metadata.counted()).intersection(topics)
        if not counted or options.kind == "off":
            return TopicOrder(counted, {})
        return TopicOrder(counted, ask(consumer, lambda managers: managers.gate_queries().ask(counted)))

    def open_ends(self, begin: Offsets, latest: Offsets, earliest: Mapping[TopicPartition, int]) -> Offsets:
        """Return the offset of each partition in ``latest`` up to which the next micro-batch may read.

        A gate opens once earlier micro-batches have read what it requires, up to ``begin``. ``earliest`` has the log
        start offsets of the partitions of topics with gates. Partitions that are not in ``latest`` are not read, and
        not awaited.
        """
        open_ends = {tp: _open_end(tp, gates, begin, latest, earliest) for tp, gates in self._gates_in(latest)}
        return {**latest, **{tp: min(latest[tp], end) for tp, end in open_ends.items()}}

    def open_ends_of_batch(self, begin: Offsets, ends: Offsets, earliest: Mapping[TopicPartition, int]) -> Offsets:
        """Return the offset of each partition up to which a batch read from ``begin`` to ``ends`` returns records.

        No batch has read anything before, so a gate opens if this batch itself reads what the gate requires. The batch
        then has no record without the earlier records of the same key.
        """
        found = dict(ends)
        while True:
            before = found
            # Each round may close gates, as a partition that is held is not read as far as another gate requires.
            reached = {tp: max(offset, begin[tp]) for tp, offset in before.items()}
            found = dict(ends)
            for tp, gates in self._gates_in(ends):
                found[tp] = min(ends[tp], _open_end(tp, gates, {**reached, tp: begin[tp]}, ends, earliest))
            if found == before:
                return found

    def _gates_in(self, tps: Container[TopicPartition]) -> Iterator[tuple[TopicPartition, Sequence[OffsetGate]]]:
        for topic, by_partition in self.held.items():
            for number, gates in by_partition.items():
                if (tp := TopicPartition(topic, number)) in tps:
                    yield tp, gates


class OrderOptions(NamedTuple):
    """The options ``kafka.ordered.delivery`` and ``kafka.ordered.delivery.grace.ms``."""

    kind: str = "topic"
    grace_ms: int = 300_000

    @staticmethod
    def of(config: ConsumerConfig) -> OrderOptions:
        """Return these two options of a consumer's configuration."""
        return OrderOptions(config.ordered_delivery, config.ordered_delivery_grace_ms)


def without_order(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return ``kafka`` with ordered delivery switched off: Spark's driver plans what may be read, not the consumer."""
    own = ("ordered_delivery", "ordered_delivery_grace_ms")
    return {
        **{name: text for name, text in kafka.items() if name.replace(".", "_") not in own},
        "ordered.delivery": "off",
    }


def _open_end(
    tp: TopicPartition,
    gates: Sequence[OffsetGate],
    begin: Offsets,
    read: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
) -> int:
    def is_read(number: int, offset: int) -> bool:
        one = TopicPartition(tp.topic, number)
        return one not in read or begin.get(one, earliest.get(one, 0)) >= offset

    start = begin.get(tp, earliest.get(tp, 0))
    for gate in gates:
        # If ``start`` is beyond the log start, reading has passed a gate at START already, or the user has chosen
        # ``start``.
        is_passed = gate.offset == START and start > earliest.get(tp, 0)
        if not is_passed and not all(is_read(*one) for one in gate.requires.items()):
            return start if gate.offset == START else max(start, gate.offset)
    return read[tp]


class TopicBarrier(NamedTuple):
    """Holds the old partitions of an expanded topic at ``before`` until all were read that far, and the new ones until
    the old ones were read up to ``after``.
    """

    seen_ms: int  #: When the new partitions were seen, in ms since 1970.
    new: frozenset[int]
    before: ByNumber  #: The log ends of the old partitions at that time.
    after: ByNumber | None = None  #: The log ends of all partitions after the grace time; None before.


Barriers = Mapping[str, TopicBarrier]


class LookedUp(NamedTuple):
    """When log ends were looked up, in ms since 1970."""

    begun_ms: int
    ended_ms: int


def open_topic(
    begin: ByNumber, latest: ByNumber, barrier: TopicBarrier | None, when: LookedUp, grace_ms: int
) -> tuple[ByNumber, TopicBarrier | None]:
    """Return the offsets up to which the partitions of a topic may be read, and the topic's barrier (None: no barrier).

    Partitions that are left out are held. ``begin`` are the offsets up to which the stream has read, ``latest`` the log
    ends, looked up at ``when``, and ``barrier`` is the barrier so far. Partitions in ``latest`` that are not in
    ``begin`` are new, unless the stream has read nothing of the topic.
    """
    new, old = latest.keys() - begin.keys(), latest.keys() & begin.keys()
    if not new or not old:
        return latest, None
    if barrier is None or not new <= barrier.new:
        barrier = TopicBarrier(when.ended_ms, frozenset(new), {number: latest[number] for number in old})
    if barrier.after is None and when.begun_ms >= barrier.seen_ms + grace_ms:
        barrier = barrier._replace(after=latest)
    before, after = barrier.before, barrier.after
    found = {number: latest[number] for number in old}
    if not all(begin[number] >= before.get(number, 0) for number in old):
        found = {number: min(end, max(begin[number], before.get(number, end))) for number, end in found.items()}
    if after is not None and all(begin[number] >= after.get(number, 0) for number in old):
        # Linear hashing splits partition n off from a partition below n/2: n waits while that partition may be new.
        found |= {number: latest[number] for number in new if not any(2 * one < number for one in new)}
    return found, barrier


def open_topics(
    begin: Offsets, latest: Offsets, barriers: Barriers, when: LookedUp, options: OrderOptions, counted: Container[str]
) -> tuple[Offsets, Barriers]:
    """Return the offsets up to which partitions may be read, and the barriers of the topics that have one.

    The ``counted`` topics, those with ordered delivery, have gates instead, which hold nothing for a grace time.
    """
    if options.kind != "barrier":
        return latest, barriers
    found: Offsets = {}
    left: dict[str, TopicBarrier] = {}
    for topic in sorted({tp.topic for tp in latest}):
        barrier: TopicBarrier | None = None
        open_ones: Mapping[int, int] = _of(topic, latest)
        if topic not in counted:
            open_ones, barrier = open_topic(_of(topic, begin), open_ones, barriers.get(topic), when, options.grace_ms)
        found |= {TopicPartition(topic, number): offset for number, offset in open_ones.items()}
        if barrier is not None:
            left[topic] = barrier
    return found, left


def unfinished(barriers: Barriers, end: Offsets) -> dict[str, TopicBarrier]:
    """Return the barriers that a micro-batch up to ``end`` leaves: those with a new partition that ``end`` lacks."""
    return {
        topic: barrier
        for topic, barrier in barriers.items()
        if any(TopicPartition(topic, number) not in end for number in barrier.new)
    }


def offsets_of(value: Json) -> Offsets:
    """Return the offsets of a stream without its barriers."""
    return from_json({topic: numbers for topic, numbers in value.items() if topic != BARRIER_KEY})


def state_of(value: Mapping[str, Any]) -> dict[str, TopicBarrier]:
    """Return the barriers in the offsets of a stream, or raise ``KafkaConfigurationError`` for wrong ones."""
    found = value.get(BARRIER_KEY, {})
    try:
        return {topic: _from_json(one) for topic, one in found.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"the barriers {json.dumps(found)[:200]} in the checkpoint were not written by this source"
        raise KafkaConfigurationError(message) from error


def with_state(value: Json, barriers: Barriers) -> Json:
    """Return a stream's offsets with its barriers."""
    state = {topic: _to_json(barriers[topic]) for topic in sorted(barriers)}
    return {**value, BARRIER_KEY: state} if state else value


def _of(topic: str, offsets: Offsets) -> dict[int, int]:
    return {tp.partition: offset for tp, offset in offsets.items() if tp.topic == topic}


def _to_json(barrier: TopicBarrier) -> Json:
    def numbers(offsets: ByNumber) -> dict[str, int]:
        return {str(number): offsets[number] for number in sorted(offsets)}

    after = None if barrier.after is None else numbers(barrier.after)
    return {"seen": barrier.seen_ms, "new": sorted(barrier.new), "before": numbers(barrier.before), "after": after}


def _from_json(value: Mapping[str, Any]) -> TopicBarrier:
    def numbers(offsets: Mapping[str, int]) -> ByNumber:
        return {int(number): int(offset) for number, offset in offsets.items()}

    after = None if value["after"] is None else numbers(value["after"])
    return TopicBarrier(int(value["seen"]), frozenset(map(int, value["new"])), numbers(value["before"]), after)
