"""The action ``groups delete-offsets``: it deletes committed offsets, by the rules of Kafka's tool for consumer groups.

These are the rules of ``kafka-consumer-groups.sh --delete-offsets``: the group may have members, but none that
subscribes to one of the topics. Differences: a dry run without ``--execute``, and nothing is deleted if one of the
topics has a subscriber, or one of the partitions does not exist.
"""

from __future__ import annotations

import argparse
import sys

from ..admin import Admin
from ..errors import KafkaError
from .cluster import connected_admin, notify
from .group_reset import add_execution, committed_offsets, named_partitions
from .output import counted, print_rows
from .parsing import CommandError, Parser, topic_and_partitions

DELETION = ("group", "topic", "partition", "committed")


def describe_deletion(action: Parser) -> None:
    """Add the options of ``groups delete-offsets`` to its parser."""
    action.add_argument("group", metavar="GROUP", help="the group whose committed offsets are deleted")
    action.add_argument(
        "topics", metavar="TOPIC[:PARTITIONS]", type=topic_and_partitions, nargs="+",
        help="delete the offsets of all partitions of a topic, or of some: orders:0,3-5",
    )  # fmt: skip
    add_execution(action, "delete the offsets", "only show the offsets (default)")


def delete_offsets(options: argparse.Namespace) -> int:
    """Show the committed offsets, and delete them with ``--execute``."""
    group = options.group
    with connected_admin(options) as (admin, topics):
        chosen = sorted(set(named_partitions(options.topics, topics)))
        _require_no_subscriber(admin, group, {tp.topic for tp in chosen})
        committed = committed_offsets(admin, group)
        print_rows(DELETION, [(group, *tp, committed.get(tp)) for tp in chosen], options.json)
        # Before the deletion: if the output cannot be written, the command fails and has deleted no offset.
        sys.stdout.flush()
        if not options.execute:
            notify("nothing was changed: --execute deletes these offsets")
            return 0
        errors = admin.delete_group_offsets(group, chosen)
    if isinstance(errors, KafkaError):
        raise CommandError(f"{group}: {errors}") from errors
    failed = {tp: error for tp, error in sorted(errors.items()) if error is not None}
    for (topic, partition), error in failed.items():
        notify(f"error: {topic}-{partition}: {error}")
    notify(f"deleted {counted(len(committed.keys() & set(chosen) - failed.keys()), 'offset')} of {group}")
    return int(bool(failed))


def _require_no_subscriber(admin: Admin, name: str, topics: set[str]) -> None:
    """Raise CommandError if a member reads one of the topics, or if there is no such group."""
    group = admin.describe_groups([name])[name]
    if isinstance(group, KafkaError):
        raise CommandError(f"{name}: {group}") from group
    for member in group.members:
        assigned = {tp.topic for tp in member.assignment or ()}
        for topic in sorted(topics & {*(member.subscribed_topics or ()), *assigned}):
            raise CommandError(
                f"{name} reads {topic} (member {member.client_id} at {member.client_host}), and would commit its "
                "offsets again: stop it first, or let it subscribe to other topics"
            )
