"""Copy topics to another cluster, or to other topics, batch by batch and without decoding them.

Records keep their partition, order, codec, headers and timestamps (where the target's compression.type is producer, and
its message.timestamp.type CreateTime). The target topics must exist, with at least as many partitions. Batches that are
compacted, of an old format or with log append time are encoded again; those of aborted transactions are left out.

The command is a member of the group --group, and continues at its committed offsets. After a crash or a failover,
batches that were written since the last commit (five in a second) are written again, and none is left out. Several
mirrors with one group share the partitions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

from ..consumer import Consumer
from ..produce import Producer, ProducerSettings
from ..sockets.secured import open_driver
from .cluster import TopicsByName, check_topic, connected_admin
from .consume import partitions_to_read
from .consume_in_group import CLOSE_TIMEOUT_MS, BytesConsumer, exit_on_sigterm
from .mirroring import Mirror
from .output import ProgressLine
from .parsing import (
    CommandError,
    Parser,
    PartitionsOf,
    UsageError,
    add_cluster,
    add_progress,
    add_properties,
    client_config,
    command_config,
)

POLL_MS = 1000
DELIVERY_TIMEOUT_MS = 30_000
#: A larger batch of the source is an error: more than brokers accept unless they are set up for it.
BATCH_BYTES_MAX = 32 << 20
BUFFER_BYTES = 64 << 20


def describe(parser: Parser) -> None:
    parser.add_argument(
        "topics", metavar="TOPIC[=TARGET]", nargs="+", type=_topic_and_target, help="topic to copy, and its other name"
    )
    add_cluster(parser)
    parser.add_argument("--to", metavar="HOST:PORT", help="brokers of the target cluster (default: the same cluster)")
    parser.add_argument(
        "--to-command-config",
        metavar="FILE",
        type=command_config,
        help="a properties file for the clients of the target (default: --command-config)",
    )
    parser.add_argument("--group", metavar="ID", required=True, help="the consumer group that keeps the offsets")
    parser.add_argument("--until-end", action="store_true", help="stop where the topics ended when the command started")
    add_properties(parser, "consumer")
    add_progress(parser)


def run(options: argparse.Namespace) -> int:
    targets: dict[str, str] = dict(options.topics)
    _check_targets(options, targets)
    settings = ProducerSettings.from_config(
        client_config(
            _target_options(options),
            ProducerSettings.options(),
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            max_request_size=BATCH_BYTES_MAX,
            buffer_memory=BUFFER_BYTES,
            max_block_ms=0,
        )
    )
    config = client_config(
        options,
        group_id=options.group,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    progress = ProgressLine(options.progress)
    started = time.monotonic()
    with exit_on_sigterm(), Producer(settings, driver=open_driver(settings)) as producer:
        consumer: BytesConsumer = Consumer.from_config(config)
        mirror = Mirror(consumer, producer, targets, time.monotonic)
        try:
            _copy(consumer, mirror, options, progress)
        finally:
            try:
                mirror.finish()
            finally:
                producer.close(timeout_ms=0)  # finish() has waited
                consumer.close(timeout_ms=CLOSE_TIMEOUT_MS)
                seconds = max(time.monotonic() - started, 0.001)
                progress.say(f"{_how_far(mirror)}, {mirror.records / seconds:,.0f} records/s")
    return 0


def _copy(consumer: BytesConsumer, mirror: Mirror, options: argparse.Namespace, progress: ProgressLine) -> None:
    consumer.subscribe(dict(options.topics), listener=mirror)
    ends = None
    if options.until_end:
        ends = consumer.end_offsets(
            partitions_to_read(consumer, [PartitionsOf(name, None) for name, _ in options.topics])
        )
    while ends is None or not mirror.has_reached(ends):
        mirror.copy(POLL_MS if ends is None else 100)
        progress.update(lambda: _how_far(mirror))


def _how_far(mirror: Mirror) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(mirror.counts.items()))
    return f"{mirror.records:,} records, {mirror.size / 1e6:,.1f} MB; batches: {kinds or 'none'}"


def _check_targets(options: argparse.Namespace, targets: Mapping[str, str]) -> None:
    """Raise CommandError if a topic is missing on either side, or has fewer partitions on the target."""
    is_same = options.to is None and options.to_command_config is None
    for topic, target in targets.items():
        if is_same and topic == target:
            raise UsageError(f"{topic} cannot be copied to itself: name another cluster (--to) or topic ({topic}=NAME)")
    if len(set(targets.values())) < len(options.topics):
        raise UsageError("each topic needs a target of its own")
    with connected_admin(options) as (_, there):
        sources: TopicsByName = there
    with connected_admin(_target_options(options)) as (_, found):
        for topic, target in targets.items():
            check_topic(sources, topic)
            check_topic(found, target)
            count, wanted = len(found[target].partitions), len(sources[topic].partitions)
            if count < wanted:
                raise CommandError(f"the target {target} has {count} partitions, but {topic} has {wanted}: expand it")


def _target_options(options: argparse.Namespace) -> argparse.Namespace:
    """Return the options with which clients of the target cluster are made."""
    target = {"bootstrap_server": options.to or options.bootstrap_server, "property": ()}
    if options.to_command_config is not None:
        target["command_config"] = options.to_command_config
        target["bootstrap_server"] = options.to
    return argparse.Namespace(**{**vars(options), **target})


def _topic_and_target(text: str) -> tuple[str, str]:
    topic, equals, target = text.partition("=")
    if not topic or (equals and not target):
        raise argparse.ArgumentTypeError(f"{text!r}: write TOPIC or TOPIC=TARGET")
    return topic, target or topic
