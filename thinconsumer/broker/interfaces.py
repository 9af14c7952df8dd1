"""The interfaces that coordinators and fetch sessions require of their broker node and of a coordinator's log.

Protocols only: ``node.BrokerNode`` and ``log.Log`` implement them, and tests have small implementations. Requirements
of a single kind of coordinator are in ``group.interfaces`` and ``txn.interfaces``.
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
    """A replica's log, as coordinators read it while they load their state."""

    @property
    def start_offset(self) -> int:
        """The log start offset."""
        ...

    @property
    def end_offset(self) -> int:
        """The log end offset."""
        ...

    def read_batches(self, start: int, end: int, /) -> Iterable[RecordBatch]:
        """Return the batches between two offsets."""
        ...


class NodeServices(Protocol):
    """Configuration, time and randomness of a broker node."""

    @property
    def config(self) -> BrokerConfig:
        """The cluster's configuration."""
        ...

    @property
    def schedule(self) -> Schedule:
        """Time and timers."""
        ...

    @property
    def random(self) -> Random:
        """The random source."""
        ...


class CoordinatorNode(NodeServices, Protocol):
    """The broker node, as every coordinator uses it."""

    @property
    def image(self) -> ClusterImage:
        """The node's metadata image."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back after ``seconds``, unless the node is killed; a paused node calls back once it is resumed."""
        ...
