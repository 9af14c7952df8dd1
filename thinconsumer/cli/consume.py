"""Read topics and write their records to standard output, from --from until Ctrl-C, --max or --until-end.

Without --json each line is the value of a record, with --key-separator after its key. With --json it is an object with
topic, partition, offset, timestamp (milliseconds), key, value and headers; bytes that are not UTF-8 are
{"base64": "..."}.

With --group the command joins a consumer group: it reads the partitions that the group assigns, starts at the committed
offsets, and commits printed records. After a crash records may be read twice, but none is skipped.
"""

# Only printed and flushed records are committed. Auto-commit during the command is safe, since a poll commits only
# records of earlier polls, which have been printed. The last commit, when the command ends, names its offsets if the
# printing of a batch was interrupted: the consumer's positions are after records of the batch that were not printed.

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain, islice
from typing import Any, Protocol

from ..consumer import Consumer
from ..errors import KafkaError
from ..group import RebalanceListener
from ..types import TopicPartition
from .cluster import check_topic, notify
from .output import JsonValues, ProgressLine, Record, counted, record_as_json, record_as_text, write_lines
from .parsing import (
    CommandError,
    Parser,
    PartitionsOf,
    Start,
    UsageError,
    add_client,
    add_cluster,
    client_config,
    one_of,
    positive,
    servers,
    start,
    topic_and_partitions,
)

BytesConsumer = Consumer["bytes | None", "bytes | None"]
Ends = Mapping[TopicPartition, int]


class Print(Protocol):
    """Prints batches, and calls a function after each: see :func:`print_batches`."""

    def __call__(
        self, batches: Iterable[Sequence[Record]], written: Callable[[], None], ends: Ends | None = None
    ) -> None: ...


#: Timeout of one poll in milliseconds: without ``--until-end``, and with it in a group.
POLL_MS, END_POLL_MS = 1000, 100
#: Records per poll: enough to be fast, few enough to update the progress line often.
POLL_RECORDS = 2000
#: Interval of auto-commits in milliseconds: after a crash, the records of this time are repeated.
COMMIT_MS = 1000
#: Timeout of the last commit, and of leaving the group; after Ctrl-C the user waits for both.
CLOSE_TIMEOUT_MS = 2000
#: Exit code after SIGTERM, as shells report it.
TERMINATED = 128 + signal.SIGTERM


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
        help="earliest (default), latest, an offset, -N for the last N of each partition, a time: 2026-01-31T12:00Z,"
        " or 1h30m for the records since then;"
        " with --group only earliest or latest, for partitions without a committed offset",
    )
    parser.add_argument("--max", metavar="N", type=positive, help="stop after N records")
    parser.add_argument(
        "--until-end", action="store_true", help="stop where the partitions ended when the command started"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object per record")
    parser.add_argument(
        "--value-format",
        type=one_of("text", "json"),
        default="text",
        help="json prints JSON values on one line each, on a terminal indented; with --json, values are JSON, too "
        "(default: %(default)s). Values that are not JSON are printed as they are, and counted. 'produce --json' "
        "cannot read these lines back: a JSON null would become a record without a value",
    )
    parser.add_argument("--key-separator", metavar="TEXT", help="print each key before its value, separated by TEXT")
    parser.add_argument(
        "--isolation",
        type=one_of("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="read_committed skips records of open and aborted transactions (default: %(default)s)",
    )
    add_client(parser, "consumer")


def run(options: argparse.Namespace) -> int:
    _check_options(options)
    in_group = options.group is not None
    # Without a group, an offset out of range is an error. With another value than "none", the command would silently go
    # on at an offset that the user has not chosen.
    own: dict[str, Any] = {"auto_offset_reset": "none"}
    if in_group:
        own = {"group_id": options.group, "auto_offset_reset": options.start.kind, "auto_commit_interval_ms": COMMIT_MS}
    config = client_config(options, isolation_level=options.isolation, **own)
    progress = ProgressLine(options.progress)
    with exit_on_sigterm() if in_group else nullcontext(), Consumer.from_config(config) as consumer:
        progress.update(lambda: f"connecting to {servers(options)}")
        consumer.bootstrap()
        tps = partitions_to_read(consumer, options.topics)
        values = JsonValues(is_pretty=sys.stdout.isatty() and not options.json)
        print_all = partial(print_batches, consumer, _record_format(options, values), progress, options)
        try:
            return (_read_in_group if in_group else _read)(consumer, options, tps, print_all)
        finally:
            if values.not_json:
                notify(f"values that are not JSON, printed as they are: {values.not_json:,}")


def _check_options(options: argparse.Namespace) -> None:
    if options.group is None:
        if any(name.replace("_", ".") == "group.id" for name, _ in options.property):
            raise UsageError("--property group.id does not join a group: use --group")
        if options.pattern is not None:
            raise UsageError("--pattern needs --group: add it, or name the topics")
        if not options.topics:
            raise UsageError("name a topic to read")
        return
    if bool(options.topics) == (options.pattern is not None):
        raise UsageError("give either topics or --pattern")
    chosen = next((wanted.topic for wanted in options.topics if wanted.numbers is not None), None)
    if chosen is not None:
        raise UsageError(f"the group assigns partitions: write {chosen}, or read without --group")
    if options.start.kind not in ("earliest", "latest"):
        raise UsageError(
            "a group starts at its committed offsets: --from is earliest or latest, for partitions without one; read "
            "without --group to start elsewhere"
        )


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Raise SystemExit on SIGTERM: a member that does not leave keeps its partitions until its session times out."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def print_batches(
    consumer: BytesConsumer,
    format_record: Callable[[Record], bytes],
    progress: ProgressLine,
    options: argparse.Namespace,
    batches: Iterable[Sequence[Record]],
    written: Callable[[], None],
    ends: Ends | None = None,
) -> None:
    """Print all batches. ``ends`` are the ends up to which the batches go, if they have any."""
    count, started = 0, time.monotonic()
    # Without a progress line, nothing else tells a user at a terminal that the command works.
    says_waiting = options.progress is None and not progress.is_wanted and ends is None and sys.stderr.isatty()

    def how_far() -> str:
        rate = count / max(time.monotonic() - started, 0.001)
        return f"{counted(count, 'record')}, {rate:,.0f}/s, {what_is_left(consumer, count, options.max, ends)}"

    try:
        for batch in batches:
            write_lines(map(format_record, batch))
            written()
            count += len(batch)
            progress.update(how_far)
            if says_waiting and not count and not consumer.health().reason:
                assigned = counted(len(consumer.assignment()), "partition")
                what = f"waiting for records of {assigned}" if consumer.assignment() else "no partition is assigned"
                notify(f"connected to {servers(options)}: {what}; Ctrl-C ends")
                says_waiting = False
    finally:
        progress.say(f"{counted(count, 'record')} in {time.monotonic() - started:.1f} s")


def what_is_left(consumer: BytesConsumer, count: int, most: int | None, ends: Ends | None) -> str:
    """Return the share that is read if it is known where the command ends, else how far it is behind."""
    if ends is None and most is None:
        lags = [lag for lag in consumer.lag().values() if lag is not None]
        return f"{sum(lags):,} behind" if lags else "waiting"
    totals = [] if most is None else [most]
    if ends is not None:
        own = consumer.assignment() & ends.keys()
        totals.append(count + sum(max(0, ends[tp] - consumer.position(tp)) for tp in own))
    return f"{100 * count // max(1, min(totals))} %"


def _read(consumer: BytesConsumer, options: argparse.Namespace, tps: Sequence[TopicPartition], print_all: Print) -> int:
    consumer.assign(tps)
    begin_at(consumer, tps, options.start)
    reader = Reader(consumer)
    if options.until_end:
        ends = consumer.end_offsets(tps)
        print_all(_read_to(consumer, ends, options.max), reader.printed, ends)
    else:
        print_all(reader.batches(options.max, POLL_MS), reader.printed)
    return 0


def _read_in_group(
    consumer: BytesConsumer, options: argparse.Namespace, tps: Sequence[TopicPartition], print_all: Print
) -> int:
    reader, ends = Reader(consumer), None
    try:
        if options.until_end:
            if options.pattern is not None:
                names = filter(options.pattern.fullmatch, consumer.topics())
                tps = partitions_to_read(consumer, [PartitionsOf(name, None) for name in names])
            ends = consumer.end_offsets(tps)
            batches = reader.batches_to(ends, options.max)
        else:
            batches = reader.batches(options.max, POLL_MS)
        topics = dict.fromkeys(tp.topic for tp in tps)
        consumer.subscribe(() if options.pattern else topics, pattern=options.pattern, listener=reader)
        print_all(batches, reader.printed, ends)
    finally:
        is_committed = reader.leave()
    return 0 if is_committed else 1


def partitions_to_read(consumer: BytesConsumer, wanted: Sequence[PartitionsOf]) -> list[TopicPartition]:
    """Return the wanted partitions, each once; raise CommandError if a topic or partition does not exist."""
    found: dict[TopicPartition, None] = {}
    for topic, numbers in wanted:
        there = consumer.partitions_for_topic(topic) or set()
        check_topic(topic, there, numbers or (), consumer.topics)
        found.update((TopicPartition(topic, number), None) for number in sorted(there if numbers is None else numbers))
    return list(found)


def begin_at(consumer: BytesConsumer, tps: Sequence[TopicPartition], where: Start) -> None:
    if where.kind == "earliest":
        consumer.seek_to_beginning(*tps)
    elif where.kind == "latest":
        consumer.seek_to_end(*tps)
    elif where.kind in ("offset", "last"):
        first, end = consumer.beginning_offsets(tps), consumer.end_offsets(tps)
        for tp in tps:
            wanted = where.number if where.kind == "offset" else max(first[tp], end[tp] - where.number)
            if not first[tp] <= wanted <= end[tp]:
                # Checked here, since with --until-end and an offset past the end, the command would send no Fetch, and
                # report success.
                name, held = f"{tp.topic}-{tp.partition}", f"{first[tp]} to {end[tp]}"
                raise CommandError(f"{name} has offsets {held}, but not {wanted}: choose another start with --from")
            consumer.seek(tp, wanted)
    else:
        end = consumer.end_offsets(tps)
        for tp, found in consumer.offsets_for_times(dict.fromkeys(tps, where.number)).items():
            consumer.seek(tp, end[tp] if found is None else found.offset)


def _record_format(options: argparse.Namespace, values: JsonValues) -> Callable[[Record], bytes]:
    separator = None if options.key_separator is None else options.key_separator.encode()
    form = record_as_json if options.json else partial(record_as_text, key_separator=separator)
    if options.value_format == "text":
        return form
    return lambda record: form(record, value=values.text(record.value))


def _read_to(consumer: BytesConsumer, ends: Ends, most: int | None) -> Iterator[Sequence[Record]]:
    """Yield the records up to these ends, at most ``most``, as ``read_to_end`` does, which would look them up again."""
    records = islice(consumer._iteration.read_to(ends, None), most)
    while batch := list(islice(records, POLL_RECORDS)):
        yield batch


def is_behind(consumer: BytesConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Return whether the position of an assigned partition is before the partition's end in ``ends``."""
    return any(tp in ends and consumer.position(tp) < ends[tp] for tp in consumer.assignment())


class Reader(RebalanceListener):
    """Polls a consumer, and notes what is printed. In a group, it is also the listener, and makes the last commit."""

    def __init__(self, consumer: BytesConsumer) -> None:
        self._consumer = consumer
        self._is_assigned = False
        self._printed: dict[TopicPartition, int] = {}  #: Next offset after the last printed record.
        #: The records of the last poll while they are being printed; empty afterwards.
        self._printing: Mapping[TopicPartition, Sequence[Record]] = {}

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Record that the member has an assignment, even an empty one."""
        self._is_assigned = True

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Forget the printed offsets of revoked partitions: auto-commit has committed them before this callback."""
        self._is_assigned = False
        for tp in revoked:
            self._printed.pop(tp, None)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Warn that printed records of lost partitions can no longer be committed."""
        self._is_assigned = False
        again = sorted(self._printed.keys() & lost)
        for tp in again:
            del self._printed[tp]
        if again:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in again)
            notify(f"removed from the group: other members may read the last records of {names} again")

    def batches(self, most: int | None, wait_ms: int) -> Iterator[Sequence[Record]]:
        """Yield the records of each poll, maybe none, up to ``most`` in total.

        The caller has to call :meth:`printed` after it has printed a batch.
        """
        left = float("inf") if most is None else most
        while left > 0:
            self._printing = self._consumer.poll(wait_ms, max_records=int(min(left, POLL_RECORDS)))
            batch = list(chain.from_iterable(self._printing.values()))
            left -= len(batch)
            yield batch

    def batches_to(self, ends: Mapping[TopicPartition, int], most: int | None) -> Iterator[Sequence[Record]]:
        """Yield polled records, up to ``most`` in total, until the assigned partitions have reached these ends."""
        batches = self.batches(most, END_POLL_MS)
        while not self._is_assigned or is_behind(self._consumer, ends):
            batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def printed(self) -> None:
        """Record that the last batch was printed and flushed."""
        self._printed.update({tp: records[-1].offset + 1 for tp, records in self._printing.items()})
        self._printing = {}

    def leave(self) -> bool:
        """Commit printed records and leave the group; return False, with a message, if the commit failed."""
        consumer = self._consumer
        try:
            if self._printed and consumer.config.enable_auto_commit:
                # With None, the consumer commits its positions. A position may be after a transaction marker: the
                # offset after the last printed record would leave the group a lag of 1. If printing was interrupted,
                # the positions are after records that were not printed, and must not be committed.
                consumer.commit(self._printed if self._printing else None, timeout_ms=CLOSE_TIMEOUT_MS)
        except KafkaError as error:
            notify(f"error: the last printed records are not committed and will be read again: {error}")
            return False
        finally:
            consumer.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)
        return True


def regex(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{pattern!r} is not a regular expression: {error}") from None
