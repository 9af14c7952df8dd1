"""The rebalance listener: its three callbacks, each with the partitions that are added, revoked or lost."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..types import TopicPartition

__all__ = ["RebalanceListener"]


class RebalanceListener:
    """React to rebalances: subclass it and pass an instance to ``subscribe``; any object with these methods will do.

    All three run inside ``poll`` (and ``close`` and ``unsubscribe``), on the caller's thread, and may call the
    consumer's ``position``, ``committed``, ``commit``, ``seek``, ``pause`` and ``resume``. ``poll`` raises their
    exceptions. The next poll repeats a failed ``on_partitions_assigned``, and returns no record of these partitions
    before it has succeeded; the other two run once. All are plain functions: an ``async def`` is rejected.

    Under an eager protocol every rebalance revokes and assigns all partitions. Under a cooperative one (KIP-429) the
    callbacks get only the changes: ``on_partitions_assigned`` is called even without any, ``on_partitions_revoked`` is
    not.
    """

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Any:
        """Prepare for new partitions. They start at their committed offsets, unless you ``seek`` here."""

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Any:
        """Commit what you have processed: after this call other members may own these partitions."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> Any:
        """Drop state kept for partitions that this member has lost; others may read them, and a commit fails.

        Unless overridden, it calls :meth:`on_partitions_revoked`.
        """
        self.on_partitions_revoked(lost)


def call_assigned(listener: Any, partitions: Collection[TopicPartition]) -> None:
    """Call ``on_partitions_assigned``, if there is a listener."""
    if listener is not None:
        listener.on_partitions_assigned(set(partitions))


def call_revoked(listener: Any, partitions: Collection[TopicPartition]) -> None:
    """Call ``on_partitions_revoked``, if there is a listener."""
    if listener is not None:
        listener.on_partitions_revoked(set(partitions))


def call_lost(listener: Any, partitions: Collection[TopicPartition]) -> None:
    """Call ``on_partitions_lost``, if there is a listener; one for kafka-python may have only the revoked callback."""
    if listener is not None:
        getattr(listener, "on_partitions_lost", listener.on_partitions_revoked)(set(partitions))
