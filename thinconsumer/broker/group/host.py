"""What the group coordinator asks of the node that it lives on, and of the replica that holds its log.

Protocols only: the real ones are ``node.Node`` and ``partition.Partition``, tests have small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ...records.batch import Batch
from ...records.builder import NewRecord
from ...timers import Random
from ..config import BrokerConfig
from ..image import Image
from ..schedule import Schedule, Timer


class OffsetsLog(Protocol):
    """A replica's log, as far as it is read here."""

    @property
    def start_offset(self) -> int:
        """Where it begins."""
        ...

    @property
    def end_offset(self) -> int:
        """Where it ends."""
        ...

    def read_batches(self, start: int, end: int, /) -> Iterable[Batch]:
        """Return the batches from one offset to another."""
        ...


class OffsetsPartition(Protocol):
    """The replica of a partition of ``__consumer_offsets`` that makes its node a coordinator."""

    @property
    def log(self) -> OffsetsLog:
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

    def watch(self, callback: Callable[[], None]) -> int:
        """Call back whenever something changed, until :meth:`unwatch` of the number returned."""
        ...

    def unwatch(self, number: int) -> None:
        """Stop calling back."""
        ...


class Host(Protocol):
    """The node."""

    @property
    def config(self) -> BrokerConfig:
        """The cluster's settings."""
        ...

    @property
    def schedule(self) -> Schedule:
        """Time."""
        ...

    @property
    def random(self) -> Random:
        """Randomness."""
        ...

    @property
    def image(self) -> Image:
        """What the node knows of the cluster."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back after a while, unless the node is killed; held back while it is paused."""
        ...
