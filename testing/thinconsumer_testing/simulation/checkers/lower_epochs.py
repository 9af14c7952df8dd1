"""Decides when a client may fetch with a lower leader epoch than before, by its requests and responses alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..client_tap import SentRequest
from .base import SimReader

#: How often the named leader must reject the newest epoch, and the least seconds from the first such rejection to the
#: last. These numbers are not imported from the client, as the checker would then agree with a wrong number.
REJECTIONS_MIN, REJECTED_S = 3, 1.0

#: A client, a topic id and the number of a partition.
PartitionKey = tuple[SimReader, bytes, int]


@dataclass(slots=True)
class _Case:
    """A partition whose newest leader epoch a node has rejected with UNKNOWN_LEADER_EPOCH."""

    requested: list[SentRequest] = field(default_factory=list)  #: The Metadata requests since the first rejection.
    named: tuple[int, int] | None = None  #: The leader and its lower epoch, in the last response to ``requested``.
    rejections: list[float] = field(default_factory=list)  #: The times of the named leader's rejections.


@dataclass(eq=False, slots=True)
class LowerEpochs:
    """Finds partitions whose newest leader epoch, as a client has read it, does not exist in the cluster.

    The brokers prove that as follows: one rejects the epoch (UNKNOWN_LEADER_EPOCH), and the response to a Metadata
    request sent since then names a leader with a lower epoch. This leader then rejects three or more requests, the last
    at least a second after the first.
    """

    _cases: dict[PartitionKey, _Case] = field(default_factory=dict)

    def metadata_requested(self, client: SimReader, sent: SentRequest) -> None:
        """Note a Metadata request that the client has written."""
        for (owner, *_), case in self._cases.items():
            if owner is client:
                case.requested.append(sent)

    def named(self, key: PartitionKey, sent: SentRequest, leader: int, epoch: int, newest: int) -> None:
        """Note the leader in the response to a Metadata request; ``newest`` is the newest epoch read before."""
        case = self._cases.get(key)
        if case is None or epoch < 0 or not _has(case.requested, sent):
            return
        if epoch >= newest:
            del self._cases[key]  # the newest epoch is confirmed: the node that rejects it lags behind
        elif case.named != (leader, epoch):
            case.named, case.rejections = (leader, epoch), []

    def accepted(self, key: PartitionKey, node: int) -> None:
        """Note a node's response without an error. If the node is the named leader, its rejections prove nothing."""
        case = self._cases.get(key)
        if case is not None and case.named is not None and case.named[0] == node:
            del self._cases[key]

    def rejected(self, key: PartitionKey, node: int, now: float) -> int | None:
        """Note a rejection; return the lower epoch that the client may use from now on, or None without a proof."""
        case = self._cases.setdefault(key, _Case())
        if case.named is None or case.named[0] != node:
            return None
        case.rejections.append(now)
        if len(case.rejections) < REJECTIONS_MIN or now - case.rejections[0] < REJECTED_S:
            return None
        del self._cases[key]
        return case.named[1]


def _has(requests: Sequence[SentRequest], sent: SentRequest) -> bool:
    """Return whether this very request, and not only an equal one, is in the list."""
    return any(one is sent for one in requests)
