"""What the group coordinator asks of the replica that holds its log.

A protocol only: the real one is ``partition.Partition``, tests have a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...records.builder import NewRecord
from ..interfaces import CoordinatorLog


class OffsetsPartition(Protocol):
    """The replica of a partition of ``__consumer_offsets`` that makes its node a coordinator."""

    @property
    def log(self) -> CoordinatorLog:
        """What it holds."""
        ...

    @property
    def high_watermark(self) -> int:
        """What cannot be lost any more lies before this."""
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
        """Append with acks -1; ``done(code)`` exactly once, perhaps at once. Return the first offset, -1 if refused."""
        ...

    def add_listener(self, callback: Callable[[], None]) -> int:
        """Call back whenever something changed, until :meth:`unwatch` of the number returned."""
        ...

    def remove_listener(self, number: int) -> None:
        """Stop calling back."""
        ...
