"""Reading as a member of a group: what ``consume --group`` does beside printing.

Owns what is committed: only what was printed and flushed, so that whoever is stopped, however rudely, repeats records
and loses none. Auto-commit does it while reading goes on, since a poll commits what *earlier* polls returned, and those
were printed by then; the end is done by hand, because Ctrl-C may come in the middle of printing.
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
from .cluster import tell
from .output import Record
from .parsing import UsageError

Reader = Consumer["bytes | None", "bytes | None"]

#: How often to commit, in milliseconds: what a crash repeats.
COMMIT_MS = 1000
#: How long committing and leaving may take at the end, each, in milliseconds: who presses Ctrl-C waits for it.
PARTING_MS = 2000
#: How long one poll waits where the end has to be noticed.
LOOK_MS = 100
#: As a shell has it for who was ended by SIGTERM.
TERMINATED = 128 + signal.SIGTERM


def check(options: argparse.Namespace) -> None:
    """Return if what was asked for makes sense, with a group or without one.

    Raises:
        UsageError: It does not.
    """
    if options.group is None:
        if any(name.replace("_", ".") == "group.id" for name, _ in options.property):
            raise UsageError(
                "a group is named with --group, not with --property: only then it is read with its other members"
            )
        if options.pattern is not None:
            raise UsageError("--pattern is for groups: add --group, or name the topics")
        if not options.topics:
            raise UsageError("what to read? Name a topic")
        return
    if bool(options.topics) == (options.pattern is not None):
        raise UsageError("name topics or give a --pattern, one of the two")
    chosen = next((wanted.topic for wanted in options.topics if wanted.numbers is not None), None)
    if chosen is not None:
        raise UsageError(f"a group shares partitions out by itself: write {chosen}, or read without --group")
    if options.start.kind not in ("earliest", "latest"):
        raise UsageError(
            "a group goes on where it has committed: --from earliest or latest is for where it has committed nothing; "
            "read without --group to begin elsewhere"
        )


def config_for(options: argparse.Namespace) -> dict[str, Any]:
    """Return what to configure a member with."""
    return {
        "group_id": options.group,
        "auto_offset_reset": options.start.kind,
        "auto_commit_interval_ms": COMMIT_MS,
    }


@contextmanager
def leaving_when_terminated() -> Iterator[None]:
    """Let SIGTERM end this as Ctrl-C does: a member that is just gone keeps its partitions until its session ends."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Member(RebalanceListener):
    """Polls for a group, and commits what was printed."""

    def __init__(self, consumer: Reader) -> None:
        self._consumer = consumer
        self._has_share = False
        self._printed: dict[TopicPartition, int] = {}
        self._in_hand: Mapping[TopicPartition, Sequence[Record]] = {}

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Our share is known, even if it is empty."""
        self._has_share = True

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Auto-commit has written down what was printed of these."""
        self._has_share = False
        self._forget(revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Say what no commit can mend any more."""
        self._has_share = False
        again = sorted(tp for tp in lost if tp in self._printed)
        if again:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in again)
            tell(f"the group went on without this member: the last records of {names} may be read again by others")
        self._forget(lost)

    def batches(self, most: int | None, at_once: int, wait_ms: int) -> Iterator[Sequence[Record]]:
        """Yield what comes, ``most`` records altogether; call :meth:`printed` after each."""
        left = most
        while left is None or left > 0:
            batch = self._poll(wait_ms, at_once if left is None else min(left, at_once))
            left = left if left is None else left - len(batch)
            yield batch

    def batches_to(
        self, ends: Mapping[TopicPartition, int], most: int | None, at_once: int
    ) -> Iterator[Sequence[Record]]:
        """Likewise, until this member's share is read up to these ends."""
        batches = self.batches(most, at_once, LOOK_MS)
        while not self._has_share or self._is_behind(ends):
            batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def printed(self) -> None:
        """Note that the last batch is where whoever reads the output can see it."""
        self._printed.update({tp: records[-1].offset + 1 for tp, records in self._in_hand.items()})
        self._in_hand = {}

    def part(self) -> bool:
        """Commit what was printed and leave; return whether that is committed, and say it if it is not."""
        consumer = self._consumer
        try:
            if self._printed and consumer.config.enable_auto_commit:
                # Positions also count what comes behind the last record, such as the end of a transaction. But in the
                # middle of printing they are past what was not printed.
                consumer.commit(self._printed if self._in_hand else None, timeout_ms=PARTING_MS)
        except KafkaError as error:
            tell(f"error: what was printed last is not committed, and will be read again: {error}")
            return False
        finally:
            consumer.close(autocommit=False, timeout_ms=PARTING_MS)
        return True

    def _poll(self, wait_ms: int, limit: int) -> list[Record]:
        self._in_hand = self._consumer.poll(wait_ms, max_records=limit)
        return list(chain.from_iterable(self._in_hand.values()))

    def _is_behind(self, ends: Mapping[TopicPartition, int]) -> bool:
        consumer = self._consumer
        return any(tp in ends and consumer.position(tp) < ends[tp] for tp in consumer.assignment())

    def _forget(self, tps: Collection[TopicPartition]) -> None:
        for tp in tps:
            self._printed.pop(tp, None)


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern as an argument's type. Raises ArgumentTypeError."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{pattern!r} is no regular expression: {error}") from None
