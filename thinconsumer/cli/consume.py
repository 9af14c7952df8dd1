"""Read topics and write their records to standard output, from --from until Ctrl-C, --max or --until-end.

Without --json each line is the value of a record. With --json it is an object with topic, partition, offset, timestamp
(milliseconds), key, value and headers; bytes that are not UTF-8 are {"base64": "..."}.

With --group the command joins a consumer group: it reads the partitions that the group assigns, starts at the committed
offsets, and commits printed records. After a crash records may be read twice, but none is skipped.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, islice

from ..config.kinds import did_you_mean
from ..consumer import Consumer
from ..types import TopicPartition
from .consume_in_group import (
    POLL_RECORDS,
    BytesConsumer,
    GroupReader,
    check_options,
    config_for,
    exit_on_sigterm,
    polls,
    regex,
)
from .output import Output, ProgressLine, Record, record_as_json, record_as_text
from .parsing import (
    PROGRAM,
    CommandError,
    OneOf,
    Parser,
    PartitionsOf,
    Start,
    add_cluster,
    add_progress,
    add_properties,
    client_config,
    positive,
    servers,
    start,
    topic_and_partitions,
)

POLL_MS = 1000


def describe(parser: Parser) -> None:
    parser.add_argument(
        "topics",
        metavar="TOPIC[:PARTITIONS]",
        nargs="*",
        type=topic_and_partitions,
        help="topic to read, or without --group some of its partitions: orders:0,3-5",
    )
    add_cluster(parser)
    parser.add_argument("--group", metavar="ID", help="join this consumer group, and commit printed records")
    parser.add_argument(
        "--pattern", metavar="REGEX", type=regex, help="with --group: read all topics that match in full"
    )
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        type=start,
        default=Start("earliest"),
        help="earliest (default), latest, an offset, -N for the last N of each partition, or a time: 2026-01-31T12:00Z;"
        " with --group only earliest or latest, for partitions without a committed offset",
    )
    parser.add_argument("--max", metavar="N", type=positive, help="stop after N records")
    parser.add_argument(
        "--until-end", action="store_true", help="stop where the partitions ended when the command started"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object per record")
    parser.add_argument("--key-separator", metavar="TEXT", help="print each key before its value, separated by TEXT")
    parser.add_argument(
        "--isolation",
        type=OneOf("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="read_committed skips records of open and aborted transactions (default: %(default)s)",
    )
    add_properties(parser, "consumer")
    add_progress(parser)


def run(options: argparse.Namespace) -> int:
    check_options(options)
    in_group = options.group is not None
    # With auto_offset_reset "none", an offset out of range is an error. With another value, the command would silently
    # go on at an offset that the user has not chosen.
    own = config_for(options) if in_group else {"auto_offset_reset": "none"}
    config = client_config(options, isolation_level=options.isolation, **own)
    progress = ProgressLine(options.progress)
    with exit_on_sigterm() if in_group else nullcontext(), Consumer.from_config(config) as consumer:
        progress.update(lambda: f"connecting to {servers(options)}")
        consumer.bootstrap()
        tps = partitions_to_read(consumer, options.topics)
        printing = Printing(consumer, _record_format(options), progress)
        return _read_in_group(consumer, options, tps, printing) if in_group else _read(consumer, options, tps, printing)


class Printing:
    """Prints batches of records and the progress."""

    def __init__(
        self, consumer: BytesConsumer, format_record: Callable[[Record], bytes], progress: ProgressLine
    ) -> None:
        self._consumer, self._format_record, self._progress = consumer, format_record, progress
        self._output = Output()
        self._count, self._started = 0, time.monotonic()

    def write_all(self, batches: Iterable[Sequence[Record]], written: Callable[[], None] = lambda: None) -> None:
        """Print all batches; call ``written`` after each."""
        try:
            for batch in batches:
                self._output.write(map(self._format_record, batch))
                written()
                self._count += len(batch)
                self._progress.update(self._how_far)
        finally:
            self._progress.say(f"{self._count:,} records in {time.monotonic() - self._started:.1f} s")

    def _how_far(self) -> str:
        rate = self._count / max(time.monotonic() - self._started, 0.001)
        lags = [lag for lag in self._consumer.lag().values() if lag is not None]
        return f"{self._count:,} records, {rate:,.0f}/s, {f'{sum(lags):,} behind' if lags else 'waiting'}"


def _read(
    consumer: BytesConsumer, options: argparse.Namespace, tps: Sequence[TopicPartition], printing: Printing
) -> int:
    consumer.assign(tps)
    begin_at(consumer, tps, options.start)
    printing.write_all((_until_end if options.until_end else _until_stopped)(consumer, options.max))
    return 0


def _read_in_group(
    consumer: BytesConsumer, options: argparse.Namespace, tps: Sequence[TopicPartition], printing: Printing
) -> int:
    group_reader = GroupReader(consumer)
    try:
        if options.until_end:
            if options.pattern is not None:
                names = filter(options.pattern.fullmatch, consumer.topics())
                tps = partitions_to_read(consumer, [PartitionsOf(name, None) for name in names])
            batches = group_reader.batches_to(consumer.end_offsets(tps), options.max)
        else:
            batches = group_reader.batches(options.max, POLL_MS)
        topics = dict.fromkeys(tp.topic for tp in tps)
        consumer.subscribe(() if options.pattern else topics, pattern=options.pattern, listener=group_reader)
        printing.write_all(batches, group_reader.printed)
    finally:
        is_committed = group_reader.leave()
    return 0 if is_committed else 1


def partitions_to_read(consumer: BytesConsumer, wanted: Sequence[PartitionsOf]) -> list[TopicPartition]:
    """Return the partitions that the user named. A group member reads only those that the group assigns to it."""
    found: dict[TopicPartition, None] = {}
    for topic, numbers in wanted:
        there = consumer.partitions_for_topic(topic)
        if there is None:
            hint = did_you_mean(topic, consumer.topics()) or f". '{PROGRAM} topics list' shows the existing topics"
            raise CommandError(f"there is no topic {topic!r}{hint}")
        missing = set(numbers or ()) - there
        if missing:
            raise CommandError(f"{topic} has no partition {min(missing)}: its partitions are 0 to {max(there)}")
        found.update((TopicPartition(topic, number), None) for number in sorted(there if numbers is None else numbers))
    return list(found)


def begin_at(consumer: BytesConsumer, tps: Sequence[TopicPartition], where: Start) -> None:
    """Seek each partition to the start that the user chose."""
    if where.kind == "earliest":
        consumer.seek_to_beginning(*tps)
    elif where.kind == "latest":
        consumer.seek_to_end(*tps)
    elif where.kind in ("offset", "last"):
        first, end = consumer.beginning_offsets(tps), consumer.end_offsets(tps)
        for tp in tps:
            wanted = where.number if where.kind == "offset" else max(first[tp], end[tp] - where.number)
            if not first[tp] <= wanted <= end[tp]:
                # Checked here, since a broker would not report an offset past the end with --until-end: the command
                # would have nothing to read, send no Fetch, and report success.
                name, held = f"{tp.topic}-{tp.partition}", f"{first[tp]} to {end[tp]}"
                raise CommandError(f"{name} has offsets {held}, but not {wanted}: choose another start with --from")
            consumer.seek(tp, wanted)
    else:
        end = consumer.end_offsets(tps)
        for tp, found in consumer.offsets_for_times(dict.fromkeys(tps, where.number)).items():
            consumer.seek(tp, end[tp] if found is None else found.offset)


def _record_format(options: argparse.Namespace) -> Callable[[Record], bytes]:
    if options.json:
        return record_as_json
    separator = None if options.key_separator is None else options.key_separator.encode()
    return lambda record: record_as_text(record, separator)


def _until_stopped(consumer: BytesConsumer, most: int | None) -> Iterator[Sequence[Record]]:
    for polled in polls(consumer, most, POLL_MS):
        yield list(chain.from_iterable(polled.values()))


def _until_end(consumer: BytesConsumer, most: int | None) -> Iterator[Sequence[Record]]:
    records = islice(consumer.read_to_end(), most)
    while batch := list(islice(records, POLL_RECORDS)):
        yield batch
