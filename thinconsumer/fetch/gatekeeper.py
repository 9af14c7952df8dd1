"""The port for managers that hold partitions until a condition is met, for example until other partitions are read.

A gatekeeper holds a partition by values that polls and Fetch requests read, so that neither has to ask the gatekeeper
whether a record is held:

* ``Partition.delivery_end`` is the offset from which on records are held.
* ``Partitions.held_topics`` are the topics of which newly assigned partitions begin with all records held.
* ``Partitions.set_count`` sets the partition count that a topic's Fetch requests carry: the count for which the
  gatekeeper has decided what it holds. A broker with another count rejects the request, so that no record comes before
  the hold.

``consumer.managers`` has the list of gatekeepers, which step before the fetch planner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from ..engine import Manager
from ..errors import KafkaError
from ..positions.partitions import Partition


class HeldPartition(NamedTuple):
    """A partition of which no record may be returned now, as :meth:`Consumer.health` describes it."""

    partition: Partition
    reason: str  #: "held until ...".
    is_wait: bool  #: Whether the partition only waits for the progress of others, or for the end of a grace time.


class Gatekeeper(Manager, Protocol):
    """A manager that follows metadata, assignment and positions, and decides which records are held."""

    def moved(self) -> None:
        """Note that positions have moved: a step must follow if this may release a partition.

        Called when positions have moved past records that were returned, or past offsets without records.
        """

    def next_callback(self, now: float) -> Callable[[], bool] | None:
        """Return a function that makes the due call of the rebalance listener, or None. Polls ask in each round.

        The function runs between two steps, and returns True. If the listener raises, the poll raises the exception,
        and the call is due again.
        """

    def held(self) -> Iterator[HeldPartition]:
        """Yield the partitions of which no record may be returned now, for ``health()``."""

    def errors(self) -> Iterator[KafkaError]:
        """Yield the errors that last until the application or an operator acts: polls raise them."""
