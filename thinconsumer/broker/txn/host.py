"""What the transaction coordinator asks of the node that it lives on, and of the replica that holds its log.

Protocols only: the real ones are ``node.Node`` and ``partition.Partition``, tests have small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ...records.batch import Batch
from ...records.builder import NewRecord
from ...timers import Random
from ...types import TopicPartition
from ..config import BrokerConfig
from ..image import Image
from ..schedule import Schedule, Timer


class StateLog(Protocol):
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


class StatePartition(Protocol):
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
    def log(self) -> StateLog:
        """What it holds."""
        ...

    def append_records(self, records: Sequence[NewRecord], done: Callable[[int], None]) -> int:
        """Append with acks -1; ``done(code)`` exactly once, perhaps at once."""
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

    @property
    def is_running(self) -> bool:
        """False while it is down or paused."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back after a while, unless the node is killed; held back while it is paused."""
        ...

    def new_producer_id(self) -> int:
        """Return an id that no producer has had."""
        ...

    def write_marker(
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
