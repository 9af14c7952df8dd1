"""Group membership for ``consume --group``.

Only printed and flushed records are committed, so that after a crash records are repeated, but none is skipped.
Auto-commit during the command is safe, since a poll commits only records of earlier polls, which have been printed. The
last commit, when the command ends, names its offsets if Ctrl-C has interrupted the printing of a batch: auto-commit
would include records of the batch that were not printed.
"""

from __future__ import annotations

import argparse
import re
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from ..consumer import Consumer
from ..errors import KafkaError
from ..group import RebalanceListener
from ..types import TopicPartition
from .cluster import notify
from .output import Record
from .parsing import UsageError

BytesConsumer = Consumer["bytes | None", "bytes | None"]
Polled = Mapping[TopicPartition, Sequence[Record]]

#: Records per poll: enough to be fast, few enough to update the progress line often.
POLL_RECORDS = 2000

#: Interval of auto-commits in milliseconds: after a crash, the records of this time are repeated.
COMMIT_MS = 1000
#: Timeout of the last commit, and of leaving the group; after Ctrl-C the user waits for both.
CLOSE_TIMEOUT_MS = 2000
#: Timeout of one poll with ``--until-end``.
END_POLL_MS = 100
#: Exit code after SIGTERM, as shells report it.
TERMINATED = 128 + signal.SIGTERM


def check_options(options: argparse.Namespace) -> None:
    """Raise UsageError if options contradict each other."""
    if options.group is None:
        if any(name.replace("_", ".") == "group.id" for name, _ in options.property):
            raise UsageError("--property group.id does not join a group: use --group")
        if options.pattern is not None:
            raise UsageError("--pattern needs --group: add it, or name the topics")
        if not options.topics:
            raise UsageError("name a topic to read")
        return
    if bool(options.topics) == (options.pattern is not None):
        raise UsageError("give either topics or --pattern")
    chosen = next((wanted.topic for wanted in options.topics if wanted.numbers is not None), None)
    if chosen is not None:
        raise UsageError(f"the group assigns partitions: write {chosen}, or read without --group")
    if options.start.kind not in ("earliest", "latest"):
        raise UsageError(
            "a group starts at its committed offsets: --from is earliest or latest, for partitions without one; read "
            "without --group to start elsewhere"
        )


def config_for(options: argparse.Namespace) -> dict[str, Any]:
    """Return the consumer options of a group member."""
    return {"group_id": options.group, "auto_offset_reset": options.start.kind, "auto_commit_interval_ms": COMMIT_MS}


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Raise SystemExit on SIGTERM: a member that does not leave keeps its partitions until its session times out."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def polls(consumer: BytesConsumer, most: int | None, wait_ms: int) -> Iterator[Polled]:
    """Yield the result of each poll, up to ``most`` records in total."""
    left = most
    while left is None or left > 0:
        polled = consumer.poll(wait_ms, max_records=POLL_RECORDS if left is None else min(left, POLL_RECORDS))
        yield polled
        left = None if left is None else left - sum(map(len, polled.values()))


class GroupReader(RebalanceListener):
    """Reads as a group member, and commits printed records."""

    def __init__(self, consumer: BytesConsumer) -> None:
        self._consumer = consumer
        self._is_assigned = False
        self._printed: dict[TopicPartition, int] = {}  #: Next offset after the last printed record.
        self._printing: Polled = {}  #: The records of the last poll while they are being printed; empty afterwards.

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Record that the member has an assignment, even an empty one."""
        self._is_assigned = True

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Forget the printed offsets of revoked partitions: auto-commit has committed them before this callback."""
        self._is_assigned = False
        self._forget(revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Warn that printed records of lost partitions can no longer be committed."""
        self._is_assigned = False
        again = sorted(tp for tp in lost if tp in self._printed)
        if again:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in again)
            notify(f"removed from the group: other members may read the last records of {names} again")
        self._forget(lost)

    def batches(self, most: int | None, wait_ms: int) -> Iterator[Sequence[Record]]:
        """Yield polled records, up to ``most`` in total; call :meth:`printed` after each batch."""
        for polled in polls(self._consumer, most, wait_ms):
            self._printing = polled
            yield list(chain.from_iterable(polled.values()))

    def batches_to(self, ends: Mapping[TopicPartition, int], most: int | None) -> Iterator[Sequence[Record]]:
        """Yield polled records until the assigned partitions have reached these ends."""
        batches = self.batches(most, END_POLL_MS)
        while not self._is_assigned or self._is_behind(ends):
            batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def printed(self) -> None:
        """Record that the last batch was printed and flushed."""
        self._printed.update({tp: records[-1].offset + 1 for tp, records in self._printing.items()})
        self._printing = {}

    def leave(self) -> bool:
        """Commit printed records and leave the group; return False, with a message, if the commit failed."""
        consumer = self._consumer
        try:
            if self._printed and consumer.config.enable_auto_commit:
                # With None, the consumer commits its positions. A position may be after a transaction marker: the
                # offset after the last printed record would leave the group a lag of 1. If printing was interrupted,
                # the positions are after records that were not printed, and must not be committed.
                consumer.commit(self._printed if self._printing else None, timeout_ms=CLOSE_TIMEOUT_MS)
        except KafkaError as error:
            notify(f"error: the last printed records are not committed and will be read again: {error}")
            return False
        finally:
            consumer.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)
        return True

    def _is_behind(self, ends: Mapping[TopicPartition, int]) -> bool:
        consumer = self._consumer
        return any(tp in ends and consumer.position(tp) < ends[tp] for tp in consumer.assignment())

    def _forget(self, tps: Collection[TopicPartition]) -> None:
        for tp in tps:
            self._printed.pop(tp, None)


def regex(pattern: str) -> re.Pattern[str]:
    """Parse a regular expression."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{pattern!r} is not a regular expression: {error}") from None
