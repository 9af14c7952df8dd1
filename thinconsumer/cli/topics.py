"""List, describe, create, delete and expand topics."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..admin import NewTopic
from ..consumer import Consumer
from ..types import PartitionInfo, TopicPartition
from .cluster import asking, exit_code, tell, well
from .output import print_rows
from .parsing import (
    Parser,
    actions,
    add_cluster,
    client_config,
    distinct,
    name_and_value,
    positive,
    topic_and_count,
)

LIST = ("topic", "partitions", "replicas")
DESCRIBE = ("topic", "partition", "leader", "epoch", "replicas", "isr")
OFFSETS = ("first", "end")


def describe(parser: Parser) -> None:
    """Add this command's options."""
    add = actions(parser)
    listing = add("list", "every topic, with how many partitions it has, of how many replicas")
    listing.add_argument("--internal", action="store_true", help="Kafka's own topics too")
    describing = add("describe", "each partition: its leader, its replicas, and those in sync")
    describing.add_argument("topics", metavar="TOPIC", nargs="+")
    describing.add_argument("--offsets", action="store_true", help="also the first offset and the end")
    creating = add("create", "new topics")
    creating.add_argument("topics", metavar="TOPIC[:PARTITIONS]", nargs="+", type=topic_and_count)
    creating.add_argument("--replicas", type=positive, default=-1, help="of each partition (default: the broker's)")
    creating.add_argument(
        "--config",
        metavar="NAME=VALUE",
        type=name_and_value,
        action="append",
        default=[],
        help="a setting: cleanup.policy=compact (repeat it for more)",
    )
    deleting = add("delete", "topics, with all that is in them")
    deleting.add_argument("topics", metavar="TOPIC", nargs="+")
    expanding = add("expand", "let topics have more partitions")
    expanding.add_argument("topics", metavar="TOPIC:PARTITIONS", nargs="+", type=topic_and_count)
    for each in (listing, describing, creating, deleting, expanding):
        add_cluster(each)
    for each in (listing, describing):
        each.add_argument("--json", action="store_true", help="one JSON object to a line")


def run(options: argparse.Namespace) -> int:
    """Do it; return the exit code."""
    return ACTIONS[options.action](options)


def _list(options: argparse.Namespace) -> int:
    with asking(options) as (_, topics):
        rows = [
            {
                "topic": name,
                "partitions": len(topic.partitions),
                "replicas": max((len(found.replicas) for found in topic.partitions.values()), default=0),
            }
            for name, topic in sorted(topics.items())
            if options.internal or not topic.internal
        ]
    print_rows(LIST, rows, options.json)
    return 0


def _describe(options: argparse.Namespace) -> int:
    with asking(options) as (admin, topics):
        results = admin.describe_topics(options.topics)
        found = [topic.partitions[number] for topic in well(results, topics).values() for number in topic.partitions]
        found.sort()
        rows: Iterable[dict[str, Any]] = map(_row, found)
        if options.offsets:
            rows = _with_offsets(options, found)
        print_rows(DESCRIBE + OFFSETS * options.offsets, rows, options.json)
    return exit_code(results)


def _row(partition: PartitionInfo) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "leader": partition.leader if partition.leader >= 0 else None,
        "epoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "isr": partition.isr,
    }


def _with_offsets(options: argparse.Namespace, partitions: list[PartitionInfo]) -> Iterator[dict[str, Any]]:
    # Who has no leader has nobody to ask, and would hold up the others until the time is over.
    tps = [TopicPartition(found.topic, found.partition) for found in partitions if found.leader >= 0]
    with Consumer.from_config(client_config(options)) as consumer:
        first = consumer.beginning_offsets(tps)
        end = consumer.end_offsets(tps)
    for found in partitions:
        tp = TopicPartition(found.topic, found.partition)
        yield {**_row(found), "first": first.get(tp), "end": end.get(tp)}


def _create(options: argparse.Namespace) -> int:
    new = {
        name: NewTopic(count, options.replicas, configs=dict(options.config))
        for name, count in distinct(options.topics)
    }
    with asking(options) as (admin, _):
        results = admin.create_topics(new)
    for name, topic in well(results).items():
        tell(f"created {name}: {_count(topic.partitions, 'partition')}, {_count(topic.replication_factor, 'replica')}")
    return exit_code(results)


def _delete(options: argparse.Namespace) -> int:
    with asking(options) as (admin, topics):
        results = admin.delete_topics(options.topics)
        for name in well(results, topics):
            tell(f"deleted {name}")
    return exit_code(results)


def _expand(options: argparse.Namespace) -> int:
    totals = dict(distinct(options.topics))
    with asking(options) as (admin, topics):
        results = admin.create_partitions(totals)
        for name in well(results, topics):
            tell(f"{name} has {_count(totals[name], 'partition')} now")
    return exit_code(results)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "describe": _describe,
    "create": _create,
    "delete": _delete,
    "expand": _expand,
}
