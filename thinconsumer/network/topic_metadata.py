"""The cached metadata of one topic: which leader and leader epoch of each partition count as the current ones.

Brokers get changes of the metadata at different times. A leader epoch below the newest one seen is therefore ignored,
unless the brokers prove that the cluster itself has gone back (:class:`EpochDoubt`). KIP-320, KIP-516.
"""

from __future__ import annotations

import logging
from collections.abc import Container

from ..errors import KafkaError
from ..linear_hashing import PartitionCounts
from ..support.lazy_dataclass import dataclass, field
from ..types import PartitionInfo
from ..wire import ZERO_UUID
from ..wire.metadata import MetadataResponsePartition, MetadataResponseTopic

log = logging.getLogger(__name__)

#: If Metadata responses name a leader with a lower epoch, that leader must reject the newest leader epoch this many
#: times, over at least this many seconds, before the lower epoch is taken.
REFUSALS_MIN = 3
REFUSED_S = 1.0
#: In place of ``REFUSED_S`` if another node may be the leader at the newest epoch. By default, a cluster takes 9 s to
#: notice a broker that is cut off: until then, a deposed leader names itself in Metadata responses, with its old epoch.
DEPOSED_S = 10.0


@dataclass(slots=True)
class EpochDoubt:
    """Whether the newest leader epoch seen of a partition is one that the cluster does not have.

    A leader that lags behind the cluster rejects requests with the newest leader epoch (UNKNOWN_LEADER_EPOCH). But if a
    Metadata response that was requested after a rejection names a leader with a lower epoch, and that leader rejects
    three more requests over at least :attr:`proof_s`, then the newest epoch was wrong or is lost: a cluster with a
    restored disk counts from an older epoch.
    """

    least_refresh: int  #: The number of the first Metadata refresh that was requested after the doubt began.
    proof_s: float = REFUSED_S  #: For how many seconds the named leader must have rejected the newest epoch.
    is_rejected: bool = True  #: Whether a node has rejected the epoch, and not just answered that it is not the leader.
    #: The partition as the last refresh with a lower epoch named it; None before the first. Refreshes before
    #: ``least_refresh`` do not count.
    named: PartitionInfo | None = None
    refusals: int = 0  #: How often the named leader has rejected the newest epoch since it was named.
    since: float = 0.0  #: When the named leader first rejected the newest epoch.

    def name(self, info: PartitionInfo, refresh: int) -> None:
        """Note the leader that a refresh names with a lower epoch; ignore refreshes before ``least_refresh``."""
        if refresh >= self.least_refresh:
            known = self.named
            if known is None or (known.leader, known.leader_epoch) != (info.leader, info.leader_epoch):
                self.refusals = 0
            self.named = info

    def refused(self, node_id: int, now: float) -> PartitionInfo | None:
        """Count a rejection if the node is the named leader; return the partition as named once its epoch is proven."""
        if self.named is None or self.named.leader != node_id:
            return None
        self.since = self.since if self.refusals else now
        self.refusals += 1
        is_proven = self.refusals >= REFUSALS_MIN and now - self.since >= self.proof_s
        return self.named if is_proven else None


@dataclass(slots=True)
class TopicMetadata:
    """One topic in :attr:`.Metadata.topics`, with the state that decides which leader epochs count."""

    name: str
    topic_id: bytes = ZERO_UUID  #: Zero if the brokers send no topic ids (before Metadata version 10).
    internal: bool = False
    error: KafkaError | None = None  #: The topic's error in the latest response, if any.
    partitions: dict[int, PartitionInfo] = field(default_factory=dict)
    #: Numbers of the partitions in the first response with this topic id; None before that response. Any other
    #: partition was added later, and may have records that were written before this client saw the partition. Empty if
    #: the topic was created while this client was running.
    first_seen: frozenset[int] | None = None
    #: Newest leader epoch seen of each partition. With topic ids, kept when ``partitions`` is cleared: otherwise an
    #: outdated leader would be accepted after one response from a broker that does not have the topic yet.
    epochs: dict[int, int] = field(default_factory=dict)
    doubts: dict[int, EpochDoubt] = field(default_factory=dict)  #: By partition: the doubt about its newest epoch.
    lowered: dict[int, int] = field(default_factory=dict)  #: By partition: the lower epoch that was taken last.
    #: The partition counts of a counted topic; None for all other topics.
    counts: PartitionCounts | None = None
    #: The number of changes of these counts, which may return to earlier ones: from 2 to 4 partitions, to 2, and to 4.
    partition_count_epoch: int = -1

    def newer(self, new: PartitionInfo, nodes: Container[int], refresh: int) -> PartitionInfo:
        """Return the partition to keep after a Metadata response that has it as ``new``.

        ``refresh`` is the number of the Metadata refresh; -1 for a response to another request.
        """
        number, seen = new.partition, self.epochs.get(new.partition, -1)
        if new.leader_epoch < 0:
            return new
        doubt = self.doubts.get(number)
        if new.leader_epoch >= seen:
            self.epochs[number] = new.leader_epoch
            if doubt is not None and (new.leader_epoch > seen or refresh >= doubt.least_refresh):
                # Either a broker confirms the newest epoch, so that the node that rejects it lags behind, or there is a
                # newer epoch, about which the rejections say nothing.
                del self.doubts[number]
            return new
        log.debug("%s-%s: ignoring metadata of leader epoch %s: epoch %s was seen", *new[:2], new.leader_epoch, seen)
        known = self.partitions.get(number)
        if doubt is not None:
            doubt.name(new, refresh)
            new = doubt.named or new
        if known is not None and known.leader in nodes and (doubt is None or doubt.named is None):
            return known
        # The named leader gets requests with the newest epoch, because only its rejections can prove the lower epoch.
        # Otherwise the partition might have no leader for ever.
        return new._replace(leader_epoch=seen)

    def has_newer_counts(self, raw: MetadataResponseTopic) -> bool:
        """Return whether a response comes from a broker that lags behind a change of the partition count.

        A change raises the leader epoch of every partition. A lower epoch that was proven, see :class:`EpochDoubt`,
        therefore proves that the cluster has gone back to earlier counts, until the epoch rises again. Epochs of
        partitions that are not read prove nothing: no leader rejects them.
        """
        if self.counts is None or raw.partition_count_epoch >= self.partition_count_epoch:
            return False
        epochs = {p.partition_index: p.leader_epoch for p in raw.partitions}
        has_gone_back = any(
            self.epochs.get(number) == lowered <= epochs.get(number, -1) for number, lowered in self.lowered.items()
        )
        return not has_gone_back and any(0 <= epoch < self.epochs.get(number, -1) for number, epoch in epochs.items())

    def refused(
        self, number: int, node_id: int, now: float, next_refresh: int, *, is_epoch_unknown: bool = True
    ) -> bool:
        """Count a node's rejection of the newest leader epoch; return whether the lower epoch in Metadata counts now.

        With ``is_epoch_unknown=False``, the node answered that it is not the leader. This answer proves nothing, but
        begins a doubt: a node that a wrong Metadata response names as the leader may never give another answer.
        """
        doubt = self.doubts.get(number)
        if doubt is None or (is_epoch_unknown and not doubt.is_rejected):
            known = self.partitions.get(number)
            if known is None or known.leader != node_id:
                # A follower or former leader, which may lag behind. If its rejections counted, an equally outdated
                # Metadata response would seem proven, and requests would move from the leader to a deposed one.
                return False
            was_deposed = doubt is not None or not is_epoch_unknown
            doubt = EpochDoubt(next_refresh, DEPOSED_S if was_deposed else REFUSED_S, is_epoch_unknown)
            self.doubts[number] = doubt
        info = doubt.refused(node_id, now) if is_epoch_unknown else None
        if info is None:
            return False
        log.warning(
            "%s-%s: leader epoch %s was seen, but leader %s has rejected that epoch for %.1f s: going back to epoch %s",
            self.name, number, self.epochs.get(number), node_id, now - doubt.since, info.leader_epoch,
        )  # fmt: skip
        del self.doubts[number]
        self.epochs[number] = self.lowered[number] = info.leader_epoch
        self.partitions[number] = info
        return True


def partition_info(topic: str, raw: MetadataResponsePartition, version: int) -> PartitionInfo:
    """Return a partition of a Metadata response of this version."""
    replicas = tuple(raw.replica_nodes)
    return PartitionInfo(
        topic,
        raw.partition_index,
        raw.leader_id,
        # Leader epochs in responses before version 9 may be stale (KAFKA-9212) and are ignored.
        raw.leader_epoch if version >= 9 else -1,
        replicas,
        replicas if raw.isr_nodes == raw.replica_nodes else tuple(raw.isr_nodes),
        tuple(raw.offline_replicas),
    )
