"""Asking a cluster about its topics and groups, and saying how each single one of several went.

Owns what the commands for that have in common. Data goes to standard output; what was done, and what was not, is said
on standard error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from ..admin import Admin, ClientOptions, TopicDescription
from ..errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError
from ..net import SelectorDriver
from .parsing import API_TIMEOUT_MS, BOOTSTRAP_TIMEOUT_MS, PROGRAM, Failure, did_you_mean

V = TypeVar("V")

Topics = dict[str, TopicDescription]


@contextmanager
def asking(options: argparse.Namespace) -> Iterator[tuple[Admin, Topics]]:
    """Yield who asks the cluster, and its topics, which show that it is there.

    Raises:
        Failure: It is not.
    """
    settings = ClientOptions.from_options(
        bootstrap_servers=options.bootstrap_server, default_api_timeout_ms=API_TIMEOUT_MS
    )
    with Admin(settings, driver=SelectorDriver()) as admin:
        try:
            topics = admin.list_topics(timeout_ms=BOOTSTRAP_TIMEOUT_MS)
        except KafkaTimeoutError as error:
            raise Failure(
                f"{error}. Is --bootstrap-server right? '{PROGRAM} broker' starts a cluster to try things with"
            ) from error
        yield admin, topics


def check_topic(topics: Topics, name: str, partition: int | None = None) -> None:
    """Return if there is such a topic, and such a partition of it.

    Raises:
        Failure: There is not; it says what there is.
    """
    if name not in topics:
        hint = did_you_mean(name, topics) or f". '{PROGRAM} topics list' shows what there is"
        raise Failure(f"there is no topic {name!r}{hint}")
    partitions = topics[name].partitions
    if partition is not None and partition not in partitions:
        raise Failure(f"{name} has no partition {partition}: its partitions are 0 to {max(partitions)}")


def tell(words: str) -> None:
    """Say what was done."""
    sys.stderr.write(words + "\n")


def well(results: Mapping[str, V | KafkaError], topics: Topics | None = None) -> dict[str, V]:
    """Return the results that are none of the errors, and say those on a line each."""
    good: dict[str, V] = {}
    for name, result in results.items():
        if isinstance(result, KafkaError):
            # The name is in no error of a broker's; and what is like it may be what was meant.
            unknown = topics is not None and isinstance(result, UnknownTopicOrPartitionError)
            tell(f"error: {name}: {result}{did_you_mean(name, topics or ()) if unknown else ''}")
        else:
            good[name] = result
    return good


def exit_code(results: Mapping[str, object]) -> int:
    """Return 1 if there is an error among them."""
    return int(any(isinstance(result, KafkaError) for result in results.values()))
