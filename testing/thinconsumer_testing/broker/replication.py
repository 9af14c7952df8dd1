"""Replication: followers copy from leaders.

As in Kafka a follower pulls: it first truncates epochs that the leader does not have (KIP-101, KIP-279), then copies
the missing batches, then takes over the high watermark. A follower does not fetch while either broker is down or
paused, while the network between them is cut, or while they disagree about the leader. The code that ends such a state
calls :meth:`Replication.catch_up`, or for a disagreement :meth:`Replication.on_leader_change`. Must not decide
leadership or the ISR, which belong to the controller.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from thinconsumer.types import TopicPartition

from .log.log import AppendRefused
from .partition import PartitionReplica

if TYPE_CHECKING:
    from .cluster import Cluster
    from .node import BrokerNode

log = logging.getLogger(__name__)


class Replication:
    """The follower fetches of all brokers of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: The partition and the follower's broker id of each fetch for which a timer is pending.
        self._scheduled_fetches: set[tuple[TopicPartition, int]] = set()
        self._is_lag_check_scheduled = False

    def on_append(self, leader: PartitionReplica) -> None:
        """Schedule fetches of the followers: the leader's log has grown, or its start offset has moved."""
        for follower in leader.image.replicas:
            if follower != leader.node.node_id:
                self._schedule_fetch(leader.tp, follower)
        if leader.has_lagging_replicas():
            self._schedule_lag_check()

    def catch_up(self, node_ids: Iterable[int] | None = None) -> None:
        """Schedule the follower fetches of the partitions with a replica on one of these brokers (None: of all). Called
        when a state that prevented replication may have ended, such as a pause of a broker or a network cut.
        """
        broker_ids = None if node_ids is None else set(node_ids)
        for topic in list(self._cluster.controller.image.topics.values()):
            for image in topic.partitions:
                if broker_ids is None or broker_ids.intersection(image.replicas):
                    for follower in image.replicas:
                        if follower != image.leader:
                            self._schedule_fetch(image.tp, follower)
        self._schedule_lag_check()

    def on_leader_change(self, tp: TopicPartition, replicas: Iterable[int]) -> None:
        """Schedule fetches of a partition by ``replicas``, because a broker has applied new metadata of it."""
        for follower in replicas:
            self._schedule_fetch(tp, follower)
        self._schedule_lag_check()

    def _schedule_fetch(self, tp: TopicPartition, follower: int) -> None:
        delay = self._cluster.config.replication_s
        if delay <= 0:
            self._fetch(tp, follower)
        elif (tp, follower) not in self._scheduled_fetches:
            self._scheduled_fetches.add((tp, follower))
            jittered_delay = delay * (0.5 + self._cluster.random.random())

            def pull() -> None:
                self._scheduled_fetches.discard((tp, follower))
                self._fetch(tp, follower)

            self._cluster.schedule.call_later(jittered_delay, pull)

    def _fetch(self, tp: TopicPartition, follower: int) -> None:
        target = self._replica(follower, tp)
        if target is None or target.is_leader:
            return
        source = self._replica(target.image.leader, tp)
        if source is None or not source.is_leader or source.leader_epoch != target.leader_epoch:
            return
        if not self._cluster.reachable(follower, source.node.node_id) or source.topic_id != target.topic_id:
            return
        self._truncate_to_leader(target, source)
        try:
            for batch in source.log.batches_from(target.log.end_offset):
                target.log.append_stored(batch)
        except AppendRefused:
            log.debug("broker %d cannot append fetched records to %r; its next fetch retries", follower, target.log)
        if source.log.start_offset > target.log.start_offset:
            target.log.delete_before(source.log.start_offset)
        epoch, before = source.leader_epoch, source.high_watermark
        source.update_follower_end(follower, target.log.end_offset)
        if target.leader_epoch != epoch or source.leader_epoch != epoch:
            # update_follower_end has completed a produce request, and its callback has changed the leader: the high
            # watermark of ``source`` may not hold in the new leader's epoch.
            return
        target.set_high_watermark(min(source.high_watermark, target.log.end_offset))
        if source.high_watermark != before:
            self._update_other_followers(source, follower)

    def _update_other_followers(self, source: PartitionReplica, but: int) -> None:
        """Schedule fetches of the followers, except ``but``, whose high watermark lags behind and can advance."""
        for follower in source.image.replicas:
            if follower not in (but, source.node.node_id):
                target = self._replica(follower, source.tp)
                if target is not None and target.high_watermark < min(source.high_watermark, target.log.end_offset):
                    self._schedule_fetch(source.tp, follower)

    def _truncate_to_leader(self, target: PartitionReplica, source: PartitionReplica) -> None:
        """Truncate the follower's log, one leader epoch at a time, until it contains nothing that the leader lacks. If
        the leader's batches cannot be appended to the rest (:meth:`_needs_full_copy`), empty the follower's log.
        """
        log = target.log
        while (latest := log.epochs.latest) >= 0:
            epoch, end = source.log.end_of_epoch(latest)
            if epoch < 0:
                end = source.log.start_offset
            elif epoch < latest:
                # The leader's log lacks the follower's latest epoch. Remove that epoch even if it contains no records:
                # only then is the epoch before it compared in the next round, and it may differ, too.
                target.truncate_to(min(end, log.end_of_epoch(epoch)[1]))
                continue
            if log.end_offset > end:
                target.truncate_to(end)
                continue
            break
        if log.end_offset > source.log.end_offset:
            # A follower's log without records has no epochs, so the loop above leaves it as it is; but its start offset
            # may be above the leader's end offset.
            target.truncate_to(source.log.end_offset)
        if self._needs_full_copy(source, log.end_offset):
            target.truncate_to(log.start_offset)
            log.start_at(source.log.start_offset)
            target.high_watermark = log.high_watermark = source.log.start_offset

    @staticmethod
    def _needs_full_copy(source: PartitionReplica, end: int) -> bool:
        """Return whether a follower with the log end offset ``end`` must discard its log and copy the leader's.

        This is so if the leader's log starts after ``end``, so that records between the logs are missing; or if it
        starts at ``end`` in the middle of a batch, which would overlap with the follower's log.
        """
        start = source.log.start_offset
        if end != start:
            return end < start
        first = next(source.log.batches_from(start), None)
        return first is not None and first.base_offset < start

    def _replica(self, node_id: int, tp: TopicPartition) -> PartitionReplica | None:
        node: BrokerNode | None = self._cluster.nodes.get(node_id)
        if node is None or not node.is_running:
            return None
        return node.partitions.get(tp)

    def _schedule_lag_check(self) -> None:
        if not self._is_lag_check_scheduled:
            self._is_lag_check_scheduled = True
            self._cluster.schedule.call_later(self._cluster.config.replica_lag_time_max_ms / 2000, self._check_lag)

    def _check_lag(self) -> None:
        self._is_lag_check_scheduled = False
        limit = self._cluster.config.replica_lag_time_max_ms / 1000
        behind = False
        for node in self._cluster.nodes.values():
            if not node.is_running:
                continue
            for partition in list(node.partitions.values()):
                if partition.is_leader and partition.has_lagging_replicas():
                    behind = True
                    if lagging := partition.lagging_replicas(limit):
                        left = tuple(n for n in partition.image.isr if n not in lagging)
                        self._cluster.controller.alter_isr(partition, left)
        if behind:
            self._schedule_lag_check()
