"""Gates on topics with ordered delivery (KIP-253), computed by pure functions from the topic's history.

A gate is the place in a partition behind which records are held until the group has consumed other partitions:

* before the first record of a partition that an expansion has added: the partition that it was split off from must have
  been consumed to the end of that partition's last leader epoch before the expansion;
* after the last leader epoch before a shrinking, in a partition that has inherited keys of a deleted partition: the
  deleted partition must have been consumed to its end.

Unlike in KIP-253, a gate also requires what the gates of awaited partitions require. Otherwise records of one key would
come in the wrong order: if an awaited partition has no records, its position is at the log end, even at a closed gate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..linear_hashing import ancestors_of

#: In :attr:`Gate.after`: before the first record. Lower than each leader epoch.
START = -1
#: In :attr:`Requirement.epoch`: to the end of the partition. The end is final, since the partition is marked for
#: deletion, and producers write no more to it. In a barrier (:mod:`.barrier`), also in :attr:`Gate.after`: to the end
#: that was looked up for the barrier.
END = 2**31

#: The leader epochs of partitions before a change of the count: element p is the epoch of partition p.
Epochs = Sequence[int]


class TopicHistory(NamedTuple):
    """The changes of one topic's partition count, as brokers report them."""

    initial: int  #: The number of partitions with which the topic was created.
    existing: frozenset[int]  #: The partitions that exist, including those marked for deletion.
    #: By added partition: the leader epochs of the partitions before it was added (``leaderEpochAfterCreation``).
    created: Mapping[int, Epochs]
    #: By partition marked for deletion: the leader epochs of the remaining partitions before it was marked
    #: (``leaderEpochBeforeDeletion``).
    deleted: Mapping[int, Epochs]


class Requirement(NamedTuple):
    """The end of a leader epoch in one partition, or the partition's end (END): the group must have read up to it."""

    partition: int
    epoch: int


class Gate(NamedTuple):
    """A condition for returning records of a partition that were written after a leader epoch."""

    after: int  #: The last leader epoch with records that are not held; START if all records are held.
    requires: tuple[Requirement, ...]  #: Everything that must have been consumed before, in the order of partitions.

    def thresholds(self, partition: int) -> list[Requirement]:
        """Return the ends of leader epochs that decide about this gate of a partition."""
        return [*self.requires, *([] if self.after == START else [Requirement(partition, self.after)])]


def gates_of(history: TopicHistory, partition: int) -> list[Gate]:
    """Return the gates of a partition, the one of the earliest change first.

    If an awaited partition was removed, after retention had emptied it, its nearest existing ancestor is awaited.
    """
    by_epoch: dict[int, list[Requirement]] = {}
    for after, awaited in _awaited(history, partition):
        by_epoch.setdefault(after, []).append(awaited)
    return [Gate(after, _with_their_gates(history, by_epoch[after])) for after in sorted(by_epoch)]


def deciding_partitions(initial: int, count: int, existing: Collection[int], partition: int) -> frozenset[int]:
    """Return the partitions whose leader epochs at their changes are needed to compute the gates of ``partition``.

    ``count`` is the number of partitions that are not marked for deletion. Keys only move within a family: one of the
    initial partitions and those that were split off from it, directly or not.
    """
    family = {one for one in existing if one % initial == partition % initial}
    if max(family, default=0) < count:
        family = {partition, *ancestors_of(partition, initial)} & family
    return frozenset(one for one in family if one >= initial)


def _nearest(history: TopicHistory, partition: int, epochs: Epochs) -> int | None:
    """Return the nearest ancestor of ``partition`` that existed when ``epochs`` were recorded and still exists."""
    for ancestor in ancestors_of(partition, history.initial):
        if ancestor < len(epochs) and epochs[ancestor] >= 0 and ancestor in history.existing:
            return ancestor
    return None


def _awaited(history: TopicHistory, partition: int) -> Iterator[tuple[int, Requirement]]:
    """Yield ``Gate.after`` of each of the partition's own gates, with a requirement of that gate."""
    epochs = history.created.get(partition, ())
    parent = _nearest(history, partition, epochs)
    if parent is not None:
        yield START, Requirement(parent, epochs[parent])
    for deleted in history.deleted.keys() & history.existing:
        epochs = history.deleted[deleted]
        if _nearest(history, deleted, epochs) == partition:
            yield epochs[partition], Requirement(deleted, END)


def _with_their_gates(history: TopicHistory, awaited: list[Requirement]) -> tuple[Requirement, ...]:
    """Return these requirements, and those of the awaited partitions' own gates at earlier epochs."""
    found: dict[int, int] = {}
    while awaited:
        partition, epoch = awaited.pop()
        if found.get(partition, START) < epoch:
            found[partition] = epoch
            # Only gates of earlier changes: the gate of a later change is not inside the awaited part, and may itself
            # wait for the held partition.
            awaited += [one for after, one in _awaited(history, partition) if after < epoch]
    return tuple(Requirement(*one) for one in sorted(found.items()))
