"""What is known of a group at one time, and what follows from two such times: rates, and the time to catch up.

All functions are pure: times are arguments, in seconds of a clock that does not jump.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..admin import GroupDescription, MemberDescription
from ..types import TopicPartition

#: Rates are those of this many seconds, and of two rounds at least: automatic commits come every 5 s, so that within
#: one interval of a second most partitions would seem to stand still.
WINDOW_S = 30.0


class Offsets(NamedTuple):
    """One partition at one time. None: the group has committed nothing, or the value is not known."""

    committed: int | None
    end: int | None
    finished: int | None = None  #: How many offsets behind the committed one are finished, if workers have named them.

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


class GroupAt(NamedTuple):
    """A group at one time. After an error, what could not be read is missing."""

    at: float
    description: GroupDescription | None = None
    offsets: Mapping[TopicPartition, Offsets] = {}
    error: str = ""

    def owners(self) -> dict[TopicPartition, MemberDescription]:
        members = () if self.description is None else self.description.members
        return {tp: member for member in members for tp in member.assignment or ()}


class PartitionView(NamedTuple):
    """One partition of a group as it is shown. None: unknown."""

    tp: TopicPartition
    committed: int | None
    end: int | None
    lag: int | None
    consumed: float | None  #: Records per second by which the committed offset has grown.
    produced: float | None  #: Records per second by which the end has grown.
    catch_up_s: float | None  #: Seconds until the lag is 0 at these rates; infinity if it does not fall.
    unmoved_s: float | None  #: Seconds since the committed offset was seen to move; None if there is no lag.
    finished: int | None
    member: MemberDescription | None


def rate(before: int | None, now: int | None, seconds: float) -> float | None:
    """Return the growth per second; None if it is not known, or if the number has fallen: an offset was reset."""
    if before is None or now is None or now < before or seconds <= 0:
        return None
    return (now - before) / seconds


def catch_up_s(lag: int | None, consumed: float | None, produced: float | None) -> float | None:
    """Return the seconds until the lag is 0; infinity if it does not fall, None if that is not known."""
    if lag == 0:
        return 0.0
    if lag is None or consumed is None or produced is None:
        return None
    return lag / (consumed - produced) if consumed > produced else math.inf


def views(before: GroupAt, now: GroupAt, moved: Mapping[TopicPartition, float]) -> list[PartitionView]:
    """Return the partitions, those with most lag first, with their rates between two times.

    ``moved`` has the times at which committed offsets were seen to move.
    """
    seconds, owners = now.at - before.at, now.owners()
    found = []
    for tp in now.offsets.keys() | owners.keys():
        offsets = now.offsets.get(tp, Offsets(None, None))
        earlier = before.offsets.get(tp, Offsets(None, None))
        consumed = rate(earlier.committed, offsets.committed, seconds)
        produced = rate(earlier.end, offsets.end, seconds)
        time_left = catch_up_s(offsets.lag, consumed, produced)
        unmoved = now.at - moved.get(tp, now.at) if offsets.lag else None
        values = offsets.committed, offsets.end, offsets.lag, consumed, produced, time_left, unmoved, offsets.finished
        found.append(PartitionView(tp, *values, owners.get(tp)))
    return sorted(found, key=lambda one: (1 if one.lag is None else -one.lag, one.tp))


class Total(NamedTuple):
    """Sums over partitions; unknown values count as 0."""

    lag: int
    consumed: float
    produced: float
    catch_up_s: float  #: Until each partition that falls behind no further has caught up.
    growing: int  #: The number of partitions whose lag does not fall.


def total(partitions: list[PartitionView]) -> Total:
    times = [one.catch_up_s for one in partitions if one.catch_up_s is not None]
    return Total(
        sum(one.lag or 0 for one in partitions),
        sum(one.consumed or 0.0 for one in partitions),
        sum(one.produced or 0.0 for one in partitions),
        max((time for time in times if time != math.inf), default=0.0),
        times.count(math.inf),
    )


@dataclass
class GroupWatch:
    """The last rounds of one group."""

    group_id: str
    rounds: deque[GroupAt] = field(default_factory=deque)  #: Those without an error, oldest first.
    moved: dict[TopicPartition, float] = field(default_factory=dict)
    last_error: tuple[float, str] | None = None  #: When it was seen, and its text.
    failing: bool = False  #: Whether the last round had an error.

    def add(self, now: GroupAt) -> None:
        """Take the next round. One with an error and without a description leaves the view as it was."""
        self.failing = bool(now.error)
        if now.error:
            self.last_error = now.at, now.error
        if now.description is None:
            return
        for tp, offsets in now.offsets.items():
            before = self.rounds[-1].offsets.get(tp) if self.rounds else None
            if before is None or before.committed != offsets.committed:
                self.moved[tp] = now.at
        self.moved = {tp: at for tp, at in self.moved.items() if tp in now.offsets}
        self.rounds.append(now)
        while len(self.rounds) > 2 and self.rounds[1].at <= now.at - WINDOW_S:
            self.rounds.popleft()

    def views(self) -> list[PartitionView]:
        """Return the partitions as of the last round with a description, those with most lag first."""
        return views(self.rounds[0], self.rounds[-1], self.moved) if self.rounds else []
