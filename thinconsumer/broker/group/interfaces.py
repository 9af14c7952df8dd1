"""The interface that the group coordinator requires of its replica of ``__consumer_offsets``.

A protocol only: ``partition.PartitionReplica`` implements it, and tests have a small implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...records.builder import NewRecord
from ..interfaces import CoordinatorLog


class OffsetsPartition(Protocol):
    """The leader's replica of a partition of ``__consumer_offsets``."""

    @property
    def log(self) -> CoordinatorLog:
        """The replica's log."""
        ...

    @property
    def high_watermark(self) -> int:
        """The high watermark."""
        ...

    def append_records(
        self,
        records: Sequence[NewRecord],
        done: Callable[[int], None],
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        transactional: bool = False,
    ) -> int:
        """Append with acks -1; ``done(code)`` is called exactly once, perhaps immediately. Return the base offset, -1
        if rejected.
        """
        ...

    def add_listener(self, callback: Callable[[], None]) -> int:
        """Call ``callback`` after every change, until :meth:`remove_listener` of the returned id."""
        ...

    def remove_listener(self, number: int) -> None:
        """Remove a listener."""
        ...
