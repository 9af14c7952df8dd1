"""List, describe, reset and delete consumer groups and their committed offsets, and show their lag."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ..admin import CLASSIC, CONSUMER, GroupDescription, MemberDescription, TopicDescription
from ..consumer import Consumer
from ..errors import KafkaError
from ..types import OffsetAndMetadata, TopicPartition
from .cluster import TopicsByName, connected_admin, exit_code, has_leader, notify, successes
from .group_delete_offsets import delete_offsets, describe_deletion
from .group_reset import describe_reset, reset
from .output import print_rows
from .parsing import API_TIMEOUT_MS, CommandError, Parser, add_action, client_config, one_of

LIST = ("group", "state", "type", "protocol")
GROUP = ("group", "type", "state", "assignor", "epoch", "assignment_epoch")
MEMBER = ("member", "instance", "client", "host", "member_type", "member_epoch")
MEMBER_TOPICS = ("topics", "regex", "assignment", "target")
LAG = ("group", "topic", "partition", "committed", "end", "lag")
FINISHED = ("group", "topic", "partition", "committed", "finished", "unfinished", "until", "error")
HELD = ("group", "topic", "partition", "committed", "reason")
Row = tuple[Any, ...]
Committed = Mapping[TopicPartition, OffsetAndMetadata | KafkaError]

#: Timeout of a poll in milliseconds while the reasons become known why partitions are held.
HOLD_POLL_MS = 100


def describe(parser: Parser) -> None:
    listing = add_action(parser, _list, "List groups, their types and their states.", has_rows=True)
    listing.add_argument(
        "--type", action="append", default=[], type=one_of(CLASSIC, CONSUMER), metavar="TYPE",
        help=f"list only groups of this type: {CLASSIC} or {CONSUMER}; may be repeated",
    )  # fmt: skip
    describing = add_action(
        parser, _describe, "Show members and their assignments, or with --lag the offsets of groups.", has_rows=True
    )
    shown = describing.add_mutually_exclusive_group()
    shown.add_argument("--lag", action="store_true", help="show committed offsets, log ends and lag")
    shown.add_argument(
        "--held", action="store_true",
        help="show the partitions that a consumer would hold at the committed offsets, and until when",
    )  # fmt: skip
    shown.add_argument(
        "--finished", action="store_true",
        help="show what workers or parallel-consumer have finished behind the committed offsets",
    )  # fmt: skip
    describe_reset(add_action(parser, _reset, "Move the committed offsets of a group without members.", has_rows=True))
    describe_deletion(
        add_action(parser, _delete_offsets, "Delete committed offsets of topics that no member reads.", has_rows=True)
    )
    deleting = add_action(parser, _delete, "Delete groups without members, with their committed offsets.")
    for each in (describing, deleting):
        each.add_argument("groups", metavar="GROUP", nargs="+")


def _list(options: argparse.Namespace) -> int:
    with connected_admin(options) as (admin, _):
        listed = admin.list_groups(types=options.type)
    rows = [(name, group.state, group.type, group.protocol_type) for name, group in sorted(listed.groups.items())]
    print_rows(LIST, rows, options.json)
    for node_id, error in listed.errors.items():
        notify(f"error: the groups of broker {node_id} could not be listed: {error}")
    return int(bool(listed.errors))


def _describe(options: argparse.Namespace) -> int:
    with connected_admin(options) as (admin, topics):
        results: Mapping[str, GroupDescription | KafkaError] = admin.describe_groups(options.groups)
        groups = successes(results)
        if options.lag or options.held or options.finished:
            offsets = admin.list_group_offsets(list(groups))
            committed = successes(offsets)
            names, find = (LAG, _lags) if options.lag else (HELD, _held) if options.held else (FINISHED, _finished)
            rows, code = find(options, topics, committed)
            print_rows(names, rows, options.json)
            return max(code, exit_code(offsets), exit_code(results))
    rows = [row for name in groups for row in _members(groups[name])]
    print_rows(GROUP + MEMBER + MEMBER_TOPICS, rows, options.json)
    return exit_code(results)


def _members(group: GroupDescription) -> list[Row]:
    common = group.group_id, group.type, group.state, group.assignor or None, group.epoch, group.assignment_epoch
    members = [_member(one) for one in sorted(group.members, key=lambda one: one.member_id)]
    return [(*common, *member) for member in members or [(None,) * len(MEMBER + MEMBER_TOPICS)]]


def _member(one: MemberDescription) -> Row:
    topics = None if one.subscribed_topics is None else list(one.subscribed_topics)
    assigned = by_topic(one.assignment), by_topic(one.target)
    ids = one.member_id, one.group_instance_id, one.client_id, one.client_host
    return *ids, one.type or None, one.epoch, topics, one.subscribed_regex, *assigned


def by_topic(partitions: Iterable[TopicPartition] | None) -> dict[str, list[int]] | None:
    """Return the partition numbers by topic."""
    if partitions is None:
        return None
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def _lags(
    options: argparse.Namespace, topics: TopicsByName, committed: Mapping[str, Committed]
) -> tuple[list[Row], int]:
    wanted = {tp for offsets in committed.values() for tp in offsets if has_leader(topics, tp)}
    with Consumer.from_config(client_config(options)) as consumer:
        ends = consumer.end_offsets(sorted(wanted))
    rows: list[Row] = []
    for name, offsets in committed.items():
        for tp, found in sorted(offsets.items()):
            offset, end = (None if isinstance(found, KafkaError) else found.offset), ends.get(tp)
            # An unknown lag is null: 0 would mean that the group is up to date.
            lag = None if offset is None or end is None else max(0, end - offset)
            rows.append((name, tp.topic, tp.partition, offset, end, lag))
    return rows, 0


def _finished(
    options: argparse.Namespace, topics: TopicsByName, committed: Mapping[str, Committed]
) -> tuple[list[Row], int]:
    """Return what the metadata of commits name as finished; an error in place of what cannot be read."""
    rows: list[Row] = []
    for name, offsets in committed.items():
        for tp, found in sorted(offsets.items()):
            if isinstance(found, KafkaError):
                rows.append((name, *tp, None, None, None, None, str(found)))
            elif not found.metadata:
                rows.append((name, *tp, found.offset, 0, 0, found.offset, None))
            else:
                rows.append((name, *tp, found.offset, *in_metadata(found, topics.get(tp.topic))))
    return rows, 0


def in_metadata(found: OffsetAndMetadata, topic: TopicDescription | None) -> tuple[Any, ...]:
    """Return what a commit's metadata say: the number of finished offsets and of others, their end, and an error."""
    from ..workers.foreign_maps import decode_any  # on demand: only ``--finished`` needs the room of workers
    from ..workers.offset_map import OffsetMapError

    try:
        progress = decode_any(found.metadata, found.offset, bytes(16) if topic is None else topic.topic_id)
    except OffsetMapError as error:
        return None, None, None, f"the metadata is not used, as {error}"
    if progress is None:
        return 0, 0, found.offset, None
    unfinished = 1 + len(progress.unfinished)
    return progress.end - progress.offset - unfinished, unfinished, progress.end, None


def _held(
    options: argparse.Namespace, topics: TopicsByName, committed: Mapping[str, Committed]
) -> tuple[list[Row], int]:
    """Return the partitions that a consumer would hold at the committed offsets, and 1 if a group had an error."""
    rows: list[Row] = []
    code = 0
    for name, offsets in committed.items():
        try:
            rows += _held_by(options, topics, name, offsets)
        except (KafkaError, CommandError) as error:
            notify(f"error: {name}: {error}")
            code = 1
    return rows, code


def _held_by(options: argparse.Namespace, topics: TopicsByName, name: str, offsets: Committed) -> list[Row]:
    names = {tp.topic for tp in offsets}
    tps = [TopicPartition(one, number) for one in names & topics.keys() for number in topics[one].partitions]
    config = client_config(options, group_id=name, enable_auto_commit=False, auto_offset_reset="earliest")
    rows: list[Row] = []
    with Consumer.from_config(config) as consumer:
        consumer.assign(tps := [tp for tp in tps if has_leader(topics, tp)])
        consumer.pause(*tps)  # else the positions would move, and the consumer would hold less than the group
        for tp, reason in sorted(_holds(consumer) if tps else ()):
            found = offsets.get(tp)
            rows.append((name, *tp, found.offset if isinstance(found, OffsetAndMetadata) else None, reason))
    return rows


def _holds(consumer: Consumer[bytes | None, bytes | None]) -> list[tuple[TopicPartition, str]]:
    """Return the held partitions and the reasons, once each only waits for the progress of other partitions.

    Raises:
        CommandError: at the deadline, a partition still waits for something else, such as a response.
    """
    deadline = time.monotonic() + API_TIMEOUT_MS / 1000
    for tp in consumer.assignment():
        consumer.position(tp)
    while True:
        consumer.poll(HOLD_POLL_MS)
        keepers = consumer._reader.managers.gatekeepers
        held = [one for keeper in keepers for one in keeper.held()]
        unclear = next((one for one in held if not one.is_wait), None)
        if unclear is None:
            return [(one.partition.tp, one.reason) for one in held]
        if time.monotonic() > deadline:
            topic, partition = unclear.partition.tp
            raise CommandError(f"it is not known in time whether {topic}-{partition} is held: {unclear.reason}")


def _reset(options: argparse.Namespace) -> int:
    return reset(options)


def _delete_offsets(options: argparse.Namespace) -> int:
    return delete_offsets(options)


def _delete(options: argparse.Namespace) -> int:
    with connected_admin(options) as (admin, _):
        results = admin.delete_groups(options.groups)
    for name in successes(results):
        notify(f"deleted {name}")
    return exit_code(results)
