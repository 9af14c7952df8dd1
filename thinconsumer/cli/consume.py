"""Read topics and write their records to standard output, from --from on, until Ctrl-C, --max or --until-end.

Without --json each record is its value on a line. With it each is an object with topic, partition, offset, timestamp
(milliseconds), key, value and headers; bytes that are not UTF-8 are {"base64": "..."}, and what is null is null.

With --group it is one of the group's members: the group shares the partitions out, reading goes on where the group has
committed, and what was printed is committed. Records may be read twice after a crash, and are never left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, islice

from ..consumer import Consumer
from ..types import TopicPartition
from .consume_in_group import Member, Reader, check, compiled, config_for, leaving_when_terminated
from .output import Output, Progress, Record, record_as_json, record_as_text
from .parsing import (
    Failure,
    OneOf,
    Parser,
    PartitionsOf,
    Start,
    add_cluster,
    add_properties,
    client_config,
    did_you_mean,
    positive,
    start,
    topic_and_partitions,
)

#: How long one poll waits. Ctrl-C does not wait for it.
POLL_MS = 1000
#: Records taken at a time: enough to be fast, few enough for progress to move.
POLL_RECORDS = 2000


def describe(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "topics",
        metavar="TOPIC[:PARTITIONS]",
        nargs="*",
        type=topic_and_partitions,
        help="what to read: orders, or, without a group, some of its partitions: orders:0,3-5",
    )
    add_cluster(parser)
    parser.add_argument("--group", metavar="ID", help="read as a member of this group, and commit what was printed")
    parser.add_argument(
        "--pattern", metavar="REGEX", type=compiled, help="with --group, all topics whose whole name matches"
    )
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        type=start,
        default=Start("earliest"),
        help="earliest (default), latest, an offset, -N for the last N of each partition, or a time: 2026-01-31T12:00Z;"
        " with --group only earliest or latest, for partitions of which nothing is committed",
    )
    parser.add_argument("--max", metavar="N", type=positive, help="stop after so many records")
    parser.add_argument(
        "--until-end", action="store_true", help="stop at the ends that the partitions have at the start"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object to a line")
    parser.add_argument("--key-separator", metavar="TEXT", help="show keys too, with this between key and value")
    parser.add_argument(
        "--isolation",
        type=OneOf("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="read_committed leaves out what open and aborted transactions wrote (default: %(default)s)",
    )
    add_properties(parser, "consumer")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="say on standard error how far it is (default: where that is a terminal and standard output is none)",
    )


def run(options: argparse.Namespace) -> int:
    """Read and write; return the exit code."""
    check(options)
    in_group = options.group is not None
    # An offset that was asked for and is not there should be said, not silently replaced by another.
    own = config_for(options) if in_group else {"auto_offset_reset": "none"}
    config = client_config(options, isolation_level=options.isolation, **own)
    progress = Progress(options.progress)
    with leaving_when_terminated() if in_group else nullcontext(), Consumer.from_config(config) as consumer:
        progress.update(lambda: f"connecting to {options.bootstrap_server}")
        consumer.bootstrap()
        tps = partitions_to_read(consumer, options.topics)
        printing = Printing(consumer, _form(options), progress)
        return (
            _read_as_member(consumer, options, tps, printing) if in_group else _read(consumer, options, tps, printing)
        )


class Printing:
    """Writes batches out, and says how far it is."""

    def __init__(self, consumer: Reader, form: Callable[[Record], bytes], progress: Progress) -> None:
        self._consumer, self._form, self._progress = consumer, form, progress
        self._output = Output()
        self._count, self._started = 0, time.monotonic()

    def write_all(self, batches: Iterable[Sequence[Record]], written: Callable[[], None] = lambda: None) -> None:
        """Write them; call ``written`` after each."""
        try:
            for batch in batches:
                self._output.write(map(self._form, batch))
                written()
                self._count += len(batch)
                self._progress.update(self._how_far)
        finally:
            self._progress.say(f"{self._count:,} records in {time.monotonic() - self._started:.1f} s")

    def _how_far(self) -> str:
        rate = self._count / max(time.monotonic() - self._started, 0.001)
        lags = [lag for lag in self._consumer.lag().values() if lag is not None]
        return f"{self._count:,} records, {rate:,.0f}/s, {f'{sum(lags):,} behind' if lags else 'waiting'}"


def _read(consumer: Reader, options: argparse.Namespace, tps: Sequence[TopicPartition], printing: Printing) -> int:
    consumer.assign(tps)
    begin_at(consumer, tps, options.start)
    batches = _to_the_end(consumer) if options.until_end else _for_ever(consumer, options.max)
    printing.write_all(_at_most(options.max, batches))
    return 0


def _read_as_member(
    consumer: Reader, options: argparse.Namespace, tps: Sequence[TopicPartition], printing: Printing
) -> int:
    member = Member(consumer)
    try:
        if options.until_end:
            if options.pattern is not None:
                names = filter(options.pattern.fullmatch, consumer.topics())
                tps = partitions_to_read(consumer, [PartitionsOf(name, None) for name in names])
            batches = member.batches_to(consumer.end_offsets(tps), options.max, POLL_RECORDS)
        else:
            batches = member.batches(options.max, POLL_RECORDS, POLL_MS)
        topics = dict.fromkeys(tp.topic for tp in tps)
        consumer.subscribe(() if options.pattern else topics, pattern=options.pattern, listener=member)
        printing.write_all(batches, member.printed)
    finally:
        is_committed = member.part()
    return 0 if is_committed else 1


def partitions_to_read(consumer: Reader, wanted: Sequence[PartitionsOf]) -> list[TopicPartition]:
    """Return all partitions that were asked for. Of these a member of a group reads what the group gives it.

    Raises:
        Failure: A topic or a partition does not exist.
    """
    found: dict[TopicPartition, None] = {}
    for topic, numbers in wanted:
        there = consumer.partitions_for_topic(topic)
        if there is None:
            hint = did_you_mean(topic, consumer.topics())
            raise Failure(f"there is no topic {topic!r}{hint or '. topics list shows what there is'}")
        missing = set(numbers or ()) - there
        if missing:
            raise Failure(f"{topic} has no partition {min(missing)}: its partitions are 0 to {max(there)}")
        found.update((TopicPartition(topic, number), None) for number in sorted(there if numbers is None else numbers))
    return list(found)


def begin_at(consumer: Reader, tps: Sequence[TopicPartition], where: Start) -> None:
    """Place each partition where reading is to begin.

    Raises:
        Failure: An offset is outside of a partition.
    """
    if where.kind == "earliest":
        consumer.seek_to_beginning(*tps)
    elif where.kind == "latest":
        consumer.seek_to_end(*tps)
    elif where.kind in ("offset", "last"):
        first, end = consumer.beginning_offsets(tps), consumer.end_offsets(tps)
        for tp in tps:
            wanted = where.number if where.kind == "offset" else max(first[tp], end[tp] - where.number)
            if not first[tp] <= wanted <= end[tp]:
                # The first fetch would say so too, but not if --until-end finds itself at the end before that.
                has = f"{tp.topic}-{tp.partition} has offsets {first[tp]} to {end[tp]}"
                raise Failure(f"{has}, and {wanted} is none of them: choose another place with --from")
            consumer.seek(tp, wanted)
    else:
        end = consumer.end_offsets(tps)
        for tp, found in consumer.offsets_for_times(dict.fromkeys(tps, where.number)).items():
            consumer.seek(tp, end[tp] if found is None else found.offset)


def _form(options: argparse.Namespace) -> Callable[[Record], bytes]:
    if options.json:
        return record_as_json
    separator = None if options.key_separator is None else options.key_separator.encode()
    return lambda record: record_as_text(record, separator)


def _for_ever(consumer: Reader, most: int | None) -> Iterator[Sequence[Record]]:
    limit = POLL_RECORDS if most is None else min(most, POLL_RECORDS)
    while True:
        polled = consumer.poll(POLL_MS, max_records=limit)
        yield list(chain.from_iterable(polled.values()))


def _to_the_end(consumer: Reader) -> Iterator[Sequence[Record]]:
    records = consumer.read_to_end()
    while batch := list(islice(records, POLL_RECORDS)):
        yield batch


def _at_most(limit: int | None, batches: Iterable[Sequence[Record]]) -> Iterator[Sequence[Record]]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch[:left]
        left -= len(batch)
        if left <= 0:
            return
