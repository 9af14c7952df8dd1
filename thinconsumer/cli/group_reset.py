"""The action ``groups reset``: it moves a group's committed offsets, by the rules of Kafka's tool for consumer groups.

These are the rules of ``kafka-consumer-groups.sh --reset-offsets``: a dry run without ``--execute``; a group with
members is refused; offsets outside of the log become its first offset or its end; a time after the last record gives
the end. Differences: nothing is committed if one of the partitions is seen to be missing or without a leader before the
commit, and a time without a zone is local time.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..admin import CLASSIC, CONSUMER, Admin, GroupDescription
from ..config.kinds import did_you_mean
from ..consumer import Consumer
from ..errors import BrokerResponseError, CommitFailedError, KafkaError, KafkaTimeoutError
from ..types import TopicPartition
from ..wire.error_codes import Code
from .cluster import TopicsByName, connected_admin, has_leader, notify, partitions_of
from .output import counted, print_rows
from .parsing import (
    PROGRAM,
    CommandError,
    Parser,
    PartitionsOf,
    Start,
    UsageError,
    ago,
    client_config,
    from_file,
    moment,
    topic_and_partitions,
)

RESET = ("group", "topic", "partition", "committed", "new", "end", "lag")
#: The group states without members, and the protocol types of groups of consumers; empty before the first member.
INACTIVE, OF_CONSUMERS = ("Empty", "Dead"), ("", "consumer")

Offsets = Mapping[TopicPartition, int]


class PlannedOffset(NamedTuple):
    """A line of the file of ``--from-file``; ``group`` is None if the line has only topic, partition and offset."""

    group: str | None
    tp: TopicPartition
    offset: int


class LogOffsets(NamedTuple):
    """The first offsets and ends of the partitions, and for a time the first offsets from then on, if there are any."""

    first: Offsets
    end: Offsets
    since: Mapping[TopicPartition, int | None]


def describe_reset(action: Parser) -> None:
    """Add the options of ``groups reset`` to its parser."""
    action.add_argument("group", metavar="GROUP", help="the group whose committed offsets are moved")
    scope = action.add_mutually_exclusive_group()
    scope.add_argument(
        "--topic", metavar="TOPIC[:PARTITIONS]", type=topic_and_partitions, action="append", default=[],
        help="reset all partitions of a topic, or some: orders:0,3-5 (may be repeated)",
    )  # fmt: skip
    scope.add_argument("--all-topics", action="store_true", help="reset all partitions with a committed offset")
    modes = action.add_mutually_exclusive_group(required=True)
    for name, words in (
        ("earliest", "to the first offset"),
        ("latest", "to the end"),
        ("current", "to the committed offset; without one, to the end"),
    ):
        modes.add_argument(f"--to-{name}", dest="where", action="store_const", const=Start(name), help=words)
    for option, value, parse, words in (
        ("--to-offset", "N", _number("offset"), "to this offset"),
        ("--shift-by", "N", _number("shift"), "by N from the committed offset; back if N is negative"),
        ("--to-datetime", "TIME", moment, "to the first record from a time on: 2026-01-31T12:00:00Z, or local time"),
        ("--by-duration", "DURATION", ago, "to the first record of the last 1h30m (or PT1H30M), for example"),
    ):
        modes.add_argument(option, dest="where", action=_Once, metavar=value, type=parse, help=words)
    modes.add_argument(
        "--from-file", dest="lines", action=_Once, metavar="FILE", type=lambda path: from_file(path, parse_lines),
        help="to the offsets in a CSV file, as --export prints it, here and in Kafka's tool",
    )  # fmt: skip
    add_execution(action, "commit the new offsets", "only show the new offsets (default)")
    action.add_argument("--export", action="store_true", help="print TOPIC,PARTITION,OFFSET for --from-file")


def add_execution(action: Parser, execute: str, dry_run: str) -> None:
    """Add ``--execute`` and ``--dry-run`` with these help texts."""
    execution = action.add_mutually_exclusive_group()
    execution.add_argument("--execute", action="store_true", help=execute)
    execution.add_argument("--dry-run", action="store_true", help=dry_run)


class _Once(argparse.Action):
    """Stores a value; a second one is an error, since argparse would silently take the last."""

    def __call__(self, parser: argparse.ArgumentParser, found: argparse.Namespace, value: Any, *_: object) -> None:
        if getattr(found, self.dest) is not None:
            raise argparse.ArgumentError(self, "given more than once")
        setattr(found, self.dest, value)


def reset(options: argparse.Namespace) -> int:
    """Show the new offsets, and commit them with ``--execute``."""
    _check_options(options)
    group = options.group
    with connected_admin(options) as (admin, topics):
        _require_inactive(admin, group)
        committed = committed_offsets(admin, group)
        wanted = _wanted(options, committed, topics)
    config = client_config(options, group_id=group, enable_auto_commit=False, isolation_level="read_uncommitted")
    with Consumer.from_config(config) as consumer:
        log = _log_offsets(consumer, wanted)
        new = {tp: new_offset(tp, where, committed.get(tp), log) for tp, where in sorted(wanted.items())}
        rows = [(group, *tp, committed.get(tp), at, log.end[tp], max(0, log.end[tp] - at)) for tp, at in new.items()]
        if options.where is not None and options.where.kind == "time":
            notify(f"the time is {_in_utc(options.where.number)}")
        if options.export:
            sys.stdout.writelines(f"{tp.topic},{tp.partition},{at}\n" for tp, at in new.items())
        else:
            print_rows(RESET, rows, options.json)
        # Before the commit: if the output cannot be written, the command fails and has moved no offset.
        sys.stdout.flush()
        if options.execute:
            _commit(consumer, group, new)
    done = f"reset {counted(len(new), 'offset')} of {group}"
    notify(done if options.execute else "nothing was changed: --execute commits the new offsets")
    return 0


def _check_options(options: argparse.Namespace) -> None:
    if (options.lines is None) is not bool(options.topic or options.all_topics):
        raise UsageError(
            "say what to reset: --topic TOPIC[:PARTITIONS] or --all-topics"
            if options.lines is None
            else "the file of --from-file names the partitions: leave out --topic and --all-topics"
        )
    if options.export and options.json:
        raise UsageError("--export prints lines for --from-file: leave out --json")
    twice = [tp for tp, times in Counter(line.tp for line in _lines_of_group(options)).items() if times > 1]
    if twice:
        raise UsageError(f"the file of --from-file names {twice[0].topic}-{twice[0].partition} more than once")


def _in_utc(time_ms: int) -> str:
    found = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.timezone.utc)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_offset(tp: TopicPartition, where: Start, committed: int | None, log: LogOffsets) -> int:
    """Return the new offset of a partition; warn if it is another one than ``where`` asks for.

    Raises:
        CommandError: an offset is to be shifted, and none is committed.
    """
    name, first, end = f"{tp.topic}-{tp.partition}", log.first[tp], log.end[tp]
    if where.kind == "earliest":
        return first
    if where.kind == "latest":
        return end
    if where.kind == "current":
        return end if committed is None else committed
    if where.kind == "time":
        found = log.since[tp]
        if found is None:
            notify(f"warning: {name} has no record from that time on: its end {end} is taken")
        return end if found is None else found
    if where.kind == "shift" and committed is None:
        raise CommandError(f"{name} has no committed offset that could be shifted: leave it out, or choose an offset")
    wanted = where.number + (committed or 0) * (where.kind == "shift")
    if first <= wanted <= end:
        return wanted
    taken, words = (end, "after its end") if wanted > end else (first, "before its first offset")
    notify(f"warning: {name}: {wanted} is {words}: {taken} is taken")
    return taken


def parse_lines(text: str) -> list[PlannedOffset]:
    """Parse lines of topic, partition and offset, or of group, topic, partition and offset, separated by commas.

    Raises:
        ValueError: a line is malformed (the message has its number), or there is none.
    """
    found: list[PlannedOffset] = []
    reader = csv.reader(text.splitlines())
    try:
        for fields in reader:
            if len(fields) not in (3, 4) or not re.fullmatch(r"\d{1,9},-?\d{1,18}", ",".join(fields[-2:]), re.ASCII):
                raise ValueError(f"line {reader.line_num} is not TOPIC,PARTITION,OFFSET")
            *group, topic, partition, offset = fields
            found.append(PlannedOffset(group[0] if group else None, TopicPartition(topic, int(partition)), int(offset)))
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None
    if not found:
        raise ValueError("the file is empty")
    return found


def _lines_of_group(options: argparse.Namespace) -> list[PlannedOffset]:
    return [line for line in options.lines or () if line.group in (None, options.group)]


def _number(kind: str) -> Callable[[str], Start]:
    def parse(text: str) -> Start:
        if not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
        return Start(kind, int(text))

    return parse


def _require_inactive(admin: Admin, name: str) -> None:
    """Raise CommandError if a group has members, or is not one of consumers; say so if it does not exist yet."""
    found = admin.describe_groups([name])[name]
    if isinstance(found, KafkaError):
        if not isinstance(found, BrokerResponseError) or found.code != Code.GROUP_ID_NOT_FOUND:
            raise found
        listed = admin.list_groups()
        if name in listed.groups:
            kind = listed.groups[name].type
            if kind not in ("", CLASSIC, CONSUMER):
                raise CommandError(f"{name} is a group of type {kind}: Kafka has other tools for these")
        elif listed.errors:
            # Its type is then unknown: a broker without a response may have this group.
            node_id, error = next(iter(listed.errors.items()))
            raise CommandError(f"the groups of broker {node_id} could not be listed: {error}") from error
        else:
            notify(f"group {name} does not exist: --execute creates it{did_you_mean(name, listed.groups)}")
    elif found.protocol_type not in OF_CONSUMERS:
        raise CommandError(f"{name} is no group of consumers: its protocol type is {found.protocol_type}")
    elif found.state not in INACTIVE:
        raise CommandError(_has_members(found))


def _has_members(group: GroupDescription) -> str:
    names = ", ".join(f"{member.client_id} at {member.client_host}" for member in group.members[:3])
    more = f" and {len(group.members) - 3} more" * (len(group.members) > 3)
    return (
        f"{group.group_id} is in state {group.state}, with members{f' ({names}{more})' * bool(names)}, which would go "
        f"on from their own positions: stop them first, until '{PROGRAM} groups list' shows the group as Empty; a "
        "member that was killed counts until its session times out"
    )


def committed_offsets(admin: Admin, group: str) -> dict[TopicPartition, int]:
    """Return a group's committed offsets; raise the error of the group, or of a partition."""
    found = admin.list_group_offsets([group])[group]
    if isinstance(found, KafkaError):
        raise found
    offsets: dict[TopicPartition, int] = {}
    for tp, one in found.items():
        if isinstance(one, KafkaError):
            raise one
        offsets[tp] = one.offset
    return offsets


def _wanted(options: argparse.Namespace, committed: Offsets, topics: TopicsByName) -> dict[TopicPartition, Start]:
    """Return where to move each partition; raise CommandError if there is none, or if one has no leader."""
    found: dict[TopicPartition, Start] = {}
    if options.lines is not None:
        found = {line.tp: Start("offset", line.offset) for line in _lines_of_group(options)}
    elif options.all_topics:
        found = dict.fromkeys(committed, options.where)
    found.update(dict.fromkeys(named_partitions(options.topic, topics), options.where))
    if not found:
        what = "has no committed offsets: name topics with --topic" if options.lines is None else "is not in the file"
        raise CommandError(f"{options.group} {what}")
    for tp in sorted(found):
        partitions_of(topics, tp.topic, (tp.partition,))
        if not has_leader(topics, tp):
            advice = "name the others with --topic" if options.all_topics else "leave it out"
            raise CommandError(f"{tp.topic}-{tp.partition} has no leader now: try again, or {advice}")
    return found


def named_partitions(named: Iterable[PartitionsOf], topics: TopicsByName) -> list[TopicPartition]:
    """Return the partitions that the command line names; raise CommandError if one does not exist."""
    found: list[TopicPartition] = []
    for topic, numbers in named:
        there = partitions_of(topics, topic, numbers or ())
        found += [TopicPartition(topic, number) for number in (there if numbers is None else numbers)]
    return found


def _log_offsets(consumer: Consumer[bytes | None, bytes | None], wanted: Mapping[TopicPartition, Start]) -> LogOffsets:
    times = {tp: where.number for tp, where in wanted.items() if where.kind == "time"}
    since = {tp: None if one is None else one.offset for tp, one in consumer.offsets_for_times(times).items()}
    return LogOffsets(consumer.beginning_offsets(list(wanted)), consumer.end_offsets(list(wanted)), since)


def _commit(consumer: Consumer[bytes | None, bytes | None], group: str, offsets: Offsets) -> None:
    """Commit the offsets; raise CommandError if that fails, or may have failed."""
    see = f"'{PROGRAM} groups describe {group} --lag' shows it"
    unknown = f"the outcome of the commit is unknown: {see}"
    try:
        try:
            consumer.commit(dict(offsets))
        except BaseException:
            # Otherwise the end of the consumer would send the commit again, and wait for seconds, also after Ctrl-C.
            consumer.close(autocommit=False, timeout_ms=0)
            raise
    except KeyboardInterrupt:
        notify(unknown)
        raise
    except CommitFailedError as error:
        if error.reason == "unknown_member":
            raise CommandError("a member has joined the group meanwhile, nothing was changed: stop it first") from error
        # The coordinator may have committed offsets whose response was lost. It has acknowledged those that are not
        # among the error's partitions.
        failed = [f"{tp.topic}-{tp.partition}" for tp in error.partitions]
        if not failed or len(failed) == len(offsets):
            raise CommandError(unknown) from error
        names = ", ".join(failed[:3]) + f" and {len(failed) - 3} more" * (len(failed) > 3)
        others = f"the offsets of {counted(len(offsets) - len(failed), 'other partition')} are reset"
        raise CommandError(f"the outcome of the commit is unknown for {names}: {see}; {others}") from error
    except KafkaTimeoutError as error:
        raise CommandError(unknown) from error
    except KafkaError as error:  # a missing ACL, for one topic or for the group
        raise CommandError(f"{error}; offsets of other topics may be reset: {see}") from error
