"""What the transaction coordinator asks, beyond what all coordinators do, of its node and of the replica of its log.

Protocols only: the real ones are ``node.Node`` and ``partition.Partition``, tests have small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...records.builder import NewRecord
from ...types import TopicPartition
from ..interfaces import CoordinatorLog, CoordinatorNode


class TransactionLogPartition(Protocol):
    """The replica of a partition of ``__transaction_state`` that makes its node a coordinator."""

    @property
    def tp(self) -> TopicPartition:
        """Its name and number."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether it leads; once it does not, nothing of what it held counts here."""
        ...

    @property
    def leader_epoch(self) -> int:
        """In which epoch."""
        ...

    @property
    def log(self) -> CoordinatorLog:
        """What it holds."""
        ...

    def append_records(self, records: Sequence[NewRecord], done: Callable[[int], None]) -> int:
        """Append with acks -1; ``done(code)`` exactly once, perhaps at once."""
        ...


class TransactionCoordinatorNode(CoordinatorNode, Protocol):
    """The node."""

    @property
    def is_running(self) -> bool:
        """False while it is down or paused."""
        ...

    def new_producer_id(self) -> int:
        """Return an id that no producer has had."""
        ...

    def write_transaction_marker(
        self,
        tp: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        done: Callable[[int], None],
        *,
        transaction_version: int = 0,
    ) -> None:
        """Append the end of a transaction on whichever node leads the partition; ``done(code)`` is called once."""
        ...
