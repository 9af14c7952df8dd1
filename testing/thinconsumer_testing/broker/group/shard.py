"""The coordinator of one partition of ``__consumer_offsets``: its groups and offsets, in memory and in the log.

The shard loads and unloads the partition, appends records, and delays replies until an append is committed. It keeps
two states. Operations run on the *latest* state, and their results wait until the appends up to then are committed.
Requests that only list, describe or fetch (without ``require_stable``) are answered at once, from the *committed*
state: otherwise a client could see a group or an offset that is lost later. Follows Kafka's ``CoordinatorRuntime``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from thinconsumer.wire.error_codes import Code

from ..config import BrokerConfig
from ..image import ClusterImage
from ..schedule import Timer
from . import loading, rebalance, retention
from .consumer.fencing import schedule_all
from .consumer.group import ConsumerGroup
from .group import ClassicGroup
from .offsets import NO_PRODUCER_ID
from .records import CoordinatorRecord, Replay, ReplayedState, empty_group_record, group_record, put_group
from .states import SHARD_TRANSITIONS, GroupEvent, GroupState, ShardEvent, ShardState, next_state
from .timers import TimerKind, Timers

if TYPE_CHECKING:
    from ..node import BrokerNode
    from ..partition import PartitionReplica

log = logging.getLogger(__name__)

#: How long a reply waits until its append is committed; the default of Kafka's ``offsets.commit.timeout.ms``.
WRITE_TIMEOUT_S = 5.0
#: Interval between checks for expired offsets; the default of Kafka's ``offsets.retention.check.interval.ms``.
RETENTION_CHECK_S = 600.0

Done = Callable[[int], None]


class EventProcessor:
    """Runs each operation to its end, then the callbacks that it has deferred, which are mostly replies.

    A reply can immediately cause the client's next request, which would see a half-changed group if it was handled
    within the operation that replies. In Kafka the threads of ``CoordinatorEventProcessor`` execute the operations of a
    partition one after the other.
    """

    def __init__(self) -> None:
        self._busy = False
        self._later: deque[Callable[[], None]] = deque()

    def run(self, callback: Callable[[], None]) -> None:
        """Run an operation, then the callbacks that it has deferred. If another operation is running already, the
        callbacks wait until that one is complete, too.
        """
        if self._busy:
            callback()
            return
        self._busy = True
        try:
            callback()
        finally:
            self._busy = False
        while self._later and not self._busy:
            self._later.popleft()()

    def defer(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once the current operation is complete."""
        self._later.append(callback)


@dataclass(slots=True, eq=False)
class _PendingWrite:
    """An append that is not committed yet, with its state changes and their offsets. ``waiters`` are the callbacks that
    wait for the commit, each with the timer of its timeout.
    """

    changes: list[tuple[Replay, int]]
    waiters: dict[Timer, Done] = field(default_factory=dict)

    def finish(self, code: int) -> None:
        """Call the waiting callbacks with ``code``."""
        waiters, self.waiters = self.waiters, {}
        for timer, done in waiters.items():
            timer.cancel()
            done(code)


class GroupCoordinatorShard:
    """Coordinates the groups of one partition; provides the time, random ids and the log to them."""

    def __init__(self, node: BrokerNode, index: int, event_processor: EventProcessor) -> None:
        self.index = index
        self.state = ShardState.DOWN
        self.epoch = -1
        self.latest = ReplayedState()
        self.committed = ReplayedState()
        self._node = node
        self._event_processor = event_processor
        self._partition: PartitionReplica | None = None
        self._pending_writes: list[_PendingWrite] = []
        self._created: list[ClassicGroup] = []  #: New groups that have no record in the log yet.
        self._refusal_code = 0
        self._timers = Timers[str](self.call_later)
        self._watch: int | None = None
        #: The timers of consumer groups, by group id, member id and kind. The groups do not own timers, as replays
        #: build groups from the log alone. Each callback checks that its member still exists.
        self.member_timers = Timers[tuple[str, str, TimerKind]](self.call_later)

    def __repr__(self) -> str:
        state = f"{self.state.value} epoch {self.epoch}, {len(self.latest.groups)} groups"
        return f"<GroupCoordinatorShard {self.index} {state}>"

    def elected(self, epoch: int, partition: PartitionReplica) -> None:
        """Load the partition: this broker has become its leader."""
        self._transition(ShardEvent.ELECTED)
        self.epoch = epoch
        self._partition = partition
        self.latest, self.committed = ReplayedState(), ReplayedState()
        delay = self._node.config.coordinator_load_s
        if delay > 0:
            self._timers["load"] = self.call_later(delay, self._load)
        else:
            self._load()

    def resigned(self) -> None:
        """Unload everything and fail waiting requests with NOT_COORDINATOR: the partition's leader epoch is over."""
        self._transition(ShardEvent.RESIGNED)
        self._timers.cancel_all()
        if self._watch is not None and self._partition is not None:
            self._partition.remove_listener(self._watch)
        self._watch = None
        self._partition = None
        writes, self._pending_writes = self._pending_writes, []
        self._created.clear()
        for write in writes:
            write.finish(int(Code.NOT_COORDINATOR))
        self.member_timers.cancel_all()
        for group in self.latest.groups.values():
            if isinstance(group, ClassicGroup):
                _unload(group)
        self.latest, self.committed = ReplayedState(), ReplayedState()

    def _transition(self, event: ShardEvent) -> None:
        self.state = next_state(SHARD_TRANSITIONS, self.state, event, self)

    def _load(self) -> None:
        partition = self._partition
        assert partition is not None
        end = partition.log.end_offset
        safe = partition.high_watermark
        rest: list[tuple[Replay, int]] = []
        batches = partition.log.read_batches(partition.log.start_offset, end)
        for change, offset in loading.changes(batches, self):
            change(self.latest, offset)
            if offset < safe:
                change(self.committed, offset)
            else:
                rest.append((change, offset))
        self._transition(ShardEvent.CAUGHT_UP)
        if rest:
            self._complete_at_high_watermark(partition, end, _PendingWrite(rest))
        log.info("%r has loaded its log up to offset %d", self, end)
        for group in list(self.latest.groups.values()):
            self._schedule_loaded(group)
        self._timers["retention"] = self.call_later(RETENTION_CHECK_S, self._retain)

    def _schedule_loaded(self, group: ClassicGroup | ConsumerGroup) -> None:
        if isinstance(group, ConsumerGroup):
            schedule_all(self, group.group_id)
            return
        for member in list(group.members.values()):
            rebalance.reschedule_heartbeat(group, member)
        if len(group.members) > self.config.group_max_size:
            rebalance.prepare(group, "the group exceeds group.max.size")

    def _complete_at_high_watermark(self, partition: PartitionReplica, end: int, write: _PendingWrite) -> None:
        """Count the previous coordinator's ``write`` as committed once the high watermark reaches ``end``."""
        self._pending_writes.append(write)

        def check() -> None:
            if partition.high_watermark >= end and self._watch is not None:
                partition.remove_listener(self._watch)
                self._watch = None
                self._event_processor.run(lambda: self._finish(write, 0))

        self._watch = partition.add_listener(check)

    def _retain(self) -> None:
        self._timers["retention"] = self.call_later(RETENTION_CHECK_S, self._retain)
        entries = retention.expired(self.latest, self.wall_ms(), self.config.offsets_retention_minutes * 60_000)
        if entries:
            self.append(entries)

    @property
    def config(self) -> BrokerConfig:
        return self._node.config

    @property
    def image(self) -> ClusterImage:
        return self._node.image

    def wall_ms(self) -> int:
        return self._node.schedule.wall_ms()

    def random_bytes(self, count: int) -> bytes:
        return bytes(self._node.random.randrange(256) for _ in range(count))

    def new_uuid(self) -> str:
        """Return a random UUID, version 4."""
        data = bytearray(self.random_bytes(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        text = data.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` after ``seconds``, as an operation of the event processor."""
        return self._node.call_later(seconds, lambda: self._event_processor.run(callback))

    def write_group(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Done | None = None) -> None:
        """Append the group's members with their assignments."""
        self.append([group_record(group, assignments)], done)

    def new_group(self, group_id: str) -> ClassicGroup:
        """Return a new, empty group, without adding it to the state."""
        return ClassicGroup(group_id, self, state_timestamp_ms=self.wall_ms())

    def create_group(self, group_id: str) -> ClassicGroup:
        """Add a new group to the latest state; its first record adds it to the log and to the committed state."""
        group = self.latest.groups[group_id] = self.new_group(group_id)
        self._created.append(group)
        return group

    def write_new_group(self, group: ClassicGroup) -> None:
        """Append the record of a new group, unless the operation that created it has appended records already."""
        if group in self._created:
            self.append([empty_group_record(group)])

    def unavailable_code(self) -> int:
        """Return the error code that rejects requests while the shard is not ready, else 0."""
        if self.state is ShardState.CATCHING_UP:
            return int(Code.COORDINATOR_LOAD_IN_PROGRESS)
        return 0 if self.state is ShardState.READY else int(Code.NOT_COORDINATOR)

    def run(self, operation: Callable[[], None], done: Done) -> None:
        """Run an operation that may change groups. ``done`` gets 0 as soon as all appends so far are committed, or an
        error code if the shard is not ready, or an append fails or times out.

        A reply before the commit could tell the client about a change that the next coordinator does not have.
        """
        code = self.unavailable_code()
        if code:
            done(code)
            return
        self._refusal_code = 0
        operation()
        if self._refusal_code:
            done(self._refusal_code)
        elif self._pending_writes:
            self._wait(self._pending_writes[-1], done)
        else:
            done(0)

    def append(
        self,
        entries: Sequence[CoordinatorRecord],
        done: Done | None = None,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
    ) -> bool:
        """Append records and apply their changes to the latest state; return False if the append is rejected.
        ``done(code)`` is called once: with 0 when the records are committed, else with the error code of a rejected or
        failed append, of the timeout, or NOT_COORDINATOR if the shard resigns before.
        """
        if self.state is not ShardState.READY or self._partition is None:
            self._refuse(int(Code.NOT_COORDINATOR), [], done)
            return False
        created, self._created = self._created, []
        write = _PendingWrite([(put_group(group), -1) for group in created])
        early_codes: list[int] = []

        def written(code: int) -> None:
            if write in self._pending_writes:
                self._event_processor.run(lambda: self._finish(write, code))
            else:
                early_codes.append(code)  # append_records has not returned yet

        base = self._partition.append_records(
            [entry.record for entry in entries],
            written,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=producer_id != NO_PRODUCER_ID,
        )
        if base < 0:
            self._refuse(early_codes[0] if early_codes else int(Code.NOT_LEADER_OR_FOLLOWER), created, done)
            return False
        for offset, entry in enumerate(entries, base):
            entry.change(self.latest, offset)
            write.changes.append((entry.change, offset))
        self._pending_writes.append(write)
        if done is not None:
            self._wait(write, done)
        if early_codes:
            self._finish(write, early_codes[0])
        return True

    def apply(self, change: Replay) -> None:
        """Apply a committed change that another component has written to the log: a transaction marker."""
        change(self.latest, -1)
        change(self.committed, -1)

    def _refuse(self, code: int, created: Sequence[ClassicGroup], done: Done | None) -> None:
        """Handle a rejected append: remove the groups that it would have created."""
        self._refusal_code = code
        for group in created:
            if self.latest.groups.get(group.group_id) is group:
                del self.latest.groups[group.group_id]
                group.timers.cancel_all()
        if done is not None:
            done(code)

    def _wait(self, write: _PendingWrite, done: Done) -> None:
        def time_out() -> None:
            del write.waiters[timer]
            done(int(Code.REQUEST_TIMED_OUT))

        timer = self.call_later(WRITE_TIMEOUT_S, time_out)
        write.waiters[timer] = done

    def _finish(self, write: _PendingWrite, code: int) -> None:
        if write not in self._pending_writes:
            return  # the shard has resigned, or a later append completed this one
        # NOT_ENOUGH_REPLICAS_AFTER_APPEND: all ISR members have the batch, though they are fewer than
        # min.insync.replicas. As in Kafka's coordinator the append then counts as committed. After any other error this
        # broker is no longer the leader, and the next metadata update will unload the shard.
        if code == Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            code = 0
        # If this append is committed, all earlier ones are, too, even if their callbacks come later. Their changes are
        # applied first; otherwise an older offset would overwrite a newer one.
        last = self._pending_writes.index(write) + 1
        first = last - 1 if code else 0
        done = self._pending_writes[first:last]
        del self._pending_writes[first:last]
        for one in done:
            if not code:
                for change, offset in one.changes:
                    change(self.committed, offset)
            one.finish(code)


def _unload(group: ClassicGroup) -> None:
    """Cancel the group's timers and fail its parked requests, so that clients look for the next coordinator."""
    group.timers.cancel_all()
    if group.state is not GroupState.DEAD:
        group.move(GroupEvent.REMOVED)
    for member in group.members.values():
        group.fail_parked(member, Code.NOT_COORDINATOR, member.member_id)
