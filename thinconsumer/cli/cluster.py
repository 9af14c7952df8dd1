"""Shared by the commands: an admin client, checks of topics and partitions, and results of several requests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from ..admin import Admin, ClientOptions, TopicDescription
from ..config.kinds import did_you_mean
from ..errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError
from ..sockets.secured import open_driver
from ..types import TopicPartition
from .parsing import BOOTSTRAP_TIMEOUT_MS, CLUSTER_ADVICE, PROGRAM, CommandError, client_config, without_foreign

V = TypeVar("V")

TopicsByName = dict[str, TopicDescription]


@contextmanager
def connected_admin(options: argparse.Namespace, **own: Any) -> Iterator[tuple[Admin, TopicsByName]]:
    """Give an admin client and all topics. ``own`` are options of the client that replace those of the commands."""
    known = ClientOptions.options()
    settings = ClientOptions.from_config(without_foreign(client_config(options, known, **own), known))
    with Admin(settings, driver=open_driver(settings)) as admin:
        try:
            topics = admin.list_topics(timeout_ms=BOOTSTRAP_TIMEOUT_MS)
        except KafkaTimeoutError as error:
            raise CommandError(f"{error}. {CLUSTER_ADVICE}") from error
        yield admin, topics


def check_topic(
    name: str, partitions: Collection[int], wanted: Iterable[int], names: Callable[[], Iterable[str]]
) -> None:
    """Raise CommandError if a topic does not exist, or lacks a ``wanted`` partition.

    ``partitions`` are the topic's; empty if the topic does not exist. ``names`` returns all topics, to suggest one.
    """
    if not partitions:
        hint = did_you_mean(name, names()) or f". '{PROGRAM} topics list' shows the existing topics"
        raise CommandError(f"there is no topic {name!r}{hint}")
    missing = set(wanted).difference(partitions)
    if missing:
        raise CommandError(f"{name} has no partition {min(missing)}: its partitions are 0 to {max(partitions)}")


def partitions_of(topics: TopicsByName, name: str, wanted: Iterable[int] = ()) -> Collection[int]:
    """Return the partitions of a topic; raise CommandError if it does not exist, or lacks a wanted one."""
    found = topics[name].partitions if name in topics else ()
    check_topic(name, found, wanted, topics.keys)
    return found


def has_leader(topics: TopicsByName, tp: TopicPartition) -> bool:
    """Return whether a partition has a leader, which ListOffsets needs."""
    found = topics[tp.topic].partitions.get(tp.partition) if tp.topic in topics else None
    return found is not None and found.leader >= 0


def notify(words: str) -> None:
    sys.stderr.write(words + "\n")


def successes(results: Mapping[str, V | KafkaError], topics: TopicsByName | None = None) -> dict[str, V]:
    """Return the successful results; print each error on a line of standard error.

    ``topics``, if given, serves to suggest a topic of similar name when one does not exist.
    """
    good: dict[str, V] = {}
    for name, result in results.items():
        if isinstance(result, KafkaError):
            # A broker's error does not contain the name of the topic or group.
            unknown = topics is not None and isinstance(result, UnknownTopicOrPartitionError)
            notify(f"error: {name}: {result}{did_you_mean(name, topics or ()) if unknown else ''}")
        else:
            good[name] = result
    return good


def exit_code(results: Mapping[str, object]) -> int:
    return int(any(isinstance(result, KafkaError) for result in results.values()))
