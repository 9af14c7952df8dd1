"""One replica of a partition on one broker, as leader or follower.

Owns the replica's role, the high watermark, the leader's state of its followers, produce requests that wait for
replication, and listeners, such as delayed fetches. Must not know the log's contents, which belong to ``log``,
and elects no leaders: the controller does, through metadata deltas. Follows Kafka's ``Partition`` and
``ReplicaManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

from .config import TopicConfig
from .image import PartitionImage
from .log.log import AppendInfo, AppendRefused, Log, StoredBatch
from .schedule import Timer

if TYPE_CHECKING:
    from .node import BrokerNode

Done = Callable[[int, "AppendInfo | None"], None]
#: The partition count in requests of clients without ordered delivery, which do not use the count.
UNKNOWN_COUNT = -1


class _DelayedProduce(NamedTuple):
    """A produce callback that waits until the high watermark reaches ``offset`` (Kafka's ``DelayedProduce``)."""

    offset: int
    appended: AppendInfo
    done: Done
    timer: Timer | None


class PartitionReplica:
    """A replica on one broker. ``log`` survives a kill of the broker; this object does not."""

    def __init__(self, node: BrokerNode, image: PartitionImage, config: TopicConfig, log: Log) -> None:
        self.node = node
        self.tp: TopicPartition = image.tp
        self.topic_id: bytes = image.topic_id
        self.config: TopicConfig = config
        self.log = log
        self.image: PartitionImage = image
        self.is_leader: bool = False
        self.leader_epoch: int = -1
        log.begin_at(image.first_offset)
        self.epoch_start: int = 0  #: As leader: the log end offset when this leader epoch began.
        #: The high watermark. After a restart of the broker it begins with the last value, which the log object keeps;
        #: Kafka reads that value from a checkpoint file.
        self.high_watermark: int = min(log.high_watermark, log.end_offset)
        #: As leader: the log end offset of each follower, -1 before its first fetch.
        self.follower_ends: dict[int, int] = {}
        #: As leader: the time since which a follower lacks records of this log; no entry for one that lacks none.
        self.behind_since: dict[int, float] = {}
        self._delayed_produces: list[_DelayedProduce] = []
        self._listeners: dict[int, Callable[[], None]] = {}
        self._last_listener_id = 0

    def __repr__(self) -> str:
        role = "leads" if self.is_leader else "follows"
        where = f"{self.tp.topic}-{self.tp.partition} node {self.node.node_id}"
        return f"<PartitionReplica {where} {role} in {self.leader_epoch}>"

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset, where read_committed ends."""
        return self.log.last_stable_offset(self.high_watermark)

    def accepts_count(self, count: int) -> bool:
        """Return whether a producer with this partition count may write (KIP-253). The count must be the one that
        belongs to the leader epoch, and the partition not closed. Producers that do not use the count (-1) may always
        write.
        """
        return count == UNKNOWN_COUNT or (count == self.image.undeleted_partition_count and not self.image.is_closed)

    @property
    def is_followed(self) -> bool:
        """Whether each in-sync replica has fetched in this leader epoch, and so has nothing that this leader lacks."""
        return all(self.follower_ends.get(n, -1) >= 0 for n in self.image.isr if n != self.node.node_id)

    def apply_image(self, image: PartitionImage, config: TopicConfig) -> None:
        """Take over the leader, epoch, ISR and config of a metadata delta; become leader or follower accordingly."""
        self.config = config
        self.log.config = config
        if image.partition_epoch < self.image.partition_epoch:
            # This delta is outdated: ``isr_altered`` has already applied a later change, with a higher partition epoch.
            return
        old, self.image = self.image, image
        if image.leader_epoch == self.leader_epoch:
            if self.is_leader and old != image:
                # No follower is added to the ISR here, because the end offset from the follower's last fetch may be
                # outdated: the follower's next fetch decides.
                self._update_followers()
                self.advance_high_watermark()
            return
        self.leader_epoch = image.leader_epoch
        self.is_leader = image.leader == self.node.node_id
        self.follower_ends = {}
        self.behind_since = {}
        if self.is_leader:
            self.log.begin_epoch(image.leader_epoch)
            self.epoch_start = self.log.end_offset
            self._update_followers()
            self.advance_high_watermark()
        else:
            # Produce requests that wait for replication fail only now, after the role has changed, because their
            # callbacks may append again. A replica that leads the new epoch, too, does not fail them.
            self._fail_delayed_produces(int(Code.NOT_LEADER_OR_FOLLOWER))
        self.notify_listeners()

    def isr_altered(self, image: PartitionImage) -> None:
        """Apply an ISR change that the controller has accepted, before its delta arrives (KIP-497)."""
        if self.is_leader and image.leader_epoch == self.leader_epoch:
            self.apply_image(image, self.config)

    def stop(self) -> None:
        """Stop leading or following: the topic was deleted, the replica removed, or the broker killed."""
        self.is_leader = False
        self.leader_epoch = -1
        self._fail_delayed_produces(int(Code.NOT_LEADER_OR_FOLLOWER))
        self.notify_listeners()

    def append(
        self,
        data: bytes | bytearray | memoryview,
        acks: int,
        done: Done,
        *,
        timeout_s: float = 30.0,
        on_refused: Callable[[AppendRefused], None] | None = None,
    ) -> None:
        """Append one batch from a producer as leader. ``done(code, info)`` is called exactly once.

        ``done`` is called immediately for acks 0 and 1, and if the batch is rejected; for acks -1 when the batch is
        committed, after ``timeout_s`` (REQUEST_TIMED_OUT), or when this replica stops leading (NOT_LEADER_OR_FOLLOWER).
        If the log rejects the batch, ``on_refused`` first gets the reason.
        """
        self._append(
            lambda: self.log.append(data, leader_epoch=self.leader_epoch, now_ms=self.node.schedule.wall_ms()),
            acks, done, timeout_s, on_refused,
        )  # fmt: skip

    def acknowledge_repeated(self, batch: StoredBatch, acks: int, done: Done, timeout_s: float) -> bool:
        """Return whether a batch repeats one of its producer's last batches. If so, call ``done`` with the result of
        the earlier append: immediately, or for acks -1 once the batch is committed. As after an append, the result may
        be an error, such as NOT_ENOUGH_REPLICAS.

        Nothing is appended. A producer that has lost a response thus learns whether its batch was written, although the
        partition count in the repeated request is no longer accepted (KIP-253).
        """
        appended = self.log.find_repeated(batch) if self.is_leader else None
        if appended is None:
            return False
        if acks == -1 and self._is_under_min_isr():
            done(int(Code.NOT_ENOUGH_REPLICAS), None)
        elif acks == -1:
            self._when_committed(appended, done, timeout_s)
        else:
            done(0, appended)
        return True

    def append_records(
        self,
        records: Sequence[NewRecord],
        done: Callable[[int], None],
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        transactional: bool = False,
    ) -> int:
        """Append a coordinator's records with acks -1; return the base offset, -1 if they are rejected immediately.
        ``done(code)`` is called exactly once, perhaps before this method returns.
        """

        def append() -> AppendInfo:
            now_ms = self.node.schedule.wall_ms()
            batch = build_batch(
                [record._replace(timestamp=now_ms) if record.timestamp < 0 else record for record in records],
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transactional=transactional,
            )
            return self.log.append(batch, leader_epoch=self.leader_epoch, now_ms=now_ms, from_client=False)

        return self._append(append, -1, lambda code, _: done(code))

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        done: Callable[[int], None],
        *,
        transaction_version: int = 0,
    ) -> None:
        """Append a transaction marker with acks -1. ``done(code)`` is called exactly once."""
        self._append(
            lambda: self.log.append_control(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                commit=commit,
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
                leader_epoch=self.leader_epoch,
                now_ms=self.node.schedule.wall_ms(),
            ),
            -1,
            lambda code, _: done(code),
        )

    def _append(
        self,
        append: Callable[[], AppendInfo],
        acks: int,
        done: Done,
        timeout_s: float | None = None,
        on_refused: Callable[[AppendRefused], None] | None = None,
    ) -> int:
        """Append as leader; return the base offset, -1 if the append is rejected."""
        if not self.is_leader:
            done(int(Code.NOT_LEADER_OR_FOLLOWER), None)
            return -1
        if acks == -1 and self._is_under_min_isr():
            done(int(Code.NOT_ENOUGH_REPLICAS), None)
            return -1
        try:
            appended = append()
        except AppendRefused as refusal:
            if on_refused is not None:
                on_refused(refusal)
            done(refusal.code, None)
            return -1
        if acks == -1:
            # Registered before the notifications below: what they call may stop this replica, and stop() answers only
            # appends that are registered.
            self._when_committed(appended, done, timeout_s)
        now = self.node.schedule.now
        for follower in self.follower_ends:
            self.behind_since.setdefault(follower, now)
        self.advance_high_watermark()
        self.notify_listeners()
        self.node.cluster.replication.on_append(self)
        if acks != -1:
            done(0, appended)
        return appended.base_offset

    def _when_committed(self, appended: AppendInfo, done: Done, timeout_s: float | None) -> None:
        """Call ``done`` once the high watermark covers the append, or with REQUEST_TIMED_OUT after ``timeout_s``."""
        if self.high_watermark >= appended.next_offset:
            done(0, appended)
            return
        waiting: _DelayedProduce
        timer = None
        if timeout_s is not None:

            def expire() -> None:
                self._delayed_produces.remove(waiting)
                done(int(Code.REQUEST_TIMED_OUT), appended)

            timer = self.node.call_later(timeout_s, expire)
        waiting = _DelayedProduce(appended.next_offset, appended, done, timer)
        self._delayed_produces.append(waiting)

    def add_listener(self, callback: Callable[[], None]) -> int:
        """Call ``callback`` on each :meth:`notify_listeners`, until :meth:`remove_listener` of the returned id."""
        self._last_listener_id += 1
        self._listeners[self._last_listener_id] = callback
        return self._last_listener_id

    def remove_listener(self, number: int) -> None:
        """Remove the listener to which :meth:`add_listener` gave this number."""
        self._listeners.pop(number, None)

    def notify_listeners(self) -> None:
        """Call all listeners: records, the high watermark, the log start offset or the role has changed."""
        for number in list(self._listeners):
            listener = self._listeners.get(number)
            if listener is not None:
                listener()

    def _fail_delayed_produces(self, code: int) -> None:
        waiting, self._delayed_produces = self._delayed_produces, []
        self._complete_delayed_produces(waiting, code)

    def _complete_delayed_produces(self, waiting: Sequence[_DelayedProduce], code: int) -> None:
        # All timers are cancelled before any callback is called: a callback may advance the clock, and timers that are
        # still pending would then fire and answer their requests a second time.
        for one in waiting:
            if one.timer is not None:
                one.timer.cancel()
        for one in waiting:
            # The leader has written the batch even if the code is an error, so as in Kafka the response has its offset.
            one.done(code, one.appended)

    def update_follower_end(self, node_id: int, end: int) -> None:
        """Set a follower's log end offset; a follower that has caught up joins the ISR (KIP-966)."""
        if not self.is_leader or node_id not in self.image.replicas:
            return
        self.follower_ends[node_id] = end
        if end >= self.log.end_offset:
            self.behind_since.pop(node_id, None)
        self._maybe_expand_isr(node_id)
        self.advance_high_watermark()

    def _maybe_expand_isr(self, node_id: int) -> None:
        """Add a follower to the ISR if it has reached the high watermark and the start of this leader epoch."""
        end = self.follower_ends.get(node_id, -1)
        if node_id not in self.image.isr and end >= max(self.high_watermark, self.epoch_start):
            self.node.cluster.controller.alter_isr(self, (*self.image.isr, node_id))

    def has_lagging_replicas(self) -> bool:
        """Return whether a member of the ISR lacks records. While one does, ``replication`` periodically removes from
        the ISR the members that have lacked records for replica.lag.time.max.ms.
        """
        behind = self.behind_since
        return bool(behind) and any(n in behind for n in self.image.isr)

    def lagging_replicas(self, limit_s: float) -> tuple[int, ...]:
        """Return the members of the ISR that have lacked records for at least ``limit_s`` seconds."""
        now = self.node.schedule.now
        return tuple(n for n in self.image.isr if now - self.behind_since.get(n, now) >= limit_s)

    def advance_high_watermark(self) -> None:
        """Advance the high watermark to the lowest log end offset of all members of the ISR. While the ISR is too small
        (:meth:`_is_under_min_isr`), the high watermark stays where it is (KIP-966).
        """
        if not self.is_leader or self._is_under_min_isr():
            return
        ends = (self.follower_ends.get(n, -1) for n in self.image.isr if n != self.node.node_id)
        self.set_high_watermark(min((self.log.end_offset, *ends)))

    def _is_under_min_isr(self) -> bool:
        """Return whether the ISR is smaller than min.insync.replicas, or than all replicas if these are fewer."""
        return len(self.image.isr) < min(self.config.min_insync_replicas, len(self.image.replicas))

    def set_high_watermark(self, offset: int) -> None:
        """Advance the high watermark (never back) and complete the produce requests that it covers."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = self.log.high_watermark = offset
        due = [one for one in self._delayed_produces if one.offset <= offset]
        if due:
            self._delayed_produces = [one for one in self._delayed_produces if one.offset > offset]
            self._complete_delayed_produces(
                due, int(Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND) if self._is_under_min_isr() else 0
            )
        self.notify_listeners()

    def truncate_to(self, offset: int) -> None:
        """As follower: remove records at and after ``offset``, which the leader does not have."""
        # If the offset is in the middle of a batch, the log removes that whole batch, so it may end before ``offset``.
        self.log.truncate_to(offset)
        self.high_watermark = self.log.high_watermark = min(self.high_watermark, self.log.end_offset)

    def _update_followers(self) -> None:
        for known in set(self.follower_ends) - set(self.image.replicas):
            del self.follower_ends[known]
            self.behind_since.pop(known, None)
        for replica in self.image.replicas:
            if replica != self.node.node_id and replica not in self.follower_ends:
                self.follower_ends[replica] = -1
                self.behind_since[replica] = self.node.schedule.now

    def delete_before(self, offset: int) -> None:
        """Advance the log start offset for DeleteRecords, at most to the high watermark."""
        self.log.delete_before(min(offset, self.high_watermark))
        self.notify_listeners()
        self.node.cluster.replication.on_append(self)
