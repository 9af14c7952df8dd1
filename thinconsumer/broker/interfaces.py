"""What the rooms of a node ask of it, and coordinators of the log that they keep their state in.

Protocols only: the real ones are ``node.Node`` and ``log.Log``, tests have small ones. What only one kind of
coordinator needs is in ``group.host`` and ``txn.host``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from ..records.batch import RecordBatch
from ..timers import Random
from .config import BrokerConfig
from .image import ClusterImage
from .schedule import Schedule, Timer


class CoordinatorLog(Protocol):
    """A replica's log, as far as coordinators read it."""

    @property
    def start_offset(self) -> int:
        """Where it begins."""
        ...

    @property
    def end_offset(self) -> int:
        """Where it ends."""
        ...

    def read_batches(self, start: int, end: int, /) -> Iterable[RecordBatch]:
        """Return the batches from one offset to another."""
        ...


class NodeServices(Protocol):
    """The node, for whoever needs little of it."""

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


class CoordinatorNode(NodeServices, Protocol):
    """The node, for every coordinator."""

    @property
    def image(self) -> ClusterImage:
        """What the node knows of the cluster."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back after a while, unless the node is killed; held back while it is paused."""
        ...
