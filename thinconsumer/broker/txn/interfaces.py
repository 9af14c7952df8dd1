"""The interfaces that the transaction coordinator requires of its broker node and of its replica of
``__transaction_state``.

Protocols only: ``node.BrokerNode`` and ``partition.PartitionReplica`` implement them, and tests have small
implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...records.builder import NewRecord
from ...types import TopicPartition
from ..interfaces import CoordinatorLog, CoordinatorNode


class TransactionLogPartition(Protocol):
    """The leader's replica of a partition of ``__transaction_state``."""

    @property
    def tp(self) -> TopicPartition:
        """The topic-partition."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether the replica leads; otherwise its shard is stale."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The leader epoch."""
        ...

    @property
    def log(self) -> CoordinatorLog:
        """The replica's log."""
        ...

    def append_records(self, records: Sequence[NewRecord], done: Callable[[int], None]) -> int:
        """Append with acks -1; ``done(code)`` is called exactly once, perhaps immediately."""
        ...


class TransactionCoordinatorNode(CoordinatorNode, Protocol):
    """The broker node, as the transaction coordinator uses it."""

    @property
    def is_running(self) -> bool:
        """False while the broker is down or paused."""
        ...

    def new_producer_id(self) -> int:
        """Return a producer id that was never assigned before."""
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
        """Append a transaction marker on the partition's leader; ``done(code)`` is called once."""
        ...
