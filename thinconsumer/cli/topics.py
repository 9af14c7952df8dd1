"""List, describe, create, delete and expand topics."""

import argparse
from collections.abc import Iterator
from typing import Any

from ..admin import NewTopic
from ..consumer import Consumer
from ..types import PartitionInfo, TopicPartition
from .cluster import connected_admin, exit_code, notify, successes
from .output import print_rows
from .parsing import Parser, add_action, add_settings, client_config, positive, require_distinct, topic_and_count

LIST = ("topic", "partitions", "replicas")
DESCRIBE = ("topic", "partition", "leader", "epoch", "replicas", "isr")
OFFSETS = ("first", "end")


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
    expanding = add_action(parser, _expand, "Add partitions to topics.")
    expanding.add_argument("topics", metavar="TOPIC:PARTITIONS", nargs="+", type=topic_and_count)


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
        described = successes(results, topics).values()
        found = sorted(partition for topic in described for partition in topic.partitions.values())
        rows = _with_offsets(options, found) if options.offsets else map(_row, found)
        print_rows(DESCRIBE + OFFSETS * options.offsets, rows, options.json)
    return exit_code(results)


def _row(found: PartitionInfo) -> tuple[Any, ...]:
    leader = found.leader if found.leader >= 0 else None
    return found.topic, found.partition, leader, found.leader_epoch, found.replicas, found.isr


def _with_offsets(options: argparse.Namespace, partitions: list[PartitionInfo]) -> Iterator[tuple[Any, ...]]:
    # Without a leader, ListOffsets would wait until its timeout.
    tps = [TopicPartition(found.topic, found.partition) for found in partitions if found.leader >= 0]
    with Consumer.from_config(client_config(options)) as consumer:
        first = consumer.beginning_offsets(tps)
        end = consumer.end_offsets(tps)
    for found in partitions:
        tp = TopicPartition(found.topic, found.partition)
        yield *_row(found), first.get(tp), end.get(tp)


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
    totals = dict(require_distinct(options.topics))
    with connected_admin(options) as (admin, topics):
        results = admin.create_partitions(totals)
        for name in successes(results, topics):
            notify(f"{name} now has {_count(totals[name], 'partition')}")
    return exit_code(results)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
