"""Set the position of partitions that await a reset: by policy, by the user's request or after OFFSET_OUT_OF_RANGE.

OFFSET_OUT_OF_RANGE does not say whether the position is below the log start (records expired) or past the log end (log
truncated), so both ends of the log are looked up. KIP-320, KIP-1106.
"""

import logging
from collections.abc import Callable

from ..config import ConsumerConfig, OffsetResetPolicy, OffsetResetStrategy
from ..errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError
from ..network.metadata import Metadata
from ..network.request import Answer, Request
from ..positions.partitions import Cursor, Partition, Partitions, Reset
from ..positions.states import PositionEvent, PositionState
from ..wire.error_codes import Code
from .leader_queries import ListedOffset, OffsetLookups, PartitionQuery

log = logging.getLogger(__name__)

NO_POSITION = "no position"
LOG_ENDS = Reset(Reset.EARLIEST, "log start"), Reset(Reset.LATEST, "log end")
MARKS = {OffsetResetStrategy.EARLIEST: Reset.EARLIEST, OffsetResetStrategy.LATEST: Reset.LATEST}


def timestamp_of(policy: OffsetResetPolicy, wall_time: float) -> int | None:
    """Return the timestamp to look up for a policy (ms; -1: log end, -2: log start); None for the policy none."""
    if policy.strategy is OffsetResetStrategy.BY_DURATION:
        # Negative timestamps, of a date before 1970, have another meaning in ListOffsets; 0 finds the log start.
        return max(0, int(wall_time * 1000) - policy.duration_ms)
    return MARKS.get(policy.strategy)


class Resets:
    """Finds a position for every partition in state AWAITING_RESET."""

    asker = "resets"

    def __init__(
        self,
        settings: ConsumerConfig,
        partitions: Partitions,
        metadata: Metadata,
        lookups: OffsetLookups,
        wall_time: Callable[[], float],
    ) -> None:
        self._wall_time = wall_time
        self._policy = settings.auto_offset_reset
        self._new_partition_policy = settings.new_partition_offset_reset
        self._partitions = partitions
        self.assigned = partitions.get
        self._metadata = metadata
        self._lookups = lookups
        self._asked: dict[Partition, Cursor] = {}
        #: Timestamp, cause and option of the last reset by policy, and that reset, which many partitions may share.
        self._last_reset: tuple[tuple[int, str, str], Reset] = ((0, "", ""), Reset(0, ""))
        #: ``Partitions.changes`` at the last step. While it is the same, a step need not look at the partitions that
        #: await a lookup, which may be thousands.
        self._changes_seen = -1

    def step(self, now: float) -> list[Request]:
        """Start a lookup for each partition in AWAITING_RESET that has none."""
        changes = self._partitions.changes()
        if self._changes_seen == changes:
            return []
        self._changes_seen = changes
        waiting = self._partitions.in_state(PositionState.AWAITING_RESET, now)
        if not waiting:
            self._asked.clear()
            return []
        state = PositionState.AWAITING_RESET
        self._asked = {p: cursor for p, cursor in self._asked.items() if p.cursor is cursor and p.state is state}
        wall_time = self._wall_time()  # one time for all: resets to the same timestamp share an object
        for partition in waiting:
            if partition not in self._asked:
                self._asked[partition] = partition.cursor
                self._start(partition, wall_time)
        return []

    def handle(self, answer: Answer, now: float) -> None:
        """Do nothing: :class:`.OffsetLookups` sends the requests."""

    def restart(self, now: float) -> None:
        self._asked.clear()
        self._changes_seen = -1

    def _start(self, partition: Partition, wall_time: float) -> None:
        if partition.out_of_range is not None:
            ends: dict[int, int] = {}
            for reset in LOG_ENDS:
                self._look_up(partition, reset, ends)
        elif partition.reset is not None:
            self._look_up(partition, partition.reset)
        else:
            self._by_policy(partition, wall_time, NO_POSITION)

    def _by_policy(self, partition: Partition, wall_time: float, why: str) -> None:
        policy, word = self._policy, "auto_offset_reset"
        if self._starts_new(partition, why):
            policy, word = self._new_partition_policy, "partition appeared later, new_partition_offset_reset"
        timestamp = timestamp_of(policy, wall_time)
        if timestamp is None:
            partition.error = NoOffsetForPartitionError([partition.tp])
            return
        key = timestamp, why, word
        if self._last_reset[0] != key:
            self._last_reset = key, Reset(timestamp, f"{why}, {word}={policy}")
        self._look_up(partition, self._last_reset[1])

    def _starts_new(self, partition: Partition, why: str) -> bool:
        latest = self._policy.strategy is OffsetResetStrategy.LATEST
        return latest and why == NO_POSITION and (partition.is_new or self._metadata.is_new_partition(partition.tp))

    def _look_up(self, partition: Partition, reset: Reset, ends: dict[int, int] | None = None) -> None:
        """Look up the offset of a reset; ``ends``: where to put it if both ends of the log are looked up, else None."""
        query = _ResetQuery(self, partition, reset, ends)
        if ends is not None:
            query.least_refresh = partition.least_refresh
        self._lookups.add(query)

    def found(self, partition: Partition, reset: Reset, ends: dict[int, int] | None, answer: ListedOffset) -> None:
        if ends is not None:
            ends[reset.timestamp] = answer.offset
            if len(ends) == len(LOG_ENDS):
                self._decide(partition, partition.cursor.offset, ends[Reset.EARLIEST], ends[Reset.LATEST])
        elif answer.offset < 0 and reset.timestamp >= 0:
            # No record is at or after the timestamp. Future records will be, so the position is the log end.
            self._look_up(partition, Reset(Reset.LATEST, f"{reset.reason}, no record is at or after that time"))
        else:
            self._place(partition, answer.offset, answer.leader_epoch, reset.reason)

    @staticmethod
    def _level(partition: Partition) -> int:
        # Of successive resets after OFFSET_OUT_OF_RANGE, only the first is logged as INFO: otherwise a broker that
        # rejects every offset would fill the log. ``OutageLog`` logs the broker's error.
        return logging.INFO if partition.fruitless_ranges <= 1 else logging.DEBUG

    def _place(self, partition: Partition, offset: int, epoch: int, reason: str) -> None:
        level = self._level(partition)
        if log.isEnabledFor(level):
            log.log(level, "%s-%s: position set to %s (%s)", *partition.tp, offset, reason)
        partition.place(PositionEvent.RESET_FOUND, offset, epoch)
        self._asked.pop(partition, None)

    def _decide(self, partition: Partition, position: int, start: int, end: int) -> None:
        epoch = partition.cursor.epoch
        if position >= start and epoch >= 0:
            # OffsetForLeaderEpoch with the position's epoch finds the offset of a truncation. The log may have grown
            # past the position since, and a leader change in this state has not led to a validation.
            text = "%s-%s: position %s was rejected, the log holds %s to %s: validating it"
            log.log(self._level(partition), text, *partition.tp, position, start, end)
            partition.out_of_range = None
            partition.move(PositionEvent.LEADER_CHANGED)
        elif start <= position <= end:
            # A lagging broker rejected the position, the log has grown since, or the leader lacks its leader epoch.
            self._place(partition, position, epoch, f"{position} is inside the log, which holds {start} to {end}")
        elif self._policy.strategy is OffsetResetStrategy.NONE:
            # Not LogTruncationError: a position past the log end proves no truncation if its leader epoch is unknown.
            partition.error = out_of_range_error(partition, position, start, end)
        else:
            what = "the log starts at" if position < start else "the log ends at"
            edge = start if position < start else end
            partition.out_of_range = None
            self._by_policy(partition, self._wall_time(), f"position {position} is out of range, {what} {edge}")


class _ResetQuery(PartitionQuery):
    """The lookup for one partition's reset. Three closures for each would cost more: there may be thousands at once."""

    __slots__ = ("_cursor", "_ends", "_partition", "_reset", "_resets")

    def __init__(self, resets: Resets, partition: Partition, reset: Reset, ends: dict[int, int] | None) -> None:
        super().__init__(partition.tp, reset.timestamp)
        self._resets = resets
        self._partition = partition
        self._cursor = partition.cursor
        self._reset = reset
        self._ends = ends

    def wanted(self) -> bool:
        partition = self._partition
        awaits = partition.cursor is self._cursor and partition.state is PositionState.AWAITING_RESET
        return awaits and self._resets.assigned(partition.tp) is partition

    def found(self, data: ListedOffset, now: float) -> None:
        if self._partition.error is not None:
            self._partition.error = None
        self._resets.found(self._partition, self._reset, self._ends, data)

    def failed(self, error: KafkaError, final: bool) -> None:
        if self.wanted():
            self._partition.failed(error, is_raised=final)


def out_of_range_error(partition: Partition, position: int, start: int, end: int) -> OffsetOutOfRangeError:
    tp = partition.tp
    error = OffsetOutOfRangeError(
        f"position {position} of {tp.topic}-{tp.partition} is outside the log, which holds {start} to {end}, "
        "and auto_offset_reset='none': seek() to an offset to continue from",
        code=Code.OFFSET_OUT_OF_RANGE,
        name="OFFSET_OUT_OF_RANGE",
        api="Fetch",
        partition=tp,
    )
    error.position, error.log_start, error.log_end = position, start, end
    return error
