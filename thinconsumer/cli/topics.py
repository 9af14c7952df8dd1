"""List, describe, create, delete, expand and shrink topics."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..admin import NewTopic, TopicDescription
from ..consumer import Consumer
from ..errors import IllegalArgumentError, KafkaError
from ..linear_hashing import PartitionCounts, parent_of
from ..types import TopicPartition
from .cluster import connected_admin, exit_code, notify, successes
from .output import print_rows
from .parsing import Parser, add_action, add_settings, client_config, positive, require_distinct, topic_and_count

LIST = ("topic", "partitions", "replicas")
DESCRIBE = ("topic", "partition", "leader", "epoch", "replicas", "isr")
#: Columns for counted topics.
COUNTED = ("initial", "count", "parent", "marked", "left")
OFFSETS = ("first", "end")

#: The first offset and the end offset of partitions.
Bounds = Mapping[TopicPartition, tuple[int, int]]


def describe(parser: Parser) -> None:
    listing = add_action(parser, _list, "List all topics with their numbers of partitions and replicas.", has_rows=True)
    listing.add_argument("--internal", action="store_true", help="include Kafka's internal topics")
    describing = add_action(
        parser, _describe, "Show each partition's leader, replicas and in-sync replicas.", has_rows=True
    )
    describing.add_argument("topics", metavar="TOPIC", nargs="+")
    describing.add_argument("--offsets", action="store_true", help="also show the first offset and the end offset")
    creating = add_action(parser, _create, "Create topics.")
    creating.add_argument("topics", metavar="TOPIC[:PARTITIONS]", nargs="+", type=topic_and_count)
    creating.add_argument(
        "--replicas", type=positive, default=-1, help="replicas of each partition (default: the broker's setting)"
    )
    add_settings(creating, "--config", "a topic setting: cleanup.policy=compact")
    deleting = add_action(parser, _delete, "Delete topics and their records.")
    deleting.add_argument("topics", metavar="TOPIC", nargs="+")
    expanding = add_action(parser, _expand, "Add partitions to topics, up to a higher number.")
    shrinking = add_action(
        parser, _shrink, "Delete partitions, once retention has emptied them, if the topic allows it."
    )
    shrinking.add_argument("--yes", action="store_true", help="do not ask")
    for each in (expanding, shrinking):
        each.add_argument(
            "topics", metavar="TOPIC:PARTITIONS", nargs="+", type=partial(topic_and_count, needs_count=True)
        )


def _list(options: argparse.Namespace) -> int:
    with connected_admin(options) as (_, topics):
        rows = [
            (name, len(topic.partitions), max((len(found.replicas) for found in topic.partitions.values()), default=0))
            for name, topic in sorted(topics.items())
            if options.internal or not topic.internal
        ]
    print_rows(LIST, rows, options.json)
    return 0


def _describe(options: argparse.Namespace) -> int:
    with connected_admin(options) as (admin, topics):
        results = admin.describe_topics(options.topics)
    described = successes(results, topics)
    has_counted = any(topic.counts is not None for topic in described.values())
    wanted = [found for topic in described.values() for found in _with_bounds(topic, every=options.offsets)]
    bounds = _bounds(options, wanted) if wanted else {}
    rows = []
    for name, topic in sorted(described.items()):
        for number, found in sorted(topic.partitions.items()):
            leader = found.leader if found.leader >= 0 else None
            row: tuple[Any, ...] = (name, number, leader, found.leader_epoch, found.replicas, found.isr)
            first, end = bounds.get(TopicPartition(name, number), (None, None))
            if has_counted:
                row += _counted_cells(topic.counts, number, None if first is None or end is None else end - first)
            rows.append(row + (first, end) * options.offsets)
    print_rows(DESCRIBE + COUNTED * has_counted + OFFSETS * options.offsets, rows, options.json)
    return exit_code(results)


def _counted_cells(counts: PartitionCounts | None, number: int, size: int | None) -> tuple[Any, ...]:
    if counts is None:
        return (None,) * len(COUNTED)
    is_marked = number >= counts.undeleted
    return *counts, parent_of(number, counts.initial), is_marked, size if is_marked else None


def _with_bounds(topic: TopicDescription, *, every: bool) -> list[TopicPartition]:
    """Return the partitions whose bounds are shown: those marked for deletion, or with ``every`` all of the topic.

    Partitions without a leader are left out: ListOffsets would wait for a leader until its timeout.
    """
    first, found = 0 if every else _undeleted(topic), topic.partitions.values()
    return [TopicPartition(topic.name, one.partition) for one in found if one.leader >= 0 and one.partition >= first]


def _bounds(options: argparse.Namespace, tps: list[TopicPartition]) -> Bounds:
    with Consumer.from_config(client_config(options)) as consumer:
        first, end = consumer.beginning_offsets(tps), consumer.end_offsets(tps)
    return {tp: (first[tp], end[tp]) for tp in tps}


def _create(options: argparse.Namespace) -> int:
    new = {
        name: NewTopic(count, options.replicas, configs=dict(options.config))
        for name, count in require_distinct(options.topics)
    }
    with connected_admin(options) as (admin, _):
        results = admin.create_topics(new)
    for name, topic in successes(results).items():
        replicas = _count(topic.replication_factor, "replica")
        notify(f"created {name}: {_count(topic.partitions, 'partition')}, {replicas}")
    return exit_code(results)


def _delete(options: argparse.Namespace) -> int:
    with connected_admin(options) as (admin, topics):
        results = admin.delete_topics(options.topics)
        for name in successes(results, topics):
            notify(f"deleted {name}")
    return exit_code(results)


def _expand(options: argparse.Namespace) -> int:
    return _resize(options, may_grow=True)


def _shrink(options: argparse.Namespace) -> int:
    return _resize(options, may_grow=False)


def _resize(options: argparse.Namespace, *, may_grow: bool) -> int:
    totals = dict(require_distinct(options.topics))
    with connected_admin(options) as (admin, topics):
        results: dict[str, KafkaError | None] = {}
        wanted: dict[str, tuple[int, int]] = {}  # the present and the new partition count of each topic
        for name, found in admin.describe_topics(totals).items():
            if isinstance(found, KafkaError):
                results[name] = found
            # Checked here: otherwise the broker would shrink a counted topic if ``expand`` got a lower count.
            elif (totals[name] > (have := _undeleted(found))) is not may_grow or totals[name] == have:
                why = f"which {totals[name]} would not {'increase' if may_grow else 'decrease'}"
                results[name] = IllegalArgumentError(f"it has {_count(have, 'partition')}, {why}")
            else:
                wanted[name] = have, totals[name]
        asks = not may_grow and not options.yes
        if asks and not all(_is_confirmed(name, *counts) for name, counts in wanted.items()):
            notify("nothing was changed")
            return 1
        results |= admin.create_partitions({name: count for name, (_, count) in wanted.items()})
        for name in successes(results, topics):
            have, count = wanted[name]
            notify(f"{name} now has {_count(count, 'partition')}{'' if may_grow else _what_happens(count, have)}")
    return exit_code(results)


def _undeleted(topic: TopicDescription) -> int:
    """Return the partition count of a topic, without partitions that are marked for deletion."""
    return len(topic.partitions) if topic.counts is None else topic.counts.undeleted


def _is_confirmed(name: str, have: int, count: int) -> bool:
    them = "it" if have - count == 1 else "them"
    question = f"delete {have - count} of {_count(have, 'partition')}, once retention has emptied {them}? [y/N] "
    sys.stderr.write(f"{name}: {question}")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _what_happens(count: int, have: int) -> str:
    if have - count == 1:
        return f"; partition {count} is deleted once retention has emptied it"
    joined = "and" if have - count == 2 else "to"
    return f"; partitions {count} {joined} {have - 1} are deleted once retention has emptied them"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
