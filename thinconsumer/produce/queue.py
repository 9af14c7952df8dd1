"""The batches of one partition that are neither acknowledged nor failed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ..timers import Retry
from ..types import TopicPartition
from .batch import BatchState, ProducerBatch
from .sequences import Sequences


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """One partition's batches, oldest first, and its sequence numbers and backoff."""

    tp: TopicPartition
    #: Backoff before the next attempt to send the first batch or, without a leader, before the next metadata request.
    retry: Retry
    batches: deque[ProducerBatch] = field(default_factory=deque)
    sequences: Sequences = field(default_factory=Sequences)
    #: Whether the backoff of ``retry`` is that of metadata requests for a leader; it ends once a leader is known.
    awaits_leader: bool = False

    @property
    def in_flight(self) -> bool:
        """Whether the first batch is in flight, so that no other may be sent."""
        return bool(self.batches) and self.batches[0].state is BatchState.IN_FLIGHT
