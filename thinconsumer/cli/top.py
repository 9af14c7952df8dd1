"""Show groups live: members, lag, rates, and how long it takes to catch up.

On a terminal, with the extra "top" (rich), the view is redrawn in place until Ctrl-C. Otherwise each round is printed
as lines. What cannot be read is said in the view, which goes on.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from ..admin import Admin, GroupDescription, MemberDescription
from ..consumer import Consumer
from ..errors import KafkaError
from ..support.imports import has_package
from ..support.server_text import shown
from ..types import OffsetAndMetadata, TopicPartition
from .cluster import TopicsByName, connected_admin, has_leader
from .groups import by_topic, in_metadata
from .output import counted, print_rows
from .parsing import Parser, add_cluster, client_config, positive
from .watch import GroupAt, GroupWatch, Offsets, PartitionView, total

#: In milliseconds: how long a request of a round may take. A round has four, of which none follows a failed one.
REQUEST_MS = 5_000
JSON_HEADS = (
    "time", "group", "state", "topic", "partition", "committed", "end", "lag", "consumed_per_second",
    "produced_per_second", "catch_up_seconds", "unmoved_seconds", "finished", "client", "host", "member", "error",
)  # fmt: skip
MEMBER_HEADS = ("client", "host", "instance", "lag", "consumed/s", "assignment")
PARTITION_HEADS = (
    "topic", "partition", "committed", "end", "lag", "consumed/s", "produced/s", "catch up", "unmoved", "client",
)  # fmt: skip

Watches = Mapping[str, GroupWatch]


def describe(parser: Parser) -> None:
    add_cluster(parser)
    parser.add_argument("groups", metavar="GROUP", nargs="+")
    parser.add_argument("--interval", metavar="SECONDS", type=_seconds, default=2.0, help="between rounds (default: 2)")
    parser.add_argument("--count", metavar="N", type=positive, help="end after N rounds (default: at Ctrl-C)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--plain", action="store_true", help="print lines, also on a terminal")
    form.add_argument("--json", action="store_true", help="print a JSON object per partition and round")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 86400")
    return seconds


def run(options: argparse.Namespace) -> int:
    watches = {name: GroupWatch(name) for name in options.groups}
    with (
        connected_admin(options, default_api_timeout_ms=REQUEST_MS) as (admin, _),
        Consumer.from_config(client_config(options, default_api_timeout_ms=REQUEST_MS)) as consumer,
        _view(options) as show,
    ):
        for number in count(1):
            began = time.monotonic()
            for name, found in look(admin, consumer, list(watches), time.monotonic).items():
                watches[name].add(found)
            show(watches)
            if number == options.count:
                break
            time.sleep(max(0.0, began + options.interval - time.monotonic()))
    return int(any(watch.failing for watch in watches.values()))


# -- reading


def look(admin: Admin, consumer: Consumer[Any, Any], names: list[str], now: Callable[[], float]) -> dict[str, GroupAt]:
    """Return what can be read of the groups."""
    described = admin.describe_groups(names)
    groups = {name: found for name, found in described.items() if not isinstance(found, KafkaError)}
    errors = {name: str(found) for name, found in described.items() if isinstance(found, KafkaError)}
    committed: dict[str, Mapping[TopicPartition, OffsetAndMetadata | KafkaError]] = {}
    for name, offsets in admin.list_group_offsets(list(groups)).items() if groups else ():
        if isinstance(offsets, KafkaError):
            errors[name] = str(offsets)
        else:
            committed[name] = offsets
    wanted = {tp for offsets in committed.values() for tp in offsets}
    wanted |= {tp for name in committed for tp in _assigned(groups[name])}
    topics, ends, error = _ends(admin, consumer, wanted)
    at = now()
    found = {}
    for name in names:
        group = groups.get(name) if name in committed else None
        known = _offsets(committed.get(name, {}), _assigned(group), topics, ends)
        found[name] = GroupAt(at, group, known, errors.get(name) or (error if known else ""))
    return found


def _assigned(group: GroupDescription | None) -> set[TopicPartition]:
    return set() if group is None else {tp for member in group.members for tp in member.assignment or ()}


def _ends(
    admin: Admin, consumer: Consumer[Any, Any], wanted: set[TopicPartition]
) -> tuple[TopicsByName, dict[TopicPartition, int], str]:
    """Return the topics, the ends of partitions that have a leader, and the error, or ""."""
    found = admin.describe_topics({tp.topic for tp in wanted}) if wanted else {}
    topics = {name: one for name, one in found.items() if not isinstance(one, KafkaError)}
    error = next((f"{name}: {one}" for name, one in found.items() if isinstance(one, KafkaError)), "")
    try:
        return topics, consumer.end_offsets(sorted(tp for tp in wanted if has_leader(topics, tp))), error
    except KafkaError as failure:
        return topics, {}, str(failure)


def _offsets(
    committed: Mapping[TopicPartition, OffsetAndMetadata | KafkaError],
    assigned: set[TopicPartition],
    topics: TopicsByName,
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Offsets]:
    found = {}
    for tp in committed.keys() | assigned:
        one = committed.get(tp)
        if isinstance(one, OffsetAndMetadata):
            finished = in_metadata(one, topics.get(tp.topic))[0] if one.metadata else None
            found[tp] = Offsets(one.offset, ends.get(tp), finished)
        else:
            found[tp] = Offsets(None, ends.get(tp))
    return found


# -- showing


@contextmanager
def _view(options: argparse.Namespace) -> Iterator[Callable[[Watches], None]]:
    """Give the function that shows a round."""
    if options.json:
        yield print_json
    elif options.plain or not sys.stdout.isatty() or not has_package("rich"):
        yield print_plain
    else:
        from .top_screen import screen

        with screen(in_place=options.count is None) as show:
            yield show


def print_json(watches: Watches, wall_time: Callable[[], float] = time.time) -> None:
    at = round(wall_time() * 1000)
    rows: list[tuple[Any, ...]] = []
    for name, watch in watches.items():
        state = watch.rounds[-1].description.state if watch.rounds and watch.rounds[-1].description else None
        error = watch.last_error[1] if watch.failing and watch.last_error else None
        for one in watch.views():
            numbers = (_number(value) for value in (one.consumed, one.produced, one.catch_up_s, one.unmoved_s))
            member = one.member
            owner = (None,) * 3 if member is None else (member.client_id, member.client_host, member.member_id)
            row = (at, name, state, *one.tp, one.committed, one.end, one.lag, *numbers, one.finished, *owner, error)
            rows.append(row)
        if not watch.views():
            rows.append((at, name, state, *(None,) * 13, error))
    print_rows(JSON_HEADS, rows, as_json=True)
    sys.stdout.flush()


def print_plain(watches: Watches) -> None:
    for watch in watches.values():
        sys.stdout.write(f"{headline(watch)}\n")
        if problem := trouble(watch):
            sys.stdout.write(f"{problem}\n")
        print_rows(MEMBER_HEADS, member_rows(watch), as_json=False)
        print_rows(PARTITION_HEADS, [partition_row(one) for one in watch.views()], as_json=False)
        sys.stdout.write("\n")
    sys.stdout.flush()


def headline(watch: GroupWatch) -> str:
    """Return a line with the state of the group and its sums."""
    name = shown(watch.group_id)
    if not watch.rounds or (group := watch.rounds[-1].description) is None:
        return f"{name}: unknown"
    views = watch.views()
    sums = total(views)
    kind = ", ".join(filter(None, (group.type, shown(group.assignor))))
    lag = f", growing in {counted(sums.growing, 'partition')}" if sums.growing else ""
    if sums.catch_up_s:
        lag += f", {'others ' if lag else ''}caught up in {duration(sums.catch_up_s)}"
    return (
        f"{name}: {group.state} ({kind}), {counted(len(group.members), 'member')},"
        f" {counted(len(views), 'partition')}, {sums.consumed:,.1f}/s consumed,"
        f" {sums.produced:,.1f}/s produced, lag {sums.lag:,}{lag}"
    )


def trouble(watch: GroupWatch) -> str:
    """Return a line about the last error, or ""; ``watch`` shows the last round that could be read."""
    if watch.last_error is None:
        return ""
    at, text = watch.last_error
    if not watch.failing:
        return f"last error, {duration(watch.rounds[-1].at - at)} ago: {shown(text)}" if watch.rounds else ""
    age = f"; shown is what was read {duration(at - watch.rounds[-1].at)} ago" if watch.rounds else ""
    return f"error: {shown(text)}{age if age and watch.rounds[-1].at < at else ''}"


def member_rows(watch: GroupWatch) -> list[tuple[Any, ...]]:
    """Return a row for each member, those with most lag first."""
    if not watch.rounds or (group := watch.rounds[-1].description) is None:
        return []
    views = watch.views()
    rows = []
    for member in group.members:
        sums = total([one for one in views if one.member is not None and one.member.member_id == member.member_id])
        consumed = f"{sums.consumed:.1f}"
        assignment = by_topic(sorted(member.assignment or ()))
        instance = member.group_instance_id and shown(member.group_instance_id)
        rows.append((client_of(member), shown(member.client_host), instance, sums.lag, consumed, assignment))
    return sorted(rows, key=lambda row: (-row[3], row[:2]))


def client_of(member: MemberDescription) -> str:
    return shown(member.client_id) or "-"


def partition_row(one: PartitionView) -> tuple[Any, ...]:
    """Return the cells of a partition, as :data:`PARTITION_HEADS` names them."""
    rates = (None if value is None else f"{value:.1f}" for value in (one.consumed, one.produced))
    client = None if one.member is None else client_of(one.member)
    times = duration(one.catch_up_s), duration(one.unmoved_s)
    return (*one.tp, one.committed, one.end, one.lag, *rates, *times, client)


def duration(seconds: float | None) -> str | None:
    """Return a duration in at most two units: ``3s``, ``1m20s``, ``2h05m``, ``4d03h``; ``never`` for infinity."""
    if seconds is None:
        return None
    if seconds >= 86_400 * 10_000:
        return "never"
    whole = round(seconds)
    for unit, part, size in (("d", "h", 86_400), ("h", "m", 3_600), ("m", "s", 60)):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size * {86_400: 24, 3_600: 60, 60: 60}[size] // size:02}{part}"
    return f"{whole}s"


def _number(value: float | None) -> float | None:
    """Return a number for JSON, which has no infinity."""
    return None if value is None or math.isinf(value) else round(value, 3)
