"""One replica of one partition on one node: leading or following, and who waits for what.

Owns the roles, the high watermark, the leader's knowledge of its followers, and everybody who waits for an offset to be
committed or for something to happen. What is in the log is ``log``'s; who leads is the controller's to say, and reaches
a node as news. Follows Kafka's ``Partition`` and ``ReplicaManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..records.builder import NewRecord, build_batch
from ..types import TopicPartition
from ..wire.error_codes import Code
from .config import TopicConfig
from .image import PartitionImage
from .log.log import AppendInfo, AppendRefused, Log
from .schedule import Timer

if TYPE_CHECKING:
    from .node import BrokerNode

Done = Callable[[int, "AppendInfo | None"], None]


class _DelayedProduce(NamedTuple):
    """Somebody who wants to know when the high watermark covers an offset."""

    offset: int
    appended: AppendInfo
    done: Done
    timer: Timer | None


class PartitionReplica:
    """A replica. ``log`` survives the node's death; this object does not."""

    def __init__(self, node: BrokerNode, image: PartitionImage, config: TopicConfig, log: Log) -> None:
        self.node = node
        self.tp: TopicPartition = image.tp
        self.topic_id = image.topic_id
        self.config = config
        self.log = log
        self.image = image
        self.is_leader = False
        self.leader_epoch = -1
        self.epoch_start = 0  #: Where this leader's epoch begins.
        #: Kafka keeps it in a checkpoint; here a new object starts with what the log was told last.
        self.high_watermark = min(log.high_watermark, log.end_offset)
        self.follower_ends: dict[int, int] = {}  #: As leader: how far each follower has come.
        self.behind_since: dict[int, float] = {}  #: As leader: followers that are not caught up, and since when.
        self._delayed_produces: list[_DelayedProduce] = []
        self._listeners: dict[int, Callable[[], None]] = {}
        self._last_listener_id = 0

    def __repr__(self) -> str:
        role = "leads" if self.is_leader else "follows"
        return f"<Partition {self.tp.topic}-{self.tp.partition} node {self.node.node_id} {role} in {self.leader_epoch}>"

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed ends."""
        return self.log.last_stable_offset(self.high_watermark)

    # -- roles

    def apply_image(self, image: PartitionImage, config: TopicConfig) -> None:
        """Lead or follow as the controller says; from then on only what belongs to that epoch counts."""
        self.config = config
        self.log.config = config
        if image.partition_epoch < self.image.partition_epoch:
            return  # it was told by the controller itself, and the news comes behind
        old, self.image = self.image, image
        if image.leader_epoch == self.leader_epoch:
            if self.is_leader and old != image:
                # Who may enter is judged when followers pull, which is next: what they had once proves nothing now.
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
            now = self.node.schedule.now
            for follower in image.replicas:
                if follower != self.node.node_id:
                    self.follower_ends[follower] = -1
                    self.behind_since[follower] = now
            self.advance_high_watermark()
        else:
            # Last, since who is told may append again. A leader that goes on in a new epoch lets them wait on.
            self._fail_delayed_produces(int(Code.NOT_LEADER_OR_FOLLOWER))
        self.notify_listeners()

    def isr_altered(self, image: PartitionImage) -> None:
        """The controller has taken what this leader said of who is in sync: that counts from now on (KIP-497)."""
        if self.is_leader and image.leader_epoch == self.leader_epoch:
            self.apply_image(image, self.config)

    def stop(self) -> None:
        """Stop: the topic was deleted, the replica moved away, or the node died."""
        self.is_leader = False
        self.leader_epoch = -1
        self._fail_delayed_produces(int(Code.NOT_LEADER_OR_FOLLOWER))
        self.notify_listeners()

    # -- appending, as leader

    def append(
        self,
        data: bytes | bytearray | memoryview,
        acks: int,
        done: Done,
        *,
        timeout_s: float = 30.0,
        on_refused: Callable[[AppendRefused], None] | None = None,
    ) -> None:
        """Append what a producer sent: one batch. ``done(code, appended)`` is called exactly once.

        ``refused`` is told before that why the log would not take it, if it would not.

        At once for acks 0 and 1, and when the batch is refused; for acks -1 when every replica in sync has it, when
        ``timeout_s`` is over (REQUEST_TIMED_OUT), or when this stops leading (NOT_LEADER_OR_FOLLOWER).
        """
        if not self.is_leader:
            done(int(Code.NOT_LEADER_OR_FOLLOWER), None)
            return
        if acks == -1 and self._is_under_min_isr():
            done(int(Code.NOT_ENOUGH_REPLICAS), None)
            return
        try:
            appended = self.log.append(data, leader_epoch=self.leader_epoch, now_ms=self.node.schedule.wall_ms())
        except AppendRefused as refusal:
            if on_refused is not None:
                on_refused(refusal)
            done(refusal.code, None)
            return
        if acks == -1:
            # Before the followers get it: with followers that are always up to date they answer at once.
            self.when_committed(appended, done, timeout_s)
        self._after_append()
        if acks != -1:
            done(0, appended)

    def append_records(
        self,
        records: Sequence[NewRecord],
        done: Callable[[int], None],
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        transactional: bool = False,
    ) -> int:
        """Append a coordinator's own records, with acks -1; return their first offset, -1 when refused at once."""
        if not self.is_leader:
            done(int(Code.NOT_LEADER_OR_FOLLOWER))
            return -1
        if self._is_under_min_isr():
            done(int(Code.NOT_ENOUGH_REPLICAS))
            return -1
        now_ms = self.node.schedule.wall_ms()
        dated = [r._replace(timestamp=now_ms) if r.timestamp < 0 else r for r in records]
        batch = build_batch(dated, producer_id=producer_id, producer_epoch=producer_epoch, transactional=transactional)
        return self._append_with_acks_all(
            lambda: self.log.append(batch, leader_epoch=self.leader_epoch, now_ms=now_ms, from_client=False), done
        )

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
        """Append the end of a transaction, with acks -1."""
        if not self.is_leader:
            done(int(Code.NOT_LEADER_OR_FOLLOWER))
            return
        if self._is_under_min_isr():
            done(int(Code.NOT_ENOUGH_REPLICAS))
            return
        self._append_with_acks_all(
            lambda: self.log.append_control(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                commit=commit,
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
                leader_epoch=self.leader_epoch,
                now_ms=self.node.schedule.wall_ms(),
            ),
            done,
        )

    def _append_with_acks_all(self, append: Callable[[], AppendInfo], done: Callable[[int], None]) -> int:
        try:
            appended = append()
        except AppendRefused as refusal:
            done(refusal.code)
            return -1
        self.when_committed(appended, lambda code, _: done(code), None)
        self._after_append()
        return appended.base_offset

    def _after_append(self) -> None:
        now = self.node.schedule.now
        for follower in self.follower_ends:
            self.behind_since.setdefault(follower, now)
        self.advance_high_watermark()
        self.notify_listeners()
        self.node.cluster.replication.on_append(self)

    # -- waiting

    def when_committed(self, appended: AppendInfo, done: Done, timeout_s: float | None) -> None:
        """Tell when the high watermark covers what was appended."""
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
        """Call back whenever something about this replica changed, until :meth:`unwatch` of the number returned."""
        self._last_listener_id += 1
        self._listeners[self._last_listener_id] = callback
        return self._last_listener_id

    def remove_listener(self, number: int) -> None:
        """Stop calling back."""
        self._listeners.pop(number, None)

    def notify_listeners(self) -> None:
        """Let those who wait look again: data, the high watermark, the log's start, or the role is new."""
        for number in list(self._listeners):
            listener = self._listeners.get(number)
            if listener is not None:
                listener()

    def _fail_delayed_produces(self, code: int) -> None:
        waiting, self._delayed_produces = self._delayed_produces, []
        self._complete_delayed_produces(waiting, code)

    def _complete_delayed_produces(self, waiting: Sequence[_DelayedProduce], code: int) -> None:
        for one in waiting:  # all of them first: what one does about it may let timers run
            if one.timer is not None:
                one.timer.cancel()
        for one in waiting:
            # It was appended, whatever becomes of it: the offset is told, as Kafka does.
            one.done(code, one.appended)

    # -- followers, as leader

    def update_follower_end(self, node_id: int, end: int) -> None:
        """Note how far a follower has come; it may enter the replicas in sync by that (KIP-966: once caught up)."""
        if not self.is_leader or node_id not in self.image.replicas:
            return
        self.follower_ends[node_id] = end
        if end >= self.log.end_offset:
            self.behind_since.pop(node_id, None)
        self._maybe_expand_isr(node_id)
        self.advance_high_watermark()

    def _maybe_expand_isr(self, node_id: int) -> None:
        """Let a follower into the replicas in sync if it has come far enough."""
        end = self.follower_ends.get(node_id, -1)
        if node_id not in self.image.isr and end >= max(self.high_watermark, self.epoch_start):
            self.node.cluster.controller.alter_isr(self, (*self.image.isr, node_id))

    def has_lagging_replicas(self) -> bool:
        """Return whether any replica in sync is behind, so that it has to be watched for how long."""
        behind = self.behind_since
        return bool(behind) and any(n in behind for n in self.image.isr)

    def lagging_replicas(self, limit_s: float) -> tuple[int, ...]:
        """Return the replicas in sync that have been behind for longer than allowed."""
        now = self.node.schedule.now
        return tuple(n for n in self.image.isr if now - self.behind_since.get(n, now) >= limit_s)

    def advance_high_watermark(self) -> None:
        """Move the high watermark to where every replica in sync has come, unless too few are in sync (KIP-966)."""
        if not self.is_leader or self._is_under_min_isr():
            return
        ends = (self.follower_ends.get(n, -1) for n in self.image.isr if n != self.node.node_id)
        self.set_high_watermark(min((self.log.end_offset, *ends)))

    def _is_under_min_isr(self) -> bool:
        """Return whether fewer are in sync than the topic wants, which is never more than there are replicas."""
        return len(self.image.isr) < min(self.config.min_insync_replicas, len(self.image.replicas))

    def set_high_watermark(self, offset: int) -> None:
        """Move it, never back, and tell those who waited for it."""
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
        """As follower: what lay at and after ``offset`` is not in the leader's log, and goes."""
        self.log.truncate_to(offset)  # which may take more: batches go as a whole
        self.high_watermark = self.log.high_watermark = min(self.high_watermark, self.log.end_offset)

    def _update_followers(self) -> None:
        for known in set(self.follower_ends) - set(self.image.replicas):
            del self.follower_ends[known]
            self.behind_since.pop(known, None)
        for replica in self.image.replicas:
            if replica != self.node.node_id and replica not in self.follower_ends:
                self.follower_ends[replica] = -1
                self.behind_since[replica] = self.node.schedule.now

    # -- for whoever looks after logs

    def delete_before(self, offset: int) -> None:
        """Move the log's start, as DeleteRecords and retention do; never past the high watermark."""
        self.log.delete_before(min(offset, self.high_watermark))
        self.notify_listeners()
        self.node.cluster.replication.on_append(self)
